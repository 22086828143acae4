package postgres_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// waiting fills the queue with events of one type that have been due for days.
const waiting = `INSERT INTO almanac.queue (available_at, event_id, series_id, event_type)
	SELECT now() - interval '30 days' + n * interval '10 ms', gen_random_uuid(), -n, $1 FROM generate_series(1, $2::integer) n`

// A hundred thousand events of a paused type and as many of an unhandled type have been due for longer than all others. Claims
// begin at the beginning, as after each hint. They read as many blocks as without that backlog.
func TestBacklogOfOtherTypesCostsClaimsNothing(t *testing.T) {
	t.Parallel()
	const backlog, due = 100_000, 2000
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	_, err := pool.Exec(t.Context(), owePeople, due)
	require.NoError(t, err)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	require.NoError(t, store.Pause(t.Context(), almanac.Pause{Lane: "PAUSED"}))
	claim := func(types ...string) func(*postgres.Store) error {
		return func(s *postgres.Store) error {
			claim, err := s.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: types, Limit: 100, Lease: time.Minute})
			require.Len(t, claim.Events, 100)
			return err
		}
	}
	looks := map[string]func(*postgres.Store) error{
		"a claim of one type":      claim(almanac.TypeBirthday),
		"a claim of several types": claim(almanac.TypeBirthday, "DIGEST", "PAUSED"),
		"until": func(s *postgres.Store) error {
			_, known, err := s.Until(t.Context(), []string{almanac.TypeBirthday, "PAUSED"}, time.Time{})
			require.True(t, known)
			return err
		},
		"until, of nothing": func(s *postgres.Store) error {
			_, known, err := s.Until(t.Context(), []string{"DIGEST", "PAUSED"}, time.Time{})
			require.False(t, known)
			return err
		},
	}
	costs := func() map[string]int {
		_, err := pool.Exec(t.Context(), "VACUUM ANALYZE almanac.users, almanac.series, almanac.queue")
		require.NoError(t, err)
		costs := make(map[string]int, len(looks))
		for name, look := range looks {
			p, text := explain(t, pool, received, look)
			require.False(t, p.scansSequentially() && p.Hit+p.Read > 2000, "%s reads a whole table:\n%s", name, text)
			costs[name] = p.Hit + p.Read
		}
		return costs
	}
	before := costs()
	for _, eventType := range []string{"PAUSED", "UNHANDLED"} {
		_, err = pool.Exec(t.Context(), waiting, eventType, backlog)
		require.NoError(t, err)
	}
	for name, after := range costs() {
		t.Logf("%s: %d blocks without a backlog, %d behind one of %d events", name, before[name], after, 2*backlog)
		require.LessOrEqual(t, after, before[name]+60, name)
	}
}

// Events of several types are claimed in equal shares, the oldest of each first. What another claim has locked is passed over,
// and nothing is locked that is not taken.
func TestClaimOfSeveralTypesTakesTheOldestAndLocksNoMore(t *testing.T) {
	t.Parallel()
	const each = 60
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), owePeople, 3*each)
	require.NoError(t, err)
	for i, eventType := range []string{"DIGEST", "RENEWAL"} {
		for _, table := range []string{"series SET event_type = $1 WHERE occurrence_key = '2020' AND id", "queue SET event_type = $1 WHERE series_id"} {
			_, err = pool.Exec(t.Context(), "ALTER TABLE almanac.series DISABLE TRIGGER USER; ALTER TABLE almanac.queue DISABLE TRIGGER USER")
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), "UPDATE almanac."+table+" % 3 = $2", eventType, i)
			require.NoError(t, err)
		}
	}
	// The latest ids are available first, so that order by id would be another.
	_, err = pool.Exec(t.Context(), "UPDATE almanac.queue SET available_at = now() - interval '1 day' - series_id * interval '1 millisecond'")
	require.NoError(t, err)
	types := []string{almanac.TypeBirthday, "DIGEST", "RENEWAL"}
	var want []uuid.UUID
	rows, err := pool.Query(t.Context(), "SELECT event_id FROM almanac.queue ORDER BY available_at, event_id")
	require.NoError(t, err)
	want, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)

	var open []pgx.Tx
	var got []uuid.UUID
	for range 3 { // each while the others have not committed
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		open = append(open, tx)
		inside, err := postgres.New(tx)
		require.NoError(t, err)
		claim, err := inside.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: types, Limit: each, Lease: time.Minute})
		require.NoError(t, err)
		batch := make([]uuid.UUID, 0, each)
		for _, e := range slices.Backward(claim.Events) { // they come in the order of their targets
			batch = append(batch, e.ID)
		}
		got = append(got, batch...)
	}
	require.Equal(t, want, got)
	for _, tx := range open {
		require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context())))
	}
}

// inThreeTypes gives the events of the queue three types. Those of BIRTHDAY are available longest, and those of DIGEST are few.
const inThreeTypes = `
	ALTER TABLE almanac.series DISABLE TRIGGER USER;
	UPDATE almanac.series SET event_type = CASE WHEN id % 20 = 0 THEN 'DIGEST' WHEN id % 3 = 0 THEN 'RENEWAL' ELSE event_type END,
		target_timestamp_utc = target_timestamp_utc + CASE WHEN id % 20 = 0 OR id % 3 = 0 THEN interval '1 hour' ELSE interval '0' END;
	ALTER TABLE almanac.series ENABLE TRIGGER USER;
	WITH gone AS (DELETE FROM almanac.queue RETURNING *)
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type)
	SELECT s.target_timestamp_utc, q.event_id, s.id, s.event_type
	FROM gone q JOIN almanac.series s ON s.id = q.series_id`

var threeTypes = []string{almanac.TypeBirthday, "DIGEST", "RENEWAL"}

// Claims of several types, each from the mark of the one before, take all events that are not locked, wherever the locked ones are.
func TestTypesInTurnLeaveNoEventBehindTheMark(t *testing.T) {
	t.Parallel()
	for limit, locked := range map[int]string{1: "id % 20 = 0", 3: "id < 40", 8: "id % 3 = 0 AND id < 90", 50: "id % 7 = 0"} {
		t.Run(fmt.Sprintf("%d at a time", limit), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			owe(t, pool, 400)
			_, err := pool.Exec(t.Context(), inThreeTypes)
			require.NoError(t, err)
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
			tag, err := tx.Exec(t.Context(), "SELECT FROM almanac.queue WHERE series_id IN (SELECT id FROM almanac.series WHERE "+locked+") FOR UPDATE")
			require.NoError(t, err)
			store := mustStore(t, pool)
			r := almanac.ClaimRequest{Types: threeTypes, Limit: limit, Lease: time.Hour}
			claimed := 0
			for n := limit; n > 0; {
				r.Token = uuid.New()
				claim, err := store.Claim(t.Context(), r)
				require.NoError(t, err)
				n, r.Mark = len(claim.Events), claim.Reached
				claimed += n
			}
			require.Equal(t, 400-int(tag.RowsAffected()), claimed)
		})
	}
}

// An occurrence that is caught up is stored before what was claimed already. The claimer's mark moves back to it.
func TestTypesInTurnClaimAnEventThatIsStoredOverdue(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	owe(t, pool, 400)
	_, err := pool.Exec(t.Context(), inThreeTypes)
	require.NoError(t, err)
	store := mustStore(t, pool)
	r := almanac.ClaimRequest{Types: threeTypes, Limit: 30, Lease: time.Hour}
	claim := func() almanac.ClaimResult {
		r.Token = uuid.New()
		claim, err := store.Claim(t.Context(), r)
		require.NoError(t, err)
		require.Len(t, claim.Events, r.Limit)
		r.Mark = claim.Reached
		return claim
	}
	claim()
	for _, ahead := range []time.Duration{0, time.Second} {
		r.Ahead = ahead
		claim()
		var overdue uuid.UUID
		require.NoError(t, pool.QueryRow(t.Context(), `
			WITH last AS (
				DELETE FROM almanac.queue
				WHERE event_id = (SELECT event_id FROM almanac.queue WHERE event_type = $1 ORDER BY available_at DESC, event_id DESC LIMIT 1)
				RETURNING event_id, series_id, event_type
			)
			INSERT INTO almanac.queue (available_at, event_id, series_id, event_type)
			SELECT '2000-01-01', * FROM last
			RETURNING event_id`, threeTypes[0]).Scan(&overdue))
		r.Ahead, r.Mark = 0, time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
		require.True(t, slices.ContainsFunc(claim().Events, func(e almanac.Event) bool { return e.ID == overdue }))
	}
}

// One type is behind the others, which have events left too, beside an old transaction. A claim does not walk over what was claimed
// of the others.
func TestAClaimOfTypesInTurnCostsTheSameBesideAnOldTransaction(t *testing.T) {
	t.Parallel()
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	owe(t, pool, 12_000)
	for _, sql := range []string{inThreeTypes, "VACUUM ANALYZE almanac.users, almanac.series, almanac.queue"} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	old, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { require.NoError(t, old.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = old.Exec(t.Context(), "SELECT count(*) FROM almanac.queue")
	require.NoError(t, err)
	store := mustStore(t, pool)
	r := almanac.ClaimRequest{Types: threeTypes, Limit: 20, Lease: time.Hour}
	costs := func(claims int) (least int) {
		least = math.MaxInt
		for n := range claims {
			r.Token = uuid.New()
			claim, err := store.Claim(t.Context(), r)
			require.NoError(t, err)
			require.Len(t, claim.Events, r.Limit)
			asked := received.last("claim")
			if r.Mark = claim.Reached; claims-n > 10 || !slices.ContainsFunc(asked.args, func(arg any) bool { at, is := arg.([]time.Time); return is && at != nil }) {
				continue // each second, one claim searches from the mark on
			}
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			for i, arg := range asked.args {
				if _, is := arg.(uuid.UUID); is { // the token, which is used
					asked.args[i] = uuid.New()
				}
			}
			p, _ := planOf(t, tx, "ANALYZE, BUFFERS, ", asked)
			least = min(least, p.Hit+p.Read)
			require.NoError(t, tx.Rollback(t.Context()))
		}
		return least
	}
	first := costs(20)
	then := costs(300)
	t.Logf("%d blocks at first, %d then", first, then)
	require.LessOrEqual(t, then, first+first/4)
}

// A claim of fewer events than types looks once where types with nothing due end, and not each time.
func TestTypesWithNothingDueHaveAPlaceToo(t *testing.T) {
	t.Parallel()
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	owe(t, pool, 100)
	_, err := pool.Exec(t.Context(), inThreeTypes)
	require.NoError(t, err)
	store := mustStore(t, pool)
	types := append([]string{"IDLE"}, threeTypes...)
	r := almanac.ClaimRequest{Types: types, Limit: 2, Lease: time.Hour}
	for began := time.Now(); ; require.Less(t, time.Since(began), 10*time.Second) {
		r.Token = uuid.New()
		claim, err := store.Claim(t.Context(), r)
		require.NoError(t, err)
		require.Len(t, claim.Events, r.Limit)
		r.Mark = claim.Reached
		args := received.last("claim").args
		if i := slices.IndexFunc(args, func(arg any) bool { at, is := arg.([]time.Time); return is && at != nil }); i >= 0 {
			require.False(t, args[i].([]time.Time)[0].IsZero())
			return
		}
	}
}

// A claim that takes events ahead leaves none behind that become available before them, but cannot be claimed ahead.
func TestAClaimAheadReachesItsOwnTime(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	owe(t, pool, 10)
	_, err := pool.Exec(t.Context(), `
		ALTER TABLE almanac.series DISABLE TRIGGER USER;
		UPDATE almanac.series SET target_timestamp_utc = clock_timestamp() + interval '10 seconds';
		ALTER TABLE almanac.series ENABLE TRIGGER USER;
		WITH gone AS (DELETE FROM almanac.queue RETURNING *)
		INSERT INTO almanac.queue (available_at, event_id, series_id, event_type)
		SELECT s.target_timestamp_utc, q.event_id, s.id, s.event_type
		FROM gone q JOIN almanac.series s ON s.id = q.series_id`)
	require.NoError(t, err)
	r := birthdaysUpTo(5)
	r.Ahead = time.Minute
	claim, err := mustStore(t, pool).Claim(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, claim.Events, 5)
	require.True(t, claim.Reached.Before(claim.At), "%v is after %v", claim.Reached, claim.At)
}
