package almanac_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// Three birthdays with a month's memory: none stays, and none is given again, also
// when its user moves to where it is yet to come.
func TestRunPrunesEndedEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options []almanac.Option
		kept    int
	}{
		"after a month": {[]almanac.Option{almanac.WithRetention(30 * 24 * time.Hour)}, 0},
		"never":         {nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				repository := almanactest.NewRepository(nil)
				given := 0
				s := schedulerOn(t, repository, append(tt.options,
					almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { given++; return nil })),
					almanac.WithPoll(24*time.Hour), almanac.WithSweep(24*time.Hour), almanac.WithLease(24*time.Hour), almanac.WithZoneCheck(365*24*time.Hour))...)
				e := enrol(t, s, "Pacific/Auckland", "1990-06-15")
				ctx, stop := context.WithTimeout(t.Context(), 3*365*24*time.Hour)
				defer stop()

				if err := s.Run(ctx); err != nil {
					t.Fatal(err)
				}

				if n, err := repository.Count(t.Context(), almanac.InStatus(almanac.Completed)); err != nil || n != tt.kept || given != 3 {
					t.Errorf("%d completed events are kept of %d given (%v), want %d of 3", n, given, err, tt.kept)
				}
				west := "Pacific/Honolulu"
				moved, err := s.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{Timezone: &west})
				if err != nil || len(moved.Moved) != 1 || moved.Moved[0].OccurrenceKey != "2003" {
					t.Errorf("after a move: %+v, %v; want the birthday of 2003", moved, err)
				}
			})
		})
	}
}

// step is one thing that happens to a user.
type step struct {
	kind  string
	zone  string // where they move to
	days  int    // from today to their birthday, as it is corrected
	hours int    // how far the clock goes on
	fails bool   // whether what is delivered is refused for good
}

// Far apart, so that a move makes tomorrow's events due, and those of today come
// again.
var farZones = []string{"Pacific/Kiritimati", "Asia/Tokyo", "Europe/London", "America/New_York", "Pacific/Niue"}

var someSteps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
	return step{
		kind:  rapid.SampledFrom(strings.Fields("trip trip move correct correct correct reschedule release work prune prune wait")).Draw(t, "kind"),
		zone:  rapid.SampledFrom(farZones).Draw(t, "zone"),
		days:  rapid.IntRange(-1, 2).Draw(t, "days"),
		hours: rapid.OneOf(rapid.IntRange(0, 30), rapid.IntRange(0, 400*24)).Draw(t, "hours"),
		fails: rapid.IntRange(0, 3).Draw(t, "fails") == 0,
	}
}), 10, 30)

func oddBirthday(u almanac.User) bool { return u.DateOfBirth.Date().Day%2 == 1 }

// hourly comes each hour, on the hour or half past it: a correction of the birthday
// moves it off its wall time.
func hourly(u almanac.User) (calendar.Recurrence, error) {
	if oddBirthday(u) {
		return calendar.ParseCron("30 * * * *")
	}
	return calendar.ParseCron("0 * * * *")
}

// chimes strikes each hour, for some twice side by side.
type chimes struct{ almanac.Recurring }

func (chimes) Series(u almanac.User) ([]string, error) {
	if oddBirthday(u) {
		return []string{"high"}, nil
	}
	return []string{"high", "low"}, nil
}

func (c chimes) NextIn(u almanac.User, _ string, after time.Time) (calendar.Occurrence, error) {
	return c.Next(u, after)
}

// lifetime is a user to whom things happen, and what they were given.
type lifetime struct {
	require.TestingT
	ctx        context.Context
	repository almanac.Repository
	scheduler  almanac.Scheduler
	id         uuid.UUID
	wait       func(time.Duration) // lets time pass; nil where that is not in our hands
	refuse     atomic.Bool
	mu         sync.Mutex
	last       map[string]string // by series, the key of what was last given
	again      []string
}

// seriesOf names the series of an event.
func seriesOf(e almanac.Event) string { return e.Type + " " + e.Series }

func (l *lifetime) Deliver(_ context.Context, d almanac.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.last[seriesOf(d.Event)]; d.Event.OccurrenceKey <= last {
		l.again = append(l.again, fmt.Sprintf("%s %s after %s", d.Event.Type, d.Event.OccurrenceKey, last))
	}
	l.last[seriesOf(d.Event)] = d.Event.OccurrenceKey
	if l.refuse.Load() {
		return almanac.Permanent(errBusy)
	}
	return nil
}

func begin(ctx context.Context, t require.TestingT, r almanac.Repository, wait func(time.Duration)) *lifetime {
	l := &lifetime{TestingT: t, ctx: ctx, repository: r, wait: wait, last: make(map[string]string)}
	registry, err := almanac.NewRegistry(greetAt(calendar.Clock{Minute: 30}),
		almanac.Recurring{Type: "DIGEST", Rule: hourly}, chimes{almanac.Recurring{Type: "CHIMES", Rule: hourly}})
	require.NoError(l, err)
	l.scheduler, err = almanac.NewScheduler(r, registry, almanac.WithDeliverer(almanac.ChannelWebhook, l))
	require.NoError(l, err)
	enrolment, err := l.scheduler.CreateUser(ctx, almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-06-15", Timezone: "Pacific/Niue"})
	require.NoError(l, err)
	l.id = enrolment.User.ID
	return l
}

// live lets a step happen.
func (l *lifetime) live(s step) {
	now, err := l.repository.Now(l.ctx)
	require.NoError(l, err)
	switch s.kind {
	case "move":
		_, err = l.scheduler.UpdateUser(l.ctx, l.id, almanac.ProfileChange{Timezone: &s.zone})
	case "trip": // far to the east, where much of tomorrow has come, and back
		for _, part := range []step{{kind: "move", zone: "Pacific/Kiritimati"}, {kind: "work", fails: s.fails}, {kind: "move", zone: "Pacific/Niue"}} {
			l.live(part)
		}
	case "correct":
		_, month, day := now.AddDate(0, 0, s.days).Date()
		date := fmt.Sprintf("1992-%02d-%02d", month, day)
		_, err = l.scheduler.UpdateUser(l.ctx, l.id, almanac.ProfileChange{DateOfBirth: &date})
	case "reschedule":
		_, err = l.scheduler.Reschedule(l.ctx, l.id)
	case "release": // a worker that stops before it has delivered anything
		request := almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday, "DIGEST"}, Limit: 1, Lease: time.Minute}
		_, err = l.repository.Claim(l.ctx, request)
		require.NoError(l, err)
		_, err = l.repository.Release(l.ctx, request.Token)
	case "work":
		l.refuse.Store(s.fails)
		err = l.work()
	case "prune":
		for page := (almanac.Page{Limit: 3}); ; {
			_, next, err := l.repository.Prune(l.ctx, now.Add(time.Hour), page)
			require.NoError(l, err)
			if page.After = next; page.After == "" {
				break
			}
		}
	case "wait":
		if l.wait != nil {
			l.wait(time.Duration(s.hours) * time.Hour)
		}
	}
	require.NoError(l, err, "%+v", s)
	l.inOrder(s)
}

// work runs a scheduler until nothing is due.
func (l *lifetime) work() error {
	ctx, stop := context.WithCancel(l.ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- l.scheduler.Run(ctx) }()
	for busy := 1; busy > 0 && len(ended) == 0; {
		var err error
		busy, err = l.repository.Count(l.ctx, almanac.Or{almanac.Ready{}, almanac.InStatus(almanac.Processing)})
		require.NoError(l, err)
		time.Sleep(100 * time.Microsecond)
	}
	stop()
	return <-ended
}

// inOrder checks that nothing was given twice, and that what comes next in each
// series comes after what was given, and is there.
func (l *lifetime) inOrder(s step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(l, l.again, "given again, in step %+v", s)
	found, err := l.repository.Find(l.ctx, almanac.InStatus(almanac.Pending), almanac.Page{})
	require.NoError(l, err)
	open := make(map[string]int)
	for _, e := range found.Items {
		open[seriesOf(e)]++
		require.Greater(l, e.OccurrenceKey, l.last[seriesOf(e)], "open again, after step %+v", s)
	}
	want := map[string]int{"BIRTHDAY ": 1, "DIGEST ": 1, "CHIMES high": 1}
	if u, err := l.repository.User(l.ctx, l.id); err != nil || !oddBirthday(u) {
		want["CHIMES low"] = 1
	} else { // one that was claimed before it was dropped still ends
		delete(open, "CHIMES low")
	}
	require.Equal(l, want, open, "after step %+v", s)
}

// Whatever happens to a user, and whatever of it is forgotten: what they were
// once given is not given again.
func TestNoOccurrenceIsRepeatedInMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var passed atomic.Int64
		start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
		clock := func() time.Time { return start.Add(time.Duration(passed.Load())) }
		l := begin(t.Context(), rt, almanactest.NewRepository(clock), func(d time.Duration) { passed.Add(int64(d)) })
		for _, s := range someSteps.Draw(rt, "steps") {
			l.live(s)
		}
	})
}

// The same, a few times: a database takes its time.
func TestNoOccurrenceIsRepeatedOnPostgres(t *testing.T) {
	t.Parallel()
	for seed := range 6 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			l := begin(t.Context(), t, openPostgres(t), nil)
			for _, s := range someSteps.Example(seed) {
				l.live(s)
			}
		})
	}
}

// halfSwept has an event that cannot be released, beside others.
type halfSwept struct {
	almanac.Repository
	calls int
}

func (r *halfSwept) ReleaseExpired(context.Context, int, int) ([]almanac.Event, error) {
	if r.calls++; r.calls > 3 {
		return nil, nil
	}
	return []almanac.Event{{ID: uuid.New()}}, errBusy
}

// One event that cannot be released does not end the sweep, which releases the others and reports the error.
func TestTheSweepGoesOnPastAnEventThatCannotBeReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &halfSwept{Repository: almanactest.NewRepository(nil)}
		_, err := openOn(r).scheduler(t, series{eventType: "FINE", seconds: ago(-time.Hour)}).RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.ErrorIs(t, err, errBusy)
		require.Equal(t, 4, r.calls)
	})
}

// halfPruned has an event that cannot be deleted, on the first of three pages.
type halfPruned struct {
	almanac.Repository
	after []almanac.Cursor
}

func (r *halfPruned) Prune(_ context.Context, _ time.Time, page almanac.Page) (int, almanac.Cursor, error) {
	r.after = append(r.after, page.After)
	switch len(r.after) {
	case 1:
		return 1, "1", errBusy
	case 2:
		return 1, "2", nil
	}
	return 1, "", nil
}

// One event that cannot be deleted does not end retention, which deletes the others, and is tried again.
func TestRetentionGoesOnPastAnEventThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &halfPruned{Repository: almanactest.NewRepository(nil)}
		w := openOn(r)
		w.run(t, series{eventType: "FINE", seconds: ago(-time.Hour)}, almanac.WithRetention(24*time.Hour))
		time.Sleep(10 * time.Minute)
		require.NoError(t, w.stop())
		require.Equal(t, []almanac.Cursor{"", "1", "2", ""}, r.after[:4])
	})
}
