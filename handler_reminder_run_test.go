package almanac_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// diary has the appointments of a user. A nil appointment removes, when it is merged.
type diary map[string]*almanac.Appointment

func (d diary) attributes(t *testing.T) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(map[string]diary{"reminders": d})
	require.NoError(t, err)
	return text
}

func (d diary) profile(t *testing.T) almanac.Profile {
	t.Helper()
	p := grace
	p.Attributes = d.attributes(t)
	return p
}

func (d diary) merge(t *testing.T) almanac.ProfileChange {
	t.Helper()
	return almanac.ProfileChange{Merge: d.attributes(t)}
}

// at is an appointment at a whole second.
func at(t *testing.T, second time.Time, message string) *almanac.Appointment {
	t.Helper()
	return &almanac.Appointment{At: calendar.WallTimeOf(second.UTC()), Timezone: zone(t, "UTC"), Message: message}
}

// remind stores a user with the events of their diary, which may be long overdue.
func (w *world) remind(t *testing.T, p almanac.Profile) map[string]almanac.Event {
	t.Helper()
	var r almanac.Reminder
	now, err := w.store.Now(t.Context())
	require.NoError(t, err)
	u, err := almanac.NewUser(p, now)
	require.NoError(t, err)
	names, err := r.Series(u)
	require.NoError(t, err)
	var events []almanac.Event
	for _, name := range names {
		o, err := r.NextIn(u, name, time.Time{})
		require.NoError(t, err)
		e, err := almanac.NewEvent(u, r, almanac.Occurrence{Occurrence: o, Series: name})
		require.NoError(t, err)
		events = append(events, e)
	}
	_, stored, err := almanactest.CreateUser(t.Context(), w.store, u, events...)
	require.NoError(t, err)
	return byName(stored)
}

// byName identifies events of reminders by their names.
func byName(events []almanac.Event) map[string]almanac.Event {
	named := make(map[string]almanac.Event)
	for _, e := range events {
		name := e.Series
		named[name] = e
	}
	return named
}

func names(events []almanac.Event) []string { return slices.Sorted(maps.Keys(byName(events))) }

// all returns every stored event.
func (w *world) all(t *testing.T) []almanac.Event {
	t.Helper()
	found, err := w.store.Find(t.Context(), nil, almanac.Page{})
	require.NoError(t, err)
	return found.Items
}

func TestRunRemindsOfEachAppointmentOnce(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	scheduler := w.run(t, almanac.Reminder{}, almanac.WithDeliverer(almanac.ChannelWebhook, r))
	second := time.Now().UTC().Truncate(time.Second).Add(3 * time.Second)
	wanted := diary{
		"dentist": at(t, second, "Brush your teeth"),
		"bank":    at(t, second, "Ring the bank"),
		"actor":   at(t, second.Add(time.Second), "Learn your lines"),
		"next":    at(t, second.AddDate(1, 0, 0), "A year from now"),
	}

	enrolment, err := scheduler.CreateUser(t.Context(), wanted.profile(t))
	require.NoError(t, err)
	require.Equal(t, []string{"actor", "bank", "dentist", "next"}, names(enrolment.Events))
	for range 3 {
		w.await(t, almanac.EventCompleted)
	}
	require.NoError(t, w.stop())

	got := r.deliveries()
	require.Len(t, got, 3)
	keys, said := make(map[almanac.IdempotencyKey]bool), make(map[string]string)
	for _, d := range got {
		var payload struct{ Name, Message string }
		require.NoError(t, json.Unmarshal(d.Event.Payload, &payload))
		keys[d.Event.IdempotencyKey], said[payload.Name] = true, payload.Message
		require.False(t, d.At.Before(d.Event.Due), "never early")
	}
	require.Len(t, keys, 3)
	require.Equal(t, map[string]string{"dentist": "Brush your teeth", "bank": "Ring the bank", "actor": "Learn your lines"}, said)
	stored := byName(w.all(t))
	require.Len(t, stored, 4, "what happens once has no successor")
	require.Equal(t, stored["bank"].Due, stored["dentist"].Due)
	require.Equal(t, second, stored["bank"].Due)
	require.Equal(t, almanac.Pending, stored["next"].Status)
}

func TestUpdateUserMovesDropsAndAddsReminders(t *testing.T) {
	t.Parallel()
	w := open(t)
	scheduler := w.scheduler(t, almanac.Reminder{})
	far := time.Now().UTC().Truncate(time.Second).AddDate(0, 6, 0)
	same := at(t, far, "Same")
	enrolment, err := scheduler.CreateUser(t.Context(), diary{
		"stays": same, "later": same, "sooner": same, "dropped": same, "home": {At: same.At, Message: "Same"},
	}.profile(t))
	require.NoError(t, err)
	before := byName(enrolment.Events)

	merge := fmt.Sprintf(`{"reminders": {"later": {"at": %q}, "sooner": {"at": %q}, "dropped": null, "home": {"timezone": "Asia/Tokyo"},
		"added": {"at": %q, "message": "New"}}}`, calendar.WallTimeOf(far.AddDate(0, 1, 0)), calendar.WallTimeOf(far.AddDate(0, -1, 0)), same.At)
	result, err := scheduler.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{Merge: json.RawMessage(merge)})

	require.NoError(t, err)
	require.Equal(t, []string{"home"}, names(result.Moved))
	require.Empty(t, result.Refreshed)
	require.Equal(t, []string{"dropped", "later", "sooner"}, names(result.Removed))
	require.Equal(t, []string{"added", "later", "sooner"}, names(result.Added))
	require.Empty(t, result.Skipped)
	after := byName(w.all(t))
	require.Equal(t, []string{"added", "home", "later", "sooner", "stays"}, slices.Sorted(maps.Keys(after)))
	for name, due := range map[string]time.Time{"stays": far, "later": far.AddDate(0, 1, 0), "sooner": far.AddDate(0, -1, 0), "home": far.Add(-9 * time.Hour)} {
		e := after[name]
		require.Equal(t, due, e.Due, name)
		require.Equal(t, e.Wall.String(), e.OccurrenceKey)
		if kept := name == "stays" || name == "home"; kept {
			require.Equal(t, before[name].ID, e.ID)
			require.Equal(t, before[name].IdempotencyKey, e.IdempotencyKey, "fixed at birth")
		} else {
			require.NotEqual(t, before[name].ID, e.ID, "another occurrence is another event")
		}
		require.JSONEq(t, `{"name": "`+name+`", "message": "Same"}`, string(e.Payload))
	}
	require.Equal(t, 2, result.User.Version)
	stored, err := w.store.User(t.Context(), enrolment.User.ID)
	require.NoError(t, err)
	require.Equal(t, stored, result.User)
	appointments, err := almanac.Reminder{}.Appointments(stored)
	require.NoError(t, err)
	require.Len(t, appointments, 5)
}

func TestUpdateUserChangesNoReminderIfOneIsInvalid(t *testing.T) {
	t.Parallel()
	w := open(t)
	scheduler := w.scheduler(t, almanac.Reminder{})
	far := time.Now().UTC().Truncate(time.Second).AddDate(0, 6, 0)
	enrolment, err := scheduler.CreateUser(t.Context(), diary{"stays": at(t, far, "Same")}.profile(t))
	require.NoError(t, err)

	for name, merge := range map[string]string{
		"no wall time":      `{"reminders": {"good": {"at": "2099-01-01T00:00:00"}, "bad": {"at": "soon"}}}`,
		"no name":           `{"reminders": {"good": {"at": "2099-01-01T00:00:00"}, "": {"at": "2099-01-01T00:00:00"}}}`,
		"no merge patch":    `[]`,
		"no JSON":           `{"reminders": `,
		"nothing to keep":   `null`,
		"too much to store": `{"filler": "` + strings.Repeat("x", 64<<10) + `"}`,
	} {
		_, err = scheduler.UpdateUser(t.Context(), enrolment.User.ID, almanac.ProfileChange{Merge: json.RawMessage(merge)})
		require.Error(t, err, name)
	}

	require.Equal(t, enrolment.Events, w.all(t))
	stored, err := w.store.User(t.Context(), enrolment.User.ID)
	require.NoError(t, err)
	require.Equal(t, enrolment.User, stored)
}

// It was nine in Tokyo when she was reminded; where she moves it will be nine again.
func TestADeliveredReminderIsNotRepeated(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	given := zone(t, "Asia/Tokyo").WallTime(time.Now().Add(-time.Minute))
	earlier, later := calendar.WallTimeOf(given.Labelled().Add(-time.Hour)), calendar.WallTimeOf(given.Labelled().Add(time.Hour))
	p := diary{"tea": {At: given}, "wine": {At: given}}.profile(t)
	p.Timezone = "Asia/Tokyo"
	planned := w.remind(t, p)["tea"]
	scheduler := w.run(t, almanac.Reminder{}, almanac.WithDeliverer(almanac.ChannelWebhook, r))
	w.await(t, almanac.EventCompleted)
	w.await(t, almanac.EventCompleted)
	require.NoError(t, w.stop())

	for _, step := range []struct {
		what   string
		change almanac.ProfileChange
		added  []string
	}{
		{"another name", almanac.ProfileChange{FirstName: ptr("Amazing")}, nil},
		{"to where it will be that time again", almanac.ProfileChange{Timezone: ptr("America/Los_Angeles")}, nil},
		{"dropped", diary{"tea": nil}.merge(t), nil},
		{"and set again", diary{"tea": {At: given}}.merge(t), nil},
		{"set for a time before that", diary{"tea": {At: earlier}}.merge(t), nil},
		{"others are their own, whatever their names", diary{"cake": {At: given}, "zoo": {At: given}}.merge(t), []string{"cake", "zoo"}},
		{"set for a time after that", diary{"tea": {At: later}}.merge(t), []string{"tea"}},
	} {
		result, err := scheduler.UpdateUser(t.Context(), planned.UserID, step.change)
		require.NoError(t, err, step.what)
		require.ElementsMatch(t, step.added, names(result.Added), step.what)
		require.Empty(t, result.Skipped, step.what)
	}
	require.Len(t, r.deliveries(), 2)
	stored := w.all(t)
	require.Len(t, stored, 5)
	require.NotEqual(t, planned.IdempotencyKey, byName(stored)["tea"].IdempotencyKey)
}

// The engine sleeps for an hour when it knows of nothing; moving an appointment
// wakes it.
func TestAMovedReminderIsDeliveredAtItsNewTimeOnly(t *testing.T) {
	t.Parallel()
	w, r := open(t), new(receiver)
	overdue := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	next := overdue.AddDate(1, 0, 0)
	planned := w.remind(t, diary{"postponed": at(t, overdue, "Not now"), "advanced": at(t, next, "Soon"), "on time": at(t, overdue, "Now")}.profile(t))
	userID := planned["on time"].UserID
	_, err := w.scheduler(t, almanac.Reminder{}).UpdateUser(t.Context(), userID, diary{"postponed": at(t, next, "Not now")}.merge(t))
	require.NoError(t, err)

	scheduler := w.run(t, almanac.Reminder{}, almanac.WithDeliverer(almanac.ChannelWebhook, r), almanac.WithPoll(time.Hour))
	require.Equal(t, planned["on time"].ID, w.await(t, almanac.EventCompleted).ID)
	soon := time.Now().UTC().Truncate(time.Second).Add(3 * time.Second)
	result, err := scheduler.UpdateUser(t.Context(), userID, diary{"advanced": at(t, soon, "Soon")}.merge(t))
	require.NoError(t, err)
	require.Equal(t, []string{"advanced"}, names(result.Added))
	require.Equal(t, []string{"advanced"}, names(result.Removed))
	done := w.await(t, almanac.EventCompleted)
	require.NoError(t, w.stop())

	require.Equal(t, result.Added[0].ID, done.ID)
	require.Equal(t, soon, done.Due)
	require.False(t, done.ExecutedAt.Before(soon), "never early")
	require.Len(t, r.deliveries(), 2)
	require.Equal(t, next, byName(w.all(t))["postponed"].Due)
}

func TestUpdateUserLeavesAReminderInFlight(t *testing.T) {
	t.Parallel()
	next := time.Now().UTC().Truncate(time.Second).AddDate(1, 0, 0)
	tests := map[string]struct {
		now       *almanac.Appointment
		successor bool
	}{
		"dropped":   {nil, false},
		"postponed": {at(t, next, "Once more"), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			overdue := next.AddDate(-1, 0, 0).Add(-time.Minute)
			planned := w.remind(t, diary{"given": at(t, overdue, "Once"), "other": at(t, next, "Other")}.profile(t))
			begun, finish := make(chan struct{}), make(chan struct{})
			slow := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
				close(begun)
				<-finish
				return nil
			})
			scheduler := w.run(t, almanac.Reminder{}, almanac.WithDeliverer(almanac.ChannelWebhook, slow))
			<-begun

			result, err := scheduler.UpdateUser(t.Context(), planned["given"].UserID, diary{"given": tt.now}.merge(t))
			close(finish)

			require.NoError(t, err)
			require.Equal(t, []uuid.UUID{planned["given"].ID}, result.Skipped)
			require.Empty(t, result.Added, "its successor, if any, comes when it ends")
			require.Empty(t, result.Removed)
			require.Empty(t, result.Refreshed, "the other one is untouched")
			done := w.await(t, almanac.EventCompleted)
			require.Equal(t, planned["given"].ID, done.ID)
			require.JSONEq(t, `{"name": "given", "message": "Once"}`, string(done.Payload), "as it was claimed")
			if tt.successor {
				require.Equal(t, next, w.await(t, almanac.EventCreated).Due)
			}
			require.NoError(t, w.stop())
			require.Equal(t, tt.successor, len(w.all(t)) == 3)
			result, err = scheduler.Reschedule(t.Context(), planned["given"].UserID)
			require.NoError(t, err)
			require.Empty(t, result.Added)
			require.Empty(t, result.Skipped)
		})
	}
}

func TestConcurrentMergesAllTakeEffect(t *testing.T) {
	t.Parallel()
	// Each of them waits for those before it, on a busy machine for longer than a call may take.
	store, err := postgres.New(pgtest.ReusedPool(t), postgres.WithTimeout(time.Minute))
	require.NoError(t, err)
	w := openOn(store)
	scheduler := w.scheduler(t, almanac.Reminder{})
	far := time.Now().UTC().Truncate(time.Second).AddDate(0, 6, 0)
	first := diary{"0": at(t, far, "First")}
	enrolment, err := scheduler.CreateUser(t.Context(), first.profile(t))
	require.NoError(t, err)

	const updates = 8
	var all sync.WaitGroup
	start, errs := make(chan struct{}), make(chan error, updates)
	for i := range updates {
		change := diary{fmt.Sprint(i + 1): at(t, far, "More")}.merge(t)
		all.Go(func() {
			<-start
			_, err := scheduler.UpdateUser(t.Context(), enrolment.User.ID, change)
			errs <- err
		})
	}
	close(start)
	all.Wait()

	for range updates {
		require.NoError(t, <-errs)
	}
	user, err := w.store.User(t.Context(), enrolment.User.ID)
	require.NoError(t, err)
	require.Equal(t, 1+updates, user.Version)
	appointments, err := almanac.Reminder{}.Appointments(user)
	require.NoError(t, err)
	want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8"}
	require.Equal(t, want, slices.Sorted(maps.Keys(appointments)))
	stored := w.all(t)
	require.Equal(t, want, names(stored))
	require.Len(t, stored, len(want))
	keys := make(map[almanac.IdempotencyKey]bool)
	for _, e := range stored {
		keys[e.IdempotencyKey] = true
	}
	require.Len(t, keys, len(want), "all are for one instant")
}

func TestScheduleAddsTheMissingSeriesOnly(t *testing.T) {
	t.Parallel()
	w := open(t)
	overdue := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	next := overdue.AddDate(1, 0, 0)
	planned := w.remind(t, diary{"claimed": at(t, overdue, "In flight"), "pending": at(t, next, "Here")}.profile(t))
	userID := planned["pending"].UserID
	_, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeReminder}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	// A program that knows nothing of reminders changes what they are made from.
	_, err = w.scheduler(t, almanac.Birthday{}).UpdateUser(t.Context(), userID, diary{
		"claimed": at(t, next, "Moved"), "pending": at(t, next.AddDate(1, 0, 0), "Moved"), "past": at(t, overdue, "Late"), "missing": at(t, next, "New"),
	}.merge(t))
	require.NoError(t, err)
	before := byName(w.all(t))
	scheduler := w.scheduler(t, almanac.Reminder{})

	events, err := scheduler.Schedule(t.Context(), userID, almanac.TypeReminder)

	require.NoError(t, err)
	require.Len(t, events, 3)
	require.Equal(t, []string{"claimed", "missing", "pending"}, []string{events[0].Series, events[1].Series, events[2].Series})
	require.Equal(t, before["claimed"], events[0])
	require.Equal(t, w.event(t, events[1]), events[1])
	require.Equal(t, next, events[1].Due)
	require.Equal(t, before["pending"], events[2], "what is open stays as it is")
	again, err := scheduler.Schedule(t.Context(), userID, almanac.TypeReminder)
	require.NoError(t, err)
	require.Equal(t, events, again)

	enrolment, err := scheduler.CreateUser(t.Context(), grace)
	require.NoError(t, err)
	_, err = scheduler.Schedule(t.Context(), enrolment.User.ID, almanac.TypeReminder)
	require.ErrorIs(t, err, calendar.ErrNoOccurrence)
}
