package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/postgres"
)

// following is the release after this one.
var following building

type building struct {
	once    sync.Once
	release chaos.Release
	dir     string
	err     error
}

func (b *building) get() (chaos.Release, error) {
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "almanac-following-"); b.err == nil {
			b.release, b.err = chaos.FollowingRelease(context.Background(), "..", b.dir)
		}
	})
	return b.release, b.err
}

func (b *building) close() error { return os.RemoveAll(b.dir) } // of nothing, if none was made

// releases returns this release and the one after it.
func releases(t *testing.T) (present, next chaos.Release) {
	t.Helper()
	present, err := chaos.Present("..")
	require.NoError(t, err)
	next, err = following.get()
	require.NoError(t, err)
	return present, next
}

func migrating(o *chaos.Orders) { o.Migrate = true }

// Two processes of the following release migrate under workers of this one, beside a long
// query of the events. All work goes on, before, during and after, and a worker of this release
// that starts later works too.
func TestTheFollowingReleaseMigrates(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		_, next := releases(t)
		r := calm(t, seed)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 4})
		present := two(r, unhurried)
		reader, err := r.Pool().Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = reader.Rollback(context.Background()) }()
		_, err = reader.Exec(t.Context(), "SELECT count(*) FROM almanac.events")
		require.NoError(t, err)

		newer := []*chaos.Process{r.WorkBy(next.Program, "newer one", unhurried, migrating), r.WorkBy(next.Program, "newer two", unhurried, migrating)}
		until(r, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'almanac.queue'::regclass AND NOT granted
			AND mode = 'AccessExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
		r.Count("migrations that waited", 1)
		r.Count("delivered while a migration waits", goOn(r))
		require.NoError(t, reader.Rollback(t.Context()))
		for _, w := range newer {
			arrive(r, w, chaos.Ready)
		}
		until(r, fmt.Sprintf("SELECT max(version) = %d FROM almanac.migrations", next.Version))
		// What no transaction can hold, an administrator does beside it.
		_, err = r.Pool().Exec(t.Context(), "CREATE INDEX CONCURRENTLY queue_priority ON almanac.queue (priority)")
		require.NoError(t, err)
		r.Count("delivered by both", goOn(r))

		for _, w := range append(newer, present[0]) {
			_, err := w.Stop(r.Within(20 * time.Second))
			require.NoError(t, err)
		}
		arrive(r, r.Work("started later", unhurried), chaos.Ready)
		r.Count("delivered by this release on the new schema", goOn(r))
		r.Drained(60 * time.Second)
		r.Check("migrations that waited", "delivered while a migration waits", "delivered by both", "delivered by this release on the new schema")
	})
}

// goOn stores more users, waits until they have it, and says how much it
// was.
func goOn(r *chaos.Run) int {
	r.Helper()
	ids := r.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 2})
	until(r, "SELECT NOT EXISTS (SELECT FROM almanac.events WHERE user_id = ANY ($1) AND status IN ('PENDING', 'PROCESSING'))", ids)
	ledger, _ := r.Receiver.Ledger()
	delivered := 0
	for _, d := range ledger {
		if slices.ContainsFunc(ids, func(id uuid.UUID) bool { return strings.HasPrefix(d.Occurrence, id.String()) }) {
			delivered++
		}
	}
	return delivered
}

// A worker of a release whose migration is missing does not begin, and says why.
func TestAWorkerBeforeItsMigration(t *testing.T) {
	present, next := releases(t)
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 2})
		until(r, "SELECT bool_and(available_at < now()) FROM almanac.events")

		early := r.WorkBy(next.Program, "early")
		select {
		case <-early.Ended():
		case <-r.Within(20 * time.Second).Done():
		}
		require.Contains(t, early.Complaints(), fmt.Sprintf("is at version %d, and this program is of version %d", present.Version, next.Version))
		require.Empty(t, early.Reports(), "it did not even try to claim")
		var untouched bool
		require.NoError(t, r.Pool().QueryRow(t.Context(),
			"SELECT sum(claim_count) = 0 AND NOT EXISTS (SELECT FROM almanac.leases) FROM almanac.events").Scan(&untouched))
		require.True(t, untouched)
		delivered, _ := r.Receiver.Ledger()
		require.Empty(t, delivered)
		r.Count("refused", 1)

		r.WorkBy(next.Program, "in time", unhurried, migrating)
		r.Drained(2 * time.Minute) // the worker first applies the migration, between the locks of others
		r.Check("refused")
	})
}

// A migration is undone while workers hold events, and is applied again. Then the outcomes
// of the deliveries meanwhile are stored, and no event is lost or repeated.
func TestTheSchemaGoesDownAndUp(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		_, next := releases(t)
		r := calm(t, seed)
		keep, answer := hold(r)
		defer answer()
		keep(true)
		workers := []*chaos.Process{r.WorkBy(next.Program, "one", unhurried, migrating), r.WorkBy(next.Program, "two", unhurried, migrating)}
		for _, w := range workers { // or the deliveries of one end by their timeouts before the other has begun
			arrive(r, w, chaos.Ready)
		}
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(longLead), Interval: 1, Count: 4})
		until(r, "SELECT count(*) >= $1 FROM almanac.events WHERE status = 'PROCESSING'", len(workers)*chaos.Slots)
		r.Count("held", len(workers)*chaos.Slots)
		undo(r)

		rows := func() (sum string) {
			require.NoError(t, r.Pool().QueryRow(t.Context(), "SELECT md5(string_agg(e::text, ',' ORDER BY e.id)) FROM almanac.events e").Scan(&sum))
			return sum
		}
		before := rows()
		answer()
		for _, w := range workers {
			complains(r, w, "column s.occurrences does not exist") // which settling needs, on the way back from a delivery
		}
		require.Equal(t, before, rows(), "the events, while nothing can be stored")

		require.NoError(t, postgres.Migrate(t.Context(), r.Pool()), "of this release: there is nothing to do")
		mender := r.WorkBy(next.Program, "mender", unhurried, migrating)
		r.Drained(60 * time.Second)
		_, err := mender.Stop(r.Within(20 * time.Second))
		require.NoError(t, err)
		r.Check("held", "refused statements")
	})
}

// undo undoes the following release's migration. It locks every table, and tries again after a
// deadlock with a worker.
func undo(r *chaos.Run) {
	r.Helper()
	for {
		_, err := r.Pool().Exec(r.Context(), chaos.Undo)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "40P01" {
			continue
		}
		require.NoError(r, err)
		return
	}
}

// complains waits until a worker complains of something.
func complains(r *chaos.Run, w *chaos.Process, of string) {
	r.Helper()
	require.Eventually(r, func() bool { return strings.Contains(w.Complaints(), of) }, 20*time.Second, 10*time.Millisecond, "%s", w.Complaints())
	r.Count("refused statements", 1)
}
