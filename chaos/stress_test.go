package chaos_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

var stressed = flag.Duration("stress", 10*time.Second, "how long the stress row runs")

// notes lets the database itself note each event that begins and each that ends, in the
// transaction that does it: they are known also when the event is pruned or deleted.
const notes = `
CREATE TABLE born (id uuid PRIMARY KEY, user_id uuid, occurrence text COLLATE "C", key text, at timestamptz);
CREATE TABLE ended (id uuid, user_id uuid, occurrence text COLLATE "C", key text, cancelled boolean, due timestamptz, executed timestamptz,
	crashes integer, at timestamptz);
CREATE FUNCTION note_birth() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO born VALUES (NEW.event_id, NEW.user_id, NEW.occurrence_key, NEW.idempotency_key, clock_timestamp()) ON CONFLICT DO NOTHING;
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OF event_id ON almanac.series FOR EACH ROW
WHEN (NEW.event_id IS NOT NULL) EXECUTE FUNCTION note_birth();
CREATE FUNCTION note_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO ended VALUES (NEW.id, NEW.user_id, NEW.occurrence_key, NEW.idempotency_key,
		NEW.status = 'CANCELLED',
		NEW.target_timestamp_utc, NEW.executed_at, NEW.crash_count, clock_timestamp());
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON almanac.history FOR EACH ROW EXECUTE FUNCTION note_end()`

// faults are what must never be found in the notes, each as a query of what is wrong.
// The arguments are the first and the last instant of every user's plan.
var faults = map[string]string{
	"ended twice, or changed after its end": `SELECT id::text FROM ended GROUP BY id HAVING count(*) > 1`,
	"lost":                                  `SELECT b.id || ' ' || b.occurrence FROM born b JOIN almanac.users u ON u.id = b.user_id WHERE b.id NOT IN (SELECT id FROM ended)`,
	"ended, and never begun":                `SELECT id::text FROM ended WHERE id NOT IN (SELECT id FROM born)`,
	"executed early":                        `SELECT id || ' ' || occurrence FROM ended WHERE executed < due`,
	"one key of two occurrences":            `SELECT key FROM born GROUP BY key HAVING count(DISTINCT (user_id, occurrence)) > 1`,
	"two keys of one occurrence":            `SELECT user_id || ' ' || occurrence FROM born GROUP BY user_id, occurrence HAVING count(DISTINCT key) > 1`,
	"standing still":                        owedTicks + `SELECT user_id || ' ' || occurrence FROM owed WHERE (user_id, occurrence) NOT IN (SELECT user_id, occurrence FROM ended)`,
	"begun later than at the next":          firstTicks + `SELECT user_id || ' ' || occurrence FROM first WHERE occurrence::timestamp AT TIME ZONE 'UTC' > greatest(at, $1::timestamptz) + interval '1 s' AND $2::timestamptz IS NOT NULL`,
	"an event of a deleted user":            `SELECT id::text FROM almanac.events WHERE user_id NOT IN (SELECT id FROM almanac.users)`,
	"a series of a deleted user":            `SELECT id::text FROM almanac.series WHERE user_id NOT IN (SELECT id FROM almanac.users)`,
	"in the queue, and of no series":        `SELECT event_id::text FROM almanac.queue WHERE event_id NOT IN (SELECT event_id FROM almanac.series WHERE event_id IS NOT NULL)`,
	"found by another instant":              `SELECT q.event_id::text FROM almanac.queue q JOIN almanac.series s ON s.id = q.series_id WHERE q.delayed_from IS DISTINCT FROM CASE WHEN q.available_at <> s.target_timestamp_utc THEN s.target_timestamp_utc END`,
	"a key of a deleted user":               `SELECT idempotency_key FROM almanac.keys k JOIN born b ON b.key = k.idempotency_key WHERE b.user_id NOT IN (SELECT id FROM almanac.users)`,
	"hidden, and not removed":               `SELECT id::text FROM almanac.users WHERE deleted_at IS NOT NULL`,
	"planned or claimed as before":          `SELECT what FROM stale`,
	"an event without its key":              keyless,
	"a key of no event":                     `SELECT idempotency_key FROM almanac.keys WHERE idempotency_key NOT IN (SELECT idempotency_key FROM almanac.events)`,
	"deadlocks, as the server says":         `SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database() AND deadlocks > 0`,
	"open, although all was delivered":      `SELECT id::text FROM almanac.events WHERE status IN ('PENDING', 'PROCESSING')`,
}

const (
	keyless    = `SELECT id || ' ' || occurrence_key || ' ' || status FROM almanac.events WHERE idempotency_key NOT IN (SELECT idempotency_key FROM almanac.keys)`
	firstTicks = `WITH first AS (SELECT DISTINCT ON (user_id) user_id, occurrence, at FROM born ORDER BY user_id, occurrence) `
	owedTicks  = firstTicks + `, owed AS (SELECT f.user_id, o.occurrence FROM first f JOIN almanac.users u ON u.id = f.user_id,
		LATERAL (SELECT to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') COLLATE "C" AS occurrence FROM generate_series($1::timestamptz, $2, '1 s') t) o
		WHERE o.occurrence >= f.occurrence) `
)

// stress is a run in which workers, users, operators and hosts act at random.
type stress struct {
	*edited
	plan  chaos.Plan
	store *postgres.Store
	users []uuid.UUID
	found map[string]bool // events without a key, which watchKeys has found
}

// These act at once and at random: workers that are stopped or killed, users who
// are edited, moved and deleted, operators, and hosts whose transactions stay open and
// then commit or roll back. In the end nothing is lost, repeated or left over.
func TestRandomStress(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		s := &stress{edited: newEdited(alone(t, seed, map[string]string{"fsync": "off"})), found: make(map[string]bool)}
		s.store = storeOn(s.Run, s.pool)
		_, err := s.pool.Exec(t.Context(), notes)
		require.NoError(t, err)
		s.plan = chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: int(*stressed/time.Second) + 8}
		s.Receiver.Answer(s.answer)
		for range 50 {
			s.enrol(t.Context(), s.planner, uuid.New())()
		}
		lasting := func(o *chaos.Orders) { o.Lease, o.Patience, o.Drain = 10*time.Second, 20*time.Second, 20*time.Second }
		workers := []*chaos.Process{s.Work("first", lasting), s.Work("second", lasting)}
		ctx, stop := context.WithTimeout(t.Context(), *stressed)
		defer stop()
		var all sync.WaitGroup
		for i, act := range []func(context.Context, *rand.Rand){s.host, s.host, s.host, s.host, s.edit, s.edit, s.edit, s.edit, s.operate, s.operate, s.tend, s.tend, s.lockRows, s.watchKeys} {
			all.Go(func() {
				for random := rand.New(rand.NewPCG(seed, uint64(i))); ctx.Err() == nil; {
					act(t.Context(), random)
				}
			})
		}
		for step := 0; ctx.Err() == nil; step++ {
			between(s.Run, min(*stressed/6, 5*time.Second), min(*stressed/5, 15*time.Second))
			i := s.Random.IntN(len(workers))
			if step%2 == 0 {
				s.Kill(workers[i])
			} else if _, err := workers[i].Stop(s.Within(60 * time.Second)); err != nil {
				t.Error(err)
			} else {
				s.Count("stopped", 1)
			}
			workers[i] = s.Work("new", lasting)
		}
		all.Wait()
		s.Drained(4 * time.Minute)
		s.check()
	})
}

// answer refuses some deliveries for good and some for now, and takes its time for others.
func (s *stress) answer(n int, _ chaos.Entry) int {
	switch dice := rand.New(rand.NewPCG(s.Seed, uint64(n))).IntN(100); {
	case dice < 5:
		return http.StatusBadRequest
	case dice < 10:
		return http.StatusServiceUnavailable
	case dice < 20:
		time.Sleep(time.Duration(dice) * 20 * time.Millisecond)
	}
	return http.StatusOK
}

// host does one to three things in a transaction, keeps it open, and commits it or rolls
// it back. It locks users in order, as hosts have to.
func (s *stress) host(ctx context.Context, random *rand.Rand) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		s.Error(err)
		return
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var committed []func()
	planner, store := s.PlannerOn(tx), storeOn(s.Run, tx)
	for _, id := range s.pick(random, 1+random.IntN(3)) {
		done, err := s.do(ctx, random, planner, store, id)
		if err != nil {
			s.tolerate(err)
			return
		}
		committed = append(committed, done)
	}
	time.Sleep(50*time.Millisecond + time.Duration(random.Int64N(int64(2950*time.Millisecond))))
	if random.IntN(3) == 0 {
		s.Count("rolled back", 1)
		return
	}
	if err := tx.Commit(ctx); err != nil {
		s.Errorf("commit: %v", err)
		return
	}
	s.Count("committed", 1)
	for _, done := range committed {
		done()
	}
}

// do does something to a user, and returns what notes it once it is committed.
func (s *stress) do(ctx context.Context, random *rand.Rand, planner almanac.Scheduler, store *postgres.Store, id uuid.UUID) (committed func(), err error) {
	count := func(what string) func() { return func() { s.Count(what, 1) } }
	what := random.IntN(12)
	if s.mu.Lock(); what < 2 && len(s.users) > 80 { // as many as a busy machine can deliver to
		what = 2
	}
	s.mu.Unlock()
	switch what {
	case 0:
		return s.enrol(ctx, planner, uuid.New(), uuid.New(), uuid.New()), nil
	case 1:
		enrolment, err := planner.CreateUser(ctx, s.profile(uuid.New()))
		return func() { s.add(enrolment.User.ID); s.Count("created", 1) }, err
	case 2:
		d, err := planner.DeleteUser(ctx, id, almanac.DeleteOptions{AtOnce: random.IntN(2) == 0})
		return func() {
			s.mu.Lock()
			s.gone[id] = departure{time.Now(), len(d.InFlight)}
			s.users = slices.DeleteFunc(s.users, func(one uuid.UUID) bool { return one == id })
			s.mu.Unlock()
			s.Count("deleted", 1)
			s.enrol(ctx, s.planner, uuid.New())()
		}, err
	case 3, 4:
		return s.onOne(ctx, random, store, id, almanac.Pending, func(e almanac.Event) (func(), error) {
			_, err := planner.Cancel(ctx, e.ID, almanac.CancelOptions{Reason: "not today"})
			return count("cancelled"), err
		})
	case 5, 6:
		return s.onOne(ctx, random, store, id, almanac.Failed, func(e almanac.Event) (func(), error) {
			_, err := planner.Requeue(ctx, e.ID, almanac.ForceOptions{})
			return count("requeued"), err
		})
	case 7:
		_, err := planner.Schedule(ctx, id, chaos.TickType)
		if errors.Is(err, calendar.ErrNoOccurrence) {
			err = nil // those who were enrolled at last
		}
		return count("scheduled"), err
	default:
		c := moves(random.IntN(len(zones)))
		if random.IntN(2) == 0 {
			c = named("Ada %d", random.IntN(1000))
		}
		_, err := planner.UpdateUser(ctx, id, c)
		return count("edits"), err
	}
}

func (s *stress) onOne(ctx context.Context, random *rand.Rand, store *postgres.Store, id uuid.UUID, status almanac.Status, do func(almanac.Event) (func(), error)) (func(), error) {
	found, err := store.Find(ctx, almanac.And{almanac.ForUser(id), almanac.InStatus(status)}, almanac.Page{Limit: 100})
	if err != nil || len(found.Items) == 0 {
		return func() {}, err
	}
	return do(found.Items[random.IntN(len(found.Items))])
}

// edit does one thing to one user, in a transaction of the library's own.
func (s *stress) edit(ctx context.Context, random *rand.Rand) {
	done, err := s.do(ctx, random, s.planner, s.store, s.pick(random, 1)[0])
	if s.tolerate(err); err == nil {
		done()
	}
	time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
}

// operate cancels, requeues and edits in larger numbers.
func (s *stress) operate(ctx context.Context, random *rand.Rand) {
	what := []ops.Operation{ops.Cancel, ops.Requeue}[random.IntN(2)]
	ids := s.pick(random, 3)
	for _, id := range ids {
		done, err := ops.Operate(ctx, s.planner, what, almanac.And{almanac.ForUser(id), almanac.OfType(chaos.TickType)}, ops.OperateOptions{Limit: 3, Cancel: almanac.CancelOptions{Reason: "not today"}})
		s.tolerate(err)
		s.Count(string(what)+" of a filter", len(done.Events))
	}
	time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
}

// tend pauses, prunes, backfills, and releases what has run out.
func (s *stress) tend(ctx context.Context, random *rand.Rand) {
	store, planner := s.store, s.planner
	switch random.IntN(4) {
	case 0:
		s.tolerate(planner.Pause(ctx, almanac.Pause{Lane: chaos.TickType}))
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		s.tolerate(planner.Resume(ctx, chaos.TickType))
		s.Count("pauses", 1)
	case 1:
		now, err := store.Now(ctx)
		s.tolerate(err)
		for page := (almanac.Page{Limit: 1000}); ; {
			deleted, next, err := store.Prune(ctx, now.Add(-2*time.Second), page)
			s.tolerate(err)
			s.Count("pruned", deleted)
			if page.After = next; page.After == "" {
				break
			}
		}
	case 2:
		done, err := planner.Backfill(ctx, chaos.TickType, almanac.BackfillOptions{})
		s.tolerate(err)
		s.Count("backfilled users", done.Users)
	default:
		_, err := store.ReleaseExpired(ctx, 5, 1000)
		s.tolerate(err)
		s.Count("recoveries", 1)
	}
	time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
}

// lockRows locks users or series as a host's report or its own lock does, or backfills in
// a transaction that stays open: each alone, because a transaction that locks many rows must lock none afterwards.
func (s *stress) lockRows(ctx context.Context, random *rand.Rand) {
	hold := time.Duration(random.Int64N(int64(3 * time.Second)))
	s.tolerate(pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		switch ids := s.pick(random, 3); random.IntN(10) {
		case 0:
			_, err = s.PlannerOn(tx).Backfill(ctx, chaos.TickType, almanac.BackfillOptions{})
			hold /= 10 // all users wait
		case 1, 2, 3, 4:
			_, err = tx.Exec(ctx, "SELECT FROM almanac.users WHERE id = ANY ($1) ORDER BY id FOR UPDATE", ids)
		default:
			_, err = tx.Exec(ctx, "SELECT FROM almanac.series WHERE user_id = ANY ($1) ORDER BY id FOR UPDATE", ids)
		}
		time.Sleep(hold)
		s.Count("locked", 1)
		return err
	}))
}

// watchKeys looks for an open or ended event whose key is not in the table of keys.
func (s *stress) watchKeys(ctx context.Context, _ *rand.Rand) {
	for _, e := range s.texts(ctx, keyless) {
		if !s.found[e] {
			s.Errorf("an event without its key: %s", e)
		}
		s.found[e] = true
	}
	time.Sleep(200 * time.Millisecond)
}

// tolerate accepts errors that another transaction may cause, and fails on all others.
func (s *stress) tolerate(err error) {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "55P03" { // several transactions held the row, one after the other
		s.Count("waited in vain", 1)
		return
	}
	if err != nil && !errors.Is(err, almanac.ErrNotFound) && !errors.Is(err, almanac.ErrInvalidStateTransition) &&
		!errors.Is(err, almanac.ErrOptimisticLock) && !errors.Is(err, almanac.ErrExists) {
		s.Error(err)
	}
}

// pick returns some of the users, in order.
func (s *stress) pick(random *rand.Rand, n int) []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []uuid.UUID
	for _, i := range random.Perm(len(s.users))[:n] {
		ids = append(ids, s.users[i])
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return cmp.Compare(a.String(), b.String()) })
	return ids
}

func (s *stress) add(ids ...uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users = append(s.users, ids...)
}

func (s *stress) profile(id uuid.UUID) almanac.Profile {
	attributes, _ := json.Marshal(map[string]chaos.Plan{"plan": s.plan})
	return almanac.Profile{ID: id, FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: "UTC", Attributes: attributes}
}

// enrol stores users, and returns what notes them once that is committed.
func (s *stress) enrol(ctx context.Context, planner almanac.Scheduler, ids ...uuid.UUID) (committed func()) {
	done, err := planner.CreateUsers(ctx, func(yield func(almanac.Profile, error) bool) {
		for _, id := range ids {
			if !yield(s.profile(id), nil) {
				return
			}
		}
	}, almanac.CreateUsersOptions{})
	s.tolerate(err)
	for _, refused := range done.Refused {
		s.tolerate(refused.Err)
	}
	if done.Created != len(ids) {
		return func() {}
	}
	return func() { s.add(ids...); s.Count("enrolled", len(ids)) }
}

// texts returns what a query finds.
func (s *stress) texts(ctx context.Context, query string, args ...any) []string {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		s.Errorf("%s: %v", query, err)
		return nil
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.Errorf("%s: %v", query, err)
	}
	return found
}

func storeOn(r *chaos.Run, db postgres.DB) *postgres.Store {
	store, err := postgres.New(db, postgres.WithTimeout(20*time.Second))
	if err != nil {
		r.Error(err)
	}
	return store
}
