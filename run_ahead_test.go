package almanac_test

import (
	"context"
	"encoding/json"
	"slices"
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

// dial is a clock that goes wrong by a rate, and is set by an amount at times.
type dial struct {
	mu      sync.Mutex
	started time.Time
	rate    float64
	set     time.Duration
}

func (d *dial) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	passed := time.Since(d.started)
	return d.started.Add(time.Duration(float64(passed)*d.rate) + d.set)
}

func (d *dial) adjust(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set += by
}

// window is how far these tests look ahead.
const window = 500 * time.Millisecond

// Whatever the database's clock does, nothing begins before it has come to the
// instant, or has been there.
func TestNoEventStartsEarlyByTheDatabaseClock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.SampledFrom([]float64{0.5, 0.99, 1, 1.01, 2}).Draw(rt, "rate")
		ms := rapid.Map(rapid.IntRange(0, 5000), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
		setAt := rapid.SliceOfN(ms, 0, 4).Draw(rt, "set at")
		ahead := rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, time.Second}).Draw(rt, "look-ahead")
		early, deliveries := time.Duration(0), 0
		synctest.Test(t, func(t *testing.T) {
			clock := &dial{started: time.Now(), rate: rate}
			latest := clock.now() // what the clock has shown
			for i, at := range setAt {
				by := []time.Duration{-300 * time.Millisecond, 200 * time.Millisecond, -2 * time.Second, 700 * time.Millisecond}[i]
				time.AfterFunc(at, func() {
					if now := clock.now(); now.After(latest) {
						latest = now
					}
					clock.adjust(by)
				})
			}
			w := openOn(almanactest.NewRepository(clock.now))
			due := clock.now().Truncate(time.Second).Add(3 * time.Second)
			handler := series{eventType: "DIGEST", seconds: []time.Time{due, due.Add(time.Second), due.Add(2 * time.Second)}}
			handler.CatchUpPolicy.All = true // a clock that runs ahead leaves some behind
			handler.execute = func(_ context.Context, d almanac.Delivery) error {
				deliveries++
				now := clock.now()
				if now.Before(latest) {
					now = latest
				}
				early = max(early, d.Event.Due.Sub(now), d.Event.Due.Sub(d.At))
				return nil
			}
			storeEvent(t, w.store, handler)
			w.run(t, handler, almanac.WithLookAhead(ahead))
			time.Sleep(time.Minute)
			require.NoError(t, w.stop())
		})
		if early > 0 {
			rt.Errorf("early by %v", early)
		}
		if deliveries != 3 {
			rt.Errorf("%d deliveries, want 3", deliveries)
		}
	})
}

// whenever is a handler of one occurrence, at the second that the user's attributes say.
type whenever struct {
	almanac.Execution
	execute func(ctx context.Context, d almanac.Delivery) error
}

func (whenever) EventType() string { return "AT" }

func (whenever) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	var when time.Time
	if err := json.Unmarshal(u.Attributes, &struct{ At *time.Time }{&when}); err != nil {
		return calendar.Occurrence{}, err
	}
	if !when.After(after) {
		return calendar.Occurrence{}, calendar.ErrNoOccurrence
	}
	utc, err := calendar.LoadTimezone("UTC")
	return calendar.Occurrence{Key: "1", Wall: calendar.WallTimeOf(when.UTC()), Zone: utc}, err
}

func (whenever) Payload(almanac.User, almanac.Occurrence) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}

func (whenever) Channel(almanac.Event) almanac.Channel { return "test" }

func (h whenever) Execute(ctx context.Context, d almanac.Delivery) error { return h.execute(ctx, d) }

func attributesAt(t time.Time) json.RawMessage {
	return json.RawMessage(`{"At": "` + t.UTC().Format(time.RFC3339) + `"}`)
}

// deliveries remembers when whose events were delivered, by the target that they had.
type deliveries struct {
	mu  sync.Mutex
	got map[uuid.UUID][]almanac.Delivery // by user
}

func (d *deliveries) Deliver(_ context.Context, one almanac.Delivery) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.got == nil {
		d.got = make(map[uuid.UUID][]almanac.Delivery)
	}
	d.got[one.Event.UserID] = append(d.got[one.Event.UserID], one)
	return nil
}

func (d *deliveries) of(id uuid.UUID) []almanac.Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.got[id])
}

// Users change their minds around the instants of their events, once a second each,
// while two processes hold them ahead and one of them is stopped. After a change in time the
// event is delivered at the new instant and only then, and after a late change at the old one.
func TestEditsAroundTheInstantTakeEffectOrFindTheEventInFlight(t *testing.T) {
	t.Parallel()
	for name, repository := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const people, rounds = 16, 3
			store, got := repository(t), new(deliveries)
			handler := whenever{execute: got.Deliver}
			sweep := almanac.WithSweep(2 * time.Second) // finds an event that a claim, or a scheduler that stops, passed over while an edit had it locked
			first, second := openOn(store), openOn(store)
			scheduler := first.run(t, handler, almanac.WithLookAhead(window), almanac.WithPoll(50*time.Millisecond), sweep)
			second.run(t, handler, almanac.WithLookAhead(window), almanac.WithPoll(50*time.Millisecond), sweep)
			start := time.Now().Truncate(time.Second).Add(8 * time.Second) // on a busy machine, creating them takes a while
			due := make(map[uuid.UUID]time.Time, people)
			var mu sync.Mutex
			var changing sync.WaitGroup
			for i := range people {
				profile := grace
				profile.Attributes = attributesAt(start)
				e, err := scheduler.CreateUser(t.Context(), profile)
				require.NoError(t, err)
				if len(e.Events) > 0 { // on a very busy machine, start may have passed
					mu.Lock()
					due[e.User.ID] = start
					mu.Unlock()
				}
				changing.Go(func() {
					for round := range rounds {
						was := start.Add(time.Duration(round) * time.Second)
						<-time.After(time.Until(was.Add(time.Duration(i-people/2)*4*time.Millisecond - time.Duration(round)*10*time.Millisecond)))
						done, err := scheduler.UpdateUser(t.Context(), e.User.ID, almanac.ProfileChange{Attributes: attributesAt(was.Add(time.Second))})
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						switch {
						case len(done.Moved)+len(done.Added) > 0:
							due[e.User.ID] = was.Add(time.Second)
						case len(done.Removed) > 0: // on a busy machine, the new instant was past as well
							delete(due, e.User.ID)
						}
						mu.Unlock()
						if err != nil || len(done.Moved) == 0 {
							return
						}
					}
				})
			}
			<-time.After(time.Until(start.Add(time.Second - 40*time.Millisecond)))
			require.NoError(t, first.stop())
			changing.Wait()
			for id, instant := range due {
				require.Eventually(t, func() bool { return len(got.of(id)) > 0 }, 30*time.Second, 10*time.Millisecond)
				for _, d := range got.of(id) {
					require.Equal(t, instant.UTC(), d.Event.Due, "as it was after the last change that was in time")
					require.False(t, d.At.Before(d.Event.Due), "never early")
				}
				require.Len(t, got.of(id), 1)
			}
			require.NoError(t, second.stop())
		})
	}
}

// dueSoon is a series with one event, three seconds ahead.
func dueSoon(execute func(context.Context, almanac.Delivery) error) series {
	due := time.Now().UTC().Truncate(time.Second).Add(3 * time.Second)
	return series{eventType: "DIGEST", seconds: []time.Time{due}, execute: execute}
}

// laborious is a repository that takes its time to answer a claim.
type laborious struct{ *almanactest.Repository }

func (l laborious) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	claim, err := l.Repository.Claim(ctx, r)
	time.Sleep(30 * time.Millisecond)
	return claim, err
}

func TestHeldEventsStartAtTheirInstantAfterASlowClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, got := laborious{almanactest.NewRepository(nil)}, new(deliveries)
		handler := dueSoon(got.Deliver)
		stored := storeEvent(t, store, handler)
		w := openOn(store)
		w.run(t, handler, almanac.WithLookAhead(window))
		time.Sleep(time.Minute)

		require.Len(t, got.of(stored.UserID), 1)
		require.Equal(t, stored.Due, got.of(stored.UserID)[0].At)
		require.NoError(t, w.stop())
	})
}

// distant is a repository to which a question travels for a while, and its answer back.
type distant struct{ *almanactest.Repository }

const journey = 400 * time.Microsecond

func (d distant) Now(ctx context.Context) (time.Time, error) {
	time.Sleep(journey)
	defer time.Sleep(journey)
	return d.Repository.Now(ctx)
}

func (d distant) Confirm(ctx context.Context, events []almanac.Event) (almanac.ConfirmResult, error) {
	time.Sleep(journey)
	defer time.Sleep(journey)
	return d.Repository.Confirm(ctx, events)
}

func TestConfirmQueriesArriveAtTheInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const learning, learned = 20, 50
		store, got := distant{almanactest.NewRepository(nil)}, new(deliveries)
		handler := dueSoon(got.Deliver)
		for n := 1; n < learning+learned; n++ {
			handler.seconds = append(handler.seconds, handler.seconds[0].Add(time.Duration(n)*time.Second))
		}
		stored := storeEvent(t, store, handler)
		w := openOn(store)
		w.run(t, handler, almanac.WithLookAhead(window))
		time.Sleep((learning + learned + 10) * time.Second)

		var late []time.Duration
		for _, d := range got.of(stored.UserID) {
			late = append(late, d.At.Sub(d.Event.Due))
		}
		require.Len(t, late, learning+learned)
		require.GreaterOrEqual(t, late[0], 2*journey, "the first question goes out when the watch shows the instant, which is late too")
		slices.Sort(late[learning:])
		require.Less(t, late[learning+learned/2], journey+journey/4, "only the answer travels")
		require.NoError(t, w.stop())
	})
}

func TestAStoppingProcessReleasesEventsHeldAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, got := almanactest.NewRepository(nil), new(deliveries)
		handler := dueSoon(got.Deliver)
		stored := storeEvent(t, store, handler)
		one, other := openOn(store), openOn(store)
		one.run(t, handler, almanac.WithLookAhead(window))
		time.Sleep(time.Until(stored.Due) - 100*time.Millisecond)
		e := one.event(t, stored)
		require.Equal(t, almanac.Processing, e.Status, "it is held")
		require.NoError(t, one.stop())
		other.run(t, handler, almanac.WithLookAhead(window))
		time.Sleep(time.Second)

		require.Len(t, got.of(stored.UserID), 1)
		require.Equal(t, stored.Due, got.of(stored.UserID)[0].At)
		done := other.event(t, stored)
		require.Equal(t, 1, done.ClaimCount, "only the other claim shows")
		require.Zero(t, done.CrashCount)
		require.NoError(t, other.stop())
	})
}

// The process that held it is the one that claims it again, twice, and has it three
// times in flight when its instant comes.
func TestAnEventReleasedAndClaimedAgainStartsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, got := almanactest.NewRepository(nil), new(deliveries)
		handler := dueSoon(got.Deliver)
		stored := storeEvent(t, store, handler)
		w := openOn(store)
		scheduler := w.run(t, handler, almanac.WithLookAhead(window))
		time.Sleep(time.Until(stored.Due) - window*2/5)
		claims := []almanac.Event{w.event(t, stored)}
		for _, name := range []string{"Grace", "Amazing Grace"} {
			_, err := scheduler.UpdateUser(t.Context(), stored.UserID, almanac.ProfileChange{FirstName: &name})
			require.NoError(t, err)
			time.Sleep(window / 10)
			claims = append(claims, w.event(t, stored))
		}
		time.Sleep(time.Second)

		for i, e := range claims {
			require.Equal(t, almanac.Processing, e.Status)
			require.True(t, i == 0 || e.Version > claims[i-1].Version, "released and claimed again")
		}
		require.Len(t, got.of(stored.UserID), 1)
		require.Equal(t, claims[2], got.of(stored.UserID)[0].Event)
		require.NoError(t, w.stop())
	})
}

func TestEventsHeldAheadByADeadProcessRunAfterTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, got := almanactest.NewRepository(nil), new(deliveries)
		handler := dueSoon(got.Deliver)
		stored := storeEvent(t, store, handler)
		claim, err := store.Claim(t.Context(), almanac.ClaimRequest{
			Token: uuid.New(), Types: []string{"DIGEST"}, Limit: 1, Lease: 10 * time.Second, Ahead: 5 * time.Second,
		})
		require.NoError(t, err)
		require.Len(t, claim.Events, 1)
		w := openOn(store)
		w.run(t, handler, almanac.WithLookAhead(window), almanac.WithSweep(time.Second))
		time.Sleep(time.Minute)

		require.Len(t, got.of(stored.UserID), 1)
		require.Less(t, got.of(stored.UserID)[0].At.Sub(claim.At), 12*time.Second)
		require.Equal(t, 1, w.event(t, stored).CrashCount, "it may have begun")
		require.NoError(t, w.stop())
	})
}

// tooEarly is a repository whose claims also take events that are due within an hour, whatever they were
// asked for.
type tooEarly struct{ almanac.Repository }

func (r tooEarly) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.ClaimResult, error) {
	request.Ahead = time.Hour
	return r.Repository.Claim(ctx, request)
}

// The repository decides what is due, and the scheduler checks it again: an event that comes too early
// is not delivered.
func TestAnEventThatARepositoryClaimsTooEarlyIsNotDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := openOn(tooEarly{almanactest.NewRepository(nil)}), new(receiver)
		h := series{eventType: "FINE", seconds: ago(-10 * time.Minute), execute: r.Deliver}
		storeEvent(t, w.store, h)
		w.run(t, h, almanac.WithLookAhead(0)) // otherwise it would be held until its instant
		failed := w.await(t, almanac.EventFailed)
		require.NoError(t, w.stop())
		require.Contains(t, failed.FailureReason, "event is due in ")
		require.Empty(t, r.deliveries())
	})
}

// setBack is a repository whose claims ahead end 2 ms after an instant, and whose clock then goes back by 10 ms.
type setBack struct {
	almanac.Repository
	at   time.Time
	back *atomic.Int64
}

func (r setBack) Claim(ctx context.Context, q almanac.ClaimRequest) (almanac.ClaimResult, error) {
	c, err := r.Repository.Claim(ctx, q)
	if wait := time.Until(r.at); q.Ahead > 0 && wait > 0 && len(c.Events) > 0 {
		time.Sleep(wait + 2*time.Millisecond)
		c.At = time.Now().UTC()
		r.back.Store(int64(10 * time.Millisecond))
	}
	return c, err
}

func (r setBack) Now(ctx context.Context) (time.Time, error) {
	now, err := r.Repository.Now(ctx)
	return now.Add(-time.Duration(r.back.Load())), err
}

func TestAClockThatIsSetBackDuringAClaimFailsNoEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nine := time.Date(2000, 1, 1, 9, 0, 0, 0, time.UTC)
		w, r, p := openOn(setBack{almanactest.NewRepository(nil), nine, new(atomic.Int64)}), new(receiver), grace
		p.Timezone, p.DateOfBirth = "UTC", "1990-01-01"
		s := w.run(t, almanac.Birthday{}, almanac.WithDeliverer(almanac.ChannelWebhook, r))
		_, err := s.CreateUser(t.Context(), p)
		require.NoError(t, err)
		time.Sleep(10 * time.Hour)
		require.NoError(t, w.stop())
		require.Equal(t, []string{"2000"}, r.keys())
	})
}
