package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
)

// zones agree on every instant, but for their names.
var zones = []string{"UTC", "Africa/Abidjan", "Atlantic/Reykjavik", "Africa/Accra"}

// editors are how many users edit at once.
const editors = 16

// watch makes the database examine each event that is planned, moved or claimed for the
// first time, at the end of the same transaction. It notes events that do not follow their user as
// stored at that moment, and events that are claimed with an outdated plan.
const watch = `
CREATE SEQUENCE looks;
CREATE TABLE stale (event uuid, what text);
CREATE FUNCTION look(one almanac.series, doing text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	person almanac.users;
BEGIN
	PERFORM nextval('looks');
	SELECT * INTO person FROM almanac.users WHERE id = one.user_id;
	IF NOT FOUND THEN -- created and deleted in the transaction
		RETURN;
	END IF;
	IF person.deleted_at IS NOT NULL OR person.timezone <> one.target_timezone
		OR one.target_timestamp_utc <> one.target_timestamp_local AT TIME ZONE one.target_timezone THEN
		INSERT INTO stale VALUES (one.event_id, format('%s of %s: planned for version %s in %s, and the person is at version %s in %s%s',
			doing, one.occurrence_key, one.user_version, one.target_timezone, person.version, person.timezone, ', deleted at ' || person.deleted_at));
	END IF;
END $$;
CREATE FUNCTION look_at_plan() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM look(NEW, TG_OP);
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER look AFTER INSERT OR UPDATE OF event_id, occurrence_key, target_timestamp_utc, user_version ON almanac.series
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW -- an edit moves the events before it changes the user
WHEN (NEW.event_id IS NOT NULL AND NEW.claim_count = 0) EXECUTE FUNCTION look_at_plan();
CREATE FUNCTION look_at_claim() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	held record;
BEGIN
	FOR held IN
		SELECT h.event_id, (s.event_id, s.version) IS NOT DISTINCT FROM (h.event_id, h.version) AS current, s AS one, s.claim_count
		FROM unnest(NEW.series_ids, NEW.event_ids, NEW.versions) AS h (series_id, event_id, version)
		LEFT JOIN almanac.series s ON s.id = h.series_id
	LOOP
		IF NOT held.current THEN
			INSERT INTO stale VALUES (held.event_id, 'claimed as it was before');
		ELSIF held.claim_count = 0 THEN
			PERFORM look(held.one, 'CLAIM');
		END IF;
	END LOOP;
	RETURN NULL;
END $$;
CREATE TRIGGER look AFTER INSERT ON almanac.leases FOR EACH ROW EXECUTE FUNCTION look_at_claim()`

// edited is a run in which users are edited, and what was made of each of them.
type edited struct {
	*chaos.Run
	pool    *pgxpool.Pool
	planner almanac.Scheduler
	mu      sync.Mutex
	made    map[uuid.UUID]map[int]made // by the version that it made
	gone    map[uuid.UUID]departure
}

// made is an edit that was acknowledged.
type made struct {
	change almanac.ProfileChange
	stored almanac.User
}

// departure is a deletion that was acknowledged.
type departure struct {
	at       time.Time
	inFlight int
}

func newEdited(r *chaos.Run) *edited {
	r.Helper()
	_, err := r.Pool().Exec(r.Context(), watch)
	require.NoError(r, err)
	config, err := pgxpool.ParseConfig(r.Cluster.Direct(r.Database))
	require.NoError(r, err)
	config.MaxConns, config.ConnConfig.RuntimeParams["application_name"] = editors, "editor"
	pool, err := pgxpool.NewWithConfig(r.Context(), config)
	require.NoError(r, err)
	r.Cleanup(func() { chaos.Disconnect(r.T, pool) })
	return &edited{Run: r, pool: pool, planner: r.PlannerOn(pool), made: make(map[uuid.UUID]map[int]made), gone: make(map[uuid.UUID]departure)}
}

// change edits a user, and returns what notes it once it is committed.
func (e *edited) change(ctx context.Context, planner almanac.Planner, id uuid.UUID, c almanac.ProfileChange) (committed func()) {
	e.Helper()
	done, err := planner.UpdateUser(ctx, id, c)
	if err != nil {
		e.Errorf("UpdateUser: %v", err)
		return func() {}
	}
	return func() {
		e.Count("edits", 1)
		e.Count("met a delivery", len(done.Skipped))
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.made[id] == nil {
			e.made[id] = make(map[int]made)
		}
		if _, twice := e.made[id][done.User.Version]; twice {
			e.Errorf("two edits of %s both made version %d", id, done.User.Version)
		}
		e.made[id][done.User.Version] = made{c, done.User}
	}
}

// part deletes a user.
func (e *edited) part(id uuid.UUID) {
	d, err := e.planner.DeleteUser(e.Context(), id, almanac.DeleteOptions{})
	if err != nil {
		e.Errorf("DeleteUser: %v", err)
	}
	e.Release(id)
	e.Count("deletions", 1)
	e.Count("met a delivery", len(d.InFlight))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone[id] = departure{time.Now(), len(d.InFlight)}
}

// check checks, once everything is drained, that no edit was lost, that no event was
// planned or delivered as its user had been before, and that nothing is left of deleted
// users.
func (e *edited) check(bitten ...string) {
	e.Helper()
	until(e.Run, "SELECT NOT EXISTS (SELECT FROM almanac.users WHERE id = ANY ($1))", slices.Collect(maps.Keys(e.gone)))
	lost := 0
	for id, versions := range e.made {
		if _, gone := e.gone[id]; !gone {
			lost += e.lost(id, versions)
		}
	}
	var looks, stale int
	var example string
	require.NoError(e, e.Pool().QueryRow(e.Context(), "SELECT last_value, (SELECT count(*) FROM stale), (SELECT coalesce(min(what), '') FROM stale) FROM looks").Scan(&looks, &stale, &example))
	e.Count("events looked at", looks)
	if stale > 0 {
		e.Errorf("I10: %d events did not follow their person, such as %s", stale, example)
	}
	ledger, _ := e.Receiver.Ledger()
	late := make(map[string]int)
	for _, d := range ledger {
		id, err := uuid.Parse(d.Occurrence[:len(uuid.Nil.String())])
		require.NoError(e, err)
		if gone, ok := e.gone[id]; ok && d.At.After(gone.at) {
			if late[id.String()]++; late[id.String()] > gone.inFlight {
				e.Errorf("%s was delivered after its person was deleted with %d in flight", d.Occurrence, gone.inFlight)
			}
		}
	}
	e.Logf("stale events %d of %d looked at, lost edits %d", stale, looks, lost)
	e.CheckEdited(append(bitten, "edits", "events looked at")...)
}

// lost follows a user from version to version, and returns how many edits left no
// trace, or changed what they did not mean to.
func (e *edited) lost(id uuid.UUID, versions map[int]made) (lost int) {
	e.Helper()
	was := almanac.User{FirstName: "Ada", LastName: "Lovelace"}
	zone := "UTC"
	for v := 2; v <= len(versions)+1; v++ {
		one, there := versions[v]
		if c := one.change; c.Timezone != nil {
			zone = *c.Timezone
		} else if c.FirstName != nil {
			was.FirstName = *c.FirstName
		}
		if is := one.stored; !there || is.FirstName != was.FirstName || is.LastName != was.LastName || is.Timezone.String() != zone {
			e.Errorf("lost edit: version %d of %s is %q %q in %s, want %q in %s", v, id, is.FirstName, is.LastName, is.Timezone, was.FirstName, zone)
			lost++
		}
	}
	var name, at string
	var version int
	require.NoError(e, e.Pool().QueryRow(e.Context(), "SELECT first_name, timezone, version FROM almanac.users WHERE id = $1", id).Scan(&name, &at, &version))
	if name != was.FirstName || at != zone || version != len(versions)+1 {
		e.Errorf("lost edit: %s ended as %q in %s at version %d, want %q in %s after %d edits", id, name, at, version, was.FirstName, zone, len(versions))
		lost++
	}
	return lost
}

// moves is a change of zone, and named one of the name.
func moves(i int) almanac.ProfileChange {
	return almanac.ProfileChange{Timezone: &zones[i%len(zones)]}
}

func named(format string, args ...any) almanac.ProfileChange {
	name := fmt.Sprintf(format, args...)
	return almanac.ProfileChange{FirstName: &name}
}

// Users are edited as fast as it goes, while their events are claimed and settled,
// and some are deleted.
func TestEdits(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		e := newEdited(calm(t, seed))
		plan := chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6}
		ids := e.CreateUsers(people, plan)
		staying, leaving := ids[5:], ids[:5]
		two(e.Run, unhurried)
		began := time.Now()
		ctx, stop := context.WithDeadline(t.Context(), began.Add(4*time.Second))
		defer stop()
		var wg sync.WaitGroup
		for editor := range editors {
			wg.Go(func() {
				for i := editor; ctx.Err() == nil; i++ {
					c := moves(i / 3)
					if i%3 == 0 {
						c = named("Ada %d %d", editor, i)
					}
					e.change(t.Context(), e.planner, staying[i%len(staying)], c)()
				}
			})
		}
		for _, id := range leaving {
			between(e.Run, 100*time.Millisecond, 500*time.Millisecond)
			e.part(id)
			oneOpen(e.Run, plan)
		}
		for ctx.Err() == nil {
			oneOpen(e.Run, plan)
			between(e.Run, 10*time.Millisecond, 20*time.Millisecond)
		}
		wg.Wait()
		total := 0
		for _, versions := range e.made {
			total += len(versions)
		}
		t.Logf("%.0f edits a second", float64(total)/time.Since(began).Seconds())
		e.Drained(60 * time.Second)
		e.check("met a delivery", "deletions", "looks")
	})
}

// oneOpen checks that at this moment each user whose series goes on has one open
// event.
func oneOpen(r *chaos.Run, plan chaos.Plan) {
	r.Helper()
	keys, err := plan.Keys()
	require.NoError(r, err)
	var many, none int
	require.NoError(r, r.Pool().QueryRow(r.Context(), `SELECT count(*) FILTER (WHERE open > 1), count(*) FILTER (WHERE open = 0 AND last < $1) FROM (
		SELECT count(*) FILTER (WHERE e.status IN ('PENDING', 'PROCESSING')) AS open, max(e.occurrence_key) AS last
		FROM almanac.users u LEFT JOIN almanac.events e ON e.user_id = u.id WHERE u.deleted_at IS NULL GROUP BY u.id) series`, keys[len(keys)-1]).Scan(&many, &none))
	require.Zero(r, many, "I4: people with two open events")
	require.Zero(r, none, "I4: people whose series stands still")
	r.Count("looks", 1)
}

// Three edits of a user land in the opposite order of their beginning: each begins
// a transaction of the host's and looks at the user, and the last is stored first.
// In every other round the first is stored at once and stays open, and the others
// have to wait for it.
func TestEditsInReversedOrder(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		e := newEdited(calm(t, seed))
		e.Receiver.Answer(func(int, chaos.Entry) int { time.Sleep(100 * time.Millisecond); return http.StatusOK }) // long enough to be met
		ids := e.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6})
		two(e.Run, unhurried)
		for round, began := 0, time.Now(); round < len(ids) || time.Since(began) < 3*time.Second; round++ {
			id, changes := ids[round%len(ids)], []almanac.ProfileChange{moves(round + 1), named("Ada %d", round), moves(round + 2)}
			if round%2 == 0 {
				e.reversed(id, changes)
			} else {
				e.queued(id, changes)
			}
		}
		e.Drained(60 * time.Second)
		e.check("met a delivery", "reversed", "edits that waited")
	})
}

func (e *edited) reversed(id uuid.UUID, changes []almanac.ProfileChange) {
	e.Helper()
	var land []func()
	for _, c := range changes {
		tx, err := e.pool.Begin(e.Context())
		require.NoError(e, err)
		var version int
		require.NoError(e, tx.QueryRow(e.Context(), "SELECT version FROM almanac.users WHERE id = $1", id).Scan(&version))
		land = append(land, func() {
			committed := e.change(e.Context(), e.PlannerOn(tx), id, c)
			require.NoError(e, tx.Commit(e.Context()))
			committed()
		})
	}
	for _, f := range slices.Backward(land) {
		f()
	}
	e.Count("reversed", 1)
}

func (e *edited) queued(id uuid.UUID, changes []almanac.ProfileChange) {
	e.Helper()
	tx, err := e.pool.Begin(e.Context())
	require.NoError(e, err)
	committed := e.change(e.Context(), e.PlannerOn(tx), id, changes[0])
	var others sync.WaitGroup
	for _, c := range changes[1:] {
		others.Go(func() { e.change(e.Context(), e.planner, id, c)() })
	}
	until(e.Run, waiting, len(changes)-1)
	e.Count("edits that waited", len(changes)-1)
	require.NoError(e, tx.Commit(e.Context()))
	committed()
	others.Wait()
}

// waiting asks whether so many editors wait for a lock.
const waiting = `SELECT count(*) = $1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'editor' AND wait_event_type = 'Lock'`

// A worker stands still at each point of an event's way, while users are edited and
// others are deleted, and goes on. The edits wait for the users that it has locked.
func TestEditsAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range chaos.Points() {
		t.Run(string(point), func(t *testing.T) {
			row(t, func(t *testing.T, seed uint64) {
				e := newEdited(calm(t, seed))
				keep, answer := hold(e.Run)
				defer answer()
				keep(point == chaos.MidSend)
				ids := e.CreateUsers(10, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 5})
				worker := e.Work("worker", unhurried, func(o *chaos.Orders) {
					o.StopAt, o.StopAfter, o.Freeze = point, 1+e.Random.IntN(times(point)), true
					if point == chaos.AfterClaim {
						o.LookAhead = 0 // or nothing that was claimed had begun
					}
				})
				arrive(e.Run, worker, point)
				require.Eventually(t, worker.Still, 20*time.Second, time.Millisecond)

				var wg sync.WaitGroup
				done := make(chan struct{}, len(ids))
				for i, id := range ids {
					wg.Go(func() {
						defer func() { done <- struct{}{} }()
						if i < 3 {
							e.part(id)
							return
						}
						e.change(t.Context(), e.planner, id, moves(1+i%3))()
					})
				}
				for ctx := e.Within(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
					require.NoError(t, ctx.Err())
					landed := len(done)
					var rest bool
					require.NoError(t, e.Pool().QueryRow(ctx, waiting, len(ids)-landed).Scan(&rest))
					if rest && len(done) == landed {
						e.Count("landed meanwhile", landed)
						e.Count("waited for the worker", len(ids)-landed)
						break
					}
				}
				require.True(t, worker.Still())
				require.NoError(t, worker.Signal(syscall.SIGCONT))
				answer()
				wg.Wait()
				e.Drained(60 * time.Second)
				e.check(bites(point)...)
			})
		})
	}
}
