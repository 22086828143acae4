package chaos_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"net/http"
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
)

var stays = flag.Duration("hold", 5*time.Second, "for how long the neighbours' transactions stay open")

// neighbour is another program on the same database, which keeps a transaction open.
type neighbour struct {
	// begin does something in a transaction that stays open for the hold.
	begin func(ctx context.Context, n *neighbourhood, tx pgx.Tx) error
	// commit is whether the transaction is committed in the end, and not rolled back.
	commit bool
	// tables is whether it locks whole tables, so that all other transactions wait.
	tables bool
	// waits are the operations on other users that PostgreSQL lets wait.
	waits []string
}

// neighbourhood is a run with users whom a neighbour has locked, and others.
type neighbourhood struct {
	*chaos.Run
	locked, others []uuid.UUID
	spare          []uuid.UUID // others who have nothing to do with the workers
	partly         []uuid.UUID // users with events that are not delivered
}

// edits are the operations that lock a user.
var edits = []string{"edit", "opt out", "schedule", "delete", "cancel", "run now"}

// neighbours are the rows of the matrix.
var neighbours = map[string]neighbour{
	"none": {begin: func(context.Context, *neighbourhood, pgx.Tx) error { return nil }},
	"create": {begin: planned(func(ctx context.Context, n *neighbourhood, s almanac.Scheduler) error {
		_, err := s.CreateUser(ctx, spareProfile(uuid.Nil))
		return err
	})},
	"edit": {commit: true, begin: forEach(func(ctx context.Context, _ *neighbourhood, s almanac.Scheduler, id uuid.UUID) error {
		name := "Grace"
		_, err := s.UpdateUser(ctx, id, almanac.ProfileChange{FirstName: &name})
		return err
	})},
	"move to another zone": {commit: true, begin: forEach(func(ctx context.Context, _ *neighbourhood, s almanac.Scheduler, id uuid.UUID) error {
		_, err := s.UpdateUser(ctx, id, almanac.ProfileChange{Timezone: &zones[1]})
		return err
	})},
	"opt out and in": {commit: true, begin: forEach(func(ctx context.Context, n *neighbourhood, s almanac.Scheduler, id uuid.UUID) error {
		began := time.Now()
		_, err := s.OptOut(ctx, id, almanac.OptOut{Type: chaos.TickType})
		if err == nil {
			_, err = s.OptIn(ctx, id, almanac.OptOut{Type: chaos.TickType})
		}
		if time.Now().Unix() > began.Unix() { // events that were due between the two are not delivered
			n.partly = append(n.partly, id)
		}
		return err
	})},
	"delete": {commit: true, begin: forEach(func(ctx context.Context, n *neighbourhood, s almanac.Scheduler, id uuid.UUID) error {
		n.Release(id)
		_, err := s.DeleteUser(ctx, id, almanac.DeleteOptions{AtOnce: true})
		return err
	})},
	"schedule": {commit: true, begin: forEach(func(ctx context.Context, _ *neighbourhood, s almanac.Scheduler, id uuid.UUID) error {
		_, err := s.Schedule(ctx, id, chaos.TickType)
		return err
	})},
	"cancel": {begin: forEach(func(ctx context.Context, n *neighbourhood, s almanac.Scheduler, id uuid.UUID) error {
		return n.onOpen(ctx, id, func(e almanac.Event) error {
			_, err := s.Cancel(ctx, e.ID, almanac.CancelOptions{})
			return err
		})
	})},
	"run now": {begin: forEach(func(ctx context.Context, n *neighbourhood, s almanac.Scheduler, id uuid.UUID) error {
		return n.onOpen(ctx, id, func(e almanac.Event) error {
			_, err := s.RunNow(ctx, e.ID, almanac.ForceOptions{})
			return err
		})
	})},
	"requeue": {begin: forEach(func(ctx context.Context, n *neighbourhood, s almanac.Scheduler, id uuid.UUID) error {
		until(n.Run, "SELECT EXISTS (SELECT FROM almanac.events WHERE user_id = $1 AND status = 'FAILED')", id)
		failed, err := n.Store().Find(ctx, almanac.And{almanac.ForUser(id), almanac.InStatus(almanac.Failed)}, almanac.Page{Limit: 1})
		if err != nil {
			return err
		}
		_, err = s.Requeue(ctx, failed.Items[0].ID, almanac.ForceOptions{})
		return err
	})},
	"enrol": {begin: planned(func(ctx context.Context, _ *neighbourhood, s almanac.Scheduler) error {
		_, err := s.CreateUsers(ctx, profiles(200), almanac.CreateUsersOptions{})
		return err
	})},
	"backfill": {waits: edits, begin: planned(func(ctx context.Context, _ *neighbourhood, s almanac.Scheduler) error {
		_, err := s.Backfill(ctx, chaos.TickType, almanac.BackfillOptions{})
		return err
	})},
	"SELECT FOR UPDATE of users":       {begin: sql(`SELECT FROM almanac.users WHERE id = ANY ($1) FOR UPDATE`)},
	"SELECT FOR UPDATE of series":      {begin: sql(`SELECT FROM almanac.series WHERE user_id = ANY ($1) FOR UPDATE`)},
	"a long report":                    {begin: longReport},
	"pg_dump":                          {begin: dump},
	"CREATE INDEX CONCURRENTLY":        {begin: index},
	"VACUUM FULL of the history":       {tables: true, begin: sql(`LOCK TABLE almanac.history IN ACCESS EXCLUSIVE MODE`)}, // what it takes
	"LOCK TABLE series IN SHARE MODE":  {tables: true, begin: sql(`LOCK TABLE almanac.series IN SHARE MODE`)},
	"LOCK TABLE queue IN SHARE MODE":   {tables: true, begin: sql(`LOCK TABLE almanac.queue IN SHARE MODE`)},
	"LOCK TABLE leases IN SHARE MODE":  {tables: true, begin: sql(`LOCK TABLE almanac.leases IN SHARE MODE`)},
	"LOCK TABLE users IN SHARE MODE":   {waits: append([]string{"create", "enrol"}, edits...), begin: sql(`LOCK TABLE almanac.users IN SHARE MODE`)},
	"LOCK TABLE history IN SHARE MODE": {tables: true, begin: sql(`LOCK TABLE almanac.history IN SHARE MODE`)},
}

// Each neighbour keeps a transaction open, while the workers deliver, one of them is
// told to stop, and other users are created, edited, deleted, cancelled, requeued and
// backfilled. Events of other users are not late, no other call waits, and accepted events are
// not delivered again.
//
// The rows count on punctual workers, so no others run beside them.
func TestOpenTransactions(t *testing.T) {
	t.Parallel()
	machine.Lock()
	t.Cleanup(machine.Unlock)
	// Not parallel subtests: those wait for tests that wait for the machine.
	places := make(chan struct{}, flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int))
	var rows sync.WaitGroup
	defer rows.Wait()
	for name, beside := range neighbours {
		places <- struct{}{}
		rows.Go(func() {
			defer func() { <-places }()
			t.Run(name, func(t *testing.T) {
				for n := range *seeds {
					t.Run(fmt.Sprintf("seed %d", *seed+uint64(n)), func(t *testing.T) { besideNeighbour(t, *seed+uint64(n), beside) })
				}
			})
		})
	}
}

func besideNeighbour(t *testing.T, seed uint64, beside neighbour) {
	n := &neighbourhood{Run: calm(t, seed)}
	n.Pulse()
	ticks := int(*stays/time.Second) + 4
	n.others = n.CreateUsers(12, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: ticks})
	n.locked = n.CreateUsers(3, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: ticks})
	for range 4 {
		enrolment, err := n.Planner().CreateUser(t.Context(), spareProfile(uuid.New()))
		require.NoError(t, err)
		n.spare = append(n.spare, enrolment.User.ID)
	}
	n.failFirst()
	lasting := func(o *chaos.Orders) {
		if o.Patience = time.Second; beside.tables { // what waits keeps its lease
			o.Lease = 4 * *stays
		}
	}
	stopped, _ := n.Work("stopped", lasting), n.Work("other", lasting)
	until(n.Run, "SELECT count(*) FILTER (WHERE status = 'COMPLETED') > 10 FROM almanac.events")

	tx, err := n.Pool().Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	require.NoError(t, beside.begin(n.Within(20*time.Second), n, tx))
	n.Count("held", 1)
	over := time.After(*stays)
	n.workBeside(beside)
	if !beside.tables {
		took, _ := stopped.Stop(n.Within(chaos.Lease + 15*time.Second)) // an error says that an outcome was given up
		n.Count("stopped", 1)
		n.Allow(len(n.locked))
		t.Logf("stopped after %v", took.Round(time.Millisecond))
	}
	<-over
	if beside.commit {
		require.NoError(t, tx.Commit(t.Context()))
	} else {
		require.NoError(t, tx.Rollback(t.Context()))
	}

	for _, id := range n.spare {
		n.Release(id)
		_, err := n.Planner().DeleteUser(t.Context(), id, almanac.DeleteOptions{AtOnce: true})
		require.NoError(t, err)
	}
	n.Drained(60 * time.Second)
	n.ExpectStored(n.partly)
	n.CheckEdited("held")
	late := n.late()
	stood := n.Stood()
	t.Logf("others late p50 %v p99 %v max %v, the machine stood still for %v",
		late[len(late)/2].Round(time.Millisecond), late[len(late)*99/100].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond), stood.Round(time.Millisecond))
	if most, ordinary := late[len(late)-1], time.Second+stood; !beside.tables && most > ordinary {
		t.Errorf("an event of another user was late by %v, want at most %v", most, ordinary)
	}
}

// failFirst lets the first delivery to each of the locked users fail for good, so that
// there is something to requeue.
func (n *neighbourhood) failFirst() {
	var mu sync.Mutex
	failed := make(map[string]bool)
	n.Receiver.Answer(func(_ int, e chaos.Entry) int {
		mu.Lock()
		defer mu.Unlock()
		user := strings.Fields(e.Occurrence)[0]
		if slices.Contains(n.locked, uuid.MustParse(user)) && !failed[user] {
			failed[user] = true
			return http.StatusBadRequest
		}
		return http.StatusOK
	})
}

// late returns by how much the first deliveries to the other users were late, ascending.
func (n *neighbourhood) late() (late []time.Duration) {
	ledger, _ := n.Receiver.Ledger()
	for _, e := range ledger {
		user, key, _ := strings.Cut(e.Occurrence, " ")
		due, err := time.Parse("2006-01-02T15:04:05", key)
		require.NoError(n, err)
		if slices.Contains(n.others, uuid.MustParse(user)) {
			late = append(late, e.At.Sub(due))
		}
	}
	slices.Sort(late)
	return late
}

// workBeside does every operation on other users, but for those that PostgreSQL lets
// wait.
func (n *neighbourhood) workBeside(beside neighbour) {
	n.Helper()
	if beside.tables {
		return
	}
	s, store := n.Planner(), n.Store()
	name := "Grace"
	steps := map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := s.CreateUser(ctx, spareProfile(uuid.New()))
			return err
		},
		"enrol": func(ctx context.Context) error {
			_, err := s.CreateUsers(ctx, profiles(100), almanac.CreateUsersOptions{})
			return err
		},
		"find": func(ctx context.Context) error {
			_, err := store.Find(ctx, almanac.InStatus(almanac.Pending), almanac.Page{})
			return err
		},
		"backfill": func(ctx context.Context) error {
			done, err := s.Backfill(ctx, chaos.TickType, almanac.BackfillOptions{})
			if err == nil && len(done.Refused) > len(n.locked) && beside.waits == nil {
				err = fmt.Errorf("%d refused: %w", len(done.Refused), done.Refused[0].Err)
			}
			return err
		},
		"pause and resume": func(ctx context.Context) error {
			if err := store.Pause(ctx, almanac.Pause{Lane: "ANOTHER"}); err != nil {
				return err
			}
			return store.Resume(ctx, "ANOTHER")
		},
		"recover": func(ctx context.Context) error {
			_, err := store.ReleaseExpired(ctx, 100, 1000)
			return err
		},
		"prune": func(ctx context.Context) error {
			_, _, err := store.Prune(ctx, time.Now().Add(-time.Hour), almanac.Page{})
			return err
		},
		"edit": func(ctx context.Context) error {
			_, err := s.UpdateUser(ctx, n.spare[0], almanac.ProfileChange{FirstName: &name})
			return err
		},
		"opt out": func(ctx context.Context) error {
			_, err := s.OptOut(ctx, n.spare[0], almanac.OptOut{Channel: "none"})
			return err
		},
		"schedule": func(ctx context.Context) error {
			_, err := s.Schedule(ctx, n.spare[0], chaos.TickType)
			return err
		},
		"delete": func(ctx context.Context) error {
			e, err := s.CreateUser(ctx, spareProfile(uuid.New()))
			if err == nil {
				_, err = s.DeleteUser(ctx, e.User.ID, almanac.DeleteOptions{})
			}
			return err
		},
		"cancel": func(ctx context.Context) error {
			return n.onOpen(ctx, n.spare[1], func(e almanac.Event) error {
				_, err := s.Cancel(ctx, e.ID, almanac.CancelOptions{})
				return err
			})
		},
		"run now": func(ctx context.Context) error {
			return n.onOpen(ctx, n.spare[2], func(e almanac.Event) error {
				_, err := s.RunNow(ctx, e.ID, almanac.ForceOptions{})
				return err
			})
		},
	}
	for what, step := range steps {
		if slices.Contains(beside.waits, what) {
			continue
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(n.Context(), 15*time.Second)
		err := step(ctx)
		cancel()
		require.NoError(n, err, "%s, beside a neighbour", what)
		n.Count(what, 1)
		if took := time.Since(began); took > 6*time.Second { // Backfill looks again for three
			n.Errorf("%s took %v", what, took)
		}
	}
	rows, err := n.Pool().Query(n.Context(), "SELECT id FROM almanac.users WHERE first_name = 'Spare' OR id = ANY ($1)", n.spare)
	require.NoError(n, err)
	n.spare, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(n, err)
}

// spareProfile is the profile of a user whose first event is an hour away.
func spareProfile(id uuid.UUID) almanac.Profile {
	attributes, _ := json.Marshal(map[string]chaos.Plan{"plan": {Start: chaos.From(time.Hour), Interval: 60, Count: 5}})
	return almanac.Profile{ID: id, FirstName: "Spare", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: "UTC", Attributes: attributes}
}

func profiles(n int) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for range n {
			if !yield(spareProfile(uuid.New()), nil) {
				return
			}
		}
	}
}
