package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// Another program stores an event of a user after the first statement of the host's transaction. An edit in that transaction
// either moves this event, too, or is refused.
func TestTheHostsTransactionMissesNoEvent(t *testing.T) {
	t.Parallel()
	for level, refused := range map[pgx.TxIsoLevel]bool{pgx.ReadCommitted: false, pgx.RepeatableRead: true, pgx.Serializable: true} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			handlers := []almanac.EventHandler{almanac.Birthday{}, almanac.OneOff{}}
			created, err := newScheduler(t, mustStore(t, pool)).CreateUser(t.Context(), ada)
			require.NoError(t, err)
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(t.Context()) }()
			_, err = tx.Exec(t.Context(), "SELECT count(*) FROM almanac.users")
			require.NoError(t, err)
			visit := calendar.WallTime{Date: calendar.Date{Year: 2999, Month: 5, Day: 1}, Clock: calendar.Clock{Hour: 9}}
			added, err := with(t, mustStore(t, pool), handlers).ScheduleAt(t.Context(), created.User.ID, almanac.TypeOneOff,
				almanac.ScheduleAtOptions{At: visit, FollowUser: true})
			require.NoError(t, err)

			host := with(t, mustStore(t, tx), handlers)
			zone := "Asia/Tokyo"
			_, err = host.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{Timezone: &zone})
			if refused {
				var isolation *postgres.IsolationError
				require.ErrorAs(t, err, &isolation)
				require.Equal(t, string(level), isolation.Level)
				_, err = host.DeleteUser(t.Context(), created.User.ID, almanac.DeleteOptions{})
				require.ErrorAs(t, err, &isolation)
				zone = added.Event.Zone
			} else {
				require.NoError(t, err)
			}
			another, err := host.CreateUser(t.Context(), ada)
			require.NoError(t, err, "the transaction can continue")
			require.NoError(t, tx.Commit(t.Context()))
			_, err = mustStore(t, pool).User(t.Context(), another.User.ID)
			require.NoError(t, err)
			e, err := mustStore(t, pool).Event(t.Context(), added.Event.ID)
			require.NoError(t, err)
			require.Equal(t, zone, e.Zone)
		})
	}
}
