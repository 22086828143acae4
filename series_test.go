package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// series is a handler whose occurrences are the seconds that a test lists, in UTC.
type series struct {
	almanac.Execution
	eventType string
	seconds   []time.Time // ascending
	execute   func(ctx context.Context, d almanac.Delivery) error
}

func (s series) EventType() string { return s.eventType }

func (s series) Next(_ almanac.User, after time.Time) (calendar.Occurrence, error) {
	i := slices.IndexFunc(s.seconds, func(t time.Time) bool { return t.After(after) })
	if i < 0 {
		return calendar.Occurrence{}, calendar.ErrNoOccurrence
	}
	utc, err := calendar.LoadTimezone("UTC")
	wall := calendar.WallTimeOf(s.seconds[i].UTC())
	return calendar.Occurrence{Key: wall.String(), Wall: wall, Zone: utc}, err
}

func (s series) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"message": u.FirstName + " at " + o.Key})
}

func (series) Channel(almanac.Event) almanac.Channel { return "test" }

func (s series) Execute(ctx context.Context, d almanac.Delivery) error { return s.execute(ctx, d) }

var grace = almanac.Profile{FirstName: "Grace", LastName: "Hopper", DateOfBirth: "1990-12-09", Timezone: "America/New_York"}

// storeEvent stores a user with the first event of a series, which may be long overdue.
func storeEvent(t *testing.T, r almanac.Repository, s almanac.EventHandler) almanac.Event {
	t.Helper()
	now, err := r.Now(t.Context())
	require.NoError(t, err)
	u, err := almanac.NewUser(grace, now)
	require.NoError(t, err)
	o, err := s.Next(u, time.Time{})
	require.NoError(t, err)
	e, err := almanac.NewEvent(u, s, almanac.Occurrence{Occurrence: o})
	require.NoError(t, err)
	_, events, err := almanactest.CreateUser(t.Context(), r, u, e)
	require.NoError(t, err)
	return events[0]
}

// world is a repository with a scheduler that runs until the test ends.
type world struct {
	store   almanac.Repository
	notices chan almanac.Notice
	stop    func() error // stops the scheduler and returns what Run did
}

// open prepares a database; run starts a scheduler on it.
func open(t *testing.T) *world {
	t.Helper()
	return openOn(openPostgres(t))
}

func openOn(r almanac.Repository) *world {
	return &world{store: r, notices: make(chan almanac.Notice, 1000)}
}

func openPostgres(t *testing.T) almanac.Repository {
	t.Helper()
	store, err := postgres.New(pgtest.ReusedPool(t))
	require.NoError(t, err)
	return store
}

// onBoth are the repositories that must do the same: the one for production and
// the one for tests.
var onBoth = map[string]func(*testing.T) almanac.Repository{
	"on Postgres": openPostgres,
	"in memory":   func(*testing.T) almanac.Repository { return almanactest.NewRepository(nil) },
}

func (w *world) scheduler(t *testing.T, handler almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	return w.schedulerOf(t, []almanac.EventHandler{handler}, options...)
}

func (w *world) schedulerOf(t *testing.T, handlers []almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	registry, err := almanac.NewRegistry(handlers...)
	require.NoError(t, err)
	options = append(options, almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { w.notices <- n })))
	scheduler, err := almanac.NewScheduler(w.store, registry, options...)
	require.NoError(t, err)
	return scheduler
}

func (w *world) run(t *testing.T, handler almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	return w.runAll(t, []almanac.EventHandler{handler}, options...)
}

func (w *world) runAll(t *testing.T, handlers []almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	scheduler := w.schedulerOf(t, handlers, options...)
	ctx, cancel := context.WithCancel(t.Context())
	var result error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result = scheduler.Run(ctx)
	}()
	w.stop = func() error {
		cancel()
		<-ended
		return result
	}
	t.Cleanup(func() { _ = w.stop() })
	return scheduler
}

// await returns the next notice of a kind.
func (w *world) await(t *testing.T, kind almanac.NoticeKind) almanac.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		select {
		case n := <-w.notices:
			if n.Kind == kind {
				return n.Event
			}
		case <-ctx.Done():
			require.Fail(t, "no notice came", "waiting for %s", kind)
		}
	}
}

func (w *world) event(t *testing.T, e almanac.Event) almanac.Event {
	t.Helper()
	stored, err := w.store.Event(t.Context(), e.ID)
	require.NoError(t, err)
	return stored
}

// ago returns whole seconds in the past, oldest first.
func ago(ds ...time.Duration) []time.Time {
	now := time.Now().UTC().Truncate(time.Second)
	seconds := make([]time.Time, len(ds))
	for i, d := range ds {
		seconds[i] = now.Add(-d)
	}
	return seconds
}

const nextYear = -365 * 24 * time.Hour // as an age

// choir is a handler with a series for each voice that a user sings, all at the
// same seconds. It leaves it to the library to know which voices there still are.
type choir struct{ series }

func (c choir) Series(u almanac.User) ([]string, error) {
	var facts struct{ Voices []string }
	err := json.Unmarshal(u.Attributes, &facts)
	return facts.Voices, err
}

func (c choir) NextIn(u almanac.User, _ string, after time.Time) (calendar.Occurrence, error) {
	return c.Next(u, after)
}

// sing stores a singer of two voices with their first events, which are overdue.
func (w *world) sing(t *testing.T, c choir) map[string]almanac.Event {
	t.Helper()
	now, err := w.store.Now(t.Context())
	require.NoError(t, err)
	p := grace
	p.Attributes = json.RawMessage(`{"voices": ["bass", "alto"]}`)
	u, err := almanac.NewUser(p, now)
	require.NoError(t, err)
	var events []almanac.Event
	for _, voice := range []string{"alto", "bass"} {
		o, err := c.NextIn(u, voice, time.Time{})
		require.NoError(t, err)
		e, err := almanac.NewEvent(u, c, almanac.Occurrence{Occurrence: o, Series: voice})
		require.NoError(t, err)
		events = append(events, e)
	}
	_, events, err = almanactest.CreateUser(t.Context(), w.store, u, events...)
	require.NoError(t, err)
	return byName(events)
}

// pending returns those of the events that wait.
func pending(events []almanac.Event) []almanac.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e almanac.Event) bool { return e.Status != almanac.Pending })
}

func TestEachSeriesContinuesIndependently(t *testing.T) {
	t.Parallel()
	w, r := open(t), &receiver{answers: []error{almanac.Permanent(errors.New("HTTP 404"))}}
	handler := choir{series{eventType: "CHOIR", seconds: ago(time.Minute, nextYear), execute: r.Deliver}}
	planned := w.sing(t, handler)

	w.run(t, handler, almanac.WithWorkers(1))
	failed := w.await(t, almanac.EventFailed)
	require.Equal(t, handler.seconds[1], w.await(t, almanac.EventCreated).Due)
	done := w.await(t, almanac.EventCompleted)
	require.Equal(t, handler.seconds[1], w.await(t, almanac.EventCreated).Due)
	require.NoError(t, w.stop())

	require.ElementsMatch(t, []uuid.UUID{planned["alto"].ID, planned["bass"].ID}, []uuid.UUID{failed.ID, done.ID})
	stored := w.all(t)
	require.Len(t, stored, 4)
	keys := make(map[almanac.IdempotencyKey]bool)
	for _, e := range stored {
		keys[e.IdempotencyKey] = true
	}
	require.Len(t, keys, 4, "two and two are for one instant")
	after := byName(pending(stored))
	require.Len(t, after, 2)
	for voice, e := range after {
		require.Equal(t, almanac.Pending, e.Status)
		require.Greater(t, e.OccurrenceKey, planned[voice].OccurrenceKey)
	}
}

func TestASeriesRemovedInFlightEnds(t *testing.T) {
	t.Parallel()
	w := open(t)
	begun, finish := make(chan struct{}), make(chan struct{})
	handler := choir{series{eventType: "CHOIR", seconds: ago(time.Minute, nextYear), execute: func(context.Context, almanac.Delivery) error {
		begun <- struct{}{}
		<-finish
		return nil
	}}}
	planned := w.sing(t, handler)
	scheduler := w.run(t, handler)
	<-begun
	<-begun

	result, err := scheduler.UpdateUser(t.Context(), planned["bass"].UserID, almanac.ProfileChange{Merge: json.RawMessage(`{"voices": ["alto"]}`)})
	require.NoError(t, err)
	require.ElementsMatch(t, []uuid.UUID{planned["alto"].ID, planned["bass"].ID}, result.Skipped)
	close(finish)
	w.await(t, almanac.EventCompleted)
	w.await(t, almanac.EventCompleted)
	require.NoError(t, w.stop())

	stored := w.all(t)
	require.Len(t, stored, 3)
	after := pending(stored)
	require.Equal(t, []string{"alto"}, names(after))
	require.Equal(t, handler.seconds[1], after[0].Due)
	result, err = scheduler.UpdateUser(t.Context(), planned["bass"].UserID, almanac.ProfileChange{Merge: json.RawMessage(`{"voices": ["bass"]}`)})
	require.NoError(t, err)
	require.Equal(t, []string{"bass"}, names(result.Added), "sung once more")
	require.Equal(t, []string{"alto"}, names(result.Removed))
}

// usedAt returns what a series has used: the key of a unit, its nominal wall time, and when
// its event ended. An empty end is the nominal wall time.
func usedAt(t *testing.T, unit calendar.Unit, key, nominal, ended string) almanac.UsedKeys {
	t.Helper()
	k := almanac.UsedKey{Unit: unit, Key: key, Nominal: wallTime(t, nominal)}
	k.Ended = k.Nominal
	if ended != "" {
		k.Ended = wallTime(t, ended)
	}
	return almanac.UsedKeys{k}
}

func wallTime(t *testing.T, text string) calendar.WallTime {
	t.Helper()
	w, err := calendar.ParseWallTime(text)
	require.NoError(t, err)
	return w
}

// The table of docs/adr/0065-used-days.md: what a changed rule delivers next. Without a
// zone, the user is in UTC.
func TestAChangedRuleNeitherRepeatsNorLosesAnOccurrence(t *testing.T) {
	t.Parallel()
	const day, month, year, at, text = calendar.UnitDay, calendar.UnitMonth, calendar.UnitYear, calendar.UnitTime, calendar.UnitText
	clock := func(hour int) calendar.Clock { return calendar.Clock{Hour: hour} }
	daily := func(hour int) calendar.Recurrence { return calendar.Daily{At: clock(hour)} }
	monthly := func(d int) calendar.Recurrence { return calendar.Monthly{Day: d, At: clock(9)} }
	yearly := func(m time.Month, d, hour int) calendar.Recurrence {
		return calendar.Yearly{Month: m, Day: d, At: clock(hour)}
	}
	cron := func(text string) calendar.Recurrence {
		c, err := calendar.ParseCron(text)
		require.NoError(t, err)
		return c
	}
	rrule := func(text string) calendar.Recurrence {
		r, err := calendar.ParseRRule(text, wallTime(t, "2026-01-01T09:00:00"))
		require.NoError(t, err)
		return r
	}
	christmas := yearly(time.December, 25, 9)
	tests := map[string]struct {
		used almanac.UsedKeys
		now  string
		rule calendar.Recurrence
		zone string
		next string
	}{
		"1: a day, then a year later in the year":      {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", christmas, "", "2026-12-25T09:00:00"},
		"2: a day, then a month later in the month":    {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", monthly(28), "", "2026-11-28T09:00:00"},
		"3: a day, then a year on the same day":        {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", yearly(time.November, 26, 18), "", "2027-11-26T18:00:00"},
		"4: the day before, then a year on this day":   {usedAt(t, day, "2026-11-25", "2026-11-25T09:00:00", ""), "2026-11-26T08:00:00", yearly(time.November, 26, 18), "", "2026-11-26T18:00:00"},
		"5: a day, then hourly":                        {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", cron("0 * * * *"), "", "2026-11-26T11:00:00"},
		"6: an hour, then daily":                       {usedAt(t, at, "2026-11-26T14:00:00", "2026-11-26T14:00:00", ""), "2026-11-26T14:30:00", daily(20), "", "2026-11-27T20:00:00"},
		"7: a day of a rule, then twice a day":         {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", rrule("FREQ=DAILY;BYHOUR=9,18"), "", "2026-11-26T18:00:00"},
		"8: twice a day, then once":                    {usedAt(t, at, "2026-11-26T18:00:00", "2026-11-26T18:00:00", ""), "2026-11-26T19:00:00", rrule("FREQ=DAILY;BYHOUR=20"), "", "2026-11-27T20:00:00"},
		"10: a day, then a later hour":                 {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", daily(18), "", "2026-11-27T18:00:00"},
		"11: a month, then a later day of the month":   {usedAt(t, month, "2026-11", "2026-11-28T09:00:00", ""), "2026-11-29T10:00:00", monthly(30), "", "2026-12-30T09:00:00"},
		"12: a month, then weekly":                     {usedAt(t, month, "2026-11", "2026-11-28T09:00:00", ""), "2026-11-29T10:00:00", calendar.Weekly{On: []time.Weekday{time.Monday}, At: clock(9)}, "", "2026-11-30T09:00:00"},
		"13: a birth date corrected to later":          {usedAt(t, year, "2026", "2026-03-15T09:00:00", ""), "2026-11-20T10:00:00", yearly(time.December, 20, 9), "", "2027-12-20T09:00:00"},
		"14: a birth date corrected to earlier":        {usedAt(t, year, "2026", "2026-12-20T09:00:00", ""), "2026-12-21T10:00:00", yearly(time.March, 15, 9), "", "2027-03-15T09:00:00"},
		"15: an announcement, then monthly":            {usedAt(t, year, "2026", "2026-12-25T09:00:00", "2026-11-25T09:00:00"), "2026-11-25T10:00:00", monthly(28), "", "2026-11-28T09:00:00"},
		"16: an announcement, then a later one":        {usedAt(t, year, "2026", "2026-12-25T09:00:00", "2026-11-25T09:00:00"), "2026-11-25T10:00:00", calendar.Offset{Of: christmas, Days: -3, At: clock(9)}, "", "2027-12-22T09:00:00"},
		"17: run before its time, then monthly":        {usedAt(t, year, "2027", "2027-03-15T09:00:00", "2026-12-01T12:00:00"), "2026-12-01T13:00:00", monthly(15), "", "2026-12-15T09:00:00"},
		"24: two years that begin in one":              {usedAt(t, "year:persian", "1406", "2028-01-01T09:00:00", ""), "2028-01-01T10:00:00", listed("persian", "1406 2028-01-01", "1407 2028-12-31"), "", "2028-12-31T09:00:00"},
		"26: a moved slot, then daily":                 {usedAt(t, month, "2026-10", "2026-10-31T09:00:00", "2026-11-02T09:00:00"), "2026-11-02T10:00:00", daily(18), "", "2026-11-03T18:00:00"},
		"27: a day in Tokyo, then in Los Angeles":      {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T01:00:00", daily(9), "America/Los_Angeles", "2026-11-27T09:00:00"},
		"28: a late day, then monthly":                 {usedAt(t, day, "2026-11-01", "2026-11-01T09:00:00", "2026-11-26T12:00:00"), "2026-11-01T09:00:00", monthly(15), "", "2026-11-15T09:00:00"},
		"29: a cron expression, then another":          {usedAt(t, day, "2026-11-16", "2026-11-16T09:00:00", ""), "2026-11-16T10:00:00", cron("0 9 20 * *"), "", "2026-11-20T09:00:00"},
		"30: a text, then daily":                       {usedAt(t, text, "order-7", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", daily(18), "", "2026-11-27T18:00:00"},
		"32: a pending day, whose new time has passed": {usedAt(t, day, "2026-11-25", "2026-11-25T18:00:00", ""), "2026-11-26T15:00:00", daily(14), "", "2026-11-27T14:00:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone := calendar.StoredTimezone("UTC")
			if tt.zone != "" {
				zone = calendar.StoredTimezone(tt.zone)
			}
			for o, err := range calendar.Occurrences(tt.rule, zone, calendar.Policies{}, wallTime(t, tt.now).Labelled()) {
				require.NoError(t, err)
				if !tt.used.Has(o) {
					require.Equal(t, tt.next, o.Wall.String())
					return
				}
			}
			t.Error("no occurrence is left")
		})
	}
}

// blocking is a handler of daily events whose code waits for done, for users named Blocked,
// while on is true.
type blocking struct {
	almanac.Recurring
	where string // series, next, payload or quiet hours
	on    *atomic.Bool
	done  chan struct{}
	end   func() // closes done once
}

func newBlocking(where string) blocking {
	daily := almanac.Recurring{Type: "DAILY", Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Daily{At: calendar.Clock{Hour: 9}}, nil
	}}
	done := make(chan struct{})
	return blocking{daily, where, new(atomic.Bool), done, sync.OnceFunc(func() { close(done) })}
}

// with returns a scheduler, and a user for each of the last names.
func (h blocking) with(t *testing.T, names ...string) (almanac.Scheduler, map[string]almanac.UserWithEvents) {
	registry, err := almanac.NewRegistry(h)
	require.NoError(t, err)
	s, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry, almanac.WithWindow(h.quietHours))
	require.NoError(t, err)
	users := make(map[string]almanac.UserWithEvents)
	for _, last := range names {
		users[last], err = s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: last, DateOfBirth: "1990-01-02", Timezone: "UTC"})
		require.NoError(t, err)
	}
	return s, users
}

func (h blocking) wait(where string, u almanac.User) {
	if h.on.Load() && h.where == where && u.LastName == "Blocked" {
		<-h.done
	}
}

func (h blocking) Series(u almanac.User) ([]string, error) {
	h.wait("series", u)
	return []string{"one"}, nil
}

func (h blocking) NextIn(u almanac.User, _ string, after time.Time) (calendar.Occurrence, error) {
	h.wait("next", u)
	return h.Next(u, after)
}

func (h blocking) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	h.wait("payload", u)
	return h.Recurring.Payload(u, o)
}

func (h blocking) quietHours(u almanac.User) calendar.Window {
	h.wait("quiet hours", u)
	return calendar.Window{}
}

// An operation that calls the host's planning code for a user with one event.
type planningCall struct {
	where []string // the code that it calls
	call  func(ctx context.Context, s almanac.Scheduler, u almanac.User, e almanac.Event) error
}

var (
	anyPlan = []string{"series", "next", "payload"}

	planningCalls = map[string]planningCall{
		"CreateUser": {anyPlan, func(ctx context.Context, s almanac.Scheduler, u almanac.User, _ almanac.Event) error {
			_, err := s.CreateUser(ctx, profileOf(u))
			return err
		}},
		"CreateUsers": {anyPlan, func(ctx context.Context, s almanac.Scheduler, u almanac.User, _ almanac.Event) error {
			created, err := s.CreateUsers(ctx, iter.Seq2[almanac.Profile, error](func(yield func(almanac.Profile, error) bool) {
				yield(profileOf(u), nil)
			}), almanac.CreateUsersOptions{})
			return refusedOr(err, created.Refused)
		}},
		"UpdateUser": {anyPlan, func(ctx context.Context, s almanac.Scheduler, u almanac.User, _ almanac.Event) error {
			zone := "Asia/Tokyo"
			_, err := s.UpdateUser(ctx, u.ID, almanac.ProfileChange{Timezone: &zone})
			return err
		}},
		"OptIn": {anyPlan, func(ctx context.Context, s almanac.Scheduler, u almanac.User, _ almanac.Event) error {
			if _, err := s.OptOut(ctx, u.ID, almanac.OptOut{Type: "DAILY"}); err != nil {
				return err
			}
			_, err := s.OptIn(ctx, u.ID, almanac.OptOut{Type: "DAILY"})
			return err
		}},
		"Reschedule": {anyPlan, func(ctx context.Context, s almanac.Scheduler, u almanac.User, _ almanac.Event) error {
			_, err := s.Reschedule(ctx, u.ID)
			return err
		}},
		"Schedule": {anyPlan[:1], func(ctx context.Context, s almanac.Scheduler, u almanac.User, _ almanac.Event) error {
			_, err := s.Schedule(ctx, u.ID, "DAILY")
			return err
		}},
		"ScheduleAt": {[]string{"payload"}, func(ctx context.Context, s almanac.Scheduler, u almanac.User, _ almanac.Event) error {
			_, err := s.ScheduleAt(ctx, u.ID, "DAILY", almanac.ScheduleAtOptions{At: calendar.WallTime{Date: calendar.Date{Year: 2030, Month: time.January, Day: 1}}})
			return err
		}},
		"Preview": {anyPlan[:2], func(ctx context.Context, s almanac.Scheduler, u almanac.User, _ almanac.Event) error {
			_, err := s.Preview(ctx, u.ID, "DAILY", 3)
			return err
		}},
		"PreviewUser": {anyPlan[:2], func(ctx context.Context, s almanac.Scheduler, u almanac.User, _ almanac.Event) error {
			_, err := s.PreviewUser(ctx, u, "DAILY", 3)
			return err
		}},
		"Backfill": {anyPlan[:1], func(ctx context.Context, s almanac.Scheduler, _ almanac.User, _ almanac.Event) error {
			filled, err := s.Backfill(ctx, "DAILY", almanac.BackfillOptions{})
			return refusedOr(err, filled.Refused)
		}},
		"Cancel": {anyPlan, func(ctx context.Context, s almanac.Scheduler, _ almanac.User, e almanac.Event) error {
			_, err := s.Cancel(ctx, e.ID, almanac.CancelOptions{})
			return err
		}},
		"RunNow": {[]string{"quiet hours"}, func(ctx context.Context, s almanac.Scheduler, _ almanac.User, e almanac.Event) error {
			_, err := s.RunNow(ctx, e.ID, almanac.ForceOptions{})
			return err
		}},
	}
)

func profileOf(u almanac.User) almanac.Profile {
	return almanac.Profile{FirstName: u.FirstName, LastName: u.LastName, DateOfBirth: "1990-01-02", Timezone: "UTC"}
}

func refusedOr(err error, refused []almanac.Refusal) error {
	if err == nil && len(refused) > 0 {
		return refused[0].Err
	}
	return err
}

// The handler never returns for one user. Each operation that calls it returns with its
// context, or after five seconds, and calls it no second time. All other users are served.
func TestNoOperationWaitsForAHandlerThatIsBlocked(t *testing.T) {
	t.Parallel()
	for name, tt := range planningCalls {
		for _, where := range tt.where {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newBlocking(where)
					defer h.end()
					s, all := h.with(t, "Blocked", "Other")
					h.on.Store(true)
					call := func(last string, patience time.Duration) (time.Duration, error) {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						u, began := all[last], time.Now()
						err := tt.call(ctx, s, u.User, u.Events[0])
						return time.Since(began), err
					}

					took, err := call("Blocked", time.Second)
					require.Equal(t, time.Second, took)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Zero(t, s.Health().Blocked, "the caller was impatient")
					time.Sleep(5 * time.Second)
					synctest.Wait()
					require.Equal(t, 1, s.Health().Blocked)
					if name != "Backfill" {
						took, err = call("Other", time.Second)
						require.NoError(t, err)
						require.Zero(t, took)
					}
					if name != "CreateUser" && name != "CreateUsers" { // each is for a user with another id
						took, err = call("Blocked", time.Second)
						require.ErrorContains(t, err, "earlier calls have not returned")
						require.Zero(t, took)
					}
					h.end()
					synctest.Wait()
					require.Zero(t, s.Health().Blocked, "it has returned")
					h.on.Store(false)
					_, err = call("Blocked", time.Second)
					require.NoError(t, err)
				})
			})
			t.Run(name+" "+where+" without a deadline", func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newBlocking(where)
					defer h.end()
					s, all := h.with(t, "Blocked")
					u := all["Blocked"]
					h.on.Store(true)
					began := time.Now()
					require.ErrorContains(t, tt.call(t.Context(), s, u.User, u.Events[0]), "did not return in time")
					require.Equal(t, 5*time.Second, time.Since(began))
				})
			})
		}
	}
}

// A backfill stores the events of all users but those for whom the handler is blocked.
func TestBackfillLeavesBlockedUsersOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newBlocking("next")
		defer h.end()
		repository := almanactest.NewRepository(nil)
		empty, err := almanac.NewRegistry()
		require.NoError(t, err)
		before, err := almanac.NewScheduler(repository, empty)
		require.NoError(t, err)
		var blocked []uuid.UUID
		for i := range 40 {
			last := "Other"
			if i%20 == 7 {
				last = "Blocked"
			}
			u, err := before.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: last, DateOfBirth: "1990-01-02", Timezone: "UTC"})
			require.NoError(t, err)
			if last == "Blocked" {
				blocked = append(blocked, u.User.ID)
			}
		}
		registry, err := almanac.NewRegistry(h)
		require.NoError(t, err)
		s, err := almanac.NewScheduler(repository, registry)
		require.NoError(t, err)
		h.on.Store(true)

		done, err := s.Backfill(t.Context(), "DAILY", almanac.BackfillOptions{})

		require.NoError(t, err)
		require.Equal(t, 40, done.Users)
		require.Equal(t, 38, done.Events)
		var refused []uuid.UUID
		for _, one := range done.Refused {
			require.ErrorContains(t, one.Err, "did not return in time")
			refused = append(refused, one.UserID)
		}
		require.ElementsMatch(t, blocked, refused)
	})
}

// A handler that is blocked again and again after it was given up does not repeat a page for
// ever.
func TestBackfillEndsThoughTheHandlerIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := almanac.Recurring{Type: "DAILY", Rule: func(almanac.User) (calendar.Recurrence, error) {
			time.Sleep(6 * time.Second)
			return nil, errors.New("too late")
		}}
		repository := almanactest.NewRepository(nil)
		empty, err := almanac.NewRegistry()
		require.NoError(t, err)
		before, err := almanac.NewScheduler(repository, empty)
		require.NoError(t, err)
		for range 3 {
			_, err := before.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Other", DateOfBirth: "1990-01-02", Timezone: "UTC"})
			require.NoError(t, err)
		}
		registry, err := almanac.NewRegistry(slow)
		require.NoError(t, err)
		s, err := almanac.NewScheduler(repository, registry)
		require.NoError(t, err)

		done, err := s.Backfill(t.Context(), "DAILY", almanac.BackfillOptions{})

		require.NoError(t, err)
		require.Len(t, done.Refused, 3)
		time.Sleep(time.Minute)
		require.Zero(t, s.Health().Blocked)
	})
}

// A handler fails while an event ends, so for days nothing is planned. Then the handler works again, and
// a call other than the sweep plans the next event.
func TestAStalledSeriesIsOwedWhatItMissed(t *testing.T) {
	t.Parallel()
	for what, plans := range map[string]func(context.Context, almanac.Scheduler, uuid.UUID) error{
		"an edit": func(ctx context.Context, s almanac.Scheduler, id uuid.UUID) error {
			_, err := s.UpdateUser(ctx, id, almanac.ProfileChange{FirstName: ptr("Augusta")})
			return err
		},
		"a reschedule": func(ctx context.Context, s almanac.Scheduler, id uuid.UUID) error {
			_, err := s.Reschedule(ctx, id)
			return err
		},
		"a schedule": func(ctx context.Context, s almanac.Scheduler, id uuid.UUID) error {
			_, err := s.Schedule(ctx, id, "DOSE")
			return err
		},
		"a backfill": func(ctx context.Context, s almanac.Scheduler, _ uuid.UUID) error {
			_, err := s.Backfill(ctx, "DOSE", almanac.BackfillOptions{})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var broken atomic.Bool
			dose := almanac.Recurring{
				Type: "DOSE",
				Rule: func(almanac.User) (calendar.Recurrence, error) {
					if broken.Load() {
						return nil, errors.New("no plan")
					}
					return calendar.Daily{At: calendar.Clock{Hour: 9}}, nil
				},
				Execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{All: true}},
			}
			w, r, p := openOn(almanactest.NewRepository(nil)), new(receiver), grace
			p.Timezone = "UTC"
			s := w.scheduler(t, dose)
			created, err := s.CreateUser(t.Context(), p)
			require.NoError(t, err)
			broken.Store(true)
			time.Sleep(time.Until(created.Events[0].Due))
			w.run(t, dose, almanac.WithDeliverer(almanac.ChannelWebhook, r))
			time.Sleep(time.Second)
			require.NoError(t, w.stop())
			require.Equal(t, []string{"2000-01-01"}, r.keys())
			time.Sleep(4*24*time.Hour + 3*time.Hour)
			broken.Store(false)
			require.NoError(t, plans(t.Context(), s, created.User.ID))
			w.run(t, dose, almanac.WithDeliverer(almanac.ChannelWebhook, r))
			time.Sleep(time.Second)
			require.NoError(t, w.stop())
			require.Equal(t, []string{"2000-01-01", "2000-01-02", "2000-01-03", "2000-01-04", "2000-01-05"}, r.keys(), what)
		})
	}
}

// Nothing is delivered for days. Then the rule changes, and has no occurrence with the due event's key.
func TestADueEventThatAnEditRemovesIsReplaced(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		to   string // a rule of cron, in place of one for nine o'clock every day
		all  bool
		keys []string
	}{
		"all that the new rule owes since then":         {"0 9 * * MON", true, []string{"2000-01-03", "2000-01-10"}},
		"only what comes, unless everything is owed":    {"0 9 * * MON", false, nil},
		"the same instant, under a key of another unit": {"0 9,21 * * *", false, []string{"2000-01-01T09:00:00"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			dose := func(rule calendar.Recurrence) almanac.Recurring {
				return almanac.Recurring{
					Type: "DOSE", Rule: func(almanac.User) (calendar.Recurrence, error) { return rule, nil },
					Execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{All: tt.all}},
				}
			}
			w, r, p := openOn(almanactest.NewRepository(nil)), new(receiver), grace
			p.Timezone = "UTC"
			created, err := w.scheduler(t, dose(calendar.Daily{At: calendar.Clock{Hour: 9}})).CreateUser(t.Context(), p)
			require.NoError(t, err)
			time.Sleep(10*24*time.Hour + 12*time.Hour)
			cron, err := calendar.ParseCron(tt.to)
			require.NoError(t, err)
			_, err = w.scheduler(t, dose(cron)).UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{FirstName: ptr("Augusta")})
			require.NoError(t, err)
			w.run(t, dose(cron), almanac.WithDeliverer(almanac.ChannelWebhook, r))
			time.Sleep(time.Second)
			require.NoError(t, w.stop())
			require.Equal(t, tt.keys, r.keys(), what)
		})
	}
}

// A type that delivers every missed occurrence meets a wall time that its policy rejects, on 26 March 2000. On the
// day after, the series goes on, and the user can be edited.
func TestARejectedTimeStallsASeriesUntilItHasPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dose := almanac.Recurring{
			Type: "DOSE", Policies: calendar.Policies{Gap: calendar.GapReject},
			Rule: func(almanac.User) (calendar.Recurrence, error) {
				return calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}, nil
			},
			Execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{All: true}},
		}
		w, r, p := openOn(almanactest.NewRepository(nil)), new(receiver), grace
		p.Timezone = "Europe/Berlin"
		time.Sleep(time.Until(time.Date(2000, 3, 25, 1, 0, 0, 0, time.UTC)))
		s := w.scheduler(t, dose, almanac.WithDeliverer(almanac.ChannelWebhook, r))
		created, err := s.CreateUser(t.Context(), p)
		require.NoError(t, err)
		time.Sleep(time.Until(created.Events[0].Due))
		for range 3 {
			_, err = s.RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.NoError(t, err)
			time.Sleep(24 * time.Hour)
		}
		_, err = s.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{FirstName: ptr("Augusta")})
		require.NoError(t, err)
		_, err = s.RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"2000-03-25", "2000-03-27", "2000-03-28"}, r.keys())
	})
}

// Clocks in Berlin skip 02:30 on Sunday 26 March 2000. Weeks later, a weekly event can be moved to Sundays.
func TestARejectedTimeOfWeeksAgoRefusesNoEdit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := almanac.Recurring{Type: "DOSE", Policies: calendar.Policies{Gap: calendar.GapReject}, Rule: func(u almanac.User) (calendar.Recurrence, error) {
			day := map[string]time.Weekday{"Hopper": time.Tuesday, "Murray": time.Sunday}[u.LastName]
			return calendar.Weekly{On: []time.Weekday{day}, At: calendar.Clock{Hour: 2, Minute: 30}}, nil
		}}
		time.Sleep(time.Until(time.Date(2000, 5, 17, 12, 0, 0, 0, time.UTC)))
		w, p := openOn(almanactest.NewRepository(nil)), grace
		p.Timezone, p.LastName = "Europe/Berlin", "Hopper"
		s := w.scheduler(t, h)
		created, err := s.CreateUser(t.Context(), p)
		require.NoError(t, err)
		_, err = s.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{LastName: ptr("Murray")})
		require.NoError(t, err)
		require.Equal(t, "2000-05-21T02:30:00", w.all(t)[0].Wall.String())
	})
}

// wasItself reports whether an occurrence was delivered as it is.
func wasItself(delivered []almanac.UsedKey, o calendar.Occurrence) bool {
	return slices.ContainsFunc(delivered, func(d almanac.UsedKey) bool {
		return d.Unit == o.Unit && d.Key == o.Key && (d.Nominal == o.Nominal || d.Nominal == o.Wall)
	})
}
