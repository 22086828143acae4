package almanac_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// visit is the time of an appointment with a dentist, in the next year.
var visit = calendar.WallTime{Date: calendar.Date{Year: time.Now().Year() + 1, Month: time.July, Day: 15}, Clock: calendar.Clock{Hour: 9}}

// patients is a repository with Ada, who lives in Berlin, and a scheduler of one-off
// events, of questions, whose payload has her name, and of birthdays.
func patients(t *testing.T, repository almanac.Repository) (*world, almanac.Scheduler, almanac.User) {
	t.Helper()
	w := openOn(repository)
	s := w.schedulerOf(t, []almanac.EventHandler{almanac.OneOff{}, question{}, almanac.Birthday{}},
		almanac.WithDeliverer(almanac.ChannelWebhook, new(receiver)))
	ada, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/Berlin"})
	require.NoError(t, err)
	for range len(w.notices) {
		<-w.notices
	}
	return w, s, ada.User
}

func onEach(t *testing.T, test func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User)) {
	t.Helper()
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, s, ada := patients(t, repository(t))
			test(t, w, s, ada)
		})
	}
}

func TestScheduleAtStoresOneEvent(t *testing.T) {
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		did, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: visit, Payload: json.RawMessage(`{"tooth": 7}`)})

		require.NoError(t, err)
		require.False(t, did.Existed)
		e := did.Event
		require.Equal(t, e, w.event(t, e), "as stored")
		require.Equal(t, w.await(t, almanac.EventCreated), e, "observers are notified")
		require.Equal(t, []any{almanac.Pending, visit, "Europe/Berlin", 1}, []any{e.Status, e.Wall, e.Zone, e.Version})
		require.Equal(t, must(must(calendar.LoadTimezone("Europe/Berlin")).Resolve(visit, calendar.Policies{})).Instant, e.Due)
		require.Equal(t, almanac.NewIdempotencyKey(ada.ID.String(), e.Due, e.Type), e.IdempotencyKey)
		require.JSONEq(t, `{"tooth": 7}`, string(e.Payload))
		require.Equal(t, visit.String(), e.OccurrenceKey, "the key that stands for none")
		require.Equal(t, almanac.Origin{Kind: almanac.OriginScheduled}, e.Origin)
	})
}

// A host that does not know whether its call came through makes it again.
func TestScheduleAtIsIdempotent(t *testing.T) {
	options := map[string]almanac.ScheduleAtOptions{
		"by its wall time":      {At: visit, Payload: json.RawMessage(`{"a": 1, "b": 2}`)},
		"by a key":              {At: visit, Key: "dentist", Timezone: calendar.StoredTimezone("Asia/Tokyo")},
		"that follows the user": {At: visit, Key: "dentist", FollowUser: true},
		"with other policies":   {At: visit, Policies: calendar.Policies{Gap: calendar.GapSkip}, Payload: json.RawMessage(`[]`)},
	}
	for name, o := range options {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
				first, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
				require.NoError(t, err)
				if o.Payload != nil && o.Payload[0] == '{' {
					o.Payload = json.RawMessage(` {"b":2, "a":1}`) // the same in another spelling
				}

				again, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)

				require.NoError(t, err)
				require.True(t, again.Existed)
				require.Equal(t, w.event(t, first.Event), again.Event)
				moved, err := s.UpdateUser(t.Context(), ada.ID, almanac.ProfileChange{Timezone: ptr("America/Lima")})
				require.NoError(t, err)
				again, err = s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
				require.NoError(t, err, "after a move too: %+v", moved)
				require.Equal(t, first.Event.ID, again.Event.ID)

				cancelled, err := s.Cancel(t.Context(), first.Event.ID, almanac.CancelOptions{Reason: "asked not to"})
				require.NoError(t, err)
				require.Nil(t, cancelled.Successor)
				again, err = s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
				require.NoError(t, err)
				require.True(t, again.Existed)
				require.Equal(t, almanac.Cancelled, again.Event.Status, "it does not come back")
				n, err := w.store.Count(t.Context(), almanac.OfType(almanac.TypeOneOff))
				require.NoError(t, err)
				require.Equal(t, 1, n)
			})
		})
	}
}

// The wall time and the zone that RunNow stores are not those of the call.
func TestScheduleAtIsIdempotentAfterRunNow(t *testing.T) {
	berlin := almanac.ScheduleAtOptions{At: visit, Key: "dentist", Timezone: calendar.StoredTimezone("Europe/Berlin")}
	for name, adopt := range map[string]bool{"in its zone": false, "in UTC, with older zone rules": true} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
				first, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, berlin)
				require.NoError(t, err)
				if adopt {
					others := almanac.ZoneBook{Rules: []almanac.ZoneRecord{{ZoneRules: calendar.ZoneRules{Zone: "Europe/Berlin", Fingerprint: 42, Since: time.Now().Year(), Version: "2099b"}}}}
					require.NoError(t, w.store.EditZoneRules(t.Context(), func(almanac.ZoneBook) (almanac.ZoneBook, error) { return others, nil }))
					s = w.schedulerOf(t, []almanac.EventHandler{almanac.OneOff{}})
				}
				now, err := s.RunNow(t.Context(), first.Event.ID, almanac.ForceOptions{})
				require.NoError(t, err)
				require.Equal(t, adopt, now.Zone == "UTC")

				again, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, berlin)

				require.NoError(t, err)
				require.True(t, again.Existed)
				require.Equal(t, now, again.Event)
				other := berlin
				other.At = now.Wall
				_, err = s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, other)
				require.ErrorContains(t, err, "with another wall time")
			})
		})
	}
}

// After RunNow, a zone that is UTC is the zone of the call, unless its program knew older rules of another zone.
func TestScheduleAtInUTCIsNotInAnotherZoneAfterRunNow(t *testing.T) {
	onEach(t, func(t *testing.T, _ *world, s almanac.Scheduler, ada almanac.User) {
		o := almanac.ScheduleAtOptions{At: visit, Key: "dentist", Timezone: calendar.StoredTimezone("UTC")}
		first, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.NoError(t, err)
		_, err = s.RunNow(t.Context(), first.Event.ID, almanac.ForceOptions{})
		require.NoError(t, err)
		again, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.NoError(t, err)
		require.True(t, again.Existed)

		o.Timezone = calendar.StoredTimezone("Asia/Tokyo")
		_, err = s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.ErrorContains(t, err, "with another time zone")
	})
}

func TestScheduleAtFindsDeliveredEvents(t *testing.T) {
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		o := almanac.ScheduleAtOptions{At: calendar.WallTimeOf(time.Now().UTC().Add(-time.Minute)), Timezone: calendar.StoredTimezone("UTC"), Key: "now"}
		first, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.NoError(t, err)

		did, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})

		require.NoError(t, err)
		require.Equal(t, almanac.RunOnceResult{Claimed: 1, Completed: 1}, did, "what has passed is due at once, and nothing follows it")
		again, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.NoError(t, err)
		require.True(t, again.Existed)
		require.Equal(t, []any{first.Event.ID, almanac.Completed}, []any{again.Event.ID, again.Event.Status})

		other := o
		other.FollowUser, other.Timezone = true, calendar.Timezone{}
		_, err = s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, other)
		require.ErrorIs(t, err, almanac.ErrExists, "a name is used up, under whatever options")

		_, _, err = w.store.Prune(t.Context(), time.Now().Add(time.Hour), almanac.Page{})
		require.NoError(t, err)
		_, err = s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.ErrorIs(t, err, almanac.ErrExists)
		require.ErrorContains(t, err, "pruned")
	})
}

func TestScheduleAtRefusesAnotherEventUnderAKey(t *testing.T) {
	was := almanac.ScheduleAtOptions{At: visit, Key: "dentist", Payload: json.RawMessage(`{"tooth": 7}`)}
	later := visit
	later.Clock.Hour++
	tests := map[string]func(*almanac.ScheduleAtOptions){
		"wall time":           func(o *almanac.ScheduleAtOptions) { o.At = later },
		"payload":             func(o *almanac.ScheduleAtOptions) { o.Payload = json.RawMessage(`{"tooth": 8}`) },
		"FollowUser, payload": func(o *almanac.ScheduleAtOptions) { o.Payload, o.FollowUser = nil, true },
		"policy":              func(o *almanac.ScheduleAtOptions) { o.Policies.Fold = calendar.FoldSecond },
		"FollowUser":          func(o *almanac.ScheduleAtOptions) { o.FollowUser = true },
		"time zone":           func(o *almanac.ScheduleAtOptions) { o.Timezone = calendar.StoredTimezone("Asia/Tokyo") },
	}
	for differs, change := range tests {
		t.Run(differs, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
				first, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, was)
				require.NoError(t, err)
				o := was
				change(&o)

				other, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)

				require.ErrorIs(t, err, almanac.ErrExists)
				require.ErrorContains(t, err, "with another "+differs)
				require.Equal(t, first.Event.ID, other.Event.ID, "the result has what is there")
				require.Equal(t, first.Event, w.event(t, first.Event), "nothing changes")
				elsewhere, err := s.ScheduleAt(t.Context(), ada.ID, "QUESTION", o)
				require.NoError(t, err, "a key is one of the type")
				require.False(t, elsewhere.Existed)
			})
		})
	}
}

// An appointment is moved, and its receiver must not take it for another one.
func TestScheduleAtMovesAnEventUnderItsKey(t *testing.T) {
	was := almanac.ScheduleAtOptions{At: visit, Key: "dentist", Payload: json.RawMessage(`{"tooth": 7}`), Move: true}
	later := visit
	later.Clock.Hour++
	fixed := map[string]func(*almanac.ScheduleAtOptions){
		"FollowUser":          func(o *almanac.ScheduleAtOptions) { o.FollowUser = true },
		"FollowUser, payload": func(o *almanac.ScheduleAtOptions) { o.Payload, o.FollowUser = nil, true },
		"payload, wall time":  func(o *almanac.ScheduleAtOptions) { o.Payload, o.At = nil, later },
	}
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		first, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, was)
		require.NoError(t, err)
		require.Equal(t, w.await(t, almanac.EventCreated), first.Event)
		for differs, change := range fixed {
			o := was
			change(&o)
			other, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
			require.ErrorIs(t, err, almanac.ErrExists)
			require.ErrorContains(t, err, "with another "+differs)
			require.Equal(t, first.Event, other.Event, "nothing changes")
		}
		o := was
		o.At, o.Payload, o.Policies.Fold = later, json.RawMessage(`{"tooth": 8}`), calendar.FoldSecond

		moved, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)

		require.NoError(t, err)
		require.True(t, moved.Existed && moved.Moved)
		is := w.event(t, first.Event)
		require.Equal(t, is, moved.Event)
		require.Equal(t, is, w.await(t, almanac.EventRescheduled), "observers are notified")
		require.Equal(t, []any{later, first.Event.Due.Add(time.Hour), calendar.FoldSecond, first.Event.IdempotencyKey}, []any{is.Wall, is.Due, is.Policies.Fold, is.IdempotencyKey})
		require.JSONEq(t, `{"tooth": 8}`, string(is.Payload))
		_, err = s.UpdateUser(t.Context(), ada.ID, almanac.ProfileChange{OptOut: []almanac.OptOut{{Type: almanac.TypeOneOff, Until: later.Date.AddDays(2)}}})
		require.NoError(t, err)
		_, err = s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.ErrorIs(t, err, almanac.ErrOptedOut, "its opt-out has removed the event")
		o.At.Date = later.Date.AddDays(3)
		kept, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.NoError(t, err)
		o.At = later
		_, err = s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.ErrorIs(t, err, almanac.ErrOptedOut, "an event cannot move to where the user refuses it")
		require.Equal(t, kept.Event, w.event(t, kept.Event))

		o.Key = ""
		_, err = s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.EqualError(t, err, "almanac: invalid input: key is required to move an event")
	})
}

// Many processes get the same request at once.
func TestScheduleAtStoresOneEventForCallsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		ids := make([]uuid.UUID, 8)
		var calls sync.WaitGroup
		for i := range ids {
			calls.Go(func() {
				did, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: visit})
				if err != nil {
					t.Error(err)
				}
				ids[i] = did.Event.ID
			})
		}
		calls.Wait()
		for _, id := range ids {
			require.Equal(t, ids[0], id)
		}
		require.Len(t, w.notices, 1, "one is created")
	})
}

func TestAnEditLeavesScheduledEventsUnchanged(t *testing.T) {
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		given := must(s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: visit, Payload: json.RawMessage(`{"tooth": 7}`)})).Event
		made := must(s.ScheduleAt(t.Context(), ada.ID, "QUESTION", almanac.ScheduleAtOptions{At: visit, Key: "how-was-it"})).Event

		edited, err := s.UpdateUser(t.Context(), ada.ID, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo"), FirstName: ptr("Augusta")})

		require.NoError(t, err)
		require.Equal(t, given, w.event(t, given), "it depends on nothing that was edited")
		is := w.event(t, made)
		require.Equal(t, []any{made.Due, made.Zone, made.OccurrenceKey, made.IdempotencyKey}, []any{is.Due, is.Zone, is.OccurrenceKey, is.IdempotencyKey})
		require.JSONEq(t, `{"key": "how-was-it", "name": "Augusta"}`, string(is.Payload), "what the handler made it makes anew")
		require.Len(t, edited.Refreshed, 1)
		require.Len(t, edited.Moved, 1, "the birthday")
		require.Empty(t, edited.Removed)
	})
}

func TestAScheduledEventThatFollowsItsUserMoves(t *testing.T) {
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		given := must(s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: visit, FollowUser: true, Payload: json.RawMessage(`{"tooth": 7}`)})).Event
		renamed, err := s.UpdateUser(t.Context(), ada.ID, almanac.ProfileChange{FirstName: ptr("Augusta")})
		require.NoError(t, err)
		require.Equal(t, given, w.event(t, given), "a name changes nothing: %+v", renamed)

		_, err = s.UpdateUser(t.Context(), ada.ID, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")})

		require.NoError(t, err)
		is := w.event(t, given)
		require.Equal(t, []any{visit, "Asia/Tokyo", given.OccurrenceKey, given.IdempotencyKey}, []any{is.Wall, is.Zone, is.OccurrenceKey, is.IdempotencyKey})
		require.Equal(t, must(must(calendar.LoadTimezone("Asia/Tokyo")).Resolve(visit, calendar.Policies{})).Instant, is.Due)
		require.JSONEq(t, `{"tooth": 7}`, string(is.Payload), "what was given stays")
		_, err = s.UpdateUser(t.Context(), ada.ID, almanac.ProfileChange{Timezone: ptr("Europe/Berlin")})
		require.NoError(t, err)
		require.Equal(t, given.Due, w.event(t, given).Due, "and back")
	})
}

// A later time, in UTC, is of a year that no format of ours has room for.
func TestScheduleAtRefusesInstantsOutsideTheCalendar(t *testing.T) {
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		last := calendar.WallTime{Date: calendar.Date{Year: 9999, Month: time.December, Day: 31}, Clock: calendar.Clock{Hour: 23, Minute: 30}}

		_, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: last, Timezone: calendar.StoredTimezone("America/New_York")})

		require.ErrorIs(t, err, almanac.ErrInvalid)
		require.EqualError(t, err, "almanac: invalid input: wall time is 9999-12-31T23:30:00, which in America/New_York is 10000-01-01T04:30:00 in UTC: years are 1 to 9999")
		stored, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: last, FollowUser: true})
		require.NoError(t, err)
		_, err = s.UpdateUser(t.Context(), ada.ID, almanac.ProfileChange{Timezone: ptr("America/New_York")})
		require.ErrorIs(t, err, almanac.ErrInvalid, "an edit leaves no event outside, either")
		require.Equal(t, stored.Event, w.event(t, stored.Event))
		found, err := w.store.Find(t.Context(), almanac.ForUser(ada.ID), almanac.Page{})
		require.NoError(t, err)
		text, err := json.Marshal(found)
		require.NoError(t, err)
		require.Contains(t, string(text), `"9999-12-31T22:30:00Z"`)
	})
}

// Clocks in Berlin never show what those in Lima do, and show another time twice.
func TestScheduleAtFollowsItsPolicies(t *testing.T) {
	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	gap, _ := berlin.NextChange(time.Now().Add(48 * time.Hour))
	for gap.Width() < 0 {
		gap, _ = berlin.NextChange(gap.At)
	}
	fold, _ := berlin.NextChange(gap.At)
	twice := calendar.WallTimeOf(fold.From().Labelled().Add(-30 * time.Minute))
	never := calendar.WallTimeOf(gap.From().Labelled().Add(30 * time.Minute))
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		at := func(wall calendar.WallTime, key string, p calendar.Policies) (almanac.ScheduleAtResult, error) {
			return s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: wall, Key: key, Policies: p})
		}
		require.Equal(t, gap.At.Add(30*time.Minute), must(at(never, "forward", calendar.Policies{})).Event.Due)
		require.Equal(t, gap.At, must(at(never, "boundary", calendar.Policies{Gap: calendar.GapBoundary})).Event.Due)
		require.Equal(t, fold.At.Add(-30*time.Minute), must(at(twice, "first", calendar.Policies{})).Event.Due)
		require.Equal(t, fold.At.Add(30*time.Minute), must(at(twice, "second", calendar.Policies{Fold: calendar.FoldSecond})).Event.Due)
		var refused *calendar.WallTimeError
		_, err := at(never, "skip", calendar.Policies{Gap: calendar.GapSkip})
		require.ErrorIs(t, err, calendar.ErrSkippedWallTime)
		require.ErrorAs(t, err, &refused)
		_, err = at(never, "reject", calendar.Policies{Gap: calendar.GapReject})
		require.ErrorIs(t, err, calendar.ErrRejectedWallTime)
		_, err = at(twice, "reject", calendar.Policies{Fold: calendar.FoldReject})
		require.ErrorIs(t, err, calendar.ErrRejectedWallTime)
		n, err := w.store.Count(t.Context(), almanac.OfType(almanac.TypeOneOff))
		require.NoError(t, err)
		require.Equal(t, 4, n, "what is refused is not stored")

		move := func(zone string) (almanac.UpdateUserResult, error) {
			return s.UpdateUser(t.Context(), ada.ID, almanac.ProfileChange{Timezone: ptr(zone)})
		}
		must(move("America/Lima"))
		skips := must(s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: never, Key: "skip", FollowUser: true, Policies: calendar.Policies{Gap: calendar.GapSkip}})).Event
		back := must(move("Europe/Berlin"))
		require.Len(t, back.Removed, 1)
		require.Equal(t, skips.ID, back.Removed[0].ID)
		must(move("America/Lima"))
		must(s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: never, Key: "reject", FollowUser: true, Policies: calendar.Policies{Gap: calendar.GapReject}}))
		_, err = move("Europe/Berlin")
		require.ErrorIs(t, err, calendar.ErrRejectedWallTime)
	})
}

// An event that the host rolls back was never scheduled, and observers are not notified.
func TestScheduleAtIsPartOfTheHostsTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	w, s, ada := patients(t, store)
	schedule := func(end func(context.Context) error, in almanac.Repository) almanac.Event {
		did, err := s.With(in).ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: visit})
		require.NoError(t, err)
		require.False(t, did.Existed)
		require.Empty(t, w.notices)
		require.NoError(t, end(t.Context()))
		return did.Event
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	gone := schedule(tx.Rollback, must(postgres.New(tx)))
	_, err = store.Event(t.Context(), gone.ID)
	require.ErrorIs(t, err, almanac.ErrNotFound)
	tx, err = pool.Begin(t.Context())
	require.NoError(t, err)
	stays := schedule(tx.Commit, must(postgres.New(tx)))
	require.Equal(t, stays, w.event(t, stays))
}

func TestScheduleAtNamesEveryProblem(t *testing.T) {
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		_, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{
			At: calendar.WallTime{Date: calendar.Date{Year: 2027, Month: 2, Day: 30}}, Timezone: calendar.StoredTimezone("UTC"), FollowUser: true,
			Key: strings.Repeat("k", 91), Payload: json.RawMessage(`{`), Policies: calendar.Policies{Gap: "sideways"},
		})
		var invalid *almanac.ValidationError
		require.ErrorAs(t, err, &invalid)
		var fields []string
		for _, f := range invalid.Fields {
			fields = append(fields, f.Field)
		}
		require.Equal(t, []string{"at", "timezone", "key", "payload", "gap"}, fields)
		for _, o := range []almanac.ScheduleAtOptions{
			{At: visit, Key: "\x00"}, {At: visit, Payload: json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)}, {},
		} {
			_, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
			require.ErrorIs(t, err, almanac.ErrInvalid, "%.80v", o)
		}
		_, err = s.ScheduleAt(t.Context(), ada.ID, "UNKNOWN", almanac.ScheduleAtOptions{At: visit})
		require.ErrorIs(t, err, almanac.ErrUnsupportedEventType)
		_, err = s.ScheduleAt(t.Context(), uuid.New(), almanac.TypeOneOff, almanac.ScheduleAtOptions{At: visit})
		require.ErrorIs(t, err, almanac.ErrNotFound)
		longest := must(s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: visit, Key: strings.Repeat("k", 90), FollowUser: true}))
		require.Equal(t, longest.Event, w.event(t, longest.Event))
	})
}

// An event that a delivery is at keeps its target, whatever becomes of its user.
func TestAScheduledEventInFlightKeepsItsTarget(t *testing.T) {
	onEach(t, func(t *testing.T, w *world, s almanac.Scheduler, ada almanac.User) {
		o := almanac.ScheduleAtOptions{At: calendar.WallTimeOf(must(calendar.LoadTimezone("Europe/Berlin")).WallTime(time.Now()).Labelled().Add(-time.Hour)), FollowUser: true}
		must(s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o))
		claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeOneOff}, Limit: 1, Lease: time.Minute})
		require.NoError(t, err)
		require.Len(t, claim.Events, 1)

		edited, err := s.UpdateUser(t.Context(), ada.ID, almanac.ProfileChange{Timezone: ptr("Pacific/Niue")})

		require.NoError(t, err)
		require.Equal(t, []uuid.UUID{claim.Events[0].ID}, edited.Skipped)
		require.Equal(t, claim.Events[0].Due, w.event(t, claim.Events[0]).Due)
		again, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, o)
		require.NoError(t, err)
		require.Equal(t, almanac.Processing, again.Event.Status)
	})
}

// crowded is a repository in which each user has ten thousand open events.
type crowded struct{ almanac.Repository }

func (c crowded) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	return c.Repository.EditUser(ctx, id, func(r almanac.Roster) (almanac.Edit, error) {
		for len(r.Pending)+len(r.InFlight) < 10000 {
			r.InFlight = append(r.InFlight, almanactest.Event(r.Now, almanactest.For(r.User)))
		}
		return edit(r)
	})
}

func TestScheduleAtRefusesMoreEventsThanAnEditCanRead(t *testing.T) {
	t.Parallel()
	w, s, ada := patients(t, crowded{almanactest.NewRepository(nil)})
	_, err := s.ScheduleAt(t.Context(), ada.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: visit})
	var invalid *almanac.ValidationError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, []almanac.FieldError{{Field: "user", Problem: "has 10000 open events, and no more are scheduled"}}, invalid.Fields)
	events, err := w.store.Count(t.Context(), almanac.OfType(almanac.TypeOneOff))
	require.NoError(t, err)
	require.Zero(t, events)
}
