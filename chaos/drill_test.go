package chaos_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/postgres"
)

// drill is a run on two servers that Patroni manages.
type drill struct {
	*chaos.Run
	managed *chaos.Managed
	leader  *chaos.Member // until it is lost
	back    func() error  // brings it back
	workers []*chaos.Process
}

// A server is lost under load, and Patroni makes the other one the leader. No operator does anything, and no program is
// started again. If both servers have each confirmed commit, nothing of it is lost, and only deliveries that were in flight
// come twice. If not, what was lost is done again. Then the lost server comes back, and follows.
func TestALostServerIsADrill(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(d *drill) error{
		"killed": func(d *drill) error {
			d.back = func() error { return d.managed.Launch(d.leader) }
			return d.managed.Kill(d.leader)
		},
		"cut off": func(d *drill) error {
			d.back = func() error { return d.managed.Connect(d.leader) }
			d.managed.CutOff(d.leader)
			return nil
		},
	} {
		for copies, synchronous := range map[string]bool{"synchronous": true, "asynchronous": false} {
			t.Run(name+" and "+copies, func(t *testing.T) {
				row(t, func(t *testing.T, seed uint64) { lost(t, seed, synchronous, lose) })
			})
		}
	}
}

func lost(t *testing.T, seed uint64, synchronous bool, lose func(d *drill) error) {
	t.Helper()
	within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	managed, err := chaos.NewManaged(within, synchronous)
	t.Cleanup(func() { _ = managed.Close() })
	require.NoError(t, err)
	d := &drill{Run: chaos.NewRun(t, managed.Cluster, seed), managed: managed}
	d.leader, err = managed.Leader(within)
	require.NoError(t, err)

	limits := almanac.Lane{Name: chaos.TickType, Rate: 100, Burst: 20}
	require.NoError(t, d.Store().PutLane(t.Context(), limits))
	require.NoError(t, d.Store().CreateConsumer(t.Context(), "drill"))
	require.NoError(t, postgres.EnableOutbox(t.Context(), d.Pool()))
	d.CreateUsers(people, chaos.Plan{Start: chaos.From(longLead), Interval: 1, Count: 45})
	d.workers = two(d.Run)
	confirmed := d.edit()
	between(d.Run, 2*time.Second, 4*time.Second)

	require.NoError(t, lose(d))
	d.Count("lost servers", 1)
	_, err = managed.LeaderBut(d.Within(90*time.Second), d.leader)
	require.NoError(t, err)
	between(d.Run, time.Second, 3*time.Second)
	require.NoError(t, d.back()) // beside the new leader
	d.Reconnect()
	if !synchronous {
		d.Forget()
	}
	d.Drained(2 * time.Minute)
	users := confirmed()
	follower, err := managed.AwaitFollower(d.Within(2 * time.Minute))
	require.NoError(t, err)
	require.Same(t, d.leader, follower)

	again := d.doneAgain()
	d.Count("done again", again)
	d.Allow(again + len(d.workers)*chaos.Slots)
	gone := d.missing(users)
	d.Count("confirmed users", len(users))
	d.Count("confirmed users who were lost", gone)
	if synchronous {
		require.Zero(t, again+gone)
	}
	d.checkOutbox()
	require.LessOrEqual(t, burstOf(d.Run, limits.Rate), float64(limits.Burst+again)+limits.Rate/2)
	t.Logf("no deliveries for %.1f s", d.longestGap().Seconds())
	d.Check("lost servers", "confirmed users")
}

// edit creates users without events, one after the other, until the function that it returns is called. That returns the users
// whose creation was confirmed.
func (d *drill) edit() (confirmed func() []uuid.UUID) {
	d.Helper()
	var users []uuid.UUID
	ctx, cancel := context.WithCancel(d.Context())
	var done sync.WaitGroup
	pool, err := pgx.ParseConfig(d.Cluster.URL(d.Database))
	require.NoError(d, err)
	done.Go(func() {
		var conn *pgx.Conn
		for ctx.Err() == nil {
			if conn == nil || conn.IsClosed() {
				if conn, err = pgx.ConnectConfig(ctx, pool); err != nil {
					conn = nil
					time.Sleep(100 * time.Millisecond)
					continue
				}
			}
			id := uuid.New()
			within, cancel := context.WithTimeout(ctx, 2*time.Second)
			_, err := conn.Exec(within, `INSERT INTO almanac.users (id, first_name, last_name, timezone) VALUES ($1, 'Ada', '', 'UTC')`, id)
			cancel()
			if err == nil {
				users = append(users, id)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	})
	return func() []uuid.UUID {
		cancel()
		done.Wait()
		return users
	}
}

// missing counts the users who are not stored.
func (d *drill) missing(users []uuid.UUID) (n int) {
	d.Helper()
	require.NoError(d, d.Pool().QueryRow(d.Context(), `SELECT count(*) FROM unnest($1::uuid[]) AS u (id)
		WHERE NOT EXISTS (SELECT FROM almanac.users x WHERE x.id = u.id)`, users).Scan(&n))
	return n
}

// doneAgain counts the events that were completed, and completed again after the server had lost that.
func (d *drill) doneAgain() (n int) {
	completed := make(map[string]int)
	for _, w := range d.workers {
		for _, report := range w.Reports() {
			if report.Kind == almanac.EventCompleted {
				completed[report.Event]++
			}
		}
	}
	for _, times := range completed {
		n += times - 1
	}
	return n
}

// checkOutbox reads the outbox. It has the creation of each stored user and the completion of each completed event, once.
func (d *drill) checkOutbox() {
	d.Helper()
	seen, of := make(map[string]int), make(map[postgres.DomainEventKind]int)
	for n := 1; n > 0; {
		var err error
		n, err = d.Store().Consume(d.Within(30*time.Second), "drill", 1000, func(_ context.Context, _ pgx.Tx, events []postgres.DomainEvent) error {
			for _, e := range events {
				of[e.Kind]++
				seen[string(e.Kind)+" "+e.EventID.String()+" "+e.UserID.String()]++
			}
			return nil
		})
		require.NoError(d, err)
	}
	var users, completed int
	require.NoError(d, d.Pool().QueryRow(d.Context(), `SELECT (SELECT count(*) FROM almanac.users),
		(SELECT count(*) FROM almanac.events WHERE status = 'COMPLETED')`).Scan(&users, &completed))
	require.Equal(d, users, of[postgres.UserCreated])
	require.Equal(d, completed, of[postgres.EventCompleted])
	for what, times := range seen {
		if times > 1 && strings.HasPrefix(what, string(postgres.EventCompleted)) {
			d.Errorf("the outbox has %s %d times", what, times)
		}
	}
}

// longestGap is the longest time without a delivery.
func (d *drill) longestGap() (longest time.Duration) {
	ledger, _ := d.Receiver.Ledger()
	slices.SortFunc(ledger, func(a, b chaos.Entry) int { return a.At.Compare(b.At) })
	for i := 1; i < len(ledger); i++ {
		longest = max(longest, ledger[i].At.Sub(ledger[i-1].At))
	}
	return longest
}
