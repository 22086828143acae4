package command

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

const scratchSchemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'almanac_bench_%'"

func TestADatabaseIsMeasured(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t) // it needs nothing that was there
	args := []string{"bench", "--events", "1500", "--spread", "5", "--workers", "50", "--database-url", url}

	r := almanacAt(t, today, append(args, "--json")...)

	require.Equal(t, exitOK, r.code, r.errs)
	require.Regexp(t, `^measuring in schema almanac_bench_[0-9a-f]{8}, which is dropped afterwards\n$`, r.errs)
	var report benchReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.True(t, report.Complete)
	require.Equal(t, 50, report.Workers)
	require.Positive(t, report.RoundTrip)
	for _, rate := range []rate{report.Enrolment, report.Delivery} {
		require.Equal(t, 1500, rate.Count)
		require.InEpsilon(t, 1500/rate.Seconds, rate.PerSecond, 0.1)
	}
	late := report.Lateness
	require.NotNil(t, late)
	require.Equal(t, 5, late.Count)
	require.True(t, late.P50 >= 0 && late.P50 <= late.P99 && late.P99 <= late.Max, "%+v", late)
	require.Regexp(t, `^(on|off)$`, report.Server["fsync"])
	require.NotEmpty(t, report.Server["max_wal_size"])
	require.NotEmpty(t, report.Server["synchronous_commit"])
	require.Zero(t, ask(t, url, scratchSchemas), "it is dropped")
}

func TestAMeasurementIsWrittenInWords(t *testing.T) {
	t.Parallel()
	r := benchReport{
		Complete: true, Workers: 1, RoundTrip: 0.125,
		Enrolment: rateOf(20_000, 1600*time.Millisecond), Delivery: rateOf(20_000, 2*time.Second),
		Lateness: latenessOf([]time.Duration{4e6, 1e6, 2e6, 3e6}),
		Server:   map[string]string{"fsync": "on", "synchronous_commit": "local", "synchronous_standby_names": ""},
	}
	var out bytes.Buffer
	require.NoError(t, r.write(&out))
	require.Equal(t, `
round trip                 0.12 ms
enrolment                  12,500/s, 20000 users in 1.6 s
delivery                   10,000/s, 20000 events in 2.0 s by 1 worker
lateness                   p50 3.0 ms, p99 4.0 ms, at most 4.0 ms, of 4 events
fsync                      on
synchronous_commit         local
synchronous_standby_names  -
`[1:], out.String())
	r.Complete, r.Lateness, r.Server = false, nil, map[string]string{"fsync": "off", "synchronous_commit": "off"}
	out.Reset()
	require.NoError(t, r.write(&out))
	require.Regexp(t, `(?s)\nthe limit was reached .*\nfsync is off: .*\nsynchronous_commit is off: `, out.String())
	require.NotContains(t, out.String(), "lateness")
}

func TestAMeasurementStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	r := almanacAt(t, today, "bench", "--events", "1000000", "--limit", "400ms", "--json", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	var report benchReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.False(t, report.Complete)
	require.Less(t, report.Enrolment.Count, 1_000_000)
	require.Nil(t, report.Lateness)
	require.Zero(t, ask(t, url, scratchSchemas))
}

func TestAMeasurementFailsWhereItMayNotMakeASchema(t *testing.T) {
	t.Parallel()
	address := pgtest.EmptyURL(t)
	at, err := url.Parse(address)
	require.NoError(t, err)
	runSQL(t, pgtest.Direct(t, address), "ALTER DATABASE "+strings.TrimPrefix(at.Path, "/")+" SET default_transaction_read_only = on")
	r := almanacAt(t, today, "bench", "--database-url", address)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, "read-only transaction")
	require.NotContains(t, r.errs, "by hand", "nothing was made")
}
