package dashboard

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
)

// newMonitor returns a Monitor with a clock that the test sets.
func newMonitor() (*Monitor, *time.Time) {
	at := time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC)
	m := NewMonitor()
	m.now = func() time.Time { return at }
	return m, &at
}

// started is the first attempt of an event that is late.
func started(late time.Duration) almanac.Delivery {
	due := time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	return almanac.Delivery{Event: almanac.Event{Type: "BIRTHDAY", Due: due}, Attempt: 1, At: due.Add(late)}
}

func TestQuantilesAreWithinTenPercent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, _ := newMonitor()
		exponents := rapid.SliceOfN(rapid.Float64Range(math.Log(0.001), math.Log(19*3600)), 1, 300).Draw(t, "logarithms of seconds")
		var all []time.Duration
		for _, exponent := range exponents {
			late := time.Duration(math.Exp(exponent) * float64(time.Second))
			all = append(all, late)
			m.start(started(late))
		}
		slices.Sort(all)
		got, _ := m.span("BIRTHDAY", time.Hour)
		if got.Count != len(all) || got.Most != all[len(all)-1] {
			t.Fatalf("count %d, most %v", got.Count, got.Most)
		}
		for share, quantile := range map[float64]time.Duration{0.5: got.P50, 0.95: got.P95, 0.99: got.P99} {
			exact := all[max(0, int(math.Ceil(share*float64(len(all))))-1)]
			if off := math.Abs(quantile.Seconds()/exact.Seconds() - 1); off > 0.1 {
				t.Fatalf("quantile %v: %v instead of %v", share, quantile, exact)
			}
		}
	})
}

func TestQuantilesOfExtremes(t *testing.T) {
	t.Parallel()
	m, _ := newMonitor()
	none, _ := m.span("", time.Hour)
	require.Zero(t, none.P99)
	m.start(started(-time.Second)) // a clock was set back
	got, _ := m.span("", time.Hour)
	require.Zero(t, got.P99)
	m.start(started(100 * time.Hour))
	got, _ = m.span("", time.Hour)
	require.Equal(t, 100*time.Hour, got.P99)
	require.Equal(t, 2, got.Count)
}

func TestManyStartsInAMinuteAreCounted(t *testing.T) {
	t.Parallel()
	m, _ := newMonitor()
	for range 70_000 {
		m.start(started(time.Second))
	}
	got, rates := m.span("", time.Hour)
	require.Equal(t, 70_000, got.Count)
	require.Equal(t, 70_000, rates.Started)
}

func TestMinutesAreForgottenAfterADay(t *testing.T) {
	t.Parallel()
	m, at := newMonitor()
	m.start(started(time.Second))
	m.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCompleted, Event: almanac.Event{Type: "BIRTHDAY"}})
	of := func(span time.Duration) (int, int) {
		late, rates := m.span("", span)
		return late.Count, rates.Completed
	}
	for _, step := range []struct {
		after                time.Duration
		five, hour, twentyFo int
	}{{4 * time.Minute, 1, 1, 1}, {5 * time.Minute, 0, 1, 1}, {59 * time.Minute, 0, 1, 1}, {time.Hour, 0, 0, 1}, {24*time.Hour - time.Minute, 0, 0, 1}, {24 * time.Hour, 0, 0, 0}} {
		*at = time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC).Add(step.after)
		for span, want := range map[time.Duration]int{5 * time.Minute: step.five, time.Hour: step.hour, 24 * time.Hour: step.twentyFo} {
			started, completed := of(span)
			require.Equal(t, []int{want, want}, []int{started, completed}, "%v after %v", span, step.after)
		}
	}
	m.start(started(time.Second)) // in the slot of a day ago
	count, completed := of(24 * time.Hour)
	require.Equal(t, []int{1, 0}, []int{count, completed})
	require.Zero(t, m.fiveMinutes(1)[0].Completed)
}

func TestTheMonitorCountsOutcomes(t *testing.T) {
	t.Parallel()
	m, at := newMonitor()
	failure := errors.New("refused")
	deliver := m.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return failure }))
	require.ErrorIs(t, deliver.Deliver(t.Context(), started(time.Second)), failure, "it changes nothing")
	retry := started(time.Hour)
	retry.Attempt = 2
	require.Error(t, deliver.Deliver(t.Context(), retry))
	repeat := started(time.Hour)
	repeat.Event.Origin.Kind = almanac.OriginRequeued
	require.Error(t, deliver.Deliver(t.Context(), repeat))
	for kind, n := range map[almanac.NoticeKind]int{almanac.EventCompleted: 1, almanac.EventFailed: 2, almanac.EventCancelled: 3, almanac.EventReleased: 4} {
		for range n {
			m.Observe(t.Context(), almanac.Notice{Kind: kind, Event: almanac.Event{Type: "ANNIVERSARY"}})
		}
	}
	m.Observe(t.Context(), almanac.Notice{Kind: almanac.EventReleased, Cause: almanac.AfterFailure, Event: almanac.Event{Type: "ANNIVERSARY"}})
	late, counted := m.span("", time.Hour)
	require.Equal(t, 1, late.Count, "neither a retry nor a repeat is late")
	require.Equal(t, rates{time.Hour, 3, 1, 2, 3, 5, 3}, counted)
	_, counted = m.span("BIRTHDAY", time.Hour)
	require.Equal(t, rates{Span: time.Hour, Started: 3}, counted)
	require.Equal(t, []string{"ANNIVERSARY", "BIRTHDAY"}, m.eventTypes())
	*at = at.Add(5 * time.Minute)
	five := m.fiveMinutes(3)
	require.Equal(t, []rates{{Span: 5 * time.Minute}, {5 * time.Minute, 3, 1, 2, 3, 5, 3}, {Span: 5 * time.Minute}}, five)
}

func TestTheMonitorKeepsTheLastDeliveries(t *testing.T) {
	t.Parallel()
	m, at := newMonitor()
	made, seen := m.since(0)
	require.Empty(t, made)
	var ids []uuid.UUID
	complete := func(n int) {
		for range n {
			e := almanac.Event{ID: uuid.New(), Type: "BIRTHDAY", Zone: "Europe/Paris", Due: *at, ExecutedAt: at.Add(time.Second)}
			ids = append(ids, e.ID)
			m.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCompleted, Event: e})
		}
	}
	complete(3)
	made, seen = m.since(seen)
	require.Equal(t, 3, seen)
	require.Equal(t, delivered{ids[0], "BIRTHDAY", "Europe/Paris", *at, time.Second}, made[0])
	made, seen = m.since(seen)
	require.Empty(t, made)
	complete(recentShown + 10)
	made, seen = m.since(seen)
	require.Equal(t, recentShown+13, seen)
	require.Len(t, made, recentShown)
	require.Equal(t, ids[13], made[0].EventID)
	require.Equal(t, ids[len(ids)-1], made[recentShown-1].EventID)
}

func TestTheMonitorIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	m := NewMonitor()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				m.start(started(time.Second))
				m.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCompleted})
				m.span("", time.Hour)
				m.since(0)
				m.fiveMinutes(24)
				m.eventTypes()
			}
		})
	}
	all.Wait()
}
