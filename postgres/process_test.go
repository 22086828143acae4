package postgres_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
	"github.com/almanac-go/almanac/postgres"
)

// Rules for Beirut: as they are, and as a government might have them.
const (
	beirutAsItIs     = "EET-2EEST,M3.5.0/0,M10.5.0/0"
	beirutLateSummer = "EET-2EEST,M7.1.0/0,M10.5.0/0"
)

// reconcilerURL makes a run of the test program a program of its own, which
// compares its zone data with a database's and says what came of it.
const reconcilerURL = "ALMANAC_TEST_RECONCILER_URL"

// halfPastMidnight is a birthday at a time that clocks skip in many zones.
var halfPastMidnight = almanac.Birthday{
	At:       func(almanac.User) calendar.Clock { return calendar.Clock{Minute: 30} },
	Policies: calendar.Policies{Gap: calendar.GapSkip},
}

func reconcileOnce(url string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := postgres.New(pool)
	if err != nil {
		return err
	}
	registry, err := almanac.NewRegistry(halfPastMidnight)
	if err != nil {
		return err
	}
	s, err := almanac.NewScheduler(store, registry)
	if err != nil {
		return err
	}
	result, err := s.Reconcile(ctx, almanac.ReconcileOptions{})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// reconcileIn runs a program whose ZONEINFO has a release in which Beirut follows a
// rule.
func reconcileIn(t *testing.T, url, version, beirut string) almanac.ReconcileResult {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, zonetest.WriteDir(dir, version, map[string][]byte{"Asia/Beirut": zonetest.File(2*60*60, nil, beirut)}))
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), "ZONEINFO="+dir, reconcilerURL+"="+url)
	program.Stderr = os.Stderr
	said, err := program.Output()
	require.NoError(t, err)
	var result almanac.ReconcileResult
	require.NoError(t, json.Unmarshal(said, &result), "%s", said)
	return result
}

// Two programs on one database, each with the zone data that its machine has. The
// handler of the newer one also names another day for the event whose wall time the
// new rules skip.
func TestProcessesWithDifferentZoneDataFollowTheNewer(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store := mustStore(t, pool)
	registry, err := almanac.NewRegistry(halfPastMidnight)
	require.NoError(t, err)
	s, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	enrol := func(birth string) almanac.Event {
		enrolment, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: birth, Timezone: "Asia/Beirut"})
		require.NoError(t, err)
		return enrolment.Events[0]
	}
	stored := func(e almanac.Event) almanac.Event {
		e, err := store.Event(t.Context(), e.ID)
		require.NoError(t, err)
		return e
	}
	june, skipped := enrol("1990-06-15"), enrol("1990-07-04")
	require.Empty(t, reconcileIn(t, url, "2030a", beirutAsItIs).Outdated)

	got := reconcileIn(t, url, "2030b", beirutLateSummer)

	require.Contains(t, got.Zones, almanac.ZoneReport{Zone: "Asia/Beirut", Version: "2030b", Checked: 2, Moved: 1, Smallest: time.Hour, Largest: time.Hour, First: june.Wall, FirstAt: june.Due})
	moved := stored(june)
	open, err := store.Find(t.Context(), almanac.And{almanac.ForUser(skipped.UserID), almanac.InStatus(almanac.Pending)}, almanac.Page{})
	require.NoError(t, err)
	require.Len(t, open.Items, 1)
	replanned := open.Items[0]
	require.Equal(t, june.Due.Add(time.Hour), moved.Due)
	require.Equal(t, "2027", skipped.OccurrenceKey, "the first Sunday of July is the fourth")
	require.Equal(t, "2028", replanned.OccurrenceKey)

	again := reconcileIn(t, url, "2030a", beirutAsItIs)
	require.Equal(t, []string{"Asia/Beirut"}, again.Outdated)
	require.Zero(t, again.Moved())
	require.Equal(t, moved, stored(june))
	require.Equal(t, replanned, stored(replanned))
}
