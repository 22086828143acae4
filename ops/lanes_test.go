package ops_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func count(n int64) ops.Count { return ops.Count{N: n} }

func TestAnEstimateObeysAllLimitsOfALane(t *testing.T) {
	t.Parallel()
	rate := almanac.Lane{Name: "crm", Rate: 50, Burst: 10}
	pause := func(until time.Duration) almanac.Pause {
		return almanac.Pause{Lane: "crm", Since: noon.Add(-time.Hour), Until: noon.Add(until)}
	}
	for name, tt := range map[string]struct {
		load ops.LaneLoad
		n    int64
		want time.Duration
		kind ops.CountKind
	}{
		"no limits":                             {ops.LaneLoad{}, 1000, 0, ops.Estimated},
		"a rate":                                {ops.LaneLoad{Lane: rate}, 55_000, 54_999 * time.Second / 50, ops.Estimated},
		"a rate, with a token in a second":      {ops.LaneLoad{Lane: rate, ReadyAt: noon.Add(time.Second)}, 51, 2 * time.Second, ops.Estimated},
		"a pause that ends":                     {ops.LaneLoad{Pause: pause(time.Hour)}, 9, time.Hour, ops.Estimated},
		"the bucket fills during a pause":       {ops.LaneLoad{Lane: rate, Pause: pause(time.Hour)}, 10, time.Hour, ops.Estimated},
		"and gives no more than its burst":      {ops.LaneLoad{Lane: rate, Pause: pause(time.Hour)}, 60, time.Hour + time.Second, ops.Estimated},
		"an open breaker":                       {ops.LaneLoad{Lane: rate, Breaker: almanac.Breaker{Allowed: 1, RetryAt: noon.Add(time.Minute)}}, 1, time.Minute, ops.AtLeast},
		"a breaker that closes":                 {ops.LaneLoad{Breaker: almanac.Breaker{Allowed: 8, RetryAt: noon.Add(-time.Minute)}}, 1, 0, ops.AtLeast},
		"within the number of a day":            {ops.LaneLoad{Lane: almanac.Lane{Daily: 100}, Today: 90}, 10, 0, ops.Estimated},
		"the first of the next day":             {ops.LaneLoad{Lane: almanac.Lane{Daily: 100}, Today: 90}, 11, 12 * time.Hour, ops.Estimated},
		"the last of the next day":              {ops.LaneLoad{Lane: almanac.Lane{Daily: 100}, Today: 90}, 110, 12 * time.Hour, ops.Estimated},
		"the first of the day after":            {ops.LaneLoad{Lane: almanac.Lane{Daily: 100}, Today: 90}, 111, 36 * time.Hour, ops.Estimated},
		"a rate on the next day":                {ops.LaneLoad{Lane: almanac.Lane{Rate: 1, Burst: 1, Daily: 100}, Today: 100}, 61, 12*time.Hour + time.Minute, ops.Estimated},
		"a pause until the next day":            {ops.LaneLoad{Lane: almanac.Lane{Daily: 100}, Today: 100, Pause: pause(13 * time.Hour)}, 100, 13 * time.Hour, ops.Estimated},
		"free places":                           {ops.LaneLoad{Lane: almanac.Lane{Places: 5}, InFlight: 3}, 2, 0, ops.Estimated},
		"full places, as events started lately": {ops.LaneLoad{Lane: almanac.Lane{Places: 5}, InFlight: 5, Started: [12]int{0, 300, 300}}, 60, time.Minute, ops.Estimated},
		"full places, and nothing has started":  {ops.LaneLoad{Lane: almanac.Lane{Places: 5}, InFlight: 5}, 60, 0, ops.AtLeast},
		"a hundred years at most":               {ops.LaneLoad{Lane: almanac.Lane{Rate: 1e-6, Burst: 1}}, 1e12, 100 * 365 * 24 * time.Hour, ops.Estimated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, ops.LaneEstimate{At: noon.Add(tt.want), Kind: tt.kind}, ops.LaneStart(tt.load, ops.LaneLoad{}, tt.n, noon))
		})
	}

	never := ops.LaneLoad{Lane: rate, Pause: almanac.Pause{Lane: "crm", Since: noon}}
	require.Equal(t, ops.LaneEstimate{Kind: ops.Estimated}, ops.LaneStart(never, ops.LaneLoad{}, 1, noon))
}

func TestALaneInAnotherOneHasItsShare(t *testing.T) {
	t.Parallel()
	crm := ops.LaneLoad{Lane: almanac.Lane{Name: "crm", Rate: 50, Burst: 10}, Waiting: count(1_000_010), Weights: 2}
	small := ops.LaneLoad{Lane: almanac.Lane{Name: "crm/small"}, Waiting: count(10)}
	large := ops.LaneLoad{Lane: almanac.Lane{Name: "crm/large"}, Waiting: count(1_000_000)}
	ends := func(l, in ops.LaneLoad) time.Duration {
		is, waits := ops.LaneEnds(l, in, noon)
		require.True(t, waits)
		return is.At.Sub(noon)
	}
	require.Equal(t, 380*time.Millisecond, ends(small, crm), "its events by its share of the rate")
	require.Equal(t, ends(crm, ops.LaneLoad{}), ends(large, crm), "the whole rate, when the others have ended")
	crm.Weights, large.Weight = 4, 3
	require.Equal(t, 780*time.Millisecond, ends(small, crm))

	small.Rate, small.Burst = 1, 1
	require.Equal(t, 9*time.Second, ends(small, crm), "its own rate is lower")
	paused := crm
	paused.Pause = almanac.Pause{Lane: "crm", Since: noon}
	is, _ := ops.LaneEnds(small, paused, noon)
	require.True(t, is.At.IsZero(), "it waits for a resume")

	crm.Waiting.Kind = ops.AtLeast
	large.Waiting.Kind = ops.AtLeast
	is, _ = ops.LaneEnds(large, crm, noon)
	require.Equal(t, ops.AtLeast, is.Kind, "more may wait than were counted")
	_, waits := ops.LaneEnds(ops.LaneLoad{}, crm, noon)
	require.False(t, waits)
}

// With lanes of equal and of different weights, an estimate is never before the start that sharing gives, and at most as late
// as when all lanes had events until the end.
func TestAnEstimateOfALaneInAnotherOneIsNotTooEarly(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n, weights := make([]int, 2+random.IntN(4)), []int(nil)
		crm := ops.LaneLoad{Lane: almanac.Lane{Name: "crm", Rate: 1, Burst: 1}}
		for i := range n {
			n[i] = 1 + random.IntN(30)
			weights = append(weights, 1+random.IntN(5))
			crm.Waiting.N += int64(n[i])
			crm.Weights += weights[i]
		}
		mine := random.IntN(len(n))
		l := ops.LaneLoad{Lane: almanac.Lane{Name: "crm/mine", Weight: weights[mine]}, Waiting: count(int64(n[mine]))}
		is, _ := ops.LaneEnds(l, crm, noon)
		got := int(is.At.Sub(noon) / time.Second)
		require.GreaterOrEqual(t, got, shared(n, weights, mine)-len(n), "%v by %v, the %d-th", n, weights, mine)
		require.LessOrEqual(t, got, int(crm.Waiting.N)-1)
	}
}

// shared returns which start the last one of a lane is, if the next is always of the lane that has had least for its weight.
func shared(n, weights []int, of int) int {
	had := make([]int, len(n))
	for start := 0; ; start++ {
		next := -1
		for i := range n {
			if had[i] < n[i] && (next < 0 || had[i]*weights[next] < had[next]*weights[i]) {
				next = i
			}
		}
		if had[next]++; next == of && had[of] == n[of] {
			return start
		}
	}
}

func TestAnEventWaitsForItsTypeAndItsLanes(t *testing.T) {
	t.Parallel()
	w := ops.LaneWait{
		At: noon, Since: noon.Add(-time.Minute), Before: count(9),
		Lane: ops.LaneLoad{Lane: almanac.Lane{Name: "crm/a"}, Waiting: count(10)},
		In:   ops.LaneLoad{Lane: almanac.Lane{Name: "crm", Rate: 1, Burst: 1}, Waiting: count(10), Weights: 1},
	}
	require.True(t, w.Held())
	start, waits := w.Start()
	require.True(t, waits)
	require.Equal(t, ops.LaneEstimate{At: noon.Add(9 * time.Second), Kind: ops.Estimated}, start)

	w.Before.Kind = ops.AtLeast
	start, _ = w.Start()
	require.Equal(t, ops.AtLeast, start.Kind)
	w.Type = almanac.Pause{Lane: "BIRTHDAY", Since: noon, Until: noon.Add(time.Hour)}
	start, _ = w.Start()
	require.Equal(t, noon.Add(time.Hour), start.At)
	w.Type.Until = time.Time{}
	start, _ = w.Start()
	require.True(t, start.At.IsZero())

	_, waits = ops.LaneWait{}.Start()
	require.False(t, waits)
	require.False(t, ops.LaneWait{Lane: ops.LaneLoad{Lane: almanac.Lane{Weight: 3}}}.Held())
}

func TestTheLaneThatContainsALaneIsFound(t *testing.T) {
	t.Parallel()
	loads := []ops.LaneLoad{{Lane: almanac.Lane{Name: "crm", Rate: 1}}, {Lane: almanac.Lane{Name: "crm/a"}}, {Lane: almanac.Lane{Name: "mail/a"}}}
	require.Equal(t, loads[0], ops.LaneIn(loads, "crm/a"))
	for _, name := range []string{"crm", "mail/a", ""} {
		require.Equal(t, ops.LaneLoad{}, ops.LaneIn(loads, name), name)
	}
}
