package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// manyRows is a call that writes many rows.
type manyRows struct {
	prepare prepareRows
	trigger string // the event at which the database refuses a row
	fails   bool   // whether the call returns the error of a refused row
	allOf   []int  // numbers of rows; if all fail, the call fails
}

// prepareRows stores n rows. It returns the call that writes them, a condition for a trigger that refuses the first rows, and a
// function that counts the rows that are done.
type prepareRows func(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int)

// atCommit precedes the code of an error that COMMIT returns, as a deferred constraint does.
const atCommit = "COMMIT: "

var manyRowsCalls = map[string]manyRows{
	"Settle":                      {prepare: prepareSettle, trigger: "BEFORE UPDATE ON almanac.series", allOf: []int{1, 2, 10}},
	"AddEvents":                   {prepare: prepareAddEvents, trigger: "BEFORE INSERT ON almanac.series", allOf: []int{10}},
	"AddSuccessors":               {prepare: prepareAddSuccessors, trigger: "BEFORE UPDATE ON almanac.series", allOf: []int{10}},
	"CreateUsers":                 {prepare: prepareCreateUsers, trigger: "BEFORE INSERT ON almanac.users", allOf: []int{1, 2, 10}},
	"StoreBroadcast":              {prepare: prepareStoreBroadcast, trigger: "BEFORE INSERT ON almanac.series", allOf: []int{10}},
	"CancelBroadcast":             {prepare: prepareCancelBroadcast, trigger: "BEFORE UPDATE ON almanac.series", allOf: []int{10}},
	"RequeueBroadcast":            {prepare: prepareRequeueBroadcast, trigger: "BEFORE INSERT ON almanac.series", allOf: []int{10}},
	"EditUsers":                   {prepare: prepareEditUsers, trigger: "BEFORE UPDATE ON almanac.users", allOf: []int{1, 2, 10}},
	"ReleaseExpired, one lease":   {prepare: prepareRelease(100), trigger: "BEFORE UPDATE ON almanac.series", fails: true, allOf: []int{1, 2, 10}},
	"ReleaseExpired, many leases": {prepare: prepareRelease(1), trigger: "BEFORE UPDATE ON almanac.series", fails: true, allOf: []int{1, 2, 10}},
	"Reconcile":                   {prepare: prepareReconcile, trigger: "BEFORE UPDATE ON almanac.series", fails: true, allOf: []int{10}},
	"Prune":                       {prepare: preparePrune, trigger: "BEFORE DELETE ON almanac.history", fails: true, allOf: []int{1, 2, 10}},
	"of deleted users":            {prepare: prepareDeleted, trigger: "BEFORE DELETE ON almanac.users", fails: true, allOf: []int{1, 2, 10}},
}

// An error of every row is about none of them. A right that is missing must not have all rows set aside.
func TestNoRowIsRefusedWhenEveryRowFails(t *testing.T) {
	t.Parallel()
	for name, c := range manyRowsCalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			for _, n := range c.allOf {
				for _, code := range []string{"42501", "54000"} { // a right, and the limit of transaction ids
					call, _, done := c.prepare(t, pool, mustStore(t, pool), n, 0)
					refuseRow(t, pool, c.trigger, "true", code)

					require.ErrorContains(t, call(), code, n)
					require.Zero(t, done(), n)
					startOver(t, pool)
				}
			}
		})
	}
}

// Under little load an outcome is settled alone. Calls before it show that the database works.
func TestSettleDoubtsALoneOutcomeAfterOthersWereStored(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	settlements := claimedAndDelivered(t, pool, store, 4)
	refuseRow(t, pool, "BEFORE UPDATE ON almanac.series", fmt.Sprintf("OLD.event_id <> '%s'", settlements[1].Event.ID), "42501")
	settle := func(i int) (refused, err error) {
		settled, err := store.Settle(t.Context(), settlements[i:i+1])
		if err != nil {
			return nil, err
		}
		return settled[0].Err, nil
	}

	_, err := settle(0)
	require.ErrorContains(t, err, "42501", "no call has succeeded yet")
	refused, err := settle(1)
	require.NoError(t, errors.Join(refused, err))
	refused, err = settle(2)
	require.NoError(t, err)
	require.ErrorContains(t, refused, "42501")
	_, err = settle(3)
	require.ErrorContains(t, err, "42501", "no call has succeeded since")
}

// refuseRow has the database refuse rows for which a condition holds, with an error of a code.
func refuseRow(t *testing.T, pool *pgxpool.Pool, trigger, condition, code string) {
	t.Helper()
	kind := "TRIGGER"
	if after, deferred := strings.CutPrefix(code, atCommit); deferred {
		code, kind, trigger = after, "CONSTRAINT TRIGGER", strings.Replace(trigger, "BEFORE", "AFTER", 1)+" DEFERRABLE INITIALLY DEFERRED"
	}
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION public.refuse_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; END $$;
		CREATE %s refuse_row %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION public.refuse_row()`, raise(code), kind, trigger, condition))
	require.NoError(t, err)
}

// startOver removes what prepare and refuseRow did.
func startOver(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		DROP FUNCTION public.refuse_row CASCADE;
		DO $$
		BEGIN
			EXECUTE (SELECT 'TRUNCATE ' || string_agg(format('almanac.%I', relname), ', ') FROM pg_class
				WHERE relnamespace = 'almanac'::regnamespace AND relkind = 'r' AND relname NOT IN ('migrations', 'pruning', 'lane_clock'));
		END $$`)
	require.NoError(t, err)
}

// rowsOf returns a function that counts rows.
func rowsOf(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) func() int {
	return func() (n int) {
		t.Helper()
		require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&n))
		return n
	}
}

// oneOf is the condition that a column has one of the ids.
func oneOf(column string, ids []uuid.UUID) string {
	return fmt.Sprintf("%s = ANY ('{%s}')", column, joined(ids))
}

func usersOf(refusals []almanac.Refusal) (users []uuid.UUID) {
	for _, one := range refusals {
		users = append(users, one.UserID)
	}
	return users
}

// joined returns ids as one text, which poolers pass on too.
func joined(ids []uuid.UUID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, ",")
}

func prepareSettle(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	settlements := claimedAndDelivered(t, pool, store, n)
	ids := make([]uuid.UUID, n)
	for i, s := range settlements {
		ids[i] = s.Event.ID
	}
	stored := 0
	call = func() error {
		settled, err := store.Settle(t.Context(), settlements)
		for i, s := range settled {
			if s.Err == nil {
				stored++
			} else {
				require.Less(t, i, refused, "%v", s.Err)
			}
		}
		return err
	}
	return call, oneOf("OLD.event_id", ids[:refused]), func() int { return stored }
}

// storeUsers stores users, and returns their ids.
func storeUsers(t *testing.T, store *postgres.Store, n int) []uuid.UUID {
	t.Helper()
	var ids []uuid.UUID
	for range n {
		created, err := newScheduler(t, store).CreateUser(t.Context(), ada)
		require.NoError(t, err)
		ids = append(ids, created.User.ID)
	}
	return ids
}

func prepareAddEvents(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	ids := storeUsers(t, store, n)
	registry, err := almanac.NewRegistry(almanac.Recurring{Type: "DIGEST", Rule: func(almanac.User) (calendar.Recurrence, error) { return calendar.Daily{}, nil }})
	require.NoError(t, err)
	s, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	call = func() error {
		done, err := s.Backfill(t.Context(), "DIGEST", almanac.BackfillOptions{})
		if err == nil {
			require.ElementsMatch(t, ids[:refused], usersOf(done.Refused))
		}
		return err
	}
	return call, oneOf("NEW.user_id", ids[:refused]), rowsOf(t, pool, "SELECT count(*) FROM almanac.series WHERE event_type = 'DIGEST' AND user_id = ANY (string_to_array($1::text, ',')::uuid[])", joined(ids))
}

func prepareAddSuccessors(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	ids := unplanned(t, store, n)
	call = func() error {
		_, err := sweepBirthdays(t.Context(), store, alone)
		return err
	}
	return call, oneOf("NEW.user_id", ids[:refused]) + " AND NEW.event_id IS NOT NULL", rowsOf(t, pool, "SELECT count(*) FROM almanac.series WHERE event_id IS NOT NULL AND user_id = ANY (string_to_array($1::text, ',')::uuid[])", joined(ids))
}

func prepareEditUsers(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	ids := storeUsers(t, store, n)
	call = func() error {
		_, errs := store.EditUsers(t.Context(), ids, func(_ int, r almanac.Roster) (almanac.Edit, error) {
			changed := r.User
			changed.Version++
			return almanac.Edit{User: &changed}, nil
		})
		var failed []uuid.UUID
		for i, err := range errs {
			if err != nil {
				failed = append(failed, ids[i])
			}
		}
		if len(failed) == n {
			return errs[0]
		}
		require.ElementsMatch(t, ids[:refused], failed)
		return nil
	}
	return call, oneOf("NEW.id", ids[:refused]), rowsOf(t, pool, "SELECT count(*) FROM almanac.users WHERE version > 1 AND id = ANY (string_to_array($1::text, ',')::uuid[])", joined(ids))
}

func prepareCreateUsers(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	call = func() error {
		done, err := newScheduler(t, store).CreateUsers(t.Context(), func(yield func(almanac.Profile, error) bool) {
			for _, id := range ids {
				p := ada
				if p.ID = id; !yield(p, nil) {
					return
				}
			}
		}, almanac.CreateUsersOptions{})
		if err == nil {
			require.ElementsMatch(t, ids[:refused], usersOf(done.Refused))
		}
		return err
	}
	return call, oneOf("NEW.id", ids[:refused]), rowsOf(t, pool, "SELECT count(*) FROM almanac.users WHERE id = ANY (string_to_array($1::text, ',')::uuid[])", joined(ids))
}

func prepareRelease(eventsOfLease int) prepareRows {
	return func(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
		for range n {
			overdue(t, store)
		}
		var ids []uuid.UUID
		for len(ids) < n {
			claim, err := store.Claim(t.Context(), birthdays(eventsOfLease))
			require.NoError(t, err)
			for _, e := range claim.Events {
				ids = append(ids, e.ID)
			}
		}
		expireLeases(t, pool)
		call = func() error {
			_, err := store.ReleaseExpired(t.Context(), 1000, 1000)
			return err
		}
		return call, oneOf("OLD.event_id", ids[:refused]), rowsOf(t, pool, "SELECT count(*) FROM almanac.queue")
	}
}

// expireLeases has every lease expire an hour ago.
func expireLeases(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "UPDATE almanac.leases SET claimed_at = claimed_at - interval '2 hours', expires_at = claimed_at - interval '1 hour'")
	require.NoError(t, err)
}

// No event can be released. The rest of the work is done all the same, and each error is returned.
func TestReleaseExpiredRemovesUsersWhenNothingCanBeReleased(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	deleted := hiddenUsers(t, pool, store, 2)
	call, _, released := prepareRelease(100)(t, pool, store, 5, 0)
	refuseRow(t, pool, "BEFORE UPDATE ON almanac.series", "true", "42501")
	_, err := pool.Exec(t.Context(), fmt.Sprintf("CREATE TABLE members (id uuid REFERENCES almanac.users (id)); INSERT INTO members VALUES ('%s')", deleted[0]))
	require.NoError(t, err)

	err = call()

	require.ErrorContains(t, err, "42501")
	require.ErrorContains(t, err, "members_id_fkey")
	require.Zero(t, released())
	require.Equal(t, 5+1, rowsOf(t, pool, "SELECT count(*) FROM almanac.users")())
}

// The lease that expired first holds an event that the database refuses to release. Calls for a single event go on past it,
// and release it once the database does not refuse it any more.
func TestReleaseExpiredGoesOnPastARefusedEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	var first almanac.Event
	for i := range 5 {
		overdue(t, store)
		claim, err := store.Claim(t.Context(), birthdays(1))
		require.NoError(t, err)
		if i == 0 {
			first = claim.Events[0]
		}
	}
	expireLeases(t, pool)
	refuseRow(t, pool, "BEFORE UPDATE ON almanac.series", fmt.Sprintf("OLD.event_id = '%s'", first.ID), "22P02")

	var released []almanac.Event
	refused := 0
	for range 5 {
		some, err := store.ReleaseExpired(t.Context(), 1, 1000)
		if err != nil {
			require.ErrorContains(t, err, "22P02")
			refused++
		}
		released = append(released, some...)
	}
	require.Len(t, released, 4)
	require.Positive(t, refused)
	_, err := pool.Exec(t.Context(), "DROP FUNCTION public.refuse_row CASCADE")
	require.NoError(t, err)
	some, err := store.ReleaseExpired(t.Context(), 1, 1000)
	require.NoError(t, err)
	require.Len(t, some, 1)
	require.Equal(t, first.ID, some[0].ID)
}

// An event that the database refuses to release keeps no other event that was claimed ahead from going back.
func TestReturnAndReleaseGoOnPastARefusedEvent(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*postgres.Store, []almanac.Event) ([]almanac.Event, error){
		"Return": func(store *postgres.Store, events []almanac.Event) ([]almanac.Event, error) {
			return store.Return(t.Context(), events)
		},
		"Release": func(store *postgres.Store, events []almanac.Event) ([]almanac.Event, error) {
			return store.Release(t.Context(), events[0].LeaseToken)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			store := mustStore(t, pool)
			settlements := claimedAndDelivered(t, pool, store, 5)
			var events []almanac.Event
			for _, s := range settlements {
				events = append(events, s.Event)
			}
			refuseRow(t, pool, "BEFORE UPDATE ON almanac.series", fmt.Sprintf("OLD.event_id = '%s'", events[0].ID), "AB001")

			released, err := release(store, events)

			require.ErrorContains(t, err, "AB001")
			require.Len(t, released, 4)
			_, err = pool.Exec(t.Context(), "DROP FUNCTION public.refuse_row CASCADE")
			require.NoError(t, err)
			released, err = store.ReleaseExpired(t.Context(), 10, 1000)
			require.NoError(t, err)
			require.Len(t, released, 1)
			require.Equal(t, events[0].ID, released[0].ID)
		})
	}
}

func prepareReconcile(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	ids := storeUsers(t, store, n)
	_, err := pool.Exec(t.Context(), `
		UPDATE almanac.series SET target_timestamp_utc = target_timestamp_utc + interval '1 hour', version = version + 1;
		DELETE FROM almanac.zone_rules;
		INSERT INTO almanac.zone_rules (zone, fingerprint, since, version) SELECT DISTINCT target_timezone, 42, 2020, '2020a' FROM almanac.series`)
	require.NoError(t, err)
	call = func() error {
		_, err := newScheduler(t, store).Reconcile(t.Context(), almanac.ReconcileOptions{})
		return err
	}
	return call, oneOf("OLD.user_id", ids[:refused]),
		rowsOf(t, pool, "SELECT count(*) FROM almanac.series WHERE target_timestamp_utc = target_timestamp_local AT TIME ZONE target_timezone")
}

func preparePrune(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	settled, err := store.Settle(t.Context(), claimedAndDelivered(t, pool, store, n))
	require.NoError(t, err)
	now := nowOf(t, store)
	ids := make([]uuid.UUID, n)
	for i, s := range settled {
		ids[i] = s.Event.ID
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	pruned := 0
	call = func() error {
		deleted, _, err := store.Prune(t.Context(), now.AddDate(2, 0, 0), almanac.Page{})
		pruned += deleted
		return err
	}
	return call, oneOf("OLD.id", ids[:refused]), func() int {
		require.Equal(t, n-pruned, rowsOf(t, pool, "SELECT count(*) FROM almanac.history")())
		return pruned
	}
}

func prepareDeleted(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n, refused int) (call func() error, victims string, done func() int) {
	ids := hiddenUsers(t, pool, store, n)
	call = func() error {
		_, err := store.ReleaseExpired(t.Context(), 1000, 1000)
		return err
	}
	left := rowsOf(t, pool, "SELECT count(*) FROM almanac.users")
	return call, oneOf("OLD.id", ids[:refused]), func() int { return n - left() }
}

// Deleted users whom the host keeps fill more than a page. The others are removed all the same, also if each call is that of a new
// process.
func TestDeletedUsersAreRemovedAmongManyWhoAreKept(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	hiddenUsers(t, pool, mustStore(t, pool), 120)
	_, err := pool.Exec(t.Context(), `
		CREATE TABLE members (id uuid REFERENCES almanac.users (id));
		INSERT INTO members SELECT id FROM almanac.users ORDER BY id LIMIT 110`)
	require.NoError(t, err)
	users := rowsOf(t, pool, "SELECT count(*) FROM almanac.users")
	for calls := 0; users() > 110 && calls < 100; calls++ {
		_, err := mustStore(t, pool).ReleaseExpired(t.Context(), 1000, 1000)
		require.ErrorContains(t, err, "members_id_fkey")
	}
	require.Equal(t, 110, users())
	_, err = pool.Exec(t.Context(), "DROP TABLE members")
	require.NoError(t, err)
	for range 2 {
		_, err = mustStore(t, pool).ReleaseExpired(t.Context(), 1000, 1000)
		require.NoError(t, err)
	}
	require.Zero(t, users())
}

// Prune goes on past an event that the host refers to, from page to page.
func TestPruneGoesOnPastAnEventThatIsReferredTo(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	_, err := store.Settle(t.Context(), claimedAndDelivered(t, pool, store, 9))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "CREATE TABLE mine (id uuid REFERENCES almanac.history (id)); INSERT INTO mine SELECT id FROM almanac.history ORDER BY id LIMIT 1")
	require.NoError(t, err)
	now := nowOf(t, store)
	var deleted []int
	var errs []error
	for page := (almanac.Page{Limit: 3}); ; {
		n, next, err := store.Prune(t.Context(), now.AddDate(2, 0, 0), page)
		deleted, errs = append(deleted, n), append(errs, err)
		if page.After = next; next == "" {
			break
		}
	}
	require.Equal(t, []int{2, 3, 3, 0}, deleted)
	require.ErrorContains(t, errs[0], "mine_id_fkey")
	require.NoError(t, errors.Join(errs[1:]...))
}

// A page of which every event is refused costs few calls. An event behind many that are refused is deleted in some round.
func TestPruneTriesFewOfManyRefusedEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	const events = 60
	_, err := store.Settle(t.Context(), claimedAndDelivered(t, pool, store, events))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
		CREATE SEQUENCE attempts;
		CREATE TABLE mended (id uuid);
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM nextval('attempts');
			IF OLD.id IN (SELECT id FROM mended) THEN RETURN OLD; END IF;
			RAISE EXCEPTION 'no';
		END $$;
		CREATE TRIGGER refuse BEFORE DELETE ON almanac.history FOR EACH ROW EXECUTE FUNCTION refuse()`)
	require.NoError(t, err)
	now := nowOf(t, store)
	prune := func() int {
		deleted, next, err := store.Prune(t.Context(), now.AddDate(2, 0, 0), almanac.Page{Limit: events})
		require.ErrorContains(t, err, "no (SQLSTATE P0001)")
		require.NotEmpty(t, next)
		return deleted
	}

	require.Zero(t, prune())

	require.Less(t, rowsOf(t, pool, "SELECT last_value FROM attempts")(), 80)
	_, err = pool.Exec(t.Context(), "INSERT INTO mended SELECT id FROM almanac.history ORDER BY id OFFSET 45 LIMIT 1")
	require.NoError(t, err)
	rounds, deleted := 0, 0
	for ; deleted == 0 && rounds < 1000; rounds++ {
		deleted = prune()
	}
	require.Equal(t, 1, deleted, rounds)
}

// Prune goes on to the next page past single events, but not past a page of which every event fails in doubt.
func TestPruneEndsItsRoundWhenAnErrorMayBeAboutAllEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	_, err := store.Settle(t.Context(), claimedAndDelivered(t, pool, store, 40))
	require.NoError(t, err)
	now := nowOf(t, store)
	refuseRow(t, pool, "BEFORE DELETE ON almanac.history", "true", "54000")
	for limit, goesOn := range map[int]bool{1: true, 2: true, 30: false} {
		_, next, err := store.Prune(t.Context(), now.AddDate(2, 0, 0), almanac.Page{Limit: limit})
		require.ErrorContains(t, err, "54000")
		require.Equal(t, goesOn, next != "", limit)
	}
}

// checkOthersAreDone has a new store write n rows, the first of which the database refuses, and checks that the others are done.
func (c manyRows) checkOthersAreDone(t *testing.T, pool *pgxpool.Pool, code string, n, refused int) {
	t.Helper()
	call, victims, done := c.prepare(t, pool, mustStore(t, pool), n, refused)
	refuseRow(t, pool, c.trigger, victims, code)

	err := call()

	if c.fails {
		require.ErrorContains(t, err, strings.TrimPrefix(code, atCommit))
	} else {
		require.NoError(t, err, code)
	}
	require.Equal(t, n-refused, done(), code)
	startOver(t, pool)
}
