package almanac_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// greetAt makes birthdays fall when a test needs them to, in the user's own zone.
func greetAt(c calendar.Clock) almanac.Birthday {
	return almanac.Birthday{At: func(almanac.User) calendar.Clock { return c }}
}

// born returns a profile of a user whose birthday is today, plus days, in the user's zone.
func born(t *testing.T, zone string, days int) almanac.Profile {
	t.Helper()
	z, err := calendar.LoadTimezone(zone)
	require.NoError(t, err)
	day := z.WallTime(time.Now()).Date
	date := time.Date(1992, day.Month, day.Day, 0, 0, 0, 0, time.UTC).AddDate(0, 0, days) // a leap year has every day
	return almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: date.Format(time.DateOnly), Timezone: zone}
}

func TestCreateUserStoresTheUserWithTheFirstEvent(t *testing.T) {
	t.Parallel()
	w := open(t)
	scheduler := w.scheduler(t, almanac.Birthday{})

	enrolment, err := scheduler.CreateUser(t.Context(), born(t, "asia/tokyo", 10))

	require.NoError(t, err)
	user, err := w.store.User(t.Context(), enrolment.User.ID)
	require.NoError(t, err)
	require.Equal(t, user, enrolment.User)
	require.Equal(t, "Asia/Tokyo", user.Timezone.String())
	require.Len(t, enrolment.Events, 1)
	e := w.event(t, enrolment.Events[0])
	require.Equal(t, e, enrolment.Events[0])
	require.Equal(t, calendar.Clock{Hour: 9}, e.Wall.Clock)
	require.Equal(t, e.Wall.Labelled().Add(-9*time.Hour), e.Due, "Tokyo is nine hours ahead")
	require.Equal(t, almanac.NewIdempotencyKey(user.ID.String(), e.Due, "BIRTHDAY"), e.IdempotencyKey)
	require.JSONEq(t, `{"message": "Hey, Ada Lovelace it's your birthday"}`, string(e.Payload))
	require.Equal(t, almanac.UserCreated, (<-w.notices).Kind)
	require.Equal(t, almanac.Notice{Kind: almanac.EventCreated, Event: e}, <-w.notices)
}

func TestCreateUserNamesEveryInvalidFieldAndStoresNothing(t *testing.T) {
	t.Parallel()
	w := open(t)
	scheduler := w.scheduler(t, almanac.Birthday{})

	_, err := scheduler.CreateUser(t.Context(), almanac.Profile{DateOfBirth: "1990-02-30", Timezone: "Mars/Base", Attributes: json.RawMessage("1")})

	var invalid *almanac.ValidationError
	require.ErrorAs(t, err, &invalid)
	var fields []string
	for _, f := range invalid.Fields {
		fields = append(fields, f.Field)
	}
	require.Equal(t, []string{"firstName", "lastName", "dateOfBirth", "timezone", "attributes"}, fields)
	n, err := w.store.Count(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestCreateUserTakesTheHostsOwnID(t *testing.T) {
	t.Parallel()
	w := open(t)
	scheduler := w.scheduler(t, almanac.Birthday{})
	profile := born(t, "UTC", 10)
	profile.ID = uuid.New()

	enrolment, err := scheduler.CreateUser(t.Context(), profile)
	require.NoError(t, err)
	require.Equal(t, profile.ID, enrolment.User.ID)
	_, err = scheduler.CreateUser(t.Context(), profile)
	require.ErrorIs(t, err, almanac.ErrExists)
}

func TestUpdateUserMovesPendingEvents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change    func(p almanac.Profile) almanac.ProfileChange
		moved     bool
		refreshed bool
	}{
		"to another zone": {func(almanac.Profile) almanac.ProfileChange {
			return almanac.ProfileChange{Timezone: ptr("America/Los_Angeles")}
		}, true, false},
		"to another birthday": {func(almanac.Profile) almanac.ProfileChange {
			return almanac.ProfileChange{DateOfBirth: ptr("1990-02-28")}
		}, true, false},
		"to another name": {func(almanac.Profile) almanac.ProfileChange { return almanac.ProfileChange{FirstName: ptr("Augusta")} }, false, true},
		"to the zone's new name": {func(almanac.Profile) almanac.ProfileChange {
			return almanac.ProfileChange{Timezone: ptr("Asia/Kolkata")}
		}, false, true},
		"to nothing else": {func(almanac.Profile) almanac.ProfileChange { return almanac.ProfileChange{} }, false, false},
		"to other facts": {func(almanac.Profile) almanac.ProfileChange {
			return almanac.ProfileChange{Merge: json.RawMessage(`{"shoes": 39}`)}
		}, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			scheduler := w.scheduler(t, almanac.Birthday{})
			profile := born(t, "Asia/Calcutta", 100)
			enrolment, err := scheduler.CreateUser(t.Context(), profile)
			require.NoError(t, err)
			before := enrolment.Events[0]

			result, err := scheduler.UpdateUser(t.Context(), enrolment.User.ID, tt.change(profile))

			require.NoError(t, err)
			require.Equal(t, tt.moved, len(result.Moved) == 1)
			require.Equal(t, tt.refreshed, len(result.Refreshed) == 1)
			require.Empty(t, result.Skipped)
			after := w.event(t, before)
			if !tt.moved && !tt.refreshed {
				require.Equal(t, before, after, "untouched")
				return
			}
			require.Equal(t, before.Version+1, after.Version)
			require.Equal(t, before.IdempotencyKey, after.IdempotencyKey, "fixed at birth")
			require.Equal(t, result.User.Timezone.String(), after.Zone)
			require.Equal(t, result.User.Version, after.UserVersion)
			require.Equal(t, tt.moved, !after.Due.Equal(before.Due))
			require.Contains(t, string(after.Payload), result.User.FirstName)
		})
	}
}

// It is ten in the morning where she was, and late at night where she has gone:
// her nine o'clock has passed there, and she must not lose her greeting to the move.
func TestUpdateUserDeliversAnEventThatAMovePutInThePast(t *testing.T) {
	t.Parallel()
	w := open(t)
	west, east := "Pacific/Pago_Pago", "Pacific/Kiritimati" // the same date at readings 25 hours apart
	z, err := calendar.LoadTimezone(west)
	require.NoError(t, err)
	soon := z.WallTime(time.Now().Add(30 * time.Minute))
	scheduler := w.scheduler(t, greetAt(soon.Clock))
	profile := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: time.Date(1992, soon.Date.Month, soon.Date.Day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly), Timezone: west}
	enrolment, err := scheduler.CreateUser(t.Context(), profile)
	require.NoError(t, err)
	before := enrolment.Events[0]

	result, err := scheduler.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{Timezone: &east})

	require.NoError(t, err)
	require.Len(t, result.Moved, 1)
	after := result.Moved[0]
	require.Equal(t, before.OccurrenceKey, after.OccurrenceKey, "the same birthday")
	require.Equal(t, before.Wall, after.Wall, "at the same time of day")
	require.Equal(t, before.Due.Add(-25*time.Hour), after.Due)
	require.True(t, after.Due.Before(time.Now()), "due now")
}

func TestUpdateUserNeverGreetsTwiceInAYear(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	today := born(t, "Asia/Tokyo", 0)
	z, err := calendar.LoadTimezone("Asia/Tokyo")
	require.NoError(t, err)
	handler := greetAt(z.WallTime(time.Now().Add(2 * time.Second)).Clock)
	enrolment, err := w.scheduler(t, handler).CreateUser(t.Context(), today) // before the time of day, so first
	require.NoError(t, err)
	scheduler := w.run(t, handler, almanac.WithDeliverer(almanac.ChannelWebhook, r))
	done := w.await(t, almanac.EventCompleted)
	next := w.await(t, almanac.EventCreated)

	// Where she moves, the same reading of the same day is still to come.
	result, err := scheduler.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{Timezone: ptr("America/Los_Angeles")})
	require.NoError(t, err)
	require.Len(t, result.Moved, 1)
	require.Equal(t, next.ID, result.Moved[0].ID)
	require.Greater(t, result.Moved[0].OccurrenceKey, done.OccurrenceKey)

	// And a corrected birth date does not bring this year's greeting back.
	nextWeek := born(t, "America/Los_Angeles", 7).DateOfBirth
	result, err = scheduler.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{DateOfBirth: &nextWeek})
	require.NoError(t, err)
	require.Len(t, result.Moved, 1)
	require.Greater(t, result.Moved[0].OccurrenceKey, done.OccurrenceKey)
	require.Len(t, r.deliveries(), 1)
}

func TestUpdateUserLeavesEventsInFlight(t *testing.T) {
	t.Parallel()
	w := open(t)
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear)}
	scheduler := w.scheduler(t, handler)
	stored := storeEvent(t, w.store, handler)
	claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"DIGEST"}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)

	result, err := scheduler.UpdateUser(t.Context(), stored.UserID, almanac.ProfileChange{FirstName: ptr("Amazing")})

	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{stored.ID}, result.Skipped)
	require.Empty(t, result.Moved)
	require.Empty(t, result.Added, "its successor comes when it ends")
	require.Equal(t, claim.Events[0], w.event(t, stored))
}

func TestUpdateUserChangesAllOrNothing(t *testing.T) {
	t.Parallel()
	w := open(t)
	scheduler := w.scheduler(t, almanac.Birthday{})
	enrolment, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
	require.NoError(t, err)

	_, err = scheduler.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{FirstName: ptr("Augusta"), Timezone: ptr("UTC+5")})

	require.ErrorIs(t, err, almanac.ErrInvalid)
	require.ErrorIs(t, err, calendar.ErrInvalidTimezone)
	user, err := w.store.User(t.Context(), enrolment.User.ID)
	require.NoError(t, err)
	require.Equal(t, enrolment.User, user)
	_, err = scheduler.UpdateUser(t.Context(), uuid.New(), almanac.ProfileChange{})
	require.ErrorIs(t, err, almanac.ErrNotFound)
}

func TestUpdateUserChecksTheVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  almanac.ProfileChange
		refused bool
	}{
		"the present one":                {almanac.ProfileChange{Version: 2, FirstName: ptr("Ada")}, false},
		"any":                            {almanac.ProfileChange{FirstName: ptr("Ada")}, false},
		"one that was":                   {almanac.ProfileChange{Version: 1, FirstName: ptr("Ada")}, true},
		"one that never was":             {almanac.ProfileChange{Version: 3, FirstName: ptr("Ada")}, true},
		"the present one, and no change": {almanac.ProfileChange{Version: 2}, false},
		"another, and no change":         {almanac.ProfileChange{Version: 1}, true},
		"another, and what is not valid": {almanac.ProfileChange{Version: 1, FirstName: ptr("")}, true},
		"a negative one, which never is": {almanac.ProfileChange{Version: -1, FirstName: ptr("Ada")}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			scheduler := w.scheduler(t, almanac.Birthday{})
			enrolment, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
			require.NoError(t, err)
			before, err := scheduler.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{FirstName: ptr("Augusta")})
			require.NoError(t, err)

			_, err = scheduler.UpdateUser(t.Context(), enrolment.User.ID, tt.change)

			if !tt.refused {
				require.NoError(t, err)
				return
			}
			var lock *almanac.OptimisticLockError
			require.ErrorAs(t, err, &lock)
			require.Equal(t, almanac.OptimisticLockError{UserID: enrolment.User.ID, Expected: tt.change.Version}, *lock)
			user, err := w.store.User(t.Context(), enrolment.User.ID)
			require.NoError(t, err)
			require.Equal(t, before.User, user)
		})
	}
}

func TestScheduleIntroducesATypeOnce(t *testing.T) {
	t.Parallel()
	w := open(t)
	enrolment, err := w.scheduler(t, almanac.Birthday{}).CreateUser(t.Context(), born(t, "UTC", 10))
	require.NoError(t, err)
	handler := series{eventType: "DIGEST", seconds: ago(nextYear)}
	scheduler := w.scheduler(t, handler)

	first, err := scheduler.Schedule(t.Context(), enrolment.User.ID, "DIGEST")
	require.NoError(t, err)
	again, err := scheduler.Schedule(t.Context(), enrolment.User.ID, "DIGEST")
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Len(t, first, 1)
	require.Equal(t, first[0], w.event(t, first[0]))

	_, err = scheduler.Schedule(t.Context(), enrolment.User.ID, "BIRTHDAY")
	require.ErrorIs(t, err, almanac.ErrUnsupportedEventType)
	_, err = w.scheduler(t, series{eventType: "OVER"}).Schedule(t.Context(), enrolment.User.ID, "OVER")
	require.ErrorIs(t, err, calendar.ErrNoOccurrence)
}

// A handler that could not plan a successor leaves a series at a stand; once the
// handler is mended, rescheduling starts it again.
func TestRescheduleContinuesAStoppedSeries(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	broken := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
	stored := storeEvent(t, w.store, broken)
	w.run(t, broken)
	w.await(t, almanac.EventCompleted)
	require.NoError(t, w.stop())
	mended := series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear)}

	result, err := w.scheduler(t, mended).Reschedule(t.Context(), stored.UserID)

	require.NoError(t, err)
	require.Len(t, result.Added, 1)
	require.Equal(t, mended.seconds[1], result.Added[0].Due)
	result, err = w.scheduler(t, broken).Reschedule(t.Context(), stored.UserID)
	require.NoError(t, err)
	require.Len(t, result.Removed, 1, "what is no longer owed goes")
}

func TestMissedCountsEventsAfterADowntime(t *testing.T) {
	t.Parallel()
	w := open(t)
	handler := series{eventType: "DIGEST", seconds: ago(7*24*time.Hour, 3*time.Hour)}
	for range 3 {
		storeEvent(t, w.store, handler)
	}
	storeEvent(t, w.store, series{eventType: "DIGEST", seconds: ago(time.Hour)})
	storeEvent(t, w.store, series{eventType: "DIGEST", seconds: ago(0)})
	storeEvent(t, w.store, series{eventType: "DIGEST", seconds: ago(-time.Hour)})
	storeEvent(t, w.store, series{eventType: "OTHER", seconds: ago(30 * 24 * time.Hour)})
	before, err := w.store.Find(t.Context(), nil, almanac.Page{})
	require.NoError(t, err)

	missed, err := w.scheduler(t, handler, almanac.WithMissedGrace(time.Minute)).Missed(t.Context())

	require.NoError(t, err)
	require.Equal(t, 4, missed.Count)
	require.Equal(t, handler.seconds[0], missed.Oldest)
	require.WithinDuration(t, time.Now().Add(-time.Hour), missed.Newest, time.Minute)
	after, err := w.store.Find(t.Context(), nil, almanac.Page{})
	require.NoError(t, err)
	require.Equal(t, before, after, "looking changes nothing")
}

func ptr[T any](v T) *T { return &v }

// A mail program sends the same opt-out again and again.
func TestAnOptOutThatChangesNothingLeavesTheEvents(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			created, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
			require.NoError(t, err)
			offers := almanac.OptOut{Type: "OFFER"}
			first, err := scheduler.OptOut(t.Context(), created.User.ID, offers)
			require.NoError(t, err)
			before := w.all(t)

			again, err := scheduler.OptOut(t.Context(), created.User.ID, offers)
			require.NoError(t, err)
			in, err := scheduler.OptIn(t.Context(), created.User.ID, almanac.OptOut{Channel: "mail"})
			require.NoError(t, err)

			require.Equal(t, almanac.UpdateUserResult{User: first.User}, again)
			require.Equal(t, almanac.UpdateUserResult{User: first.User}, in)
			require.Equal(t, before, w.all(t))
			_, err = scheduler.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{OptOut: []almanac.OptOut{offers}, Version: 1})
			require.ErrorIs(t, err, almanac.ErrOptimisticLock, "the version is compared all the same")
		})
	}
}

// ailing is a handler of two series. Once it is ill, the method named by when calls do.
type ailing struct {
	almanac.Recurring
	ill  *atomic.Bool
	when string // series or next
	do   func() error
}

func (h ailing) act(when string) error {
	if h.ill.Load() && h.when == when {
		return h.do()
	}
	return nil
}

func (h ailing) Series(almanac.User) ([]string, error) { return []string{"a", "b"}, h.act("series") }

func (h ailing) NextIn(u almanac.User, _ string, after time.Time) (calendar.Occurrence, error) {
	if err := h.act("next"); err != nil {
		return calendar.Occurrence{}, err
	}
	return h.Next(u, after)
}

// Whatever the handler of a type does, its users can opt out of that type, of others, of a
// channel and of everything, at once.
func TestAnOptOutIsStoredWhateverHandlersDo(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	faults := map[string]func() error{
		"an error":                 func() error { return errors.New("no calendar") },
		"a panic":                  func() error { panic("no calendar") },
		"the end of its goroutine": func() error { runtime.Goexit(); return nil },
		"no return":                func() error { <-done; return nil },
	}
	optOuts := map[almanac.OptOut][]string{ // and the types of the events that remain
		{Type: almanac.TypeBirthday}: {"DAILY", "DAILY"},
		{Type: "DAILY"}:              {almanac.TypeBirthday},
		{Type: "OTHER"}:              {almanac.TypeBirthday, "DAILY", "DAILY"},
		{Channel: "mail"}:            {almanac.TypeBirthday, "DAILY", "DAILY"},
		{}:                           nil,
	}
	for fault, do := range faults {
		for _, when := range []string{"series", "next"} {
			for what, left := range optOuts {
				t.Run(fmt.Sprintf("%s from %s, %+v", fault, when, what), func(t *testing.T) {
					t.Parallel()
					daily := almanac.Recurring{Type: "DAILY", Rule: func(almanac.User) (calendar.Recurrence, error) { return calendar.Daily{}, nil }}
					w, h := openOn(almanactest.NewRepository(nil)), ailing{daily, new(atomic.Bool), when, do}
					scheduler := w.schedulerOf(t, []almanac.EventHandler{almanac.Birthday{}, h})
					created, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
					require.NoError(t, err)
					require.Len(t, created.Events, 3)
					h.ill.Store(true)

					result, err := scheduler.OptOut(t.Context(), created.User.ID, what)

					require.NoError(t, err)
					require.Len(t, result.User.OptOuts, 1)
					what.Since = result.User.OptOuts[0].Since
					require.Equal(t, what, result.User.OptOuts[0])
					require.Len(t, result.Removed, 3-len(left))
					var types []string
					for _, e := range w.all(t) {
						require.Equal(t, 1, e.Version, "it is left as it is")
						types = append(types, e.Type)
					}
					require.ElementsMatch(t, left, types)
				})
			}
		}
	}
}

// A user may have thousands of events. What is compared for each is not looked for among all.
func TestAnEditOfManyEventsIsCheckedInOnePass(t *testing.T) {
	r := almanac.Roster{Pending: make([]almanac.Event, 5000)}
	for i := range r.Pending {
		r.Pending[i] = almanac.Event{ID: uuid.New(), Status: almanac.Pending, Version: 1}
	}
	var err error
	allocated := testing.AllocsPerRun(1, func() { err = r.Check(almanac.Edit{Removed: r.Pending}) })
	require.NoError(t, err)
	require.Less(t, allocated, 100.0)
}

// The rule of a monthly notice changes from the 28th to the 25th. An occurrence whose new
// day is still to come moves. One whose new day has passed is dropped, and the result says
// so.
func TestRescheduleTellsADroppedOccurrence(t *testing.T) {
	t.Parallel()
	for today, want := range map[int]struct{ moved, removed, added []string }{
		20: {[]string{"2026-12"}, nil, nil},
		26: {nil, []string{"2026-12"}, []string{"2027-01"}},
	} {
		now := time.Date(2026, time.December, today, 12, 0, 0, 0, time.UTC)
		store := almanactest.NewRepository(func() time.Time { return now })
		with := func(day int) almanac.Scheduler {
			w := openOn(store)
			return w.scheduler(t, almanac.Recurring{Type: "NOTICE", Rule: func(almanac.User) (calendar.Recurrence, error) {
				return calendar.Monthly{Day: day, At: calendar.Clock{Hour: 9}}, nil
			}})
		}
		ada, err := with(28).CreateUser(t.Context(), born(t, "UTC", 100))
		require.NoError(t, err)

		result, err := with(25).Reschedule(t.Context(), ada.User.ID)

		require.NoError(t, err)
		keys := func(events []almanac.Event) (keys []string) {
			for _, e := range events {
				keys = append(keys, e.OccurrenceKey)
			}
			return keys
		}
		require.Equal(t, want.moved, keys(result.Moved))
		require.Equal(t, want.removed, keys(result.Removed))
		require.Equal(t, want.added, keys(result.Added))
		require.Empty(t, result.Refreshed)
	}
}

// A user moves east on the morning of the birthday, past nine o'clock there.
func TestAnEventThatAMoveMakesDueIsNotMissed(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-12-10T13:30:00Z") // 08:30 in New York, 14:30 in Berlin
	accepted := new(almanactest.Recorder)
	hasty := almanac.Birthday{Execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{SkipOlder: time.Hour}}}
	repository := almanactest.NewRepository(func() time.Time { return now })
	s := must(almanac.NewScheduler(repository, must(almanac.NewRegistry(hasty)), almanac.WithDeliverer(almanac.ChannelWebhook, accepted)))
	created, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "America/New_York"})
	require.NoError(t, err)
	edited, err := s.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{Timezone: ptr("Europe/Berlin")})
	require.NoError(t, err)
	require.Len(t, edited.Moved, 1)
	require.Equal(t, instant(t, "2026-12-10T08:00:00Z"), edited.Moved[0].Due)
	require.Equal(t, now, edited.Moved[0].FirstAvailable())

	did, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, did.Completed, "%+v", did)
	require.Less(t, must(repository.Event(t.Context(), created.Events[0].ID)).Lateness(), time.Minute)
}
