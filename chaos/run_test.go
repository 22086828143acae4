package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// The workers' settings. A lease is as short as the library allows, so that a run
// takes seconds.
const (
	Lease     = 3 * time.Second
	Sweep     = 200 * time.Millisecond
	Drain     = 2 * time.Second
	Patience  = 2 * time.Second
	LookAhead = 500 * time.Millisecond
	Slots     = 20
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Run is one run of a row: a database, a receiver, users with planned events,
// and workers.
type Run struct {
	*testing.T
	Seed     uint64
	Random   *rand.Rand
	Cluster  *Cluster
	Receiver *Receiver
	Database string

	pool      *pgxpool.Pool // past the proxy
	expected  map[string]bool
	began     time.Time
	mu        sync.Mutex
	workers   []*Process
	counts    map[string]int
	released  map[string]bool // users who were deleted
	forgetful bool            // the server lost commits that it had acknowledged
	allowed   int             // repeats that the faults explain
	seen      map[uuid.UUID]string
	sweep     time.Duration // the longest of a worker's
	stood     func() stalls // of the machine, since Pulse was called
}

// NewRun prepares a run on a cluster: a migrated database of its own.
func NewRun(t *testing.T, c *Cluster, seed uint64) *Run {
	t.Helper()
	receiver, err := NewReceiver(secret)
	require.NoError(t, err)
	t.Cleanup(receiver.Close)
	r := &Run{
		T: t, Seed: seed, Random: rand.New(rand.NewPCG(seed, 0)), Cluster: c, Receiver: receiver,
		Database: fmt.Sprintf("run_%d_%x", seed, rand.Uint32()),
		expected: make(map[string]bool), began: time.Now(), counts: make(map[string]int), released: make(map[string]bool), seen: make(map[uuid.UUID]string),
	}
	t.Logf("seed %d", seed)
	admin, err := pgxpool.New(t.Context(), c.Direct("postgres"))
	require.NoError(t, err)
	defer admin.Close()
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+r.Database)
	require.NoError(t, err)
	r.Reconnect()
	require.NoError(t, postgres.Migrate(t.Context(), r.pool))
	t.Cleanup(func() {
		for _, w := range r.workers {
			_ = w.Kill()
		}
		Disconnect(t, r.pool)
	})
	return r
}

// Disconnect closes a pool at the end of a test. Closing waits for connections that are in use, and a
// test that failed within a transaction has left one.
func Disconnect(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the test has left a connection in use")
	}
}

// Reconnect follows the server to its present address.
func (r *Run) Reconnect() {
	r.Helper()
	if r.pool != nil {
		r.pool.Close()
	}
	var err error
	r.pool, err = pgxpool.New(r.Context(), r.Cluster.Direct(r.Database))
	require.NoError(r, err)
}

// Planner returns a scheduler that plans past the proxy.
func (r *Run) Planner() almanac.Scheduler {
	r.Helper()
	return r.PlannerOn(r.pool)
}

// PlannerOn is Planner on other connections, or in a transaction.
func (r *Run) PlannerOn(db postgres.DB) almanac.Scheduler {
	r.Helper()
	store, err := postgres.New(db, postgres.WithTimeout(20*time.Second))
	require.NoError(r, err)
	registry, err := almanac.NewRegistry(Ticks(Patience + time.Second))
	require.NoError(r, err)
	scheduler, err := almanac.NewScheduler(store, registry)
	require.NoError(r, err)
	return scheduler
}

// CreateUsers stores users, each with the given occurrences from an instant on, and
// returns their ids. Occurrences that pass before a user is stored, on a slow machine, are not
// expected.
func (r *Run) CreateUsers(users int, o Plan) (ids []uuid.UUID) {
	r.Helper()
	return r.CreateUsersBy(r.Planner(), users, o)
}

// CreateUsersBy is CreateUsers by a planner, which may be in a transaction.
func (r *Run) CreateUsersBy(planner almanac.Planner, users int, o Plan) (ids []uuid.UUID) {
	r.Helper()
	keys, err := o.Keys()
	require.NoError(r, err)
	attributes, err := json.Marshal(map[string]Plan{"plan": o})
	require.NoError(r, err)
	asked := r.From(0) // older occurrences are expected too: the check looks for them
	for range users {
		began := r.From(0)
		enrolment, err := planner.CreateUser(r.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: "UTC", Attributes: attributes,
		})
		require.NoError(r, err)
		ids = append(ids, enrolment.User.ID)
		for _, key := range keys {
			if key <= asked || !r.passed(key, began, enrolment) {
				r.expected[enrolment.User.ID.String()+" "+key] = true
			}
		}
	}
	return ids
}

// passed reports whether an occurrence was over when a user was stored, after a
// moment: of what comes between this moment and now, the first event says it. All of
// it is by the database's clock, which decides what is over.
func (r *Run) passed(key, began string, e almanac.UserWithEvents) bool {
	r.Helper()
	return key <= began || key <= r.From(0) && (len(e.Events) == 0 || key < e.Events[0].OccurrenceKey)
}

// Expected returns the number of occurrences that are to be delivered.
func (r *Run) Expected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.expected)
}

// Release forgets the expected occurrences of a deleted user.
func (r *Run) Release(id uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released[id.String()] = true
	for name := range r.expected {
		if strings.HasPrefix(name, id.String()) {
			delete(r.expected, name)
		}
	}
}

// ExpectStored expects of users what is stored of them, and nothing else, as of those who
// have opted out meanwhile.
func (r *Run) ExpectStored(ids []uuid.UUID) {
	r.Helper()
	rows, err := r.pool.Query(r.Context(), "SELECT user_id::text || ' ' || occurrence_key FROM almanac.events WHERE origin IS NULL AND user_id = ANY ($1)", ids)
	require.NoError(r, err)
	stored, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(r, err)
	for _, id := range ids {
		r.Release(id)
		delete(r.released, id.String())
	}
	for _, name := range stored {
		r.expected[name] = true
	}
}

// From is a wall time that far from now, for [Plan].
func From(d time.Duration) string { return time.Now().UTC().Add(d).Format("2006-01-02T15:04:05") }

// Work starts a worker.
func (r *Run) Work(name string, change ...func(*Orders)) *Process {
	r.Helper()
	return r.WorkBy(os.Args[0], name, change...)
}

// WorkBy starts a worker of another program, as another release has it.
func (r *Run) WorkBy(program, name string, change ...func(*Orders)) *Process {
	r.Helper()
	o := Orders{Name: name, URL: r.Cluster.URL(r.Database), Receiver: r.Receiver.URL(), Secret: secret, Slots: Slots, Lease: Lease, Sweep: Sweep, Drain: Drain, Patience: Patience, LookAhead: LookAhead}
	for _, f := range change {
		f(&o)
	}
	p, err := Launch(program, o)
	require.NoError(r, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers, r.sweep = append(r.workers, p), max(r.sweep, o.Sweep)
	return p
}

// Count adds to one of the counters that say whether the faults bit.
func (r *Run) Count(what string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what] += n
}

// Counted returns one of the counters.
func (r *Run) Counted(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[what]
}

// Counts writes all counters in a line.
func (r *Run) Counts() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var counts []string
	for _, what := range slices.Sorted(maps.Keys(r.counts)) {
		counts = append(counts, fmt.Sprintf("%s %d", what, r.counts[what]))
	}
	return strings.Join(counts, ", ")
}

// Allow adds to the number of repeats that the faults explain.
func (r *Run) Allow(repeats int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allowed += repeats
}

// Pool returns connections that bypass the proxy, to read or change the database in a test.
func (r *Run) Pool() *pgxpool.Pool { return r.pool }

// Sessions returns the processes of the server that serve the workers, in order;
// none if it does not say.
func (r *Run) Sessions(ctx context.Context) []int { return r.sessions(ctx, workerName) }

// Listeners is Sessions for those on which workers only listen.
func (r *Run) Listeners(ctx context.Context) []int {
	return r.sessions(ctx, postgres.ListenerName+": "+workerName)
}

func (r *Run) sessions(ctx context.Context, name string) []int {
	rows, err := r.pool.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1 ORDER BY pid", name)
	if err != nil {
		return nil
	}
	pids, _ := pgx.CollectRows(rows, pgx.RowTo[int]) // it may be recovering
	return pids
}

// Finished is how many events the workers say that they stored as completed.
func (r *Run) Finished() (finished int) {
	for _, w := range r.workers {
		for _, report := range w.Reports() {
			if report.Kind == almanac.EventCompleted {
				finished++
			}
		}
	}
	return finished
}

// Within returns a context for a step.
func (r *Run) Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	r.Cleanup(cancel)
	return ctx
}

// Drained waits until every event has ended, and no series goes on or has stalled.
func (r *Run) Drained(limit time.Duration) time.Time {
	r.Helper()
	return r.DrainedBut(0, limit)
}

// DrainedBut is Drained, but allows some stalled series.
func (r *Run) DrainedBut(stalls int, limit time.Duration) time.Time {
	r.Helper()
	ctx := r.Within(limit)
	var open, ended, stalled int // as far as was seen, at one moment: a series that goes on has an open event from then on
	for {
		r.Snapshot(ctx)
		err := r.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status IN ('PENDING', 'PROCESSING')),
			count(*) FILTER (WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED')), (`+countStalled+`) FROM almanac.events`).Scan(&open, &ended, &stalled)
		if err == nil && open == 0 && ended > 0 && stalled <= stalls {
			return time.Now()
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			require.Fail(r, "not drained", "%d open, %d ended, %d stalled (%v)\n%s\n%s", open, ended, stalled, err, r.Complaints(), r.Activity())
		}
	}
}

const countStalled = `SELECT count(*) FROM almanac.unplanned n JOIN almanac.series s ON s.id = n.series_id
	WHERE s.event_id IS NULL AND s.used_unit = n.used_unit AND s.used_key = n.used_key`

// Stalled returns how many series stand still because their handler failed, and -1 if the database does
// not say.
func (r *Run) Stalled() (stalled int) {
	if err := r.pool.QueryRow(r.Context(), countStalled).Scan(&stalled); err != nil {
		return -1
	}
	return stalled
}

// Activity says what each connection to the database does, for which lock it waits, and how many events each
// worker holds.
func (r *Run) Activity() (text string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, query := range []string{
		`SELECT concat_ws(' | ', pid, application_name, state, wait_event_type, wait_event,
			'blocked by ' || array_to_string(nullif(pg_blocking_pids(pid), '{}'), ','), (clock_timestamp() - query_start)::interval(0), left(query, 120))
		FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY pid`,
		`SELECT concat_ws(' | ', e.status, count(*), l.owner, 'claims ' || max(e.claim_count), min(e.available_at))
		FROM almanac.events e LEFT JOIN almanac.leases l ON l.token = e.lease_token GROUP BY e.status, l.owner`, // which may wait for a lock
	} {
		rows, _ := r.pool.Query(ctx, query) // an error is that of the rows, too
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			lines = append(lines, err.Error())
		}
		text += strings.Join(lines, "\n") + "\n"
	}
	return text
}

// Complaints are the ends of what the workers wrote to their standard error.
func (r *Run) Complaints() (text string) {
	for _, w := range r.workers {
		text += w.Name + ": " + w.Complaints() + "\n"
	}
	return text
}

// Store returns a store that bypasses the proxy, to read events in a test.
func (r *Run) Store() *postgres.Store {
	r.Helper()
	store, err := postgres.New(r.pool, postgres.WithTimeout(20*time.Second))
	require.NoError(r, err)
	return store
}
