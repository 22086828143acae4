package almanac_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
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
	"github.com/almanac-go/almanac/internal/calendartest"
)

// FuzzSuccession follows a user's birthdays from any instant on, wherever they
// live and whatever is decided about leap days: each is later than the one before,
// by its key and by its instant, and once in each year.
func FuzzSuccession(f *testing.F) {
	for i, odd := range calendartest.OddChanges {
		at := instant(f, odd.At)
		f.Add(at.AddDate(-30, 0, 0).Unix()/86400, uint8(i), at.Add(-time.Hour).Unix(), uint8(i))
	}
	f.Add(instant(f, "1996-02-29T00:00:00Z").Unix()/86400, uint8(0), instant(f, "2095-03-01T00:00:00Z").Unix(), uint8(2))
	f.Fuzz(func(t *testing.T, day int64, n uint8, from int64, choices uint8) {
		after := time.Unix(from, 0).UTC()
		born, err := almanac.ParseDateOfBirth(time.Unix(day%50_000*86400, 0).UTC().Format(time.DateOnly), "")
		if err != nil || after.Year() < 1900 || after.Year() > 2200 {
			return
		}
		u := almanac.User{DateOfBirth: born, Timezone: zone(t, calendartest.OddChanges[int(n)%len(calendartest.OddChanges)].Zone)}
		early := func(almanac.User) calendar.Clock {
			return calendar.Clock{Hour: int(n) / len(calendartest.OddChanges) % 4, Minute: 30}
		}
		handler := almanac.Birthday{At: early, Policies: calendar.Policies{
			LeapDay: []calendar.LeapDayPolicy{"", calendar.LeapDayFeb28, calendar.LeapDayMar1, calendar.LeapDaySkip}[choices%4],
			Gap:     []calendar.GapPolicy{"", calendar.GapBackward, calendar.GapBoundary, calendar.GapSkip}[choices/4%4],
			Fold:    []calendar.FoldPolicy{"", calendar.FoldSecond}[choices/16%2],
		}}
		year, key := 0, ""
		for range 10 {
			o, err := handler.Next(u, after)
			if errors.Is(err, calendar.ErrNoOccurrence) {
				return
			}
			if err != nil {
				t.Fatalf("born %v in %s, after %v: %v", u.DateOfBirth, u.Timezone, after, err)
			}
			r, err := o.Zone.Resolve(o.Wall, o.Policies)
			if err != nil || !r.Instant.After(after) || o.Key <= key || o.Wall.Date.Year <= year {
				t.Fatalf("born %v in %s, after %v and %q: %+v at %v, %v", u.DateOfBirth, u.Timezone, after, key, o, r.Instant, err)
			}
			after, key, year = r.Instant, o.Key, o.Wall.Date.Year
		}
	})
}

// replanning is a repository that has each successor planned once more, as after a
// failover that lost it.
type replanning struct {
	*almanactest.Repository
	t    *testing.T
	born []almanac.Event
}

func (r *replanning) Settle(ctx context.Context, batch []almanac.Settlement) ([]almanac.SettleResult, error) {
	for i := range batch {
		plan := batch[i].Next
		batch[i].Next = func(u almanac.User, now time.Time) (almanac.Event, error) {
			e, err := plan(u, now)
			require.NoError(r.t, err)
			again, err := plan(u, now.Add(time.Minute))
			require.NoError(r.t, err)
			require.Equal(r.t, e, again)
			r.born = append(r.born, e)
			return e, nil
		}
	}
	return r.Repository.Settle(ctx, batch)
}

// everyFiveMinutes is a series whose successors are due soon after their birth.
func everyFiveMinutes(t *testing.T) almanac.Recurring {
	t.Helper()
	cron, err := calendar.ParseCron("*/5 * * * *")
	require.NoError(t, err)
	return almanac.Recurring{Type: "PULSE", Rule: func(almanac.User) (calendar.Recurrence, error) { return cron, nil }}
}

// A failover can only lose the birth of a successor that was delivered where it was due
// soon.
func TestASuccessorDueSoonIsTheSameEventWheneverItIsPlanned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &replanning{Repository: almanactest.NewRepository(nil), t: t}
		registry, err := almanac.NewRegistry(everyFiveMinutes(t))
		require.NoError(t, err)
		const slow = 5 * time.Second // of a delivery: an outcome is stored later than its event's instant
		s, err := almanac.NewScheduler(r, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
			time.Sleep(slow)
			return nil
		})))
		require.NoError(t, err)
		var first []almanac.Event
		for range 2 {
			enrolment, err := s.CreateUser(t.Context(), grace)
			require.NoError(t, err)
			first = append(first, enrolment.Events...)
		}
		ctx, stop := context.WithTimeout(t.Context(), 17*time.Minute)
		defer stop()

		require.NoError(t, s.Run(ctx))

		require.Len(t, r.born, 6)
		before := make(map[uuid.UUID]almanac.Event) // the last event of each user
		for _, e := range append(first, r.born...) {
			require.Equal(t, uuid.Version(7), e.ID.Version())
			require.Equal(t, uuid.RFC4122, e.ID.Variant())
			last := before[e.UserID]
			require.Negative(t, bytes.Compare(last.ID[:], e.ID[:]), "ids of a series ascend")
			if last.ID != uuid.Nil {
				require.Equal(t, last.Due, createdAt(e.ID), "the instant of the event before")
				require.Equal(t, last.ID[15], e.ID[15], "they name the slot of the user")
			}
			before[e.UserID] = e
		}
	})
}

// createdAt returns the time in a UUIDv7, to the millisecond.
func createdAt(id uuid.UUID) time.Time {
	sec, nsec := id.Time().UnixTime()
	return time.Unix(sec, nsec).UTC().Truncate(time.Millisecond)
}

// tail reads on where it ended, as a program that follows a list of events.
type tail struct {
	last almanac.Cursor
	seen map[uuid.UUID]bool
}

func (l *tail) read(t *testing.T, r almanac.Repository) {
	t.Helper()
	for more := true; more; {
		found, err := r.Find(t.Context(), nil, almanac.Page{After: l.last})
		require.NoError(t, err)
		for _, e := range found.Items {
			l.last, l.seen[e.ID] = almanac.Cursor(e.ID.String()), true
		}
		more = found.Next != ""
	}
}

// followed is a birthday after which a question is asked two days after the answer.
type followed struct{ almanac.Birthday }

func (followed) Follow(_ almanac.User, ended almanac.Event) ([]almanac.FollowUp, error) {
	wall := calendar.WallTimeOf(time.Now().UTC().AddDate(0, 0, 2))
	return []almanac.FollowUp{{Type: "QUESTION", Occurrence: calendar.Occurrence{Key: ended.OccurrenceKey, Wall: wall}}}, nil
}

func TestIdsAreInOrderOfCreationOnEveryPath(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { liveOnEveryPath(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

// liveOnEveryPath has events created on each path there is, in a random order, and
// expects a tail to see all of them.
func liveOnEveryPath(t *testing.T, random *rand.Rand) {
	daily, err := calendar.ParseCron("30 7 * * *")
	require.NoError(t, err)
	digest := almanac.Recurring{
		Type: "DIGEST", Rule: func(almanac.User) (calendar.Recurrence, error) { return daily, nil },
		Execution: almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: time.Hour, Factor: 4}},
	}
	registry, err := almanac.NewRegistry(followed{}, question{}, digest)
	require.NoError(t, err)
	var mu sync.Mutex
	fickle := rand.New(rand.NewPCG(random.Uint64(), 0)) // for the workers, under mu
	rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		switch fickle.IntN(6) {
		case 0:
			return almanac.Permanent(errBusy)
		case 1, 2:
			return errBusy // tried again hours later
		}
		return nil
	})))
	s, r := rehearsal.Scheduler, rehearsal.Repository
	read := tail{seen: make(map[uuid.UUID]bool)}
	any := func(status almanac.Status) (almanac.Event, bool) {
		found, err := r.Find(t.Context(), almanac.InStatus(status), almanac.Page{Limit: 1000})
		require.NoError(t, err)
		if len(found.Items) == 0 {
			return almanac.Event{}, false
		}
		return found.Items[random.IntN(len(found.Items))], true
	}
	zones := []string{"Asia/Tokyo", "UTC", "America/New_York"}
	users := 0
	for range 30 {
		var err error
		pending, some := any(almanac.Pending)
		failed, again := any(almanac.Failed)
		switch step := random.IntN(10); {
		case !some || step == 0 && users < 5:
			users++
			p := grace
			p.Timezone = zones[random.IntN(len(zones))]
			_, err = s.CreateUser(t.Context(), p)
		case step == 1:
			_, err = s.Cancel(t.Context(), pending.ID, almanac.CancelOptions{})
		case step == 2:
			_, err = s.RunNow(t.Context(), pending.ID, almanac.ForceOptions{})
		case step == 3:
			_, err = s.UpdateUser(t.Context(), pending.UserID, almanac.ProfileChange{Timezone: &zones[random.IntN(len(zones))]})
		case step == 4 && again:
			if _, err = s.Requeue(t.Context(), failed.ID, almanac.ForceOptions{}); errors.Is(err, almanac.ErrExists) {
				err = nil
			}
		case step == 5:
			time.Sleep(time.Duration(random.Int64N(int64(10 * 24 * time.Hour)))) // a downtime
		default:
			rehearsal.For(time.Duration(random.Int64N(int64(10 * 24 * time.Hour))))
		}
		if errors.Is(err, almanac.ErrInvalidStateTransition) { // it waits for another attempt, and is not due yet
			err = nil
		}
		require.NoError(t, err)
		read.read(t, r)
		time.Sleep(time.Second)
	}

	var last almanac.Event
	page := almanac.Page{Limit: 1000}
	for more := true; more; more = page.After != "" {
		found, err := r.Find(t.Context(), nil, page)
		require.NoError(t, err)
		for _, e := range found.Items {
			if e.Due.Sub(e.CreatedAt) < 10*time.Minute {
				continue // an attempt that ended just before the next occurrence: see the test below
			}
			require.False(t, e.CreatedAt.Before(last.CreatedAt), "%s of %s, created at %v, comes after %s of %s, created at %v", e.ID, e.Type, e.CreatedAt, last.ID, last.Type, last.CreatedAt)
			require.Equal(t, e.CreatedAt.Truncate(time.Millisecond), createdAt(e.ID))
			require.True(t, read.seen[e.ID], "the tail has not seen %s of %s, created at %v", e.ID, e.Type, e.CreatedAt)
			last = e
		}
		page.After = found.Next
	}
}

// A successor that is due soon can be older by its id than by its birth, but not by a
// downtime, and is never in the future.
func TestTheIDOfASuccessorDueSoonIsNearItsCreation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry, err := almanac.NewRegistry(everyFiveMinutes(t))
		require.NoError(t, err)
		rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer(almanac.ChannelWebhook, new(almanactest.Recorder)))
		enrolment, err := rehearsal.Scheduler.CreateUser(t.Context(), grace)
		require.NoError(t, err)
		cancelled, err := rehearsal.Scheduler.Cancel(t.Context(), enrolment.Events[0].ID, almanac.CancelOptions{})
		require.NoError(t, err)
		require.Equal(t, time.Now().UTC(), createdAt(cancelled.Successor.ID), "after an early end")
		time.Sleep(30 * 24 * time.Hour)

		rehearsal.For(time.Second)

		found, err := rehearsal.Repository.Find(t.Context(), almanac.InStatus(almanac.Pending), almanac.Page{})
		require.NoError(t, err)
		require.Len(t, found.Items, 1)
		age := found.Items[0].CreatedAt.Sub(createdAt(found.Items[0].ID))
		require.GreaterOrEqual(t, age, time.Duration(0))
		require.Less(t, age, 10*time.Minute, "after a downtime")
	})
}

func TestIdsOfASeriesAscendWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-03-01T12:00:00Z")
	r := almanactest.NewRepository(func() time.Time { return now })
	s := schedulerOn(t, r)
	enrolment, err := s.CreateUser(t.Context(), grace)
	require.NoError(t, err)
	before := enrolment.Events[0]
	require.Equal(t, now, createdAt(before.ID))
	for range 5 {
		now = now.Add(-time.Hour)

		cancelled, err := s.Cancel(t.Context(), before.ID, almanac.CancelOptions{})

		require.NoError(t, err)
		require.Negative(t, bytes.Compare(before.ID[:], cancelled.Successor.ID[:]))
		require.Equal(t, instant(t, "2026-03-01T12:00:00Z"), createdAt(cancelled.Successor.ID), "no more than it takes")
		before = *cancelled.Successor
	}
}

// A program without the handler cancels, and one that has it plans what follows: its
// own time of day, and not one of a ready-made handler.
func TestRunPlansSuccessorsLeftByOtherPrograms(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			evening := almanac.Birthday{At: func(almanac.User) calendar.Clock { return calendar.Clock{Hour: 18, Minute: 30} }}
			host := w.scheduler(t, evening)
			ada, err := host.CreateUser(t.Context(), born(t, "Asia/Tokyo", 10))
			require.NoError(t, err)
			grace, err := host.CreateUser(t.Context(), born(t, "UTC", 10))
			require.NoError(t, err)
			registry, err := almanac.NewRegistry()
			require.NoError(t, err)
			command, err := almanac.NewScheduler(w.store, registry)
			require.NoError(t, err)

			cancelled, err := command.Cancel(t.Context(), ada.Events[0].ID, almanac.CancelOptions{})
			require.NoError(t, err)
			require.True(t, cancelled.Unplanned)
			require.Nil(t, cancelled.Successor)
			finished, err := command.Cancel(t.Context(), grace.Events[0].ID, almanac.CancelOptions{EndSeries: true})
			require.NoError(t, err)
			require.False(t, finished.Unplanned)
			for range len(w.notices) {
				<-w.notices
			}

			w.run(t, evening, almanac.WithSweep(20*time.Millisecond))

			next := w.await(t, almanac.EventCreated)
			require.NoError(t, w.stop())
			require.Equal(t, ada.User.ID, next.UserID)
			require.Equal(t, ada.Events[0].Wall.Date.Year+1, next.Wall.Date.Year)
			require.Equal(t, calendar.Clock{Hour: 18, Minute: 30}, next.Wall.Clock)
			require.Len(t, w.all(t), 3, "what was finished stays so")
		})
	}
}

// A series that came to its end goes on from what it has used up itself, whatever
// stood apart since.
func TestASeriesGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			enrolment, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
			require.NoError(t, err)
			cancelled, err := scheduler.Cancel(t.Context(), enrolment.Events[0].ID, almanac.CancelOptions{EndSeries: true})
			require.NoError(t, err)
			require.Nil(t, cancelled.Successor)
			again, err := scheduler.Requeue(t.Context(), cancelled.Event.ID, almanac.ForceOptions{})
			require.NoError(t, err)

			result, err := scheduler.Reschedule(t.Context(), enrolment.User.ID)

			require.NoError(t, err)
			require.Len(t, result.Added, 1)
			require.Equal(t, cancelled.Event.Wall.Date.Year+1, result.Added[0].Wall.Date.Year)
			require.Empty(t, result.Skipped)
			require.Equal(t, again, w.event(t, again))
		})
	}
}

// lapsing is a birthday handler that fails while its field says so.
type lapsing struct {
	almanac.Birthday
	next    func() error
	payload func() (json.RawMessage, error)
	ill     *atomic.Bool
}

func (h lapsing) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	if h.ill.Load() && h.next != nil {
		if err := h.next(); err != nil {
			return calendar.Occurrence{}, err
		}
	}
	return h.Birthday.Next(u, after)
}

func (h lapsing) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	if h.ill.Load() && h.payload != nil {
		return h.payload()
	}
	return h.Birthday.Payload(u, o)
}

// A handler fails once, or for a day, while the successor is planned. The series has stalled,
// which can be seen, and goes on when the handler works again.
func TestAStalledSeriesIsSeenAndGoesOn(t *testing.T) {
	t.Parallel()
	errHolidays := errors.New("the table of holidays has no such year")
	tests := map[string]struct {
		next    func() error
		payload func() (json.RawMessage, error)
		says    string // "" if the series ends, and has not stalled
	}{
		"Next fails":            {next: func() error { return errHolidays }, says: errHolidays.Error()},
		"Next panics":           {next: func() error { panic("no table") }, says: "panicked: no table"},
		"Payload fails":         {payload: func() (json.RawMessage, error) { return nil, errHolidays }, says: errHolidays.Error()},
		"a payload too large":   {payload: func() (json.RawMessage, error) { return json.Marshal(strings.Repeat("x", 1<<17)) }, says: "payload"},
		"a payload is no JSON":  {payload: func() (json.RawMessage, error) { return json.RawMessage("{"), nil }, says: "payload"},
		"a rejected wall time":  {next: func() error { return &calendar.WallTimeError{Rejected: true} }, says: "clocks in"},
		"there is no next year": {next: func() error { return calendar.ErrNoOccurrence }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := almanactest.NewRepository(nil)
				h := lapsing{next: tt.next, payload: tt.payload, ill: new(atomic.Bool)}
				registry, err := almanac.NewRegistry(h)
				require.NoError(t, err)
				var notices []almanac.Notice
				deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { h.ill.Store(true); return nil })
				s, err := almanac.NewScheduler(r, registry, almanac.WithPoll(time.Hour), almanac.WithSweep(time.Minute), almanac.WithDeliverer(almanac.ChannelWebhook, deliver),
					almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
						if n.Kind == almanac.SeriesStalled {
							notices = append(notices, n)
						}
					})))
				require.NoError(t, err)
				ada, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-02", Timezone: "UTC"})
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				time.Sleep(48 * time.Hour)

				stalled, err := r.Stalled(t.Context(), uuid.Nil, 0)
				require.NoError(t, err)
				if tt.says == "" {
					require.Empty(t, stalled)
					require.Empty(t, notices)
				} else {
					require.Len(t, stalled, 1)
					require.Equal(t, ada.User.ID, stalled[0].UserID)
					require.Contains(t, stalled[0].Error, tt.says)
					require.Greater(t, stalled[0].Failures, 10, "it was tried again")
					require.Less(t, stalled[0].Failures, 80, "with growing waits")
					require.Len(t, notices, 1)
					require.Equal(t, ada.Events[0].ID, notices[0].Event.ID)
					require.ErrorContains(t, notices[0].Err, tt.says)
				}

				h.ill.Store(false)
				time.Sleep(2 * time.Hour)

				stalled, err = r.Stalled(t.Context(), uuid.Nil, 0)
				require.NoError(t, err)
				require.Empty(t, stalled)
				pending, err := r.Count(t.Context(), almanac.InStatus(almanac.Pending))
				require.NoError(t, err)
				want := 1
				if tt.says == "" {
					want = 0
				}
				require.Equal(t, want, pending)
				stop()
				require.NoError(t, <-ended)
			})
		})
	}
}

// rude is a birthday handler whose code does something else for the user Rude, once their
// event was delivered.
type rude struct {
	almanac.Birthday
	where string // next, payload or follow
	act   func()
	on    *sync.Map // "yes" is stored once their event was delivered
}

func (h rude) misbehave(where string, u almanac.User) {
	if _, yes := h.on.Load("yes"); yes && h.where == where && u.FirstName == "Rude" {
		h.act()
	}
}

func (h rude) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	h.misbehave("next", u)
	return h.Birthday.Next(u, after)
}

func (h rude) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	h.misbehave("payload", u)
	return h.Birthday.Payload(u, o)
}

func (h rude) Follow(u almanac.User, _ almanac.Event) ([]almanac.FollowUp, error) {
	h.misbehave("follow", u)
	return nil, nil
}

// One user's handler or an observer misbehaves while the outcomes of five users are stored.
// The four others go on with their series, and so does the program.
func TestTheHostsCodeDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ways := map[string]func(done <-chan struct{}) func(){
		"ends its goroutine": func(<-chan struct{}) func() { return runtime.Goexit },
		"panics":             func(<-chan struct{}) func() { return func() { panic("oh") } },
		"never returns":      func(done <-chan struct{}) func() { return func() { <-done } },
	}
	for _, where := range []string{"next", "payload", "follow", "observer"} {
		for way, act := range ways {
			t.Run(where+" "+way, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					done, delivered := make(chan struct{}), new(sync.Map)
					h := rude{where: where, act: act(done), on: delivered}
					r := almanactest.NewRepository(nil)
					registry, err := almanac.NewRegistry(h)
					require.NoError(t, err)
					completed := 0
					s, err := almanac.NewScheduler(r, registry, almanac.WithPoll(12*time.Hour), almanac.WithSweep(12*time.Hour),
						almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
							delivered.Store("yes", true)
							return nil
						})),
						almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
							if n.Kind != almanac.EventCompleted {
								return
							}
							mu.Lock()
							completed++
							first := completed == 1
							mu.Unlock()
							if first && where == "observer" {
								h.act()
							}
						})))
					require.NoError(t, err)
					for _, name := range []string{"Ada", "Grace", "Rude", "Alan", "Edsger"} {
						_, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: name, LastName: "X", DateOfBirth: "1990-01-02", Timezone: "UTC"})
						require.NoError(t, err)
					}
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- s.Run(ctx) }()
					time.Sleep(48 * time.Hour)

					n, err := r.Count(t.Context(), almanac.InStatus(almanac.Completed))
					require.NoError(t, err)
					require.Equal(t, 5, n, "delivered")
					n, err = r.Count(t.Context(), almanac.InStatus(almanac.Processing))
					require.NoError(t, err)
					require.Zero(t, n)
					n, err = r.Count(t.Context(), almanac.InStatus(almanac.Pending))
					require.NoError(t, err)
					want := 5
					if where == "next" || where == "payload" {
						want = 4
					}
					require.Equal(t, want, n, "successors")
					health := s.Health()
					require.NoError(t, health.Err())
					require.Zero(t, health.Held)
					if way == "never returns" {
						require.Equal(t, 1, health.Blocked)
					} else {
						require.Zero(t, health.Blocked)
					}
					close(done)
					synctest.Wait()
					require.Zero(t, s.Health().Blocked, "it has returned")
					stop()
					require.NoError(t, <-ended)
				})
			})
		}
	}
}

// Two days were delivered ahead, then the rule was yearly for one event: when it is daily again
// while that event is in flight, its successor is after both days. A plan that regarded only
// the key that ends would plan the first of them, and the store would refuse it.
func TestASuccessorKnowsTheUsedKeysOfEachUnit(t *testing.T) {
	t.Parallel()
	daily, christmas := forAll(dailyAt(9)), forAll(yearlyOn(time.December, 25, 9))
	l := ruled{t: t, ctx: t.Context()}.begin("UTC", instant(t, "2026-11-26T08:00:00Z"), daily, false)
	ahead := func() {
		t.Helper()
		e, ok := l.pending()
		require.True(t, ok)
		_, err := l.scheduler.RunNow(t.Context(), e.ID, almanac.ForceOptions{})
		require.NoError(t, err)
		l.run(l.now.Add(time.Minute))
	}
	ahead() // 2026-11-26
	ahead() // 2026-11-27
	l.rule = christmas
	l.change(almanac.ProfileChange{})
	l.rule = daily // the program that delivers knows it before the event is planned anew
	ahead()
	require.Len(t, l.delivered, 3)
	require.Equal(t, "2026", l.delivered[2].Key)

	e, ok := l.pending()
	require.True(t, ok)
	require.Equal(t, "2026-11-28", e.OccurrenceKey)
}

// A rule that becomes finer while an event is late still owes the rest of that day, if each
// missed event is delivered.
func TestAFinerRuleContinuesAfterTheOccurrenceThatWasLate(t *testing.T) {
	t.Parallel()
	l := ruled{t: t, ctx: t.Context()}.begin("UTC", instant(t, "2026-11-26T08:00:00Z"), forAll(dailyAt(9)), true)
	l.rule = forAll(mustCron("0 * * * *"))
	l.run(instant(t, "2026-11-26T12:30:00Z"))

	e, ok := l.pending()
	require.True(t, ok)
	require.Equal(t, "2026-11-26T10:00:00", e.Wall.String())
}

// yearText is a rule whose keys are the host's own texts. They look like those of years.
type yearText struct{ calendar.Yearly }

func (y yearText) After(w calendar.WallTime, p calendar.Policies) (calendar.Slot, error) {
	slot, err := y.Yearly.After(w, p)
	slot.Unit = calendar.UnitText
	return slot, err
}

func TestTheSameTextOfAnotherUnitIsAnotherOccurrence(t *testing.T) {
	t.Parallel()
	christmas := calendar.Yearly{Month: time.December, Day: 25, At: calendar.Clock{Hour: 9}}
	l := ruled{t: t, ctx: t.Context()}.begin("UTC", instant(t, "2026-11-26T08:00:00Z"), forAll(yearText{christmas}), false)
	was, ok := l.pending()
	require.True(t, ok)
	l.rule = forAll(calendar.Yearly{Month: time.December, Day: 24, At: calendar.Clock{Hour: 9}})

	result := l.change(almanac.ProfileChange{})
	require.Empty(t, result.Moved)
	require.Len(t, result.Removed, 1)
	require.Equal(t, was.ID, result.Removed[0].ID)
	require.Len(t, result.Added, 1)
	require.Equal(t, calendar.UnitYear, result.Added[0].KeyUnit)
	require.Equal(t, was.OccurrenceKey, result.Added[0].OccurrenceKey)
}

// RunNow and a move east make the event end after the wall time of the next occurrence, which is still to come.
func TestAnEventMadeDueInAWindowLosesNoOccurrence(t *testing.T) {
	t.Parallel()
	const window = 12 * time.Hour
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, r := openOn(almanactest.NewRepository(nil)), new(receiver)
			r.answers = []error{errors.New("busy")}
			h := almanac.Recurring{
				Type: "DAILY",
				Rule: func(almanac.User) (calendar.Recurrence, error) {
					return calendar.Daily{At: calendar.Clock{Hour: 9}}, nil
				},
				Execution: almanac.Execution{Spread: window, CatchUpPolicy: almanac.CatchUp{All: all}, RetryPolicy: almanac.RetryPolicy{First: time.Minute}},
			}
			s, p := w.scheduler(t, h), grace
			p.ID, p.Timezone = uuid.UUID{15: 1}, "America/Los_Angeles"
			for (almanac.Series{Type: "DAILY"}).Spread(p.ID, window) < window/2 {
				p.ID[15]++
			}
			time.Sleep(12 * time.Hour)
			created, err := s.CreateUser(t.Context(), p)
			require.NoError(t, err)
			e := created.Events[0]
			time.Sleep(time.Until(e.Due) + 5*time.Hour)
			w.run(t, h, almanac.WithDeliverer(almanac.ChannelWebhook, r))
			time.Sleep(time.Second)
			_, err = s.RunNow(t.Context(), e.ID, almanac.ForceOptions{})
			require.NoError(t, err)
			time.Sleep(20 * time.Second)
			_, err = s.UpdateUser(t.Context(), p.ID, almanac.ProfileChange{Timezone: ptr("Pacific/Auckland")})
			require.NoError(t, err)
			time.Sleep(48 * time.Hour)
			require.NoError(t, w.stop())
			require.Equal(t, []string{"2000-01-01", "2000-01-01", "2000-01-02", "2000-01-03"}, r.keys())
		})
	}
}

// Nothing is delivered for some days, and then an edit comes by a program with another time of day, or the user
// chooses another one. Both times owe the occurrences.
func TestAnEditOfADueEventLosesNoOccurrence(t *testing.T) {
	t.Parallel()
	at := func(hour int) almanac.Recurring {
		return almanac.Recurring{
			Type: "DOSE",
			Rule: func(u almanac.User) (calendar.Recurrence, error) {
				return calendar.Daily{At: almanac.AtAttribute("deliverAt", calendar.Clock{Hour: hour})(u)}, nil
			},
			Execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{All: true}},
		}
	}
	name, earlier := almanac.ProfileChange{FirstName: ptr("Augusta")}, almanac.ProfileChange{Attributes: json.RawMessage(`{"deliverAt": "07:30"}`)}
	for what, tt := range map[string]struct {
		hour int // of the program that edits
		edit func(almanac.Scheduler, uuid.UUID) (almanac.UpdateUserResult, error)
	}{
		"a name, after a deployment to an earlier time": {8, func(s almanac.Scheduler, id uuid.UUID) (almanac.UpdateUserResult, error) {
			return s.UpdateUser(context.Background(), id, name)
		}},
		"a reschedule after a deployment to a later time": {10, func(s almanac.Scheduler, id uuid.UUID) (almanac.UpdateUserResult, error) {
			return s.Reschedule(context.Background(), id)
		}},
		"the user's own time": {9, func(s almanac.Scheduler, id uuid.UUID) (almanac.UpdateUserResult, error) {
			return s.UpdateUser(context.Background(), id, earlier)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, r, p := openOn(almanactest.NewRepository(nil)), new(receiver), grace
			p.Timezone = "UTC"
			created, err := w.scheduler(t, at(9)).CreateUser(t.Context(), p)
			require.NoError(t, err)
			time.Sleep(3*24*time.Hour + 12*time.Hour)
			edited, err := tt.edit(w.scheduler(t, at(tt.hour)), created.User.ID)
			require.NoError(t, err)
			require.Empty(t, edited.Removed, what)
			w.run(t, at(tt.hour), almanac.WithDeliverer(almanac.ChannelWebhook, r))
			time.Sleep(time.Minute)
			require.NoError(t, w.stop())
			require.Equal(t, []string{"2000-01-01", "2000-01-02", "2000-01-03", "2000-01-04"}, r.keys(), what)
		})
	}
}

// The new time of a due announcement is as far back as an edit searches at first, or further.
func TestAnEditOfADueAnnouncementFindsItEarlier(t *testing.T) {
	t.Parallel()
	for _, days := range []int{4, 40} {
		synctest.Test(t, func(t *testing.T) {
			soon := func(days int) almanac.Recurring {
				return almanac.Recurring{Type: "SOON", Rule: func(almanac.User) (calendar.Recurrence, error) {
					nine := calendar.Clock{Hour: 9}
					return calendar.Offset{Of: calendar.Yearly{Month: time.January, Day: 20, At: nine}, Days: -days, At: nine}, nil
				}}
			}
			w, p := openOn(almanactest.NewRepository(nil)), grace
			p.Timezone = "UTC"
			created, err := w.scheduler(t, soon(1)).CreateUser(t.Context(), p)
			require.NoError(t, err)
			time.Sleep(time.Until(created.Events[0].Due) + time.Hour)
			edited, err := w.scheduler(t, soon(days)).UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{FirstName: ptr("Augusta")})
			require.NoError(t, err)
			require.Empty(t, edited.Removed)
		})
	}
}

// Clocks in New York skip 02:30 on 2 April 2000. The event of the day after can be edited all the same.
func TestARejectedTimeThatHasPassedRefusesNoEdit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := almanac.Recurring{Type: "DOSE", Policies: calendar.Policies{Gap: calendar.GapReject}, Rule: func(almanac.User) (calendar.Recurrence, error) {
			return calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}, nil
		}}
		time.Sleep(time.Until(time.Date(2000, 4, 2, 12, 0, 0, 0, time.UTC)))
		s := openOn(almanactest.NewRepository(nil)).scheduler(t, h)
		created, err := s.CreateUser(t.Context(), grace)
		require.NoError(t, err)
		edited, err := s.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{FirstName: ptr("Augusta")})
		require.NoError(t, err)
		require.Empty(t, edited.Removed)
		require.Equal(t, "Augusta", edited.User.FirstName)
	})
}
