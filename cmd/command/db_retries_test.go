package command

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// storeRetries stores an outage of a receiver, and a stalled series of the user that it returns.
func storeRetries(t *testing.T, address string) uuid.UUID {
	t.Helper()
	store := storeAt(t, address)
	for _, due := range []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour} {
		u := almanactest.User()
		_, _, err := almanactest.CreateUser(t.Context(), store, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.ReadyFor(due), almanactest.OfSeries("name-day", "2027")))
		require.NoError(t, err)
	}
	claimed, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 4, Lease: time.Minute})
	require.NoError(t, err)
	noPlan := func(almanac.User, time.Time) (almanac.Event, error) {
		return almanac.Event{}, errors.New("no plan\x1b[2J")
	}
	var settlements []almanac.Settlement
	for i, outcome := range []almanac.Outcome{
		almanac.Delivered(time.Now()),
		almanac.Released(almanac.AfterFailure, "webhook: receiver answered 503", time.Hour),
		almanac.Released(almanac.AfterFailure, "webhook: receiver answered 503", 2*time.Hour),
		almanac.Released(almanac.AfterFailure, "webhook: receiver answered 429", time.Hour),
	} {
		settlements = append(settlements, almanac.Settlement{Event: claimed.Events[i], Outcome: outcome, Next: noPlan})
	}
	settled, err := store.Settle(t.Context(), settlements)
	require.NoError(t, err)
	require.NotNil(t, settled[0].Stalled)
	return claimed.Events[0].UserID
}

func TestStatisticsShowWhatIsRetried(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	require.Equal(t, &retries{[]retryGroup{}, []retryGroup{}}, statsOf(t, address).Retries)
	require.NotContains(t, succeeds(t, "stats", "--database-url", address), "LAST ERROR")
	storeRetries(t, address)

	s := statsOf(t, address).Retries
	require.Len(t, s.Events, 2)
	require.Equal(t, retryGroup{Type: almanac.TypeBirthday, Error: "webhook: receiver answered 503", Count: 2, Since: s.Events[0].Since, Next: s.Events[0].Next}, s.Events[0])
	require.Equal(t, 4*time.Hour, s.Events[0].Next.Sub(*s.Events[0].Since).Round(time.Minute), "due three hours ago, tried in an hour")
	require.Equal(t, int64(1), s.Events[1].Count)
	require.Equal(t, "no plan\x1b[2J", s.Series[0].Error)

	text := succeeds(t, "stats", "--database-url", address)
	require.Regexp(t, `(?s)\nRETRIED +TYPE +SINCE +NEXT +LAST ERROR\n2 +BIRTHDAY +\S+Z +\S+Z +webhook: receiver answered 503\n1 +BIRTHDAY +\S+Z +\S+Z +webhook: receiver answered 429\n`+
		`\nSTALLED +TYPE +SINCE +NEXT +LAST ERROR\n1 +BIRTHDAY +\S+Z +\S+Z +no plan \[2J\n\nTYPE`, text)

	name, asRole := login(t, address)
	runSQL(t, address, `
		GRANT USAGE ON SCHEMA almanac TO `+name+`;
		GRANT SELECT ON almanac.migrations, almanac.queue, almanac.ended_events, almanac.pending_events, almanac.processing_events TO `+name+`;
		GRANT SELECT (timezone, deleted_at) ON almanac.users TO `+name+`;
		GRANT SELECT (id, target_timestamp_utc) ON almanac.series TO `+name+`;
		GRANT SELECT (token, owner, event_ids, claimed_at, expires_at) ON almanac.leases TO `+name)
	require.Nil(t, statsOf(t, asRole).Retries)
	require.Contains(t, succeeds(t, "stats", "--database-url", asRole), "\nretries  not shown: this role may not read errors\n")
}

func TestLongErrorsAreCutShort(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"3", "~3", "3+"}, []string{retryGroup{Count: 3}.count(), retryGroup{Count: 3, Estimated: true}.count(), retryGroup{Count: 3, More: true}.count()})
	address := pgtest.URL(t)
	storeRetries(t, address)
	runSQL(t, address, `UPDATE almanac.series SET last_error = repeat('é', 500) WHERE last_error LIKE '%503'`)
	require.Regexp(t, `\n2 .* é{99}…\n`, succeeds(t, "stats", "--database-url", address))
}

func TestAUserShowsStalledSeries(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	user := storeRetries(t, address).String()
	require.Regexp(t, `(?s)\nstalled series, whose next event could not be planned\nTYPE +SERIES +SINCE +NEXT ATTEMPT +FAILURES +LAST ERROR\nBIRTHDAY +name-day +\S+Z +\S+Z +1 +no plan \[2J\n$`,
		succeeds(t, "users", "show", user, "--database-url", address))
	var shown userDetails
	require.NoError(t, json.Unmarshal([]byte(succeeds(t, "users", "show", user, "--json", "--database-url", address)), &shown))
	require.Len(t, shown.Stalled, 1)
	one := shown.Stalled[0]
	require.Equal(t, stalledReport{almanac.TypeBirthday, "name-day", "no plan\x1b[2J", 1, one.Since, one.RetryAt}, one)
}

func TestSeriesThatStandStill(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	d, _ := examined(t, "--database-url", address)
	require.Empty(t, d.about("series"))
	user := storeRetries(t, address)
	runSQL(t, address, `UPDATE almanac.unplanned SET since = '2026-03-01T10:00:00Z'`)

	d, r := examined(t, "--database-url", address)
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, []string{`warning: 1 of type BIRTHDAY cannot go on: no plan [2J: "name-day" of user ` + user.String() + ` since 2026-03-01T10:00:00Z`}, d.about("series"))
	require.Contains(t, r.out, "mend the handler")

	runSQL(t, address, `UPDATE almanac.unplanned SET last_error = NULL, failures = 0`)
	d, r = examined(t, "--database-url", address)
	require.Contains(t, d.about("series")[0], "warning: 1 of type BIRTHDAY cannot go on: no program with the handler has tried: ")
	require.Contains(t, r.out, "start a program that has the handler")
	runSQL(t, address, `UPDATE almanac.unplanned SET since = now()`)
	d, _ = examined(t, "--database-url", address)
	require.Empty(t, d.about("series"), "a program may plan it at any moment")

	name, asRole := login(t, address)
	runSQL(t, address, "GRANT USAGE ON SCHEMA almanac TO "+name+"; GRANT SELECT ON almanac.migrations TO "+name)
	d, _ = examined(t, "--database-url", asRole)
	require.Equal(t, []string{"note: this role may not see stalled series"}, d.about("series"))
}
