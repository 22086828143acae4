package main

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type delivered struct {
	tenant string
	user   uuid.UUID
}

// launch returns a fleet whose deliveries are sent to the channel, and a function that stops it.
func launch(t *testing.T) (*fleet, chan delivered, func()) {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	greeted := make(chan delivered)
	f := &fleet{
		ctx: ctx, pool: pgtest.Pool(t, pgtest.MaxConns(12)), registry: registry, tenants: map[string]*tenant{},
		deliver: func(name string) almanac.Deliverer {
			return almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
				greeted <- delivered{name, d.User.ID}
				return nil
			})
		},
	}
	stop := func() { cancel(); f.running.Wait() }
	t.Cleanup(stop)
	return f, greeted, stop
}

var ada = almanac.Profile{
	ID:        uuid.MustParse("0198a1f0-7c3e-7d6a-9b1f-0a1b2c3d4e5f"),
	FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
}

func storeOf(t *testing.T, f *fleet, name string) *postgres.Store {
	t.Helper()
	store, err := postgres.New(f.pool, postgres.WithSchema(schema(name)))
	require.NoError(t, err)
	return store
}

// makeDue makes the pending birthday of ada in a tenant due.
func makeDue(t *testing.T, f *fleet, name string) {
	t.Helper()
	scheduler, err := f.open(t.Context(), name)
	require.NoError(t, err)
	_, err = scheduler.RunNow(t.Context(), almanactest.PendingEvent(t, storeOf(t, f, name), ada.ID, almanac.TypeBirthday).ID, almanac.ForceOptions{})
	require.NoError(t, err)
}

// join opens a tenant and creates ada there.
func join(t *testing.T, f *fleet, name string) {
	t.Helper()
	scheduler, err := f.open(t.Context(), name)
	require.NoError(t, err)
	_, err = scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
}

func exists(t *testing.T, pool *pgxpool.Pool, name string) (there bool) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT to_regnamespace($1) IS NOT NULL", schema(name)).Scan(&there))
	return there
}

func TestTenantsAreIsolated(t *testing.T) {
	t.Parallel()
	f, greeted, stop := launch(t)
	join(t, f, "acme")
	join(t, f, "globex") // a user of the same id

	makeDue(t, f, "acme")
	require.Equal(t, delivered{"acme", ada.ID}, <-greeted)
	makeDue(t, f, "globex")
	require.Equal(t, delivered{"globex", ada.ID}, <-greeted)

	stop()
	for _, name := range []string{"acme", "globex"} {
		almanactest.FindEvents(t, storeOf(t, f, name), almanac.InStatus(almanac.Completed), 1)
		almanactest.FindEvents(t, storeOf(t, f, name), almanac.InStatus(almanac.Pending), 1)
	}
}

// A tenant is dropped while a delivery of another one is under way.
func TestDroppingATenantLeavesTheOthersUnchanged(t *testing.T) {
	t.Parallel()
	f, greeted, stop := launch(t)
	join(t, f, "acme")
	join(t, f, "globex")
	makeDue(t, f, "globex") // its delivery waits for the test to receive from greeted

	require.NoError(t, f.drop(t.Context(), "acme"))

	require.False(t, exists(t, f.pool, "acme"))
	require.Equal(t, delivered{"globex", ada.ID}, <-greeted)
	join(t, f, "acme") // a new tenant, which knows nothing of the old one
	makeDue(t, f, "globex")
	require.Equal(t, delivered{"globex", ada.ID}, <-greeted, "it is still running")
	stop()
	almanactest.FindEvents(t, storeOf(t, f, "globex"), almanac.InStatus(almanac.Completed), 2)
	almanactest.FindEvents(t, storeOf(t, f, "acme"), nil, 1)
}

func TestDropWaitsForDeliveriesUnderWay(t *testing.T) {
	t.Parallel()
	f, _, _ := launch(t)
	started, checked := make(chan bool), make(chan error, 1)
	f.deliver = func(string) almanac.Deliverer {
		return almanac.DelivererFunc(func(ctx context.Context, _ almanac.Delivery) (err error) {
			started <- true
			dropping := false
			for left := 200; left > 0 && err == nil; { // queries after drop has begun: time enough to delete the schema
				if dropping = dropping || !f.mu.TryLock(); dropping {
					left--
				} else {
					f.mu.Unlock()
				}
				_, err = f.pool.Exec(ctx, "SELECT count(*) FROM tenant_acme.users")
			}
			checked <- err
			return err
		})
	}
	join(t, f, "acme")
	makeDue(t, f, "acme")
	<-started

	require.NoError(t, f.drop(t.Context(), "acme"))

	require.NoError(t, <-checked, "the schema was there during the delivery")
	require.False(t, exists(t, f.pool, "acme"))
	require.ErrorContains(t, f.drop(t.Context(), "acme"), `tenant "acme" does not run here`)
}

func TestATenantIsMigratedOnceAndRefusesBadNames(t *testing.T) {
	t.Parallel()
	f, _, _ := launch(t)
	first, err := f.open(t.Context(), "acme")
	require.NoError(t, err)
	again, err := f.open(t.Context(), "acme")
	require.NoError(t, err)
	require.Same(t, first, again)

	_, err = f.open(t.Context(), `x"; DROP SCHEMA tenant_acme CASCADE; --`)

	require.ErrorContains(t, err, "is no name for a schema")
	require.True(t, exists(t, f.pool, "acme"))
	require.Len(t, f.tenants, 1)
}
