package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func claimOf(types []string, lease time.Duration) almanac.ClaimRequest {
	return almanac.ClaimRequest{Token: uuid.New(), Owner: "test", Types: types, Limit: 100, Lease: lease}
}

// Every role with the rights of the API can insert rows into the queue and delete them. A claim takes an event for what its series says,
// and puts the row right if its event waits.
func TestARowOfTheQueueThatDoesNotMatchItsSeriesClaimsNothing(t *testing.T) {
	t.Parallel()
	const insert = `INSERT INTO almanac.queue (available_at, event_id, series_id, event_type) SELECT now() - interval '1 hour', `
	for name, types := range map[string][]string{"one type": {almanac.TypeBirthday}, "several types": {almanac.TypeBirthday, "OTHER"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store, err := postgres.New(pool)
			require.NoError(t, err)
			scheduler := newScheduler(t, store)
			change := func(sql string, user uuid.UUID) {
				tag, err := pool.Exec(t.Context(), sql, user)
				require.NoError(t, err)
				require.EqualValues(t, 1, tag.RowsAffected(), sql)
			}
			dequeue := func(user uuid.UUID) {
				change("DELETE FROM almanac.queue WHERE event_id = (SELECT event_id FROM almanac.series WHERE user_id = $1)", user)
			}
			closed := overdue(t, store)
			_, err = scheduler.Cancel(t.Context(), closed.ID, almanac.CancelOptions{EndSeries: true})
			require.NoError(t, err)
			change(insert+`gen_random_uuid(), id, event_type FROM almanac.series WHERE user_id = $1`, closed.UserID)
			for _, id := range []string{"event_id", "gen_random_uuid()"} {
				future, err := scheduler.CreateUser(t.Context(), ada)
				require.NoError(t, err)
				if id == "event_id" {
					dequeue(future.User.ID)
				}
				change(insert+id+`, id, event_type FROM almanac.series WHERE user_id = $1`, future.User.ID)
			}
			other := overdue(t, store)
			dequeue(other.UserID)
			change(insert+`event_id, id, 'OTHER' FROM almanac.series WHERE user_id = $1`, other.UserID)
			due := overdue(t, store)

			claim, err := store.Claim(t.Context(), claimOf(types, time.Minute))
			require.NoError(t, err)
			require.Len(t, claim.Events, 1)
			require.Equal(t, due.ID, claim.Events[0].ID)
			var listed int
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT sum(cardinality(series_ids)) FROM almanac.leases").Scan(&listed))
			require.Equal(t, 1, listed)
			claim, err = store.Claim(t.Context(), claimOf([]string{almanac.TypeBirthday, "OTHER"}, time.Minute))
			require.NoError(t, err)
			require.Len(t, claim.Events, 1, "its row was put right")
			require.Equal(t, other.ID, claim.Events[0].ID)
			claim, err = store.Claim(t.Context(), claimOf(types, time.Minute))
			require.NoError(t, err)
			require.Empty(t, claim.Events)
			var right, rows int
			require.NoError(t, pool.QueryRow(t.Context(), `
				SELECT count(*) FILTER (WHERE q.event_type = s.event_type AND q.available_at = s.target_timestamp_utc AND s.target_timestamp_utc > now()), count(*)
				FROM almanac.queue q LEFT JOIN almanac.series s ON s.id = q.series_id AND s.event_id = q.event_id`).Scan(&right, &rows))
			require.Equal(t, []int{2, 2}, []int{right, rows}, "both events in the future wait for their instants")
		})
	}
}

// A right row takes the place of a wrong one, also while an event waits for its point of a window.
func TestARowOfTheQueueMakesNoEventEarlierThanItsPoint(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]string{
		"of the wall time": "target_timestamp_utc, event_id, id, event_type", "of the past": "now() - interval '2 hours', event_id, id, event_type",
		"of another type": "now() - interval '1 hour', event_id, id, 'OTHER'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool)
			e := overdue(t, store)
			_, err := pool.Exec(t.Context(), "UPDATE almanac.series SET ready_at = now() + interval '1 hour'")
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), "DELETE FROM almanac.queue")
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), "INSERT INTO almanac.queue (available_at, event_id, series_id, event_type) SELECT "+row+" FROM almanac.series")
			require.NoError(t, err)
			for range 2 {
				claim, err := store.Claim(t.Context(), claimOf([]string{almanac.TypeBirthday, "OTHER"}, time.Minute))
				require.NoError(t, err)
				require.Empty(t, claim.Events)
			}
			is, err := store.Event(t.Context(), e.ID)
			require.NoError(t, err)
			require.Equal(t, is.ReadyAt, is.AvailableAt)
			require.Equal(t, 1, scalar(t, pool, "SELECT count(*) FROM almanac.queue WHERE delayed_from IS NOT NULL AND event_type = 'BIRTHDAY'"))
		})
	}
}

// A row of an event that is in flight is not put right.
func TestARowOfTheQueueBesideALeaseClaimsNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	overdue(t, store)
	types := []string{almanac.TypeBirthday, "OTHER"}
	claim, err := store.Claim(t.Context(), claimOf(types, time.Minute))
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)
	_, err = pool.Exec(t.Context(), `INSERT INTO almanac.queue (available_at, event_id, series_id, event_type)
		SELECT now() - interval '1 hour', event_id, id, 'OTHER' FROM almanac.series`)
	require.NoError(t, err)

	again, err := store.Claim(t.Context(), claimOf(types, time.Minute))

	require.NoError(t, err)
	require.Empty(t, again.Events)
}

// Whatever row was put into the queue while an event was in flight, the event is released and claimed again as if there had been none.
func TestAReleaseReplacesARowOfTheQueue(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]string{
		"a copy":          "available_at, event_id, id, event_type",
		"another type":    "available_at, event_id, id, 'OTHER'",
		"another series":  "available_at, event_id, (SELECT max(id) FROM almanac.series), event_type",
		"no series":       "available_at, event_id, -1, event_type",
		"years too late":  "available_at + interval '10 years', event_id, id, event_type",
		"years too early": "available_at - interval '10 years', event_id, id, event_type",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store, err := postgres.New(pool)
			require.NoError(t, err)
			e := overdue(t, store)
			_, err = newScheduler(t, store).CreateUser(t.Context(), ada)
			require.NoError(t, err)
			claim := func() almanac.ClaimResult {
				claim, err := store.Claim(t.Context(), claimOf([]string{almanac.TypeBirthday}, time.Minute))
				require.NoError(t, err)
				require.Len(t, claim.Events, 1)
				require.Equal(t, e.ID, claim.Events[0].ID)
				tag, err := pool.Exec(t.Context(), `INSERT INTO almanac.queue (available_at, event_id, series_id, event_type)
					SELECT `+row+` FROM (SELECT *, now() AS available_at FROM almanac.series) s WHERE event_id = $1`, e.ID)
				require.NoError(t, err)
				require.EqualValues(t, 1, tag.RowsAffected())
				return claim
			}
			queued := func() {
				var rows int
				require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM almanac.queue q JOIN almanac.series s ON s.id = q.series_id
					WHERE q.event_id = $1 AND s.event_id = $1 AND q.event_type = s.event_type AND q.available_at <= clock_timestamp()`, e.ID).Scan(&rows))
				require.Equal(t, 1, rows)
			}
			released, err := store.Release(t.Context(), claim().Events[0].LeaseToken)
			require.NoError(t, err)
			require.Len(t, released, 1)
			queued()

			again := claim()
			settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: again.Events[0], User: again.Users[e.UserID], Outcome: almanac.Released(almanac.AfterFailure, "busy", 0)}})
			require.NoError(t, err)
			require.NoError(t, settled[0].Err)
			queued()
			claim()
		})
	}
}

// However many rows claim nothing, a claim finds the event behind them.
func TestAClaimGoesOnAfterRowsThatClaimNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	e := overdue(t, store)
	_, err = pool.Exec(t.Context(), `INSERT INTO almanac.queue (available_at, event_id, series_id, event_type)
		SELECT now() - interval '1 year', gen_random_uuid(), n, 'BIRTHDAY' FROM generate_series(1, 250) n`)
	require.NoError(t, err)
	request := claimOf([]string{almanac.TypeBirthday}, time.Minute)
	request.Limit = 10

	claim, err := store.Claim(t.Context(), request)

	require.NoError(t, err)
	require.Len(t, claim.Events, 1)
	require.Equal(t, e.ID, claim.Events[0].ID)
}

func TestDeletingAUserLeavesTheSeriesThatARowOfTheQueueNames(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	scheduler := newScheduler(t, store)
	var users [2]almanac.UserWithEvents
	for i := range users {
		users[i], err = scheduler.CreateUser(t.Context(), ada)
		require.NoError(t, err)
	}
	_, err = pool.Exec(t.Context(), `DELETE FROM almanac.queue WHERE event_id = $1`, users[0].Events[0].ID)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO almanac.queue (available_at, event_id, series_id, event_type)
		SELECT target_timestamp_utc, $1, id, event_type FROM almanac.series WHERE user_id = $2`, users[0].Events[0].ID, users[1].User.ID)
	require.NoError(t, err)

	_, err = scheduler.DeleteUser(t.Context(), users[0].User.ID, almanac.DeleteOptions{})
	require.NoError(t, err)
	e, err := store.Event(t.Context(), users[1].Events[0].ID)
	require.NoError(t, err)
	require.Equal(t, almanac.Pending, e.Status)
}

// A number at the greatest integer would fail each statement that adds to it, with the rows of other users.
func TestStoredNumbersOverflowInNoStatement(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	api, worker, operator := c.store(t, "api"), c.store(t, "worker"), newScheduler(t, c.store(t, "operator"))

	// An API may insert ended events, and change how many events have a key.
	first := overdue(t, api)
	_, err := operator.Cancel(t.Context(), first.ID, almanac.CancelOptions{EndSeries: true})
	require.NoError(t, err)
	copied := uuid.Must(uuid.NewV7())
	c.exec(t, "", `INSERT INTO almanac.history SELECT (jsonb_populate_record(h, jsonb_build_object('id', $2::uuid, 'claim_count', 2147483647))).*
		FROM almanac.history h WHERE id = $1`, first.ID, copied)
	c.exec(t, "api", "UPDATE almanac.keys SET holders = 2147483647 WHERE idempotency_key = $1", first.IdempotencyKey.String())
	for _, id := range []uuid.UUID{first.ID, copied} {
		_, err = operator.Requeue(t.Context(), id, almanac.ForceOptions{})
		require.NoError(t, err)
	}
	claim, err := worker.Claim(t.Context(), claimOf([]string{almanac.TypeBirthday}, time.Millisecond))
	require.NoError(t, err)
	require.Len(t, claim.Events, 2)
	_, err = worker.Find(t.Context(), almanac.InStatus(almanac.Processing), almanac.Page{})
	require.NoError(t, err)
	released := 0
	require.Eventually(t, func() bool {
		events, err := worker.ReleaseExpired(t.Context(), 100, 1000)
		released += len(events)
		return err == nil && released == 2
	}, 10*time.Second, 10*time.Millisecond)

	// An API may store how often a series has stalled.
	unplanned(t, api, 2)
	c.exec(t, "api", "UPDATE almanac.unplanned SET failures = 2147483647")
	_, err = worker.AddSuccessors(t.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
		var again []almanac.StalledSeries
		for _, one := range users {
			stalled := one.Stalled[0]
			stalled.Failures++
			again = append(again, stalled)
		}
		return nil, again, nil
	})
	require.NoError(t, err)
}

// Each integer that some role may write, and why no statement that adds to it overflows. A new one belongs here.
func TestIntegersThatRolesWriteDoNotOverflow(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	const steps, copied, counts = "a guard lets it rise step by step", "only copied and compared", "a bigint that only workers write"
	why := map[string]string{
		"series.version": steps, "series.retry_count": steps, "series.claim_count": steps, "series.crash_count": steps, "users.version": steps,
		"series.current_user_version": copied, "series.user_version": copied,
		"history.version": copied, "history.retry_count": copied, "history.crash_count": copied, "history.user_version": copied,
		"history.claim_count": "requeue_events.sql bounds it",
		"keys.holders":        "hold_keys.sql bounds it", "unplanned.failures": "stallArgs bounds it",
		"queue.series_id": copied, "queue.retry_count": copied, "unplanned.series_id": copied,
		"lanes.burst": "a check bounds it", "lanes.places": "a check bounds it", "lanes.daily": "a check bounds it", "lanes.weight": "a check bounds it", "lane_states.step": "a bigint that rises by one a claim",
		"lane_states.allowed": "doubled below 64 only", "lane_states.failures": "a check bounds it", "lane_states.of_day": "as many as start in a day", "lane_states.of_eve": "as many as start in a day", "lane_states.slot": "computed from the time",
		"due_changes.quarter": copied, "due_counts.quarter": copied,
		"due_changes.n": "its sum is a bigint", "due_counts.n": "a bigint that only workers write",
		"zone_rules.fingerprint": copied, "zone_rules.since": copied, "zone_marks.fingerprint": copied, "zone_marks.since": copied, "calendars.since": "a check bounds it",
		"broadcast_zones.reads": "a check bounds it", "broadcast_zones.users_read": counts, "broadcast_zones.stored": counts, "broadcast_zones.opted_out": counts,
		"broadcast_zones.refused": counts, "broadcast_zones.locked": counts, "broadcast_zones.left_out": counts, "broadcast_zones.requeued": counts,
		"broadcast_zones.delivered": counts, "broadcast_zones.failed": counts, "broadcast_zones.cancelled": counts,
		"broadcast_zones.now_opted_out": counts, "broadcast_zones.now_refused": counts,
		"quarantine.changes": "a check bounds it", "quarantine.largest": copied,
		"outbox_consumers.low": copied, "outbox_consumers.next_low": copied, "outbox_consumers.last": copied,
	}
	written := c.lines(t, `
		SELECT format('%s.%s', c.relname, a.attname)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'almanac'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
			AND a.atttypid IN ('integer'::regtype, 'bigint'::regtype) AND a.attidentity = ''
			AND EXISTS (SELECT FROM unnest($1::text[]) r
				WHERE has_column_privilege(r, c.oid, a.attnum, 'INSERT') OR has_column_privilege(r, c.oid, a.attnum, 'UPDATE'))
		ORDER BY 1`, c.roles("worker", "api", "operator", "relay", "reader"))
	for _, column := range written {
		require.Contains(t, why, column)
	}
	require.Len(t, written, len(why))
}

// A relay that prunes and keeps its transaction open delays no deletion of a user.
func TestAnOpenPruningDelaysNoDeletion(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	require.NoError(t, postgres.EnableOutbox(t.Context(), c.pools["owner"]))
	relay := c.store(t, "relay")
	require.NoError(t, relay.CreateConsumer(t.Context(), "billing"))
	var users []uuid.UUID
	for range 2 {
		created, err := newScheduler(t, c.store(t, "api")).CreateUser(t.Context(), ada)
		require.NoError(t, err)
		users = append(users, created.User.ID)
	}
	consume(t, relay, "billing", 100)
	about := func(user uuid.UUID) int {
		return len(c.lines(t, "SELECT kind FROM almanac.outbox WHERE user_id = $1", user))
	}
	tx, err := c.pools["relay"].Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT almanac.prune_outbox(2)")
	require.NoError(t, err)
	for _, id := range users {
		_, err := newScheduler(t, c.store(t, "api")).DeleteUser(t.Context(), id, almanac.DeleteOptions{AtOnce: true})
		require.NoError(t, err)
	}
	require.Equal(t, []int{3, 1}, []int{about(users[0]), about(users[1])}, "rows that are being pruned stay")
	require.NoError(t, tx.Rollback(t.Context()))
	consume(t, relay, "billing", 100)
	_, err = relay.PruneOutbox(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, []int{about(users[0]), about(users[1])})

	for _, most := range []any{nil, -1, 0, 10_001, 2147483647} {
		_, err := c.pools["relay"].Exec(t.Context(), "SELECT almanac.prune_outbox($1)", most)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "22023", pg.Code, "%v", most)
	}
	_, err = relay.PruneOutbox(t.Context(), 10_001)
	require.ErrorIs(t, err, almanac.ErrInvalid)
}
