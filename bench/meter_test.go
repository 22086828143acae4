package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDisplacementIsHowFarAJobStartsOutOfOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		order []uint64
		want  int
	}{
		"in order":           {[]uint64{10, 20, 30}, 0},
		"the last one first": {[]uint64{30, 10, 20}, 2},
		"two swapped":        {[]uint64{10, 30, 20}, 1},
		"none":               {nil, 0},
	} {
		s := newStarts(len(c.order))
		for _, place := range c.order {
			s.note(place, time.Now())
		}
		require.Equal(t, c.want, s.displacement(), name)
	}
}

func TestQuantilesAndMedians(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	require.Equal(t, 51.0, quantile(hundred, 0.5))
	require.Equal(t, 96.0, quantile(hundred, 0.95))
	require.Equal(t, 100.0, quantile(hundred, 1))
	require.Zero(t, quantile(nil, 0.5))
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 1.5, median([]float64{2, 1}))
}

func TestRatiosCompareTheSameRound(t *testing.T) {
	t.Parallel()
	var r report
	r.declare("throughput", baseline, "").add([]reading{{"rate", "", 100}})
	ours := r.declare("throughput", "almanac", "")
	ours.add([]reading{{"rate", "", 50}})
	r.declare("throughput", baseline, "").add([]reading{{"rate", "", 10}})
	ours.add([]reading{{"rate", "", 30}})
	elsewhere := r.declare("burst", "almanac", "")
	elsewhere.add([]reading{{"rate", "", 50}})

	r.compare("throughput", baseline)

	require.Equal(t, []float64{0.5, 3}, ours.Measures[1].Rounds)
	require.Equal(t, "1.75 [0.50..3]", ours.Measures[1].String())
	require.Len(t, elsewhere.Measures, 1)
}

func TestNodePackageNamesWhatIsMissing(t *testing.T) {
	// Whatever this machine has.
	t.Setenv("PATH", t.TempDir())
	_, err := nodePackage(t.TempDir(), "pg-boss")
	require.EqualError(t, err, "there is no node on the PATH")
}
