package almanactest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// Recorder is an [almanac.Deliverer] that records each attempt. The zero Recorder accepts
// everything. It is safe for concurrent use, and may serve several channels.
type Recorder struct {
	// Deliverer makes the attempts. Nil accepts everything. It must not be changed while a
	// scheduler runs.
	Deliverer almanac.Deliverer

	mu       sync.Mutex
	attempts []Attempt
}

// Attempt is one attempt at an event, with its result.
type Attempt struct {
	almanac.Delivery       // its At is when the attempt began, UTC
	Err              error // why the attempt was not accepted; nil if it was
}

// errNoReturn is the result of an attempt that panicked or ended its goroutine.
var errNoReturn = errors.New("did not return")

// Deliver makes an attempt and records it.
func (r *Recorder) Deliver(ctx context.Context, d almanac.Delivery) error {
	a := Attempt{Delivery: d, Err: errNoReturn}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.attempts = append(r.attempts, a)
	}()
	if r.Deliverer == nil {
		a.Err = nil
	} else {
		a.Err = r.Deliverer.Deliver(ctx, d)
	}
	return a.Err
}

// Attempts returns the attempts that have ended, in the order in which they began.
func (r *Recorder) Attempts() []Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	attempts := slices.Clone(r.attempts)
	slices.SortStableFunc(attempts, func(a, b Attempt) int { return a.At.Compare(b.At) })
	return attempts
}

// AttemptsFor returns the ended attempts at the events of one user.
func (r *Recorder) AttemptsFor(userID uuid.UUID) []Attempt {
	return slices.DeleteFunc(r.Attempts(), func(a Attempt) bool { return a.Event.UserID != userID })
}

// Wall returns the wall time in the event's zone at which the attempt began.
func (a Attempt) Wall() calendar.WallTime {
	return calendar.StoredTimezone(a.Event.Zone).WallTime(a.At)
}

// String describes when and where the attempt began, the event, and the result, such as
// "2027-03-28T09:00:00 Europe/London (08:00:00Z) BIRTHDAY 2027".
func (a Attempt) String() string {
	text := fmt.Sprintf("%s %s (%s) %s", a.Wall(), a.Event.Zone, clockIn(a), occurrence(a.Event))
	if a.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", a.Attempt)
	}
	if a.Err != nil {
		text += ": " + a.Err.Error()
	}
	return text
}

// clockIn returns the instant, without the date if that equals the local date.
func clockIn(a Attempt) string {
	if calendar.DateOf(a.At.UTC()) == a.Wall().Date {
		return a.At.UTC().Format("15:04:05Z")
	}
	return a.At.UTC().Format("2006-01-02T15:04:05Z")
}
