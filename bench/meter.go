package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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

// seen returns how late each started job was started, sorted, in milliseconds.
func (s *starts) seen() []float64 {
	late := make([]float64, min(int(s.n.Load()), len(s.late)))
	for i := range late {
		late[i] = millis(s.late[i])
	}
	slices.Sort(late)
	return late
}

// displacement is the largest reordering: the most places by which a job started before its order.
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

// costs is the section with what an event of the throughput section costs.
const costs = "cost"

// usage is what was used up by a moment, or between two.
type usage struct {
	program   time.Duration // processor time of the program that works
	server    time.Duration // processor time of all processes of the server; zero where the kernel has no /proc
	log       int64         // bytes of write-ahead log
	allocated uint64        // objects on the heap of this program; zero for a program in Node.js
}

func (u usage) since(before usage) usage {
	return usage{u.program - before.program, u.server - before.server, u.log - before.log, u.allocated - before.allocated}
}

// readings are the costs of one of so many events.
func (u usage) readings(events int) []reading {
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / float64(events) }
	list := []reading{{"program", "µs", micros(u.program)}}
	if u.server > 0 {
		list = append(list, reading{"server", "µs", micros(u.server)}, reading{"both", "µs", micros(u.program + u.server)})
	}
	list = append(list, reading{"log", "bytes", float64(u.log) / float64(events)})
	if u.allocated > 0 {
		list = append(list, reading{"allocations", "", float64(u.allocated) / float64(events)})
	}
	return list
}

// gauge reads what this program and a server use.
type gauge struct {
	admin      *pgxpool.Pool
	postmaster int // its process
}

func newGauge(ctx context.Context, admin *pgxpool.Pool) (*gauge, error) {
	var backend int
	if err := admin.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return nil, err
	}
	g := &gauge{admin: admin}
	if s, ok := statOf(strconv.Itoa(backend)); ok {
		g.postmaster = s.parent
	}
	return g, nil
}

func (g *gauge) read(ctx context.Context) (usage, error) {
	var u usage
	err := g.admin.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").Scan(&u.log)
	if err != nil {
		return u, fmt.Errorf("position of the log: %w", err)
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return u, err
	}
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	u.program, u.allocated, u.server = time.Duration(used.Utime.Nano()+used.Stime.Nano()), heap.Mallocs, g.served()
	return u, nil
}

// served is the processor time of the server: of its processes, and of those that have ended.
func (g *gauge) served() time.Duration {
	if g.postmaster == 0 {
		return 0
	}
	whole, ok := statOf(strconv.Itoa(g.postmaster))
	if !ok {
		return 0
	}
	total := whole.used + whole.ended
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if s, ok := statOf(filepath.Base(name)); ok && s.parent == g.postmaster {
			total += s.used
		}
	}
	return total
}

// stat is what the kernel says of a process.
type stat struct {
	parent int
	used   time.Duration // by itself
	ended  time.Duration // by children that have ended
}

// statOf reads /proc/PID/stat. It returns false for a process that has ended, and where there
// is no /proc.
func statOf(pid string) (stat, bool) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return stat{}, false
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may contain anything
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return stat{}, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return n
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	return stat{int(number(1)), time.Duration(number(11)+number(12)) * tick, time.Duration(number(13)+number(14)) * tick}, true
}
