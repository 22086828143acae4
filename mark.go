package almanac

import (
	"sync"
	"time"
)

// mark is the low-water mark of a process: looks for what is due begin at it. What
// lies before it was claimed, and its index entries, which nobody can remove while
// an old transaction might still read them, need not be walked over again.
//
// Something that can be claimed may lie left of the mark all the same: it was passed
// over, since somebody held it locked and then let go of it, or it came there later,
// committed late, given back, or by a clock that was set back. What this process
// brings there moves the mark back to it. What others bring there is found by the
// looks that begin at the beginning, of which there is one every few seconds: see
// [WithSweep].
//
// The zero mark lies at the beginning. Looks and what comes of them are for one
// goroutine; telling and resetting are for any.
type mark struct {
	mu    sync.Mutex
	at    time.Time // where looks begin; zero is the beginning
	whole bool      // the next look begins at the beginning, wherever the mark is
	told  time.Time // the earliest that was told of since the last look began; zero if nothing was
}

// look begins a look and returns where; zero is the beginning.
func (m *mark) look() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = time.Time{}
	if m.whole {
		m.whole = false
		return time.Time{}
	}
	return m.at
}

// advance moves the mark to where a claim came that was the last look. It never
// passes the last event that was taken: what lies behind it may be locked, and stay.
func (m *mark) advance(r ClaimRequest, c Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c.Events) == 0 {
		return
	}
	fromBeginning := r.Mark.IsZero() || c.Reached.Before(r.Mark) // which lay in the repository's future
	if fromBeginning && len(c.Events) >= r.Limit || c.Reached.After(m.at) {
		m.at = c.Reached // perhaps back: there may be more, from there on
	}
	if m.at.After(c.At) {
		m.at = c.At
	}
	if !m.told.IsZero() && m.told.Before(m.at) {
		m.at = m.told // the claim may have been too early to see it
	}
}

// tell moves the mark back to what this process has made available.
func (m *mark) tell(events ...Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		t := e.AvailableAt
		if t.IsZero() {
			continue // not PENDING
		}
		if t.Before(m.at) {
			m.at = t
		}
		if m.told.IsZero() || t.Before(m.told) {
			m.told = t
		}
	}
}

// reset has the next look begin at the beginning. If that shows that nothing is
// left there, the mark is where it was.
func (m *mark) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.whole = true
}
