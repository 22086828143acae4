package main

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// errNothing is the result of a run that came to nothing.
var errNothing = errors.New("nothing was done within the limit")

// meter counts what was stored for good, and notes when the last of it was.
type meter struct {
	want   int64
	began  time.Time
	n      atomic.Int64
	took   atomic.Int64 // from began to the one that was wanted last
	full   chan struct{}
	gauge  *gauge // nil if costs are of no interest
	before usage
}

func newMeter(want int) *meter {
	return &meter{want: int64(want), began: time.Now(), full: make(chan struct{})}
}

// meter returns a meter that also measures what is used up from now on.
func (db database) meter(ctx context.Context, want int) (*meter, error) {
	m := newMeter(want)
	m.gauge = db.gauge
	var err error
	m.before, err = db.gauge.read(ctx)
	m.began = time.Now()
	return m, err
}

func (m *meter) one() { m.add(1) }

func (m *meter) add(count int) {
	n := m.n.Add(int64(count))
	if n >= m.want && n-int64(count) < m.want {
		m.took.Store(int64(time.Since(m.began)))
		close(m.full)
	}
}

// wait waits until all is stored that was wanted, or the limit is over.
func (m *meter) wait(ctx context.Context, limit time.Duration) (tally, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-m.full:
	case <-ctx.Done():
		return tally{}, ctx.Err()
	case <-timer.C:
	}
	return m.tally(ctx)
}

// tally is what was stored by now, or by the moment at which all was.
func (m *meter) tally(ctx context.Context) (tally, error) {
	t := tally{done: int(m.n.Load()), took: time.Since(m.began)}
	if took := m.took.Load(); took > 0 {
		t.done, t.took = int(m.want), time.Duration(took)
	}
	if t.done == 0 {
		return t, errNothing
	}
	if m.gauge == nil {
		return t, nil
	}
	now, err := m.gauge.read(ctx)
	t.spent = now.since(m.before)
	return t, err
}

// tally is what one run came to.
type tally struct {
	done  int
	took  time.Duration
	spent usage // meanwhile, where it was measured
}

func (t tally) rate() float64 { return float64(t.done) / t.took.Seconds() }

// starts notes when each job was started, in the order of the starts. A job that
// is started more often than once counts with its first ones.
type starts struct {
	n      atomic.Int64
	places []uint64
	late   []time.Duration
}

func newStarts(want int) *starts {
	return &starts{places: make([]uint64, want), late: make([]time.Duration, want)}
}

// note takes down a start. Places order the jobs as they should be started. The
// server is on this machine, so this machine's clock is the database's.
func (s *starts) note(place uint64, due time.Time) {
	late := time.Since(due)
	if i := s.n.Add(1) - 1; int(i) < len(s.late) {
		s.places[i], s.late[i] = place, late
	}
}

// seen returns how late the jobs were started that were started, sorted, in
// milliseconds.
func (s *starts) seen() []float64 {
	late := make([]float64, min(int(s.n.Load()), len(s.late)))
	for i := range late {
		late[i] = millis(s.late[i])
	}
	slices.Sort(late)
	return late
}

// displacement is by how many places the job was ahead of its turn that was most.
func (s *starts) displacement() int {
	started := s.places[:min(int(s.n.Load()), len(s.places))]
	place := make(map[uint64]int, len(started))
	for i, p := range slices.Sorted(slices.Values(started)) {
		place[p] = i
	}
	most := 0
	for i, p := range started {
		most = max(most, place[p]-i)
	}
	return most
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile is the value below which the share q of a sorted list lies.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
