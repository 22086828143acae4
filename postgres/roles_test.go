package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
	"github.com/almanac-go/almanac/postgres"
)

func TestGrantingRolesTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	c := documented(t)
	want := c.privileges(t)
	c.exec(t, "owner", `
		GRANT CREATE ON SCHEMA almanac TO PUBLIC;
		GRANT ALL ON almanac.leases TO PUBLIC, `+c.prefix+`reader; GRANT UPDATE (used_key) ON almanac.series TO `+c.prefix+`api;
		GRANT ALL ON almanac.events, almanac.ended_events, almanac.history, almanac.series_id_seq TO PUBLIC, `+c.prefix+`reader`)
	require.NotEqual(t, want, c.privileges(t))

	c.run(t, "admin")
	require.Equal(t, want, c.privileges(t), "privileges that were added by hand are revoked")
	c.run(t, "owner")
	require.Equal(t, want, c.privileges(t), "the owner may run it too")

	for _, line := range want {
		require.NotRegexp(t, `[{,]=`, line, "PUBLIC has nothing")
	}
	able := c.lines(t, `
		SELECT rolname FROM pg_roles WHERE starts_with(rolname, $1) AND rolname NOT LIKE '%login'
		AND (rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)`, c.prefix)
	require.Empty(t, able, "roles are groups with no powers of their own")
}

func TestRolesAreGrantedOnAnExistingSchema(t *testing.T) {
	t.Parallel()
	c := auditioned(t)
	require.NoError(t, postgres.Migrate(t.Context(), c.pools["admin"]))

	c.run(t, "admin")

	foreign := c.lines(t, `
		SELECT relname::text FROM pg_class WHERE relnamespace = 'almanac'::regnamespace AND relowner <> $1::regrole
		UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'almanac'::regnamespace AND proowner <> $1::regrole`, c.prefix+"owner")
	require.Empty(t, foreign)
	fresh := documented(t)
	want := strings.ReplaceAll(strings.Join(fresh.privileges(t), "\n"), fresh.prefix, c.prefix)
	require.Equal(t, want, strings.Join(c.privileges(t), "\n"), "and grant what they grant on an empty database")
}

func TestRolesKeepTheirPrivilegesAfterLaterMigrations(t *testing.T) {
	t.Parallel()
	c := documented(t)
	require.Empty(t, c.lines(t, `
		SELECT relname::text FROM pg_class WHERE relnamespace = 'almanac'::regnamespace AND relowner <> $1::regrole`, c.prefix+"owner"))

	c.exec(t, "owner", `
		CREATE TABLE almanac.later (id integer);
		ALTER TABLE almanac.series ADD COLUMN later integer;
		CREATE FUNCTION almanac.later() RETURNS integer LANGUAGE sql AS 'SELECT 1'`)

	for _, program := range []string{"worker", "api"} {
		c.exec(t, program, "SELECT FROM almanac.later; SELECT later FROM almanac.series")
	}
	for _, role := range []string{"worker", "api", "reader"} {
		_, err := c.pools[role].Exec(t.Context(), "INSERT INTO almanac.later VALUES (1)")
		requireRefused(t, err, role+" writes to what it does not know")
		_, err = c.pools[role].Exec(t.Context(), "SELECT almanac.later()")
		requireRefused(t, err, role+" calls what it does not know")
	}
	for _, sql := range []string{"SELECT FROM almanac.later", "SELECT later FROM almanac.series"} {
		_, err := c.pools["reader"].Exec(t.Context(), sql)
		requireRefused(t, err, "the reader: "+sql)
	}
}

func TestProgramsFindTheSchemaMigratedAndDoNotMigrate(t *testing.T) {
	t.Parallel()
	c := documented(t)
	for _, role := range []string{"worker", "api", "reader"} {
		require.NoError(t, postgres.Migrate(t.Context(), c.pools[role]), role)
	}

	require.NoError(t, postgres.MigrateDown(t.Context(), c.pools["owner"], postgres.MigrateDownOptions{LoseData: true}))

	for _, role := range []string{"worker", "api", "reader"} {
		requireRefused(t, postgres.Migrate(t.Context(), c.pools[role]), role)
	}
	require.NoError(t, postgres.Migrate(t.Context(), c.pools["owner"]))
}

// party is another event type, on the same day.
type party struct{ almanac.Birthday }

func (party) EventType() string { return "PARTY" }

// over is a birthday that has ended.
type over struct{ almanac.Birthday }

func (over) Next(almanac.User, time.Time) (calendar.Occurrence, error) {
	return calendar.Occurrence{}, calendar.ErrNoOccurrence
}

// with returns a scheduler of the given handlers.
func with(t *testing.T, store almanac.Repository, handlers []almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	registry, err := almanac.NewRegistry(handlers...)
	require.NoError(t, err)
	s, err := almanac.NewScheduler(store, registry, options...)
	require.NoError(t, err)
	return s
}

func TestTheAPIRoleManagesUsers(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	store, worker := c.store(t, "api"), c.store(t, "worker")
	birthdays := newScheduler(t, store)

	first := overdue(t, store)
	second, err := birthdays.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.Equal(t, first.ID, claimOne(t, worker).ID)

	name, zone := "Augusta", "Asia/Tokyo"
	changed, err := birthdays.UpdateUser(t.Context(), first.UserID, almanac.ProfileChange{FirstName: &name})
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{first.ID}, changed.Skipped, "it is in flight")
	locale, email, external := "ja", "ada@example.com", "42"
	changed, err = birthdays.UpdateUser(t.Context(), second.User.ID, almanac.ProfileChange{
		FirstName: &name, Timezone: &zone, Locale: &locale, Email: &email, ExternalID: &external,
		OptOut: []almanac.OptOut{{Type: "LETTER"}},
	})
	require.NoError(t, err)
	require.Len(t, changed.Moved, 1)
	named, err := store.UserByExternalID(t.Context(), external)
	require.NoError(t, err)
	require.Equal(t, changed.User, named)
	third := ada
	third.Locale, third.Email, third.ExternalID = locale, email, external
	_, err = birthdays.CreateUser(t.Context(), third)
	require.ErrorIs(t, err, almanac.ErrExternalIDTaken)
	third.ExternalID = "43"
	created, err := birthdays.CreateUser(t.Context(), third)
	require.NoError(t, err)
	_, err = birthdays.DeleteUser(t.Context(), created.User.ID, almanac.DeleteOptions{})
	require.NoError(t, err)

	both := with(t, store, []almanac.EventHandler{almanac.Birthday{}, party{}})
	events, err := both.Schedule(t.Context(), second.User.ID, "PARTY")
	require.NoError(t, err)
	require.Len(t, events, 1)
	upcoming, err := both.Preview(t.Context(), second.User.ID, "PARTY", 3)
	require.NoError(t, err)
	require.Len(t, upcoming.Ahead, 3)
	changed, err = with(t, store, []almanac.EventHandler{over{}, party{}}).Reschedule(t.Context(), second.User.ID)
	require.NoError(t, err)
	require.Len(t, changed.Removed, 1)
	require.Empty(t, changed.Refreshed, "the other event is untouched")

	found, err := store.Find(t.Context(), almanac.InStatus(almanac.Processing), almanac.Page{})
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	n, err := store.Count(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = birthdays.Missed(t.Context())
	require.NoError(t, err)

	deletion, err := birthdays.DeleteUser(t.Context(), second.User.ID, almanac.DeleteOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, deletion.Removed)
	deletion, err = birthdays.DeleteUser(t.Context(), first.UserID, almanac.DeleteOptions{})
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{first.ID}, deletion.InFlight)
	_, err = store.User(t.Context(), first.UserID)
	require.ErrorIs(t, err, almanac.ErrNotFound)
	deletion, err = birthdays.DeleteUser(t.Context(), first.UserID, almanac.DeleteOptions{AtOnce: true})
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{first.ID}, deletion.InFlight)
	_, err = store.Event(t.Context(), first.ID)
	require.ErrorIs(t, err, almanac.ErrNotFound)
}

func TestTheWorkerRoleRunsAScheduler(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	store, planner := c.store(t, "worker"), newScheduler(t, c.store(t, "api"))
	due := func() almanac.Event { return overdue(t, c.store(t, "api")) }
	take := func(lease time.Duration) almanac.Event {
		e := due()
		claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Owner: "dead", Types: []string{e.Type}, Limit: 1, Lease: lease})
		require.NoError(t, err)
		require.Equal(t, e.ID, claim.Events[0].ID)
		return claim.Events[0]
	}
	crashed, deleted, released := take(time.Millisecond), take(time.Millisecond), take(time.Minute)
	_, err := planner.DeleteUser(t.Context(), deleted.UserID, almanac.DeleteOptions{})
	require.NoError(t, err)
	held, err := store.Renew(t.Context(), []uuid.UUID{released.LeaseToken}, time.Minute)
	require.NoError(t, err)
	require.Len(t, held, 1)
	leased, err := store.LeaseEach(t.Context(), []almanac.Event{released}, "alone", time.Minute)
	require.NoError(t, err)
	require.Len(t, leased.Events, 1)
	back, err := store.Release(t.Context(), leased.Events[0].LeaseToken)
	require.NoError(t, err)
	require.Len(t, back, 1)
	hopeless, hapless := due(), due()

	deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		switch {
		case d.Event.ID == hopeless.ID:
			return almanac.Permanent(errors.New("gone"))
		case d.Event.ID == hapless.ID && d.Attempt == 1:
			return errors.New("busy")
		}
		return nil
	})
	said := new(log)
	impatient := almanac.Birthday{Execution: almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: time.Millisecond}}}
	s := with(t, store, []almanac.EventHandler{impatient}, almanac.WithDeliverer(almanac.ChannelWebhook, deliver),
		almanac.WithSweep(20*time.Millisecond), almanac.WithPoll(20*time.Millisecond), almanac.WithLogger(slog.New(slog.NewTextHandler(said, nil))))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	require.Eventually(t, func() bool {
		var done bool
		err := c.pools[""].QueryRow(t.Context(), `
			SELECT (SELECT count(*) FROM almanac.events WHERE status IN ('COMPLETED', 'FAILED')) = 4 -- one went with its person
				AND NOT EXISTS (SELECT FROM almanac.users WHERE deleted_at IS NOT NULL)
				AND NOT EXISTS (SELECT FROM almanac.leases)
				AND EXISTS (SELECT FROM almanac.zone_rules)`).Scan(&done)
		return err == nil && done
	}, 20*time.Second, 10*time.Millisecond, "%s", said)
	stop()
	require.NoError(t, <-ended)

	require.NotContains(t, said.String(), "42501")
	for id, want := range map[uuid.UUID]almanac.Event{
		crashed.ID:  {Status: almanac.Completed, CrashCount: 1, LastError: "lease expired"},
		released.ID: {Status: almanac.Completed, LastError: "released"},
		hopeless.ID: {Status: almanac.Failed, RetryCount: 1, FailureReason: "gone"},
		hapless.ID:  {Status: almanac.Completed, RetryCount: 1, LastError: "busy"},
	} {
		e, err := store.Event(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, almanac.Event{Status: e.Status, CrashCount: e.CrashCount, RetryCount: e.RetryCount, FailureReason: e.FailureReason, LastError: e.LastError})
		n, err := store.Count(t.Context(), almanac.And{almanac.ForUser(e.UserID), almanac.InStatus(almanac.Pending)})
		require.NoError(t, err)
		require.Equal(t, 1, n, "its successor")
	}

	now := nowOf(t, store)
	pruned, _, err := store.Prune(t.Context(), now.AddDate(2, 0, 0), almanac.Page{})
	require.NoError(t, err)
	require.Equal(t, 4, pruned)
}

// What a worker does when zone rules change: instants move, and where a wall time is
// no more, the user is rescheduled.
func TestTheWorkerRoleFollowsZoneRules(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	p := ada
	p.DateOfBirth, p.Timezone = "1990-06-15", "Asia/Beirut"
	enrolment, err := newScheduler(t, c.store(t, "api")).CreateUser(t.Context(), p)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, zonetest.WriteDir(dir, "2999a", map[string][]byte{"Asia/Beirut": zonetest.File(2*60*60, nil, beirutLateSummer)}))
	data, err := calendar.OpenZoneData(dir)
	require.NoError(t, err)

	done, err := newScheduler(t, c.store(t, "worker")).Reconcile(t.Context(), almanac.ReconcileOptions{Data: data})
	require.NoError(t, err)
	require.Equal(t, 1, done.Moved())

	nine := almanac.Birthday{At: func(almanac.User) calendar.Clock { return calendar.Clock{Hour: 9, Minute: 1} }}
	changed, err := with(t, c.store(t, "worker"), []almanac.EventHandler{nine, party{}}).Reschedule(t.Context(), enrolment.User.ID)
	require.NoError(t, err)
	require.Len(t, changed.Moved, 1)
	require.Len(t, changed.Added, 1)
	changed, err = with(t, c.store(t, "worker"), []almanac.EventHandler{over{}}).Reschedule(t.Context(), enrolment.User.ID)
	require.NoError(t, err)
	require.Len(t, changed.Removed, 1)
}
