package almanac_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// aDay are the last 24 hours on the hour, of which a downtime left only the first
// stored, and one to come.
func aDay() []time.Time {
	var hours []time.Duration
	for h := 24; h > 0; h-- {
		hours = append(hours, time.Duration(h)*time.Hour)
	}
	return ago(append(hours, nextYear)...)
}

func TestCatchUpDecidesWhatADowntimeOwes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy    almanac.CatchUp
		delivered int // the last ones of those that were stored
		missed    int
	}{
		"the pending one fires, then the present": {almanac.CatchUp{}, 1, 0},
		"each one fires":                              {almanac.CatchUp{All: true}, 24, 0},
		"what is too old is missed":                   {almanac.CatchUp{SkipOlder: 23 * time.Hour}, 0, 1},
		"what is not too old fires":                   {almanac.CatchUp{SkipOlder: 25 * time.Hour}, 1, 0},
		"what is young enough of each one fires":      {almanac.CatchUp{All: true, SkipOlder: 150 * time.Minute}, 2, 22},
		"each one is missed when all of them are old": {almanac.CatchUp{All: true, SkipOlder: time.Minute}, 0, 24},
	}
	for where, repository := range onBoth {
		for name, tt := range tests {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				w, r := openOn(repository(t)), new(receiver)
				handler := series{Execution: almanac.Execution{CatchUpPolicy: tt.policy}, eventType: "DIGEST", seconds: aDay(), execute: r.Deliver}
				owe(t, w.store, handler)

				w.run(t, handler)
				for next := (almanac.Event{}); !next.Due.Equal(handler.seconds[24]); {
					next = w.await(t, almanac.EventCreated)
				}
				require.NoError(t, w.stop())

				found, err := w.store.Find(t.Context(), nil, almanac.Page{})
				require.NoError(t, err)
				require.Equal(t, tt.missed+tt.delivered+1, len(found.Events), "events in all")
				for i, e := range found.Events[:tt.missed] {
					require.Equal(t, handler.seconds[i], e.Due, "in their order, and none left out")
					require.Equal(t, almanac.Failed, e.Status)
					require.True(t, strings.HasPrefix(e.FailureReason, "missed: "), e.FailureReason)
				}
				for i, e := range found.Events[tt.missed : tt.missed+tt.delivered] {
					require.Equal(t, handler.seconds[tt.missed+i], e.Due)
					require.Equal(t, almanac.Completed, e.Status)
				}
				require.Equal(t, almanac.Pending, found.Events[tt.missed+tt.delivered].Status)
				require.Len(t, r.deliveries(), tt.delivered)
			})
		}
	}
}

// A clock that strikes each hour runs for two and a half of them, stands still for
// a day, and runs for two more.
func TestADayOfDowntimeFromEndToEnd(t *testing.T) {
	t.Parallel()
	from := func(first, last int) (hours []int) {
		for h := first; h <= last; h++ {
			hours = append(hours, h)
		}
		return hours
	}
	for name, tt := range map[string]struct {
		policy almanac.CatchUp
		struck []int // hours since the beginning
		missed []int
	}{
		"latest":                           {almanac.CatchUp{}, []int{1, 2, 3, 27, 28}, nil},
		"all":                              {almanac.CatchUp{All: true}, from(1, 28), nil},
		"skip older than 100 minutes":      {almanac.CatchUp{SkipOlder: 100 * time.Minute}, []int{1, 2, 27, 28}, []int{3}},
		"all, skip older than 100 minutes": {almanac.CatchUp{All: true, SkipOlder: 100 * time.Minute}, append([]int{1, 2}, from(25, 28)...), from(3, 24)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var struck []int
				start := time.Now()
				hourOf := func(e almanac.Event) int { return int(e.Due.Sub(start) / time.Hour) }
				rule, err := almanac.ParseCron("0 * * * *")
				require.NoError(t, err)
				handler := always(rule)
				handler.CatchUpPolicy = tt.policy
				registry, err := almanac.NewRegistry(handler)
				require.NoError(t, err)
				repository := almanactest.NewRepository(nil)
				s, err := almanac.NewScheduler(repository, registry, almanac.WithDeliverer(handler.Channel(almanac.Event{}), almanac.DelivererFunc(
					func(_ context.Context, d almanac.Delivery) error {
						mu.Lock()
						defer mu.Unlock()
						struck = append(struck, hourOf(d.Event))
						return nil
					})))
				require.NoError(t, err)
				_, err = s.CreateUser(t.Context(), grace)
				require.NoError(t, err)
				runFor := func(d time.Duration) {
					ctx, stop := context.WithTimeout(t.Context(), d)
					defer stop()
					require.NoError(t, s.Run(ctx))
				}

				runFor(150 * time.Minute)
				time.Sleep(24 * time.Hour)
				missed, err := s.Missed(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, missed.Count, "the rest is not stored yet")
				require.Equal(t, start.Add(3*time.Hour).UTC(), missed.Oldest)
				runFor(2 * time.Hour)

				require.Equal(t, tt.struck, struck)
				found, err := repository.Find(t.Context(), almanac.InStatus(almanac.Failed), almanac.Page{})
				require.NoError(t, err)
				var failed []int
				for _, e := range found.Events {
					failed = append(failed, hourOf(e))
				}
				require.Equal(t, tt.missed, failed)
			})
		})
	}
}

// A person who is being tried again is not missed, however old the event is by
// then.
func TestSkippingIsForWhatWasNeverTried(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			handler := series{Execution: soon, eventType: "DIGEST", seconds: ago(2 * time.Hour), execute: r.Deliver}
			handler.CatchUpPolicy.SkipOlder = time.Hour
			owed := owe(t, w.store, handler)
			claimed, err := owed.Claim(owed.ID)
			require.NoError(t, err)
			claimed, err = w.store.Update(t.Context(), claimed, 1)
			require.NoError(t, err)
			released, err := claimed.Release(almanac.AfterFailure, "busy", claimed.Due)
			require.NoError(t, err)
			_, err = w.store.Update(t.Context(), released, 2)
			require.NoError(t, err)

			w.run(t, handler)
			w.await(t, almanac.EventCompleted)
			require.NoError(t, w.stop())

			require.Len(t, r.deliveries(), 1)
		})
	}
}
