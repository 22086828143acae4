package almanactest

import (
	"testing"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Store stores a user with events of theirs in the state in which they are, however
// they came to it: those that were tried, or have ended, by as many claims and
// outcomes as it takes. It returns the events as stored. What is in flight is held
// for a minute. It fails t at once when something cannot be stored.
func Store(t testing.TB, r almanac.Repository, u almanac.User, events ...almanac.Event) []almanac.Event {
	t.Helper()
	first := make([]almanac.Event, len(events))
	for i, e := range events {
		first[i] = e
		first[i].Status, first[i].AvailableAt, first[i].Version = almanac.Pending, e.Due, 1
	}
	_, stored, err := r.CreateUser(t.Context(), u, first...)
	if err != nil {
		t.Fatalf("store user %s: %v", u.ID, err)
	}
	for i, e := range events {
		stored[i] = lead(t, r, stored[i], e)
	}
	return stored
}

// lead takes an event from its birth to a later state.
func lead(t testing.TB, r almanac.Repository, e, to almanac.Event) almanac.Event {
	t.Helper()
	step := func(next almanac.Event, err error) {
		t.Helper()
		if err == nil {
			next, err = r.Update(t.Context(), next, e.Version)
		}
		if err != nil {
			t.Fatalf("store event %s, from %s: %v", e.ID, e.Status, err)
		}
		e = next
	}
	for _, cause := range releases(to) {
		step(e.Claim(uuid.New()))
		step(e.Release(cause, to.LastError, to.AvailableAt))
	}
	switch to.Status {
	case almanac.Pending:
		return e
	case almanac.Cancelled:
		step(e.Cancel(to.FailureReason))
		return e
	default:
	}
	step(e.Claim(uuid.New()))
	switch to.Status {
	case almanac.Completed:
		step(e.Complete(to.ExecutedAt))
	case almanac.Failed:
		step(e.Fail(to.FailureReason))
	default:
	}
	return e
}

// releases says after what an event was given back each time.
func releases(e almanac.Event) []almanac.ReleaseCause {
	claims, failures := e.ClaimCount, e.RetryCount
	if e.Status != almanac.Pending && e.Status != almanac.Cancelled {
		claims--
	}
	if e.Status == almanac.Failed {
		failures--
	}
	causes := make([]almanac.ReleaseCause, claims)
	for i := range causes {
		switch {
		case i < failures:
			causes[i] = almanac.AfterFailure
		case i < failures+e.CrashCount:
			causes[i] = almanac.AfterCrash
		default:
			causes[i] = almanac.AfterShutdown
		}
	}
	return causes
}
