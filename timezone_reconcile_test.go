package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
	"github.com/almanac-go/almanac/postgres"
)

// Rules for Beirut: with summer time, as the real ones, and as a government might
// have it. Berlin keeps its rules.
const (
	hours            = 3600 // in seconds, as zone files have offsets
	beirutAsItIs     = "EET-2EEST,M3.5.0/0,M10.5.0/0"
	beirutAllSummer  = "EEST-3"
	beirutLateSummer = "EET-2EEST,M7.1.0/0,M10.5.0/0"
)

// rulesOf makes zone data of a release in which Beirut follows a rule.
func rulesOf(t testing.TB, version, beirut string) *calendar.ZoneData {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, zonetest.WriteDir(dir, version, map[string][]byte{
		"Asia/Beirut":   zonetest.File(2*hours, nil, beirut),
		"Europe/Berlin": zonetest.File(1*hours, nil, "CET-1CEST,M3.5.0,M10.5.0/3"),
	}))
	data, err := calendar.OpenZoneData(dir)
	require.NoError(t, err)
	return data
}

func enrol(t *testing.T, s almanac.Scheduler, zone, birth string) almanac.Event {
	t.Helper()
	enrolment, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: birth, Timezone: zone})
	require.NoError(t, err)
	return enrolment.Events[0]
}

func TestReconcileMovesTheEventsOfAZoneWhoseRulesChanged(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.scheduler(t, almanac.Birthday{})
	winter, summer := enrol(t, s, "Asia/Beirut", "1990-01-15"), enrol(t, s, "Asia/Beirut", "1990-06-15")
	elsewhere := enrol(t, s, "Europe/Berlin", "1990-01-15")
	first, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: rulesOf(t, "2026a", beirutAsItIs)})
	require.NoError(t, err)
	require.Equal(t, almanac.ReconcileResult{Zones: []almanac.ZoneReport{
		{Zone: "Asia/Beirut", Version: "2026a", Checked: 2}, {Zone: "Europe/Berlin", Version: "2026a", Checked: 1},
	}}, first, "the first comparison remembers the rules, and finds the events in step")

	got, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: rulesOf(t, "2026b", beirutAllSummer)})

	require.NoError(t, err)
	require.Contains(t, got.Zones, almanac.ZoneReport{Zone: "Asia/Beirut", Version: "2026b", Checked: 2, Moved: 1, Smallest: -time.Hour, Largest: -time.Hour, First: winter.Wall, FirstAt: winter.Due.Add(-time.Hour)})
	require.Equal(t, 1, got.Moved())
	moved := w.event(t, winter)
	want := winter
	want.Due, want.AvailableAt, want.Version, want.UpdatedAt = winter.Due.Add(-time.Hour), winter.Due.Add(-time.Hour), 2, moved.UpdatedAt
	require.Equal(t, want, moved, "nothing but the instant follows the rules")
	require.Equal(t, summer, w.event(t, summer))
	require.Equal(t, elsewhere, w.event(t, elsewhere))
	require.Equal(t, moved, w.await(t, almanac.EventRescheduled))

	again, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: rulesOf(t, "2026b", beirutAllSummer)})
	require.NoError(t, err)
	require.Zero(t, again.Moved())
	require.Equal(t, moved, w.event(t, winter))
}

func TestReconcileLeavesClaimedEvents(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.scheduler(t, almanac.Birthday{})
	e := enrol(t, s, "Asia/Beirut", "1990-01-15")
	claimed, err := e.Claim(e.ID)
	require.NoError(t, err)
	claimed, err = w.store.Update(t.Context(), claimed, 1)
	require.NoError(t, err)
	released, err := claimed.Release(almanac.AfterFailure, "busy", claimed.Due)
	require.NoError(t, err)
	released, err = w.store.Update(t.Context(), released, 2)
	require.NoError(t, err)

	got, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: rulesOf(t, "2026b", beirutAllSummer)})

	require.NoError(t, err)
	require.Equal(t, almanac.ReconcileResult{Zones: []almanac.ZoneReport{}}, got)
	require.Equal(t, released, w.event(t, e))
}

func TestReconcileNeverFollowsOlderRules(t *testing.T) {
	t.Parallel()
	newer := rulesOf(t, "2026b", beirutAllSummer)
	tests := map[string]struct {
		version string
		trust   bool
		moves   bool
	}{
		"of an older release":               {version: "2026a"},
		"of the same release":               {version: "2026b"},
		"of an unknown release":             {version: ""},
		"of an older release, but trusted":  {version: "2026a", trust: true, moves: true},
		"of a newer release":                {version: "2026c", moves: true},
		"of a release after the letter z":   {version: "2026za", moves: true},
		"of a release of a year afterwards": {version: "2027a", moves: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			s := w.scheduler(t, almanac.Birthday{})
			e := enrol(t, s, "Asia/Beirut", "1990-01-15")
			_, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: newer})
			require.NoError(t, err)
			other := rulesOf(t, tt.version, beirutAsItIs)

			dry, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: other, Trust: tt.trust, DryRun: true})
			require.NoError(t, err)
			require.Equal(t, 1, dry.Moved(), "a dry run notifies what any rules would move")
			require.Equal(t, 2, w.event(t, e).Version, "and moves nothing")

			got, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: other, Trust: tt.trust})
			require.NoError(t, err)
			if tt.moves {
				require.Equal(t, 1, got.Moved())
				require.Equal(t, e.Due, w.event(t, e).Due)
				return
			}
			require.Zero(t, got.Moved())
			require.Equal(t, []string{"Asia/Beirut"}, got.Outdated)
			require.Equal(t, e.Due.Add(-time.Hour), w.event(t, e).Due)
		})
	}
}

// withoutSummerFrom makes rules of a release after which Beirut has no summer time
// any more from a year on, and that are the same before.
func withoutSummerFrom(t testing.TB, version string, year int) *calendar.ZoneData {
	t.Helper()
	z, err := rulesOf(t, "2026a", beirutAsItIs).Timezone("Asia/Beirut")
	require.NoError(t, err)
	var changes []zonetest.Change
	for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); ; {
		next, ok := z.NextChange(at)
		require.True(t, ok)
		if next.At.Year() >= year {
			break
		}
		changes = append(changes, zonetest.Change{At: next.At, Offset: int(next.After.Seconds())})
		at = next.At
	}
	dir := t.TempDir()
	require.NoError(t, zonetest.WriteDir(dir, version, map[string][]byte{"Asia/Beirut": zonetest.File(2*hours, changes, "EET-2")}))
	data, err := calendar.OpenZoneData(dir)
	require.NoError(t, err)
	return data
}

// Two releases agree on the ten years that are compared, and on no more. What the
// newer has moved, the older leaves, also when a new year begins, and while it is in
// doubt.
func TestReconcileNeverFollowsOlderRulesOfAFarYear(t *testing.T) {
	t.Parallel()
	older, newer := almanac.ReconcileOptions{Data: rulesOf(t, "2026a", beirutAsItIs)}, almanac.ReconcileOptions{Data: withoutSummerFrom(t, "2026b", 2036)}
	for name, tt := range map[string]struct {
		looks int
		pass  time.Duration
	}{
		"while in doubt": {looks: 1},
		"in a new year":  {looks: 2, pass: 70 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
			w := openOn(almanactest.NewRepository(func() time.Time { return now }))
			s := w.scheduler(t, almanac.Reminder{})
			enrolment, err := s.CreateUser(t.Context(), almanac.Profile{
				FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-15", Timezone: "Asia/Beirut",
				Attributes: json.RawMessage(`{"reminders": {"jubilee": {"at": "2036-07-01T09:00:00", "message": "It is far away"}}}`),
			})
			require.NoError(t, err)
			pending := enrolment.Events[0]
			for range tt.looks {
				_, err = s.Reconcile(t.Context(), newer)
				require.NoError(t, err)
				now = now.Add(2 * time.Minute)
			}

			now = now.Add(tt.pass)
			for range 2 {
				_, err = s.Reconcile(t.Context(), older)
				require.NoError(t, err)
				got, err := s.Reconcile(t.Context(), newer)
				require.NoError(t, err)
				require.Empty(t, got.Outdated)
				require.Equal(t, pending.Due.Add(time.Hour), w.event(t, pending).Due)
				now = now.Add(2 * time.Minute)
			}
		})
	}
}

// While a program with older rules runs, it may store what those rules say. Those
// who know better look again until after it was last seen.
func TestReconcileCorrectsEventsOfAnOutdatedProgram(t *testing.T) {
	t.Parallel()
	w := open(t)
	const check = time.Millisecond
	s := w.scheduler(t, almanac.Birthday{}, almanac.WithZoneCheck(check))
	older, newer := almanac.ReconcileOptions{Data: rulesOf(t, "2026a", beirutAsItIs)}, almanac.ReconcileOptions{Data: rulesOf(t, "2026b", beirutAllSummer)}
	_, err := s.Reconcile(t.Context(), newer)
	require.NoError(t, err)
	_, err = s.Reconcile(t.Context(), older)
	require.NoError(t, err)
	late := enrol(t, s, "Asia/Beirut", "1990-01-15") // by rules that still have a winter

	got, err := s.Reconcile(t.Context(), newer)

	require.NoError(t, err)
	require.Equal(t, 1, got.Moved())
	require.Equal(t, late.Due.Add(-time.Hour), w.event(t, late).Due)
}

// A recheck is over after a search that begins after the last moment at which another process
// may have planned by other rules, and not before.
func TestReconcileChecksAgainUntilTheRecheckIsOver(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	s := schedulerOn(t, repository)
	options := almanac.ReconcileOptions{Data: rulesOf(t, "2026b", beirutAllSummer)}
	checked := func() int {
		r, err := s.Reconcile(t.Context(), options)
		require.NoError(t, err)
		n := 0
		for _, z := range r.Zones {
			n += z.Checked
		}
		return n
	}
	enrol(t, s, "Asia/Beirut", "1990-01-15")
	require.Equal(t, 1, checked(), "new rules")
	now = now.Add(time.Hour)
	require.Equal(t, 1, checked(), "within the grace")
	now = now.Add(time.Millisecond)
	require.Equal(t, 1, checked(), "the last look")
	require.Zero(t, checked(), "no doubt")
	now = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, 1, checked(), "a new year, and another ten years to compare")
}

func schedulerOn(t *testing.T, r almanac.Repository, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	s, err := almanac.NewScheduler(r, registry, options...)
	require.NoError(t, err)
	return s
}

// faltering fails the second time that events are moved.
type faltering struct {
	almanac.Repository
	moves int
}

var errFaltered = errors.New("the cable was pulled")

func (f *faltering) MoveEvents(ctx context.Context, events []almanac.Event) ([]almanac.Event, error) {
	if f.moves++; f.moves == 2 {
		return nil, errFaltered
	}
	return f.Repository.MoveEvents(ctx, events)
}

func TestReconcileContinuesAfterAnInterruption(t *testing.T) {
	t.Parallel()
	const people = 1500 // more than a page
	repository := almanactest.NewRepository(nil)
	notified := make(map[string]int)
	s := schedulerOn(t, &faltering{Repository: repository}, almanac.WithObserver(almanac.Hooks{
		Rescheduled: func(_ context.Context, e almanac.Event) { notified[e.ID.String()]++ },
	}))
	for range people {
		enrol(t, s, "Asia/Beirut", "1990-01-15")
	}
	options := almanac.ReconcileOptions{Data: rulesOf(t, "2026b", beirutAllSummer)}

	_, err := s.Reconcile(t.Context(), options)
	require.ErrorIs(t, err, errFaltered)
	rest, err := s.Reconcile(t.Context(), options)

	require.NoError(t, err)
	require.Equal(t, people, rest.Zones[0].Checked)
	require.Equal(t, people-1000, rest.Moved())
	require.Len(t, notified, people)
	for id, times := range notified {
		require.Equal(t, 1, times, "notified of %s", id)
	}
}

// secondPageLost is a repository that fails on the second page of events.
type secondPageLost struct{ almanac.Repository }

func (f secondPageLost) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	if page.After != "" {
		return almanac.List[almanac.Event]{}, errFaltered
	}
	page.Limit = 1
	return f.Repository.Find(ctx, spec, page)
}

func TestReconcileReportsWhatItMovedBeforeAnError(t *testing.T) {
	t.Parallel()
	s := schedulerOn(t, secondPageLost{almanactest.NewRepository(nil)})
	enrol(t, s, "Asia/Beirut", "1990-01-15")
	enrol(t, s, "Asia/Beirut", "1990-01-15")

	done, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: rulesOf(t, "2026b", beirutAllSummer)})

	require.ErrorIs(t, err, errFaltered)
	require.Equal(t, 1, done.Moved())
}

// Programs with different zone data, all looking at once, again and again.
func TestProgramsWithDifferentRulesConvergeOnTheNewest(t *testing.T) {
	t.Parallel()
	store, err := postgres.New(pgtest.ReusedPool(t), postgres.WithTimeout(time.Minute)) // all wait for one lock, maybe on a busy machine
	require.NoError(t, err)
	w := openOn(store)
	planner := w.scheduler(t, almanac.Birthday{})
	const people, rounds = 20, 5
	var pending []almanac.Event
	for range people {
		pending = append(pending, enrol(t, planner, "Asia/Beirut", "1990-06-15"))
	}
	releases := []*calendar.ZoneData{
		rulesOf(t, "2026a", beirutAsItIs), rulesOf(t, "2026b", beirutAllSummer), rulesOf(t, "2026c", beirutLateSummer),
	}
	var wg sync.WaitGroup
	for _, data := range releases {
		wg.Go(func() {
			for range rounds {
				if _, err := planner.Reconcile(t.Context(), almanac.ReconcileOptions{Data: data}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()

	for _, e := range pending { // in the third release summer begins in July
		require.Equal(t, e.Due.Add(time.Hour), w.event(t, e).Due)
	}
}

// An event whose wall time a policy refuses under the new rules keeps its instant, if no
// handler here has another wall time.
func TestReconcileCountsEventsThatItLeaves(t *testing.T) {
	t.Parallel()
	w := open(t)
	at := calendar.Clock{Minute: 30}
	s := w.scheduler(t, almanac.Birthday{
		At:       func(almanac.User) calendar.Clock { return at },
		Policies: calendar.Policies{Gap: calendar.GapSkip},
	})
	// In 2027 the first Sunday of July is the fourth.
	e := enrol(t, s, "Asia/Beirut", "1990-07-04")

	got, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: rulesOf(t, "2026c", beirutLateSummer)})

	require.NoError(t, err)
	require.Equal(t, []almanac.ZoneReport{{Zone: "Asia/Beirut", Version: "2026c", Checked: 1, Left: 1, First: e.Wall, FirstAt: e.Due}}, got.Zones)
	require.Equal(t, e, w.event(t, e))
}

func TestReconcileRunsAtTheStart(t *testing.T) {
	t.Parallel()
	w := open(t)
	e := enrol(t, w.scheduler(t, almanac.Birthday{}), "Asia/Beirut", "1990-01-15")
	wrong := e
	wrong.Due, wrong.AvailableAt, wrong.Version = e.Due.Add(time.Hour), e.Due.Add(time.Hour), 2
	_, err := w.store.MoveEvents(t.Context(), []almanac.Event{wrong})
	require.NoError(t, err)

	w.run(t, almanac.Birthday{})

	require.Equal(t, e.Due, w.await(t, almanac.EventRescheduled).Due)
	require.NoError(t, w.stop())
	var stored []almanac.ZoneRecord
	require.NoError(t, w.store.EditZoneRules(t.Context(), func(book almanac.ZoneBook) (almanac.ZoneBook, error) {
		stored = book.Rules
		return almanac.ZoneBook{}, nil
	}))
	require.Len(t, stored, len(calendar.TimezoneNames()), "every zone that there is data for")
}

// unmovable refuses to move an event, and counts the attempts.
type unmovable struct {
	almanac.Repository
	id       uuid.UUID
	mended   atomic.Bool
	attempts atomic.Int64
}

func (r *unmovable) MoveEvents(ctx context.Context, events []almanac.Event) ([]almanac.Event, error) {
	fine := slices.DeleteFunc(slices.Clone(events), func(e almanac.Event) bool { return e.ID == r.id && !r.mended.Load() })
	moved, err := r.Repository.MoveEvents(ctx, fine)
	if len(fine) < len(events) {
		r.attempts.Add(1)
		err = errors.Join(err, rowError{certain: true})
	}
	return moved, err
}

// An event that cannot be moved delays no other, and Health has its error. It is tried again once an hour.
func TestAnEventThatCannotBeMovedIsTriedOnceAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := &unmovable{Repository: almanactest.NewRepository(nil)}
		s := schedulerOn(t, repository, almanac.WithPoll(24*time.Hour))
		want := []almanac.Event{enrol(t, s, "Asia/Beirut", "1990-01-15"), enrol(t, s, "Asia/Beirut", "1990-01-15")}
		for _, e := range want {
			e.Due, e.AvailableAt, e.Version = e.Due.Add(time.Hour), e.Due.Add(time.Hour), 2
			_, err := repository.MoveEvents(t.Context(), []almanac.Event{e})
			require.NoError(t, err)
		}
		repository.id = want[1].ID
		due := func(e almanac.Event) time.Time {
			is, err := repository.Event(t.Context(), e.ID)
			require.NoError(t, err)
			return is.Due
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()

		time.Sleep(time.Minute)
		for range 3 {
			require.Equal(t, want[0].Due, due(want[0]))
			require.Equal(t, want[1].Due.Add(time.Hour), due(want[1]))
			require.ErrorIs(t, s.Health().Maintenance["compare zone rules"].Err, rowError{certain: true})
			require.EqualValues(t, 1, repository.attempts.Swap(0))
			time.Sleep(time.Hour)
		}
		repository.mended.Store(true)
		time.Sleep(time.Hour)
		require.Equal(t, want[1].Due, due(want[1]))
		require.NoError(t, s.Health().Maintenance["compare zone rules"].Err)
		stop()
		require.NoError(t, <-ended)
	})
}
