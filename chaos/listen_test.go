package chaos_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

// within is how late an event may be that was stored elsewhere: a poll and its
// jitter, and what a machine takes that has other things to do.
const within = 240*time.Millisecond + 2*time.Second

// hearing returns how often a worker has reported one kind of thing about its hints.
func hearing(w *chaos.Process, what chaos.Point) (n int) {
	for _, report := range w.Reports() {
		if report.Point == what {
			n++
		}
	}
	return n
}

// untilAll stores users with an event that is due at once, until every worker has said
// something once more than it had.
func untilAll(r *chaos.Run, workers []*chaos.Process, what chaos.Point, said []int) {
	r.Helper()
	limit := 60 * time.Second
	if what == chaos.Received {
		limit = 10 * time.Second // its own check arrives twelve seconds after it began, at the earliest
	}
	for ctx, missing := r.Within(limit), true; missing; {
		r.CreateUsers(1, chaos.Plan{Start: chaos.From(2 * time.Second), Interval: 1, Count: 2})
		missing = false
		for i, w := range workers {
			missing = missing || hearing(w, what) <= said[i]
		}
		require.NoError(r, ctx.Err(), "not %s\n%s", what, r.Complaints())
		time.Sleep(50 * time.Millisecond)
	}
}

// soFar returns the counts of hearing, for each worker.
func soFar(workers []*chaos.Process, what chaos.Point) []int {
	said := make([]int, len(workers))
	for i, w := range workers {
		said[i] = hearing(w, what)
	}
	return said
}

// What workers listen on is ended, cut without a sign, or stands still, while
// another process stores events that are due within a second or two. They notice,
// and listen again; nothing waits for that.
func TestListenLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*chaos.Run, *chaos.Line) (heal func()){
		"ended": func(r *chaos.Run, _ *chaos.Line) func() {
			for _, pid := range r.Listeners(r.Context()) {
				_, err := r.Pool().Exec(r.Context(), "SELECT pg_terminate_backend($1)", pid)
				require.NoError(r, err)
				r.Count("ended", 1)
			}
			return func() {}
		},
		"half open": func(r *chaos.Run, l *chaos.Line) func() {
			require.NoError(r, l.Die())
			r.Count("half open", 1)
			return func() { l.Heal(r.Context()) }
		},
		"frozen": func(r *chaos.Run, _ *chaos.Line) func() {
			pids := r.Listeners(r.Context())
			for _, pid := range pids {
				require.NoError(r, syscall.Kill(pid, syscall.SIGSTOP))
				r.Count("frozen", 1)
			}
			r.Cleanup(func() { thaw(pids) })
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				r := alone(t, seed, nil)
				line, err := r.Cluster.NewLine()
				require.NoError(t, err)
				t.Cleanup(line.Close)
				workers := []*chaos.Process{r.Work("one", unhurried, line.UsedBy), r.Work("two", unhurried, line.UsedBy)}
				untilAll(r, workers, chaos.Listening, []int{0, 0})
				for range 2 {
					received := soFar(workers, chaos.Received)
					untilAll(r, workers, chaos.Received, received)
					r.Count("received before", 1)
					between(r, 0, time.Second)

					ends, listening := soFar(workers, chaos.ListenLost), soFar(workers, chaos.Listening)
					lost := time.Now()
					heal := lose(r, line)
					untilAll(r, workers, chaos.ListenLost, ends)
					t.Logf("noticed after %v", time.Since(lost).Round(time.Millisecond))
					r.Count("lost", 1)
					heal()
					untilAll(r, workers, chaos.Listening, listening)
					received = soFar(workers, chaos.Received)
					untilAll(r, workers, chaos.Received, received)
					r.Count("received again", 1)
				}
				r.Drained(60 * time.Second)
				inTime(r, r.Check(name, "received before", "lost", "received again"))
			})
		})
	}
}

func thaw(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

func inTime(r *chaos.Run, f chaos.Figures) {
	r.Helper()
	if latest := f.Late[len(f.Late)-1]; latest > within {
		r.Errorf("something was delivered %v late, want within %v", latest, within)
	}
}

// Workers listen through a PgBouncer in transaction mode, where that cannot work.
// They find out, say so once, and poll.
func TestListenBehindPgBouncer(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := alone(t, seed, nil)
		bouncer, err := r.Cluster.NewBouncer(r.Within(20 * time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { _ = bouncer.Kill() })
		through := func(o *chaos.Orders) { o.URL = bouncer.URL(r.Database) }
		workers := []*chaos.Process{r.Work("one", unhurried, through), r.Work("two", unhurried, through)}
		untilAll(r, workers, chaos.ListenLost, []int{0, 0})
		r.Count("found out", 1)
		untilAll(r, workers, chaos.ListenLost, []int{2, 2})
		r.Drained(60 * time.Second)
		inTime(r, r.Check("found out"))
		for _, w := range workers {
			if n := hearing(w, chaos.Listening); n > 0 {
				t.Errorf("%s reports %d times that it listens", w.Name, n)
			}
			if n := strings.Count(w.Complaints(), "hints of other processes are not received"); n != 1 {
				t.Errorf("%s complains %d times, want once\n%s", w.Name, n, w.Complaints())
			}
		}
	})
}
