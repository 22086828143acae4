package postgres_test

import (
	"context"
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

// A transaction of another program is older than everything, so nothing that it might read
// can be removed: neither the entries of the index that claims leave behind, nor the
// rows that they lead to. What a look costs from the mark on stays the same all the
// same.
func TestAClaimFromTheMarkCostsTheSameBesideAnOldTransaction(t *testing.T) {
	t.Parallel()
	const events, rest = 20_000, 200
	received := new(recorder)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
	_, err := pool.Exec(t.Context(), owePeople, events+rest)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "VACUUM ANALYZE almanac.users, almanac.series, almanac.queue")
	require.NoError(t, err)
	old, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { require.NoError(t, old.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = old.Exec(t.Context(), "SELECT count(*) FROM almanac.queue")
	require.NoError(t, err)
	store := mustStore(t, pool, postgres.WithTimeout(time.Minute))

	looks := map[string]func(mark time.Time) func(*postgres.Store) error{
		"claim": func(mark time.Time) func(*postgres.Store) error {
			return func(s *postgres.Store) error {
				_, err := s.Claim(t.Context(), almanac.ClaimRequest{
					Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 10, Lease: time.Minute, Mark: mark,
				})
				return err
			}
		},
		"until": func(mark time.Time) func(*postgres.Store) error {
			return func(s *postgres.Store) error {
				_, _, err := s.Until(t.Context(), []string{almanac.TypeBirthday}, mark)
				return err
			}
		},
	}
	cost := func(look string, mark time.Time) int {
		p, text := explain(t, pool, received, looks[look](mark))
		condition := p.bound("queue_due")
		require.Contains(t, condition, "available_at >=", "the scan does not begin at the mark:\n%s", text)
		return p.Hit + p.Read
	}

	var mark time.Time
	fresh := map[string]int{"claim": cost("claim", mark), "until": cost("until", mark)}
	done := 0
	for _, more := range []int{events / 4, events * 3 / 4} {
		mark, done = deliver(t, store, more, mark), done+more
		for look := range looks {
			marked, whole := cost(look, mark), cost(look, time.Time{})
			t.Logf("%s: %d blocks at first; after %d, %d from the mark on, %d from the beginning", look, fresh[look], done, marked, whole)
			require.LessOrEqual(t, marked, fresh[look]+20, look)
			require.Greater(t, whole, marked+done/100, "there is nothing to spare: is the old transaction still there?")
		}
	}
}

// deliver has events claimed from the mark on and settled, and returns the new mark.
func deliver(t *testing.T, store *postgres.Store, events int, mark time.Time) time.Time {
	t.Helper()
	for left := events; left > 0; {
		claim, err := store.Claim(t.Context(), almanac.ClaimRequest{
			Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: min(1000, left), Lease: time.Minute, Mark: mark,
		})
		require.NoError(t, err)
		require.NotEmpty(t, claim.Events)
		settlements := make([]almanac.Settlement, len(claim.Events))
		for i, e := range claim.Events {
			settlements[i] = almanac.Settlement{Event: e, Outcome: almanac.Delivered(claim.At)}
		}
		_, err = store.Settle(t.Context(), settlements)
		require.NoError(t, err)
		left, mark = left-len(settlements), claim.Reached
	}
	return mark
}
