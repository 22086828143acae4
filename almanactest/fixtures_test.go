package almanactest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var now = time.Date(2026, time.March, 15, 14, 0, 0, 0, time.UTC)

func TestEventFollowsItsOptions(t *testing.T) {
	t.Parallel()
	ada := almanactest.User()
	for name, tc := range map[string]struct {
		options []almanactest.EventOption
		spec    almanac.Spec
	}{
		"ready by default": {nil, almanac.And{almanac.Ready{}, almanac.OfType(almanac.TypeBirthday)}},
		"overdue":          {[]almanactest.EventOption{almanactest.ReadyFor(2 * time.Hour)}, almanac.Overdue{By: time.Hour}},
		"not yet due":      {[]almanactest.EventOption{almanactest.DueIn(time.Second)}, almanac.And{almanac.InStatus(almanac.Pending), almanac.Not{Spec: almanac.Ready{}}}},
		"tried and ready":  {[]almanactest.EventOption{almanactest.Tried(2)}, almanac.Ready{}},
		"of a user":        {[]almanactest.EventOption{almanactest.For(ada)}, almanac.ForUser(ada.ID)},
		"of a type":        {[]almanactest.EventOption{almanactest.OfType("OTHER")}, almanac.OfType("OTHER")},
		"processing":       {[]almanactest.EventOption{almanactest.InStatus(almanac.Processing)}, almanac.InStatus(almanac.Processing)},
		"completed":        {[]almanactest.EventOption{almanactest.InStatus(almanac.Completed)}, almanac.InStatus(almanac.Completed)},
		"failed at third":  {[]almanactest.EventOption{almanactest.Tried(2), almanactest.InStatus(almanac.Failed)}, almanac.InStatus(almanac.Failed)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := almanactest.Event(now, tc.options...)
			if !tc.spec.Matches(e, now) {
				t.Errorf("%+v does not match %+v", e, tc.spec)
			}
			if pending := e.Status == almanac.Pending; pending == e.AvailableAt.IsZero() {
				t.Errorf("%s and available at %v", e.Status, e.AvailableAt)
			}
			if want := 1 + e.ClaimCount + e.RetryCount; e.Status != almanac.Completed && e.Version != want {
				t.Errorf("version %d after %d claims of which %d failed, want %d", e.Version, e.ClaimCount, e.RetryCount, want)
			}
		})
	}
}

// What an event is whose test says nothing about it.
func TestAnEventHasDefaults(t *testing.T) {
	t.Parallel()
	e := almanactest.Event(now)
	due := now.Add(-5 * time.Minute).Truncate(time.Second)
	if e.Type != "BIRTHDAY" || e.Status != almanac.Pending || e.Version != 1 || e.RetryCount != 0 || !e.Due.Equal(due) || !e.AvailableAt.Equal(due) {
		t.Errorf("%+v, want a birthday that is PENDING, at version 1, due at %v", e, due)
	}
	if string(e.Payload) != `{"message": "Hey"}` || e.Zone != "UTC" || e.ID == uuid.Nil || e.UserID == uuid.Nil || e.IdempotencyKey == "" {
		t.Errorf("%+v, want a message, and ids and a key of its own", e)
	}
	later := almanactest.Event(now, almanactest.DueIn(90*time.Minute))
	if !later.Due.Equal(now.Add(90*time.Minute).Truncate(time.Second)) || later.Status != almanac.Pending {
		t.Errorf("%+v, want one that is due in an hour and a half", later)
	}
}

// Each option of a user changes its property and no other.
func TestUserOptionsChangeOneProperty(t *testing.T) {
	t.Parallel()
	is := func(options ...almanactest.UserOption) string {
		u := almanactest.User(options...)
		return u.FirstName + "," + u.LastName + "," + u.DateOfBirth.String() + "," + u.Timezone.String()
	}
	for want, option := range map[string]almanactest.UserOption{
		"Jane,Roe,1990-01-01,America/New_York":     almanactest.Named("Jane", "Roe"),
		"Ada,Lovelace,1985-12-24,America/New_York": almanactest.BornOn("1985-12-24"),
		"Ada,Lovelace,1990-01-01,Europe/London":    almanactest.LivingIn("Europe/London"),
		"Ada,Lovelace,1990-01-01,America/New_York": almanactest.WithUserID(uuid.New()),
	} {
		if got := is(option); got != want {
			t.Errorf("user = %s, want %s", got, want)
		}
	}
}

func TestAnEventOutOfAttemptsHasFailedThreeTimes(t *testing.T) {
	t.Parallel()
	e := almanactest.Event(now, almanactest.OutOfAttempts())
	if e.Status != almanac.Failed || e.RetryCount != 3 || e.FailureReason == "" {
		t.Errorf("%+v, want FAILED at the third attempt, with a reason", e)
	}
	if err := almanac.AttemptsLeft(3)(e, now); !errors.Is(err, almanac.ErrMaxRetriesExceeded) {
		t.Errorf("error = %v, want one about the limit of attempts", err)
	}
}

func TestTriedCountsFailedAttempts(t *testing.T) {
	t.Parallel()
	tried := almanactest.Event(now, almanactest.Tried(3))
	if tried.RetryCount != 3 || tried.ClaimCount != 3 || tried.Version != 7 || tried.LastError == "" {
		t.Errorf("tried three times: %+v", tried)
	}
	if almanac.AttemptsLeft(4)(tried, now) != nil || almanac.AttemptsLeft(3)(tried, now) == nil {
		t.Error("of four attempts one is left, of three none")
	}
	if failed := almanactest.Event(now, almanactest.Tried(2), almanactest.InStatus(almanac.Failed)); failed.RetryCount != 3 {
		t.Errorf("failed at the third attempt: %+v", failed)
	}
}

func TestEventsAreDistinct(t *testing.T) {
	t.Parallel()
	ada := almanactest.User()
	a, b := almanactest.Event(now, almanactest.For(ada)), almanactest.Event(now, almanactest.For(ada))
	if a.ID == b.ID || a.Series == b.Series || a.IdempotencyKey == b.IdempotencyKey {
		t.Errorf("%+v and %+v share an id or a key", a, b)
	}
}

func TestUserHasDefaults(t *testing.T) {
	t.Parallel()
	u := almanactest.User()
	if got := u.Name() + " " + u.DateOfBirth.String() + " " + u.Timezone.String() + " " + string(u.Attributes); got != "Ada Lovelace 1990-01-01 America/New_York {}" {
		t.Errorf("user = %s", got)
	}
	if u.Version != 1 || u.ID == uuid.Nil || u.ID == almanactest.User().ID {
		t.Errorf("user at version %d with the id %s", u.Version, u.ID)
	}
}

func TestFixturesHaveTheIDsTheyAreGiven(t *testing.T) {
	t.Parallel()
	userID, eventID := uuid.MustParse("123e4567-e89b-12d3-a456-426614174000"), uuid.MustParse("0193b3a0-0000-7000-8000-000000000001")
	u := almanactest.User(almanactest.WithUserID(userID))
	e := almanactest.Event(now, almanactest.WithID(eventID), almanactest.OfUser(userID), almanactest.Of("2026"))
	if u.ID != userID || e.ID != eventID || e.UserID != userID {
		t.Errorf("user %s, event %s of %s", u.ID, e.ID, e.UserID)
	}
	if again := almanactest.Event(now, almanactest.WithID(eventID), almanactest.OfUser(userID), almanactest.Of("2026")); again.IdempotencyKey != e.IdempotencyKey {
		t.Errorf("the same ids have the keys %s and %s", e.IdempotencyKey, again.IdempotencyKey)
	}
	if other := almanactest.User(almanactest.WithUserID(uuid.Nil)); other.ID == uuid.Nil {
		t.Error("a user has the zero id")
	}
}

func TestUserAcceptsADateOfBirthInTheFuture(t *testing.T) {
	t.Parallel()
	u := almanactest.User(almanactest.Named("Grace", "Hopper"), almanactest.BornOn("2044-02-29"), almanactest.LivingIn("Asia/Tokyo"), almanactest.WithAttributes(`{"plan":"gold"}`))
	if got := u.Name() + " " + u.DateOfBirth.String() + " " + u.Timezone.String() + " " + string(u.Attributes); got != `Grace Hopper 2044-02-29 Asia/Tokyo {"plan":"gold"}` {
		t.Errorf("user = %s", got)
	}
}
