package almanactest

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Store stores a user with events in their given states. For events that were tried or have
// ended, it makes the necessary claims and outcomes. It returns the events as stored. Events
// in flight are leased for a minute. It fails t at once when something cannot be stored.
func Store(t testing.TB, r almanac.Repository, u almanac.User, events ...almanac.Event) []almanac.Event {
	t.Helper()
	first := make([]almanac.Event, len(events))
	for i, e := range events {
		first[i] = e
		first[i].Status, first[i].AvailableAt, first[i].Version = almanac.Pending, e.Due, 1
	}
	_, stored, err := CreateUser(t.Context(), r, u, first...)
	if err != nil {
		t.Fatalf("store user %s: %v", u.ID, err)
	}
	for i, e := range events {
		stored[i] = lead(t, r, stored[i], e)
	}
	return stored
}

// CreateUser stores one user with their first events, using the CreateUsers method of a
// repository, and returns them as stored.
func CreateUser(ctx context.Context, r almanac.UserRepository, u almanac.User, events ...almanac.Event) (almanac.User, []almanac.Event, error) {
	answers, err := r.CreateUsers(ctx, []almanac.UserWithEvents{{User: u, Events: events}})
	if err != nil {
		return almanac.User{}, nil, err
	}
	return answers[0].User, answers[0].Events, answers[0].Err
}

// lead takes a new event to a later state.
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
		if to.LeaseToken != uuid.Nil { // by the worker that held it
			step(e.Claim(uuid.New()))
		}
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

// releases returns the causes of an event's releases, in order.
func releases(e almanac.Event) []almanac.ReleaseCause {
	claims, failures := e.ClaimCount, e.RetryCount
	if e.LeaseToken != uuid.Nil {
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
