package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tinySizes are enough for every row to have figures.
func tinySizes() sizes {
	return sizes{
		Rounds: 1, Events: 300, Limit: 30 * time.Second,
		Spread: 20, Over: time.Second, Burst: 200, Tries: 1,
		Tables: []int{1000, 4000}, Idle: []int{1000}, Held: 500, Aged: 2400, Crowd: 300, Beside: 300, Waiting: 1000, Ended: 50, History: 2000, Viewed: []int{20_000}, Processes: []int{1, 2}, Fans: []int{2}, Takes: []time.Duration{20 * time.Millisecond}, Shards: 4, Crash: 800, Window: time.Second,
	}
}

// The whole program runs here, so that it keeps working.
func TestEveryRowHasFigures(t *testing.T) {
	var log bytes.Buffer
	// Without the peers in Node.js, which not every machine has.
	o := options{sizes: tinySizes(), only: regexp.MustCompile(""), nodeDir: t.TempDir(), settings: smallSettings()}
	b, err := newBench(t.Context(), o, &log)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.cluster.close(t.Context())) })

	require.NoError(t, b.run(t.Context()), "%s", &log)

	for name, count := range map[string]int{
		"throughput": 7, costs: 7, "lateness": 3, "burst": 2, "wake": 4, "claims": 2, "horizon": 2 * agedSlices, "beside": 7, "beside, times alone": 6, "recovery": 1, "writing": 6, "processes": 2, "fanout": 2 + 2, "shards": len(layouts(4)) + 1, "failover": 3, "idle": 1, "held": 1, "dashboard": len(sample{}.views()), "lanes": 11, durations: 17,
	} {
		rows := slices.DeleteFunc(slices.Clone(b.report.Rows), func(r *row) bool { return r.Section != name })
		require.Len(t, rows, count, name)
		for _, r := range rows {
			require.NotEmpty(t, r.Measures, "%s/%s", r.Section, r.Name)
			require.NotEmpty(t, r.Contract, "%s/%s", r.Section, r.Name)
			for _, m := range r.Measures {
				require.Len(t, m.Rounds, 1, "%s/%s %s", r.Section, r.Name, m.Name)
			}
			if rate := r.rate(); rate != nil {
				require.Positive(t, rate.Median, "%s/%s", r.Section, r.Name)
			}
		}
	}
	checkPages(t, b.report)
	require.Len(t, b.report.LeftOut, len(nodePeers()))
	checkWritten(t, b.report)
}

// Before few events every page is complete, and no statement touches many blocks. On a busy machine a
// calendar may give its events up.
func checkPages(t *testing.T, r *report) {
	t.Helper()
	for _, row := range r.Rows {
		if row.Section != "dashboard" {
			continue
		}
		for _, m := range row.Measures {
			switch m.Name {
			case "complete":
				if require.Positive(t, m.Median, row.Name); !strings.Contains(row.Name, "calendar") {
					require.InDelta(t, 100, m.Median, 0, row.Name)
				}
			case "blocks":
				require.Less(t, m.Median, 20_000.0, row.Name)
				require.Equal(t, strings.HasSuffix(row.Name, ": operations"), m.Median == 0, "%s: only the empty form asks nothing", row.Name)
			default:
				require.Positive(t, m.Median, "%s %s", row.Name, m.Name)
			}
		}
	}
}

func checkWritten(t *testing.T, r *report) {
	t.Helper()
	var table bytes.Buffer
	require.NoError(t, r.print(&table))
	require.Regexp(t, `(?m)^THROUGHPUT +rate events/s +x river +x river-successor +lacks$`, table.String())
	require.Regexp(t, `(?m)^river-successor .* users, zones, keys for ever, a fence$`, table.String())
	require.Regexp(t, `(?m)^COST +program µs +server µs +both µs +log bytes +allocations$`, table.String())
	require.Contains(t, table.String(), "left out: throughput/pg-boss: ")

	path := filepath.Join(t.TempDir(), "bench.json")
	require.NoError(t, r.write(path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var read report
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, r.Rows, read.Rows)
	require.Equal(t, "on", read.Server["fsync"])
	require.NotEmpty(t, read.Versions["postgres"])
	require.Equal(t, r.Sizes, read.Sizes)
}

// stored reads a row without what differs between any two.
const stored = `
	SELECT to_jsonb(e) - '{id,user_id,idempotency_key,created_at,updated_at}'::text[] || jsonb_build_object(
			'series', to_jsonb(s) - '{id,user_id,open_user_id,event_id,idempotency_key,created_at,updated_at}'::text[],
			'keys', (SELECT count(*) FROM almanac.keys k WHERE k.idempotency_key = e.idempotency_key)),
		to_jsonb(u) - '{id,created_at,updated_at}'::text[], e.idempotency_key,
		'event-' || left(encode(sha256(convert_to(u.id || '-' || to_char(e.target_timestamp_utc AT TIME ZONE 'UTC',
			'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '-BIRTHDAY', 'UTF8')), 'hex'), 16),
		substr(e.id::text, 15, 1) || substr(u.id::text, 15, 1)
	FROM almanac.events e
	JOIN almanac.series s ON s.event_id = e.id
	JOIN almanac.users u ON u.id = e.user_id`

func TestUsersAreStoredAsCreateUserStoresThem(t *testing.T) {
	made, empty := migrated(t), migrated(t)
	scheduler, err := newScheduler(made.pool, hooks{})
	require.NoError(t, err)
	// At nine, 28 years after the birth, as the statement has it.
	due := time.Now().UTC().AddDate(0, 1, 0).Truncate(24 * time.Hour).Add(9 * time.Hour)
	p := profile(0)
	p.DateOfBirth = due.AddDate(-28, 0, 0).Format(time.DateOnly)
	_, err = scheduler.CreateUser(t.Context(), p)
	require.NoError(t, err)

	require.NoError(t, storeUsers(t.Context(), empty, load{count: 1, first: due}))

	var want, got [5]string
	for db, row := range map[database]*[5]string{made: &want, empty: &got} {
		require.NoError(t, db.pool.QueryRow(t.Context(), stored).Scan(&row[0], &row[1], &row[2], &row[3], &row[4]))
		require.Equal(t, row[3], row[2], "the idempotency key")
	}
	require.JSONEq(t, want[0], got[0])
	require.JSONEq(t, want[1], got[1])
	require.Equal(t, "77", want[4])
	require.Equal(t, "77", got[4], "versions of ids")
}

// The order in which events are due must say nothing of the order in which their
// users were stored.
func TestBacklogIsDueInAnotherOrderThanItsUsers(t *testing.T) {
	db := migrated(t)
	require.NoError(t, storeUsers(t.Context(), db, load{count: 1000}))

	var overall, neighbours float64
	var overdue, instants int
	require.NoError(t, db.pool.QueryRow(t.Context(), `
		SELECT corr(place, due), corr(before, due), count(*) FILTER (WHERE due < extract(epoch FROM now())), count(DISTINCT due)
		FROM (
			SELECT row_number() OVER people AS place, due, lag(due) OVER people AS before
			FROM almanac.events, LATERAL (SELECT extract(epoch FROM available_at)::float8) d (due)
			WINDOW people AS (ORDER BY user_id)
		) e`).Scan(&overall, &neighbours, &overdue, &instants))

	require.InDelta(t, 0, overall, 0.1)
	require.InDelta(t, 0, neighbours, 0.1)
	require.Equal(t, 1000, overdue)
	require.Greater(t, instants, 250)
}

// A crowd that took too long to store is stored again, with more time.
func TestACrowdThatIsStoredTooLateIsNotMeasured(t *testing.T) {
	_, err := almanacSystem().keepTime(t.Context(), migrated(t), load{count: 1, first: time.Now().Add(lead / 3)}, patience)
	require.ErrorIs(t, err, errTooSoon)

	c, err := shared()
	require.NoError(t, err)
	b := &bench{sizes: tinySizes(), cluster: c, report: &report{}, log: t.Output(), only: regexp.MustCompile("almanac")}
	require.NoError(t, c.template(t.Context(), "almanac", migrateAlmanac))

	readings, err := b.crowded(t.Context(), almanacSystem(), lead/4)

	require.NoError(t, err)
	require.NotEmpty(t, readings)
}

// Claims are timed before a thousand, ten thousand, a hundred thousand and a million events.
func TestClaimsAreTimedAtSeveralSizes(t *testing.T) {
	o, err := parse(nil, t.Output())
	require.NoError(t, err)
	require.Equal(t, []int{1000, 10_000, 100_000, 1_000_000}, o.sizes.Tables)

	c, err := shared()
	require.NoError(t, err)
	b := &bench{sizes: tinySizes(), cluster: c, report: &report{}, log: t.Output(), only: regexp.MustCompile("")}
	require.NoError(t, b.claims(t.Context()))

	require.Len(t, b.report.Rows, len(b.Tables))
	for i, row := range b.report.Rows {
		require.Equal(t, fmt.Sprintf("%d rows", b.Tables[i]), row.Name)
		times := make(map[string]float64)
		for _, m := range row.Measures {
			times[m.Name+" "+m.Unit] = m.Median
		}
		require.Positive(t, times["p50 ms"], row.Name)
		require.GreaterOrEqual(t, times["p95 ms"], times["p50 ms"], row.Name)
		require.Positive(t, times["claims "], row.Name)
	}
}

// What was counted and what is stored must agree, or a run fails.
func TestARunThatMiscountsFails(t *testing.T) {
	db := migrated(t)
	require.NoError(t, storeUsers(t.Context(), db, load{count: 10}))
	_, err := runLoop(t.Context(), db, 10, time.Minute)
	require.NoError(t, err)

	require.NoError(t, checkAlmanac(t.Context(), db, 10))
	require.ErrorContains(t, checkAlmanac(t.Context(), db, 11), "counted 11 events, but 10 are COMPLETED")

	_, err = db.pool.Exec(t.Context(), "DELETE FROM almanac.queue WHERE event_id IN (SELECT event_id FROM almanac.queue LIMIT 1)")
	require.NoError(t, err)
	require.ErrorContains(t, checkAlmanac(t.Context(), db, 10), "9 have a successor")
}

// A row says that it stores successors only if they are there.
func TestAMissingSuccessorFailsTheRow(t *testing.T) {
	c, err := shared()
	require.NoError(t, err)
	b := &bench{sizes: tinySizes(), cluster: c, nodeDir: t.TempDir(), report: &report{}, log: t.Output(), only: regexp.MustCompile("")}
	for name, takeAway := range map[string]string{
		riverSuccessor: "DELETE FROM river_job WHERE id = (SELECT max(id) FROM river_job)",
		"seeds":        "DELETE FROM events WHERE id = (SELECT id FROM events WHERE status = 'PENDING' LIMIT 1)",
	} {
		list := b.contestants()
		row := list[slices.IndexFunc(list, func(c contestant) bool { return c.name == name })]
		require.NoError(t, c.template(t.Context(), row.template, row.fill))
		require.NoError(t, c.with(t.Context(), row.template, func(db database) error {
			done, err := row.run(t.Context(), db, b.Events, b.Limit)
			require.NoError(t, err)
			require.NoError(t, row.check(t.Context(), db, done.done), name)
			_, err = db.pool.Exec(t.Context(), takeAway)
			require.NoError(t, err)
			require.ErrorContains(t, row.check(t.Context(), db, done.done), "299 have a successor", name)
			return nil
		}))
		require.NoError(t, c.drop(t.Context(), row.template))
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-quick", "-rounds", "2", "-events", "7", "-burst", "9", "-only", "^idle/", "-out", "x"}, &strings.Builder{})
	require.NoError(t, err)
	require.Equal(t, []int{2, 7, 9}, []int{o.sizes.Rounds, o.sizes.Events, o.sizes.Burst})
	require.Equal(t, "x", o.out)
	b := &bench{only: o.only}
	require.True(t, b.chosen("idle", "1 row"))
	require.False(t, b.chosen("claims", "idle/"))

	for name, args := range map[string][]string{
		"an argument":                {"throughput"},
		"an expression that is none": {"-only", "("},
		"a negative size":            {"-rounds", "-1"},
		"an unknown flag":            {"-slow"},
	} {
		_, err := parse(args, &strings.Builder{})
		require.Error(t, err, name)
	}
}
