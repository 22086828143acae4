package almanac_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
	"github.com/almanac-go/almanac/ops"
)

// quiet returns the same quiet hours for every user.
func quiet(from, until int) func(almanac.User) calendar.Window {
	return func(almanac.User) calendar.Window {
		return calendartest.Quiet(fmt.Sprintf("%02d:00-%02d:00", from, until))
	}
}

func TestQuietHoursHoldLateEventsOnly(t *testing.T) {
	t.Parallel()
	open, err := calendar.ParseWindow("Mo-Sa 09:00-10:00; Su 10:00-11:00")
	require.NoError(t, err)
	sunday := calendar.Date{Year: 2000, Month: time.January, Day: 2}
	days, err := calendar.NewWorkCalendar(calendar.WorkCalendarOptions{Name: "TEST", Release: "2000-01-01", Until: sunday, Holidays: []calendar.NamedDay{{Date: sunday}}})
	require.NoError(t, err)
	weekend := func(almanac.User) calendar.Window { return open }
	holiday := func(almanac.User) calendar.Window { return open.ClosedOnHolidays(days) }
	ten := func(almanac.User) calendar.Window { return calendartest.Quiet("21:10-08:00") }
	// The retry comes within the grace, so it is late only because an attempt has failed.
	retry := almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: 10 * time.Minute}}
	for name, tt := range map[string]struct {
		execution almanac.Execution
		at        int                                // the hour of the event, on the first day, in UTC
		begin     time.Duration                      // when Run begins
		answers   []error                            // of the receiver
		users     int                                // 1 if zero
		rate      float64                            // of the lane, in starts an hour; 0 for no limit
		hours     func(almanac.User) calendar.Window // 22 to 8 if nil
		want      []time.Duration                    // when it is delivered, to the minute
	}{
		"an event on time":                {at: 23, want: []time.Duration{23 * time.Hour}},
		"a late event":                    {at: 21, begin: 23 * time.Hour, want: []time.Duration{32 * time.Hour}},
		"a late event by day":             {at: 9, begin: 12 * time.Hour, want: []time.Duration{12 * time.Hour}},
		"an event that waits for a retry": {at: 22, execution: retry, answers: []error{errBusy}, want: []time.Duration{22 * time.Hour, 32 * time.Hour}},
		"a retry that may not come after its day": {
			at: 22, answers: []error{errBusy}, want: []time.Duration{22 * time.Hour},
			execution: almanac.Execution{RetryPolicy: retry.RetryPolicy, CatchUpPolicy: almanac.CatchUp{SkipOlder: 9 * time.Hour, SkipTried: true}},
		},
		"a late event of a mandatory type": {at: 21, begin: 23 * time.Hour, execution: almanac.Execution{OverrideOptOuts: true}, want: []time.Duration{23 * time.Hour}},
		"a late event of a user without":   {at: 21, begin: 23 * time.Hour, hours: quiet(0, 0), want: []time.Duration{23 * time.Hour}},
		"an event that is too old by then": {at: 21, begin: 23 * time.Hour, execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{SkipOlder: 5 * time.Hour}}},
		"events that wait for their lane in the night for which they asked": {at: 23, users: 4, rate: 2,
			want: []time.Duration{23 * time.Hour, 23*time.Hour + 30*time.Minute, 24 * time.Hour, 24*time.Hour + 30*time.Minute}},
		"events that wait for their lane until the night": {at: 21, users: 4, rate: 1,
			want: []time.Duration{21 * time.Hour, 32 * time.Hour, 33 * time.Hour, 34 * time.Hour}},
		"events that wait for their lane into the night, within the grace": {at: 21, users: 4, rate: 10, hours: ten,
			want: []time.Duration{21 * time.Hour, 21*time.Hour + 6*time.Minute, 32 * time.Hour, 32*time.Hour + 6*time.Minute}},
		"events that are too old when their lane starts them": {at: 9, users: 4, rate: 1, execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{SkipOlder: 90 * time.Minute}},
			want: []time.Duration{9 * time.Hour, 10 * time.Hour}},
		"a late event of Saturday that waits for Sunday's hours": {at: 9, begin: 12 * time.Hour, hours: weekend, want: []time.Duration{34 * time.Hour}},
		"the same, and Sunday is a holiday":                      {at: 9, begin: 12 * time.Hour, hours: holiday},
		"an event that is not yet too old":                       {at: 21, begin: 23 * time.Hour, execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{SkipOlder: 12 * time.Hour}}, want: []time.Duration{32 * time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, r := openOn(almanactest.NewRepository(nil)), &receiver{answers: tt.answers}
				start := time.Now().UTC()
				day := calendar.WallTimeOf(start).Date
				if tt.hours == nil {
					tt.hours = quiet(22, 8)
				}
				handler := almanac.Recurring{Execution: tt.execution, Type: "TICK", Rule: func(almanac.User) (calendar.Recurrence, error) {
					return calendar.Once{At: calendar.WallTime{Date: day, Clock: calendar.Clock{Hour: tt.at}}}, nil
				}}
				inUTC := inBeirut
				inUTC.Timezone = "UTC"
				for range max(tt.users, 1) {
					_, err := w.scheduler(t, handler).CreateUser(t.Context(), inUTC)
					require.NoError(t, err)
				}
				if tt.rate > 0 {
					require.NoError(t, w.store.PutLane(t.Context(), almanac.Lane{Name: "TICK", Rate: tt.rate / 3600, Burst: 1}))
				}
				time.Sleep(tt.begin)

				w.run(t, handler, almanac.WithPoll(time.Minute), almanac.WithSweep(time.Minute), almanac.WithWindow(tt.hours), almanac.WithMissedGrace(15*time.Minute), almanac.WithDeliverer(almanac.ChannelWebhook, r))
				time.Sleep(36*time.Hour - tt.begin)
				require.NoError(t, w.stop())

				var got []time.Duration
				for i, d := range r.deliveries() {
					if tt.users == 0 {
						require.Equal(t, i+1, d.Attempt, "a postponement counts no attempt")
					}
					got = append(got, d.At.Sub(start).Truncate(time.Minute))
				}
				require.Equal(t, tt.want, got)
			})
		})
	}
}

// An event that waits for the end of the quiet hours stays made due, unless an edit concerns it.
func TestEditsLeaveAnEventThatWasMadeDue(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit  func(almanac.Scheduler, uuid.UUID) (almanac.UpdateUserResult, error)
		stays bool
	}{
		"an opt-out of another type": {func(s almanac.Scheduler, id uuid.UUID) (almanac.UpdateUserResult, error) {
			return s.OptOut(context.Background(), id, almanac.OptOut{Type: "ANOTHER"})
		}, true},
		"another name": {func(s almanac.Scheduler, id uuid.UUID) (almanac.UpdateUserResult, error) {
			return s.UpdateUser(context.Background(), id, almanac.ProfileChange{FirstName: ptr("Augusta")})
		}, true},
		"another birthday": {func(s almanac.Scheduler, id uuid.UUID) (almanac.UpdateUserResult, error) {
			return s.UpdateUser(context.Background(), id, almanac.ProfileChange{DateOfBirth: ptr(time.Now().AddDate(-20, 0, 200).Format(time.DateOnly))})
		}, false},
		"another zone": {func(s almanac.Scheduler, id uuid.UUID) (almanac.UpdateUserResult, error) {
			return s.UpdateUser(context.Background(), id, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")})
		}, false},
		"a reschedule": {func(s almanac.Scheduler, id uuid.UUID) (almanac.UpdateUserResult, error) {
			return s.Reschedule(context.Background(), id)
		}, false},
	} {
		for where, repository := range onBoth {
			t.Run(name+", "+where, func(t *testing.T) {
				t.Parallel()
				w := openOn(repository(t))
				allDay := almanac.WithWindow(func(almanac.User) calendar.Window {
					now := time.Now().UTC().Add(-time.Hour)
					return calendartest.Quiet(fmt.Sprintf("%02d:00-%02d:00", now.Hour(), (now.Hour()+3)%24))
				})
				s := w.scheduler(t, almanac.Birthday{}, allDay)
				created, err := s.CreateUser(t.Context(), born(t, "UTC", 100))
				require.NoError(t, err)
				made, err := s.RunNow(t.Context(), created.Events[0].ID, almanac.ForceOptions{})
				require.NoError(t, err)
				require.True(t, made.Due.After(time.Now()), "it waits for the end of the quiet hours")
				require.True(t, made.Due.Before(created.Events[0].Due))

				edited, err := tt.edit(s, created.User.ID)
				require.NoError(t, err)
				is, err := w.store.Event(t.Context(), made.ID)
				require.NoError(t, err)
				require.Equal(t, tt.stays, is.Due.Equal(made.Due), "%v", edited)
				require.Equal(t, tt.stays, is.Wall == made.Wall)
				if tt.stays {
					require.Empty(t, edited.Moved)
					require.Contains(t, string(is.Payload), edited.User.FirstName)
				}
			})
		}
	}
}

// A name edit after a deployment, or an edit of the user's own lead time, on the day before the announcement.
func TestAnEditMovesAnAnnouncementToItsNewTime(t *testing.T) {
	t.Parallel()
	announced := func(lead func(almanac.User) int) almanac.Recurring {
		return almanac.Recurring{Type: "SOON", Rule: func(u almanac.User) (calendar.Recurrence, error) {
			nine := calendar.Clock{Hour: 9}
			return calendar.Offset{Of: calendar.Yearly{Month: time.January, Day: 8, At: nine}, Days: -lead(u), At: nine}, nil
		}}
	}
	always := func(days int) func(almanac.User) int { return func(almanac.User) int { return days } }
	ofLocale := func(u almanac.User) int { return len(u.Locale) + 1 } // 6 of de-DE, 3 of de
	for name, tt := range map[string]struct {
		before, after func(almanac.User) int
		change        almanac.ProfileChange
		want          string // the wall time of the event then
	}{
		"a deployment, then a name":        {always(6), always(4), almanac.ProfileChange{FirstName: ptr("Augusta")}, "2000-01-04T09:00:00"},
		"another lead":                     {ofLocale, ofLocale, almanac.ProfileChange{Locale: ptr("de")}, "2000-01-05T09:00:00"},
		"another lead, whose time is past": {always(6), always(7), almanac.ProfileChange{FirstName: ptr("Augusta")}, "2001-01-01T09:00:00"},
	} {
		for _, option := range []almanac.Option{almanac.WithWindow(nil), almanac.WithWindow(quiet(22, 8))} {
			synctest.Test(t, func(t *testing.T) {
				w, p := openOn(almanactest.NewRepository(nil)), grace
				p.Timezone, p.Locale = "UTC", "de-DE"
				time.Sleep(12 * time.Hour) // noon of 1 January 2000
				created, err := w.scheduler(t, announced(tt.before), option).CreateUser(t.Context(), p)
				require.NoError(t, err)
				require.Equal(t, "2000-01-02T09:00:00", created.Events[0].Wall.String())

				edited, err := w.scheduler(t, announced(tt.after), option).UpdateUser(t.Context(), created.User.ID, tt.change)
				require.NoError(t, err)
				var walls []string
				for _, e := range append(edited.Moved, edited.Added...) {
					walls = append(walls, e.Wall.String())
				}
				require.Equal(t, []string{tt.want}, walls, name)
				require.Empty(t, edited.Refreshed, name)
			})
		}
	}
}

func TestRunNowWaitsForTheEndOfQuietHours(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		begin   time.Duration // when an operator runs the event
		options almanac.ForceOptions
		handler almanac.Execution
		want    time.Duration // when it is delivered
	}{
		"by day":               {begin: 12 * time.Hour, want: 12 * time.Hour},
		"at night":             {begin: 23 * time.Hour, want: 32 * time.Hour},
		"at night, by force":   {begin: 23 * time.Hour, options: almanac.ForceOptions{Force: true}, want: 23 * time.Hour},
		"at night, if it must": {begin: 23 * time.Hour, handler: almanac.Execution{OverrideOptOuts: true}, want: 23 * time.Hour},
	} {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in bulk: %v", name, many), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w, r := openOn(almanactest.NewRepository(nil)), new(receiver)
					start := time.Now().UTC()
					handler := almanac.Recurring{Execution: tt.handler, Type: "TICK", Rule: func(almanac.User) (calendar.Recurrence, error) {
						return calendar.Once{At: calendar.WallTimeOf(start.AddDate(0, 0, 7))}, nil
					}}
					inUTC := inBeirut
					inUTC.Timezone = "UTC"
					s := w.run(t, handler, almanac.WithPoll(time.Minute), almanac.WithSweep(time.Minute), almanac.WithWindow(quiet(22, 8)), almanac.WithDeliverer(almanac.ChannelWebhook, r))
					created, err := s.CreateUser(t.Context(), inUTC)
					require.NoError(t, err)
					time.Sleep(tt.begin)

					if many {
						done, err := ops.Operate(t.Context(), s, ops.RunNow, nil, ops.OperateOptions{RunNow: tt.options})
						require.NoError(t, err)
						require.Len(t, done.Events, 1)
					} else {
						_, err = s.RunNow(t.Context(), created.Events[0].ID, tt.options)
						require.NoError(t, err)
					}
					time.Sleep(10 * time.Hour)
					require.NoError(t, w.stop())

					require.Len(t, r.deliveries(), 1)
					require.Equal(t, tt.want, r.deliveries()[0].At.Sub(start).Truncate(time.Minute))
				})
			})
		}
	}
}

// A birthday keeps its day, and an announcement its distance, whatever the hour.
func TestBirthdaysAreGreetedOutsideOfQuietHours(t *testing.T) {
	t.Parallel()
	u := almanactest.User(almanactest.BornOn("1990-03-15"), almanactest.LivingIn("UTC"))
	for name, tt := range map[string]struct {
		at, before int
		want       string
	}{
		"by day":                   {9, 0, "2027-03-15T09:00:00"},
		"early":                    {6, 0, "2027-03-15T08:00:00"},
		"late":                     {23, 0, "2027-03-15T08:00:00"},
		"early, three days before": {6, 3, "2027-03-12T08:00:00"},
		"late, three days before":  {23, 3, "2027-03-12T08:00:00"},
	} {
		at := func(almanac.User) calendar.Clock { return calendar.Clock{Hour: tt.at} }
		greets, remembers := almanac.Birthday{At: at, Before: tt.before, Window: quiet(22, 8)}, almanac.Anniversary{At: at, Before: tt.before, Window: quiet(22, 8)}
		birthday, err := greets.Next(u, instant(t, "2027-01-01T00:00:00Z"))
		require.NoError(t, err, name)
		require.Equal(t, tt.want, birthday.Wall.String(), name)
		require.Equal(t, "2027", birthday.Key, name)
		require.Equal(t, tt.at != 9, birthday.Move != calendar.Move{}, name)

		u.Attributes = []byte(`{"anniversary": "2020-03-15"}`)
		anniversary, err := remembers.Next(u, instant(t, "2027-01-01T00:00:00Z"))
		require.NoError(t, err, name)
		require.Equal(t, birthday.Wall, anniversary.Wall, name)
		for h, o := range map[almanac.EventHandler]calendar.Occurrence{&greets: birthday, &remembers: anniversary} {
			text, err := h.Payload(u, almanac.Occurrence{Occurrence: o})
			require.NoError(t, err, name)
			var payload map[string]any
			require.NoError(t, json.Unmarshal(text, &payload))
			reason, says := payload["reason"]
			require.Equal(t, tt.at != 9, says, "%s: only if it was moved", name)
			require.True(t, !says || strings.HasSuffix(reason.(string), " because of quiet hours"), text)
		}
	}
}

// Where the window does not open on a day, the announcement is later and says so.
func TestAnAnnouncementOnAClosedDayIsOfFewerDays(t *testing.T) {
	t.Parallel()
	u := almanactest.User(almanactest.BornOn("1990-03-16"), almanactest.LivingIn("UTC"))
	open, err := calendar.ParseWindow("Mo-Fr 08:00-18:00")
	require.NoError(t, err)
	h := almanac.Birthday{Before: 2, Window: func(almanac.User) calendar.Window { return open }}
	next, err := h.Next(u, instant(t, "2027-01-01T00:00:00Z"))
	require.NoError(t, err)
	require.Equal(t, "2027-03-15T09:00:00", next.Wall.String(), "not on Sunday")
	payload, err := h.Payload(u, almanac.Occurrence{Occurrence: next})
	require.NoError(t, err)
	require.JSONEq(t, `{"message": "Hey, Ada Lovelace it's your birthday tomorrow", "date": "2027-03-16", "daysBefore": 1,
		"reason": "moved from Sunday 14 March to Monday 15 March because of closed hours"}`, string(payload))
}

// A user was born in the leap month of 1992, and the next year lacks it.
func TestAPayloadSaysWhyABirthdayByAnotherCalendarWasMoved(t *testing.T) {
	t.Parallel()
	u := almanactest.User()
	u.DateOfBirth = bornBy(t, "1992-05L-08", lunarName)
	for name, tt := range map[string]struct {
		h    almanac.Birthday
		want string
	}{
		"on the day":  {almanac.Birthday{}, "8 Leap Moon 5 moved to 8 Moon 6"},
		"before":      {almanac.Birthday{Before: 2}, "8 Leap Moon 5 moved to 8 Moon 6"},
		"at midnight": {almanac.Birthday{At: func(almanac.User) calendar.Clock { return calendar.Clock{} }, Window: quiet(22, 8)}, "8 Leap Moon 5 moved to 8 Moon 6; moved from 00:00 to 08:00 because of quiet hours"},
	} {
		o, err := tt.h.Next(u, instant(t, "1993-03-01T00:00:00Z"))
		require.NoError(t, err, name)
		text, err := tt.h.Payload(u, almanac.Occurrence{Occurrence: o})
		require.NoError(t, err, name)
		var payload struct{ Reason string }
		require.NoError(t, json.Unmarshal(text, &payload))
		require.Equal(t, tt.want, payload.Reason, name)
	}
}

// The days are counted although the user wants another time of day since the announcement was planned.
func TestAnAnnouncementCountsDaysAtAnotherTimeOfDay(t *testing.T) {
	t.Parallel()
	u := almanactest.User(almanactest.BornOn("1990-03-16"), almanactest.LivingIn("UTC"))
	open, err := calendar.ParseWindow("Mo-Fr 08:00-18:00")
	require.NoError(t, err)
	h := almanac.Birthday{Before: 2, Window: func(almanac.User) calendar.Window { return open }}
	next, err := h.Next(u, instant(t, "2027-01-01T00:00:00Z"))
	require.NoError(t, err)
	h.At = func(almanac.User) calendar.Clock { return calendar.Clock{Hour: 10} }
	payload, err := h.Payload(u, almanac.Occurrence{Occurrence: next})
	require.NoError(t, err)
	require.Contains(t, string(payload), `"daysBefore":1`)
}

// A long window is cut, and two that differ at their ends stay different.
func TestALongWindowIsStoredAsATextWithinItsBound(t *testing.T) {
	t.Parallel()
	var values []string
	for _, last := range []string{"22:30-22:31", "22:30-22:32"} {
		var text strings.Builder
		for hour := range 22 {
			fmt.Fprintf(&text, "Mo-Fr %02d:00-%02d:30,", hour, hour)
		}
		long, err := calendar.ParseWindow(strings.ReplaceAll(text.String(), ",Mo-Fr ", ",") + last)
		require.NoError(t, err)
		w := openOn(almanactest.NewRepository(nil))
		s := w.scheduler(t, almanac.Birthday{}, almanac.WithWindow(func(almanac.User) calendar.Window { return long }), almanac.WithDeliverer(almanac.ChannelWebhook, new(receiver)))
		_, err = s.RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.NoError(t, err)
		stored := w.quietHours(t).Value
		require.LessOrEqual(t, len(stored), 200)
		values = append(values, stored)
	}
	require.NotEqual(t, values[0], values[1])
}

// quietHours returns the stored setting, or zero.
func (w *world) quietHours(t *testing.T) almanac.Setting {
	t.Helper()
	all, err := w.store.Settings(t.Context())
	require.NoError(t, err)
	i := slices.IndexFunc(all, func(one almanac.Setting) bool { return one.Name == "quiet hours" })
	if i < 0 {
		return almanac.Setting{}
	}
	return all[i]
}

// A program stores its quiet hours, and logs a warning if another program stored others.
// A program without quiet hours makes no event due in those of others, unless it is forced.
func TestQuietHoursAreTheSameInAllPrograms(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			handler := almanac.Birthday{}
			with := func(log *slog.Logger, options ...almanac.Option) almanac.Scheduler {
				return w.scheduler(t, handler, append(options, almanac.WithLogger(log), almanac.WithDeliverer(almanac.ChannelWebhook, new(receiver)))...)
			}
			silent := slog.New(slog.DiscardHandler)
			bare := with(silent)
			created, err := bare.CreateUser(t.Context(), grace)
			require.NoError(t, err)
			id := created.Events[0].ID
			refused := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, almanac.ErrInvalid)
				require.ErrorContains(t, err, "force is required, because this program does not have the quiet hours (outside Mo-Su 08:00-22:00) of ")
			}

			_, err = with(silent).RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.NoError(t, err)
			require.Zero(t, w.quietHours(t), "nothing to agree on")

			var log strings.Builder
			logged := slog.New(slog.NewTextHandler(&log, nil))
			_, err = with(logged, almanac.WithWindow(quiet(22, 8))).RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.NoError(t, err)
			require.NotContains(t, log.String(), "programs have different quiet hours")
			_, err = bare.RunNow(t.Context(), id, almanac.ForceOptions{})
			refused(err)
			_, err = ops.Operate(t.Context(), bare, ops.RunNow, almanac.ForUser(created.User.ID), ops.OperateOptions{})
			refused(err)
			require.Equal(t, created.Events[0], w.event(t, created.Events[0]), "nothing is changed")

			_, err = with(logged).RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.NoError(t, err)
			require.Contains(t, log.String(), `msg="programs have different quiet hours" quiet_hours="" stored="outside Mo-Su 08:00-22:00"`)
			_, err = bare.RunNow(t.Context(), id, almanac.ForceOptions{})
			require.NoError(t, err, "no program that delivers has quiet hours")

			ctx, stop := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- with(silent, almanac.WithWindow(quiet(21, 7))).Run(ctx) }()
			require.Eventually(t, func() bool {
				return w.quietHours(t).Value == "outside Mo-Su 07:00-21:00"
			}, 10*time.Second, 10*time.Millisecond, "Run stores them too")
			stop()
			require.NoError(t, <-ran)
		})
	}
}

// inHours returns a handler of a daily event at 09:00, within hours of the day, that is spread.
func inHours(t *testing.T, hours string, spread time.Duration) almanac.Recurring {
	t.Helper()
	open, err := calendar.ParseWindow(hours)
	require.NoError(t, err)
	return almanac.Recurring{Execution: almanac.Execution{Spread: spread}, Type: "TICK", Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Within{Of: calendar.Daily{At: calendar.Clock{Hour: 9}}, Window: open}, nil
	}}
}

// The start does not leave the interval in which the slot lies, and lies in all of what is left of it.
func TestASpreadStaysInItsWindow(t *testing.T) {
	t.Parallel()
	for hours, ends := range map[string]time.Duration{"09:00-09:30": 30 * time.Minute, "08:00-09:15,09:20-12:00": 15 * time.Minute, "10:00-22:00": 3 * time.Hour} {
		handler := inHours(t, hours, 3*time.Hour)
		var earliest, latest time.Duration = ends, 0
		for i := range 200 {
			u := almanactest.User(almanactest.LivingIn("Europe/Berlin"), almanactest.WithUserID(uuid.UUID{15: byte(i)}))
			next, err := handler.Next(u, instant(t, "2027-01-01T00:00:00Z"))
			require.NoError(t, err)
			e, err := almanac.NewEvent(u, handler, almanac.Occurrence{Occurrence: next})
			require.NoError(t, err)
			by := e.FirstAvailable().Sub(e.Due)
			require.Less(t, by, ends, hours)
			require.Equal(t, almanac.SeriesOf(e).Spread(u.ID, ends), by, "the formula is that of what is left")
			earliest, latest = min(earliest, by), max(latest, by)
		}
		require.Less(t, earliest, ends/10, hours)
		require.Greater(t, latest, ends-ends/10, hours)
	}
}

// A new user gets the event of today if its start is still to come, and not one that has passed.
func TestASpreadInAWindowPlansNothingThatHasPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		s := w.scheduler(t, inHours(t, "09:00-10:00", 2*time.Hour))
		time.Sleep(9*time.Hour + 30*time.Minute)
		now, days := time.Now(), map[int]int{}
		for range 100 {
			p := inBeirut
			p.Timezone = "UTC"
			created, err := s.CreateUser(t.Context(), p)
			require.NoError(t, err)
			e := created.Events[0]
			by := almanac.SeriesOf(e).Spread(e.UserID, time.Hour)
			require.Equal(t, by, e.FirstAvailable().Sub(e.Due))
			require.True(t, e.FirstAvailable().After(now), e.OccurrenceKey)
			require.Equal(t, by > 30*time.Minute, e.Due.Day() == now.Day(), fmt.Sprint(by))
			ahead, err := s.Preview(t.Context(), e.UserID, "TICK", 1)
			require.NoError(t, err)
			require.Equal(t, e.FirstAvailable(), ahead.Ahead[0].Available)
			days[e.Due.Day()]++
		}
		require.Len(t, days, 2)
	})
}
