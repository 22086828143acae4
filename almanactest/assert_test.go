package almanactest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// gallery returns a repository with one user who has an event in each state.
func gallery(t *testing.T) (r *almanactest.Repository, u almanac.User, stored []almanac.Event) {
	t.Helper()
	r = almanactest.NewRepository(func() time.Time { return now })
	u = almanactest.User(almanactest.LivingIn("Europe/London"))
	event := func(eventType string, options ...almanactest.EventOption) almanac.Event {
		of := []almanactest.EventOption{almanactest.For(u), almanactest.OfType(eventType), almanactest.Of("2026")}
		return almanactest.Event(now, append(of, options...)...)
	}
	stored = almanactest.Store(t, r, u,
		event("BIRTHDAY"),
		event("RESTING", almanactest.Tried(2), almanactest.DelayedFor(time.Hour)),
		event("CRASHED", almanactest.Tried(1), almanactest.Crashed(2)),
		event("FLYING", almanactest.InStatus(almanac.Processing)),
		event("DONE", almanactest.ReadyFor(time.Hour), almanactest.DeliveredLate(time.Second)),
		event("LOST", almanactest.Tried(2), almanactest.FailedBecause("receiver answered 410")),
	)
	return r, u, stored
}

func TestFailedAssertionsListTheEvents(t *testing.T) {
	t.Parallel()
	r, u, stored := gallery(t)
	lines := []string{
		`BIRTHDAY 2026 PENDING at 2026-03-15T13:55:00 Europe/London (2026-03-15T13:55:00Z)`,
		`RESTING 2026 PENDING at 2026-03-15T13:55:00 Europe/London (2026-03-15T13:55:00Z), 2 failed attempts, "receiver answered 503"`,
		`CRASHED 2026 PENDING at 2026-03-15T13:55:00 Europe/London (2026-03-15T13:55:00Z), 1 failed attempts, 2 crashes, "lease expired"`,
		`FLYING 2026 PROCESSING at 2026-03-15T13:55:00 Europe/London (2026-03-15T13:55:00Z)`,
		`DONE 2026 COMPLETED at 2026-03-15T13:00:00 Europe/London (2026-03-15T13:00:00Z), 1s late`,
		`LOST 2026 FAILED at 2026-03-15T13:55:00 Europe/London (2026-03-15T13:55:00Z), 3 failed attempts, "receiver answered 410"`,
	}
	for i := range lines {
		lines[i] += fmt.Sprintf(", event %s of user %s", stored[i].ID, u.ID)
	}
	user := "of user " + u.ID.String()
	stranger := uuid.New()
	for name, tc := range map[string]struct {
		assert func(t testing.TB)
		want   []string // the first line, and the following ones
	}{
		"one too many": {func(t testing.TB) {
			almanactest.FindEvents(t, r, almanac.And{almanac.ForUser(u.ID), almanac.Or{almanac.OfType("DONE"), almanac.OfType("LOST")}}, 1)
		}, []string{"want 1 events (" + user + " and (of type DONE or of type LOST)), found 2:", lines[4], lines[5]}},
		"none of that kind": {func(t testing.TB) {
			almanactest.PendingEvent(t, r, u.ID, "REMINDER")
		}, append([]string{"want 1 events (" + user + " and of type REMINDER and PENDING), found none; there are these events (" + user + "):"}, lines...)},
		"no user with the id": {func(t testing.TB) {
			almanactest.PendingEvent(t, r, stranger, "BIRTHDAY")
		}, []string{fmt.Sprintf("want 1 events (of user %s and of type BIRTHDAY and PENDING), found none; there are these events (of user %[1]s):", stranger), "nothing"}},
		"none at all": {func(t testing.TB) {
			almanactest.FindEvents(t, r, almanac.InZone{"Asia/Tokyo", "UTC"}, 2)
		}, append([]string{"want 2 events (in zone Asia/Tokyo or UTC), found none; there are these events:"}, lines...)},
		"none of a long description": {func(t testing.TB) {
			almanactest.FindEvents(t, r, almanac.And{almanac.Not{Spec: almanac.Or{}}, almanac.Overdue{By: time.Minute}, almanac.DueBetween{Until: now.Add(-30 * time.Minute)}, nil}, 1)
		}, append([]string{"want 1 events (not none and overdue by more than 1m0s and due until 2026-03-15T13:30:00Z and any), found none; there are these events:"}, lines...)},
		"at another time": {func(t testing.TB) {
			almanactest.PendingAt(t, r, u.ID, "BIRTHDAY", "2026-03-15T13:55:01 Europe/London")
		}, []string{"want BIRTHDAY PENDING at 2026-03-15T13:55:01 Europe/London, found:", lines[0]}},
		"in another zone": {func(t testing.TB) {
			almanactest.PendingAt(t, r, u.ID, "BIRTHDAY", "2026-03-15T13:55 UTC")
		}, []string{"want BIRTHDAY PENDING at 2026-03-15T13:55:00 UTC, found:", lines[0]}},
		"at no time": {func(t testing.TB) {
			almanactest.PendingAt(t, r, u.ID, "BIRTHDAY", "2026-03-15 Europe/London")
		}, []string{`almanactest: "2026-03-15 Europe/London" is no wall time and zone such as "2027-03-15T09:00 Europe/London"`}},
		"nowhere": {func(t testing.TB) {
			almanactest.PendingAt(t, r, u.ID, "BIRTHDAY", "2026-03-15T13:55")
		}, []string{`almanactest: "2026-03-15T13:55" is no wall time and zone such as "2027-03-15T09:00 Europe/London"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := strings.Join(tc.want, "\n\t") + "\n"
			if got := failure(t, tc.assert); got != want {
				t.Errorf("said\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestAssertionsReturnWhatTheyFind(t *testing.T) {
	t.Parallel()
	r, u, stored := gallery(t)
	if e := almanactest.PendingAt(t, r, u.ID, "BIRTHDAY", "2026-03-15T13:55 Europe/London"); e.ID != stored[0].ID {
		t.Errorf("found %s, want %s", e.ID, stored[0].ID)
	}
	if found := almanactest.FindEvents(t, r, almanac.ForUser(u.ID), 6); found[5].ID != stored[5].ID {
		t.Errorf("found %s last, want %s", found[5].ID, stored[5].ID)
	}
	almanactest.FindEvents(t, r, almanac.Or{}, 0)
}

func TestLongListsAreCut(t *testing.T) {
	t.Parallel()
	r := almanactest.NewRepository(func() time.Time { return now })
	u := almanactest.User()
	events := make([]almanac.Event, 1023)
	for i := range events {
		events[i] = almanactest.Event(now, almanactest.For(u))
	}
	almanactest.Store(t, r, u, events...)
	said := failure(t, func(t testing.TB) { almanactest.FindEvents(t, r, almanac.Ready{}, 1) })
	if n := strings.Count(said, "BIRTHDAY"); n != 20 || !strings.Contains(said, "found 1023:") || !strings.HasSuffix(said, "\n\tand 1003 more\n") {
		t.Errorf("%d events are listed in %q", n, said)
	}
}

func TestAssertionsReportAFailingRepository(t *testing.T) {
	t.Parallel()
	fails(t, "find events (ready): disk on fire", func(t testing.TB) { almanactest.FindEvents(t, burning{}, almanac.Ready{}, 0) })
	u := almanactest.User()
	fails(t, "store user "+u.ID.String()+": disk on fire", func(t testing.TB) { almanactest.Store(t, burning{}, u) })
}

type burning struct{ almanac.Repository }

var errFire = errors.New("disk on fire")

func (burning) Find(context.Context, almanac.Spec, almanac.Page) (almanac.List[almanac.Event], error) {
	return almanac.List[almanac.Event]{}, errFire
}

func (burning) CreateUsers(context.Context, []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	return nil, errFire
}
