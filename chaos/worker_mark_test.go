package chaos

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// Left is a set of events that another program stored before the workers' marks: when they
// could be claimed, each worker claimed from a later instant on.
type Left struct {
	At     time.Time // when they could be claimed
	People []uuid.UUID
}

// Mark is the last reported mark of a worker, zero if it has reported none.
func (p *Process) Mark() (mark time.Time) {
	for _, report := range p.Reports() {
		if !report.Mark.IsZero() {
			mark = report.Mark
		}
	}
	return mark
}

// Pulse measures how long the machine stands still from now on.
func (r *Run) Pulse() { r.stood = r.pulse() }

// Stood returns for how long the machine stood still since Pulse was called, and ends the measurement.
func (r *Run) Stood() time.Duration { return r.stood().before(time.Now()) }

// Found checks, once everything is drained, that workers came to what lay left of
// their marks within a sweep and a second. If users had later events by then, the rest
// followed, each within half a sweep: a worker knows what it stores itself. The time
// in which the machine stood still is added, since Pulse was called.
func (r *Run) Found(sweep time.Duration, all ...Left) {
	r.Helper()
	slack, prompt := time.Second, sweep/2
	stalls := r.stood()
	ledger, _ := r.Receiver.Ledger()
	var longest, between time.Duration
	for _, left := range all {
		for _, id := range left.People {
			last, allowed := left.At, sweep+slack
			for _, e := range ledger {
				if !strings.HasPrefix(e.Occurrence, id.String()) || e.At.Before(left.At) {
					continue
				}
				ready := later(last, due(e)) // when it could be claimed
				took := e.At.Sub(ready) - (stalls.before(e.At) - stalls.before(ready))
				if took > allowed {
					r.Errorf("left of the mark: %s was delivered %v after it could be, which is more than %v", e.Occurrence, took, allowed)
				}
				if allowed == prompt {
					between = max(between, took)
				} else {
					longest = max(longest, took)
				}
				last, allowed = e.At, prompt
			}
		}
	}
	r.Logf("left of the mark: found within %v, what followed within %v", longest.Round(time.Millisecond), between.Round(time.Millisecond))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// due is when the occurrence of a delivery is due, as its key has it.
func due(e Entry) time.Time {
	_, key, _ := strings.Cut(e.Occurrence, " ")
	t, _ := time.Parse("2006-01-02T15:04:05", key)
	return t
}
