package command

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestLimitsAreStoredListedAndRemoved(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	run := func(args ...string) result {
		return almanacAt(t, today, append(args, "--database-url", c.url)...)
	}
	require.Equal(t, result{exitOK, "no lane has limits or is paused, and no receiver fails\n", ""}, run("lanes"))
	require.Equal(t, result{exitOK, "C: at most 50 starts a second, 10 at once\n", ""}, run("lane", "C", "--rate", "50"))
	require.Equal(t, result{exitOK, "A: at most 0.2 starts a second, 5 at once, at most 8 in flight\n", ""}, run("lane", "A", "--rate", "0.2", "--burst", "5", "--places", "8"))
	require.JSONEq(t, `{"name": "B", "places": 3}`, run("lane", "B", "--places", "3", "--json").out)
	require.Equal(t, result{exitOK, "crm/tenant-7: weight 3\n", ""}, run("lane", "crm/tenant-7", "--weight", "3", "--force"))

	require.Regexp(t, `^LANE +RATE +BURST +PLACES +DAILY +WEIGHT +WAITING +IN FLIGHT +LAST HOUR +LAST STARTS ABOUT +FAILING SINCE +RETRIED AT +PAUSED SINCE\nA +0\.2 +5 +8 +0 +0\nB +3 +0 +0\nC +50 +10 +1 +\S+Z\ncrm/tenant-7 +3 +0\n$`, run("lanes").out)
	require.Regexp(t, `^lane,rate,burst,places,daily,weight,waiting,in_flight,last_starts,failing_since,retry_at,paused_since,last_hour\nA,0\.2,5,8,,,0,0,,,,,\nB,,,3,,,0,0,,,,,\nC,50,10,,,,1,,\S+Z,,,,\ncrm/tenant-7,,,,,3,0,,,,,,\n$`, run("lanes", "--csv").out)
	var lanes []laneReport
	require.NoError(t, json.Unmarshal([]byte(run("lanes", "--json").out), &lanes))
	require.Len(t, lanes, 4)
	require.Equal(t, "1", *lanes[2].Waiting, "it is overdue")

	require.Equal(t, result{exitOK, "A has no limits\n", ""}, run("lane", "A", "--no-limit"))
	require.NotContains(t, run("lanes").out, "\nA ")
}

func TestAnEventSaysWhenItsLaneStartsIt(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	run := func(args ...string) string {
		r := almanacAt(t, today, append(args, "--database-url", c.url)...)
		require.Equal(t, exitOK, r.code, r.errs)
		return r.out
	}
	show := []string{"events", "show", c.ids["overdue"].String()}
	require.NotContains(t, run(show...), "waits")

	run("lane", "C", "--rate", "0.001")
	require.Regexp(t, `\nwaits +waits in lane C since 2022-03-15T13:00:00Z, 0 before it\nexpected to start +about \S+Z\n`, run(show...))
	run("pause", "C", "--reason", "it moves")
	require.Regexp(t, `, 0 before it; C is paused\nexpected to start +when C is resumed\n`, run(show...))
	require.Regexp(t, `\nC .* when it is resumed +\S+Z\n`, run("lanes"))
	var lanes []laneReport
	require.NoError(t, json.Unmarshal([]byte(run("lanes", "--json")), &lanes))
	require.Equal(t, "it moves", lanes[0].Pause.Reason)
	require.True(t, lanes[0].Resumed)
	var report eventReport
	require.NoError(t, json.Unmarshal([]byte(run(append(show, "--json")...)), &report))
	require.Equal(t, "C", report.Wait.Paused)
	require.Nil(t, report.Wait.Starts)

	run("resume", "C")
	run("lane", "C", "--places", "1")
	require.Regexp(t, `\nexpected to start +now: the lane has room\n`, run(show...))
	_, err := c.store.Report(t.Context(), "C", func(b almanac.Breaker, now time.Time) almanac.Breaker {
		return almanac.Breaker{Allowed: 1, RetryAt: now.Add(time.Hour), OpenedAt: now}
	})
	require.NoError(t, err)
	require.Regexp(t, `; its receiver fails since \S+Z\nexpected to start +not before \S+Z\n`, run(show...))
}

func TestLimitsThatCannotBeAreMisuse(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	run := func(args ...string) result {
		return almanacAt(t, today, append(append([]string{"lane"}, args...), "--database-url", c.url)...)
	}
	checkMisuse(t, run("C", "--rate", "many", "--burst", "1.5", "--places", "-1"), `--rate: "many" is not a number`,
		`--burst: "1.5" is not a number from 0 to 1000000`, `--places: "-1" is not a number from 0 to 10000`)
	checkMisuse(t, run("C", "--rate", "NaN"), "invalid input: rate is NaN, and not between 0.000001 and 1000000")
	for _, args := range [][]string{{"C"}, {"C", "--rate", "1", "--no-limit"}, {"crm/a", "--weight", "2", "--no-limit"}} {
		checkMisuse(t, run(args...), "either --rate, --places, --daily or --weight, or --no-limit is required")
	}
	checkMisuse(t, run("C", "--weight", "2"), "invalid input: weight is 2 of a lane that is in none")
	checkMisuse(t, run(strings.Repeat("x", 51)+"/", "--places", "2"), `invalid input: name has a slash that is not between the name of a lane and that of a lane in it, such as "crm/tenant-7"`)

	r := run("c", "--rate", "1")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, `(did you mean "C"?); --force limits it nevertheless`)
	require.Equal(t, result{exitOK, "c: at most 1 starts a second, 1 at once\n", ""}, run("c", "--rate", "1", "--force"))

	pause := func(lane string, flags ...string) result {
		return almanacAt(t, today, append([]string{"pause", lane, "--database-url", c.url}, flags...)...)
	}
	const unknown = `almanac: the lane "crm/tenant-7" is not known: it has no settings and no pending event, and the type "crm" is not known: `
	for _, r := range []result{run("crm/tenant-7", "--rate", "1"), pause("crm/tenant-7")} {
		require.Equal(t, exitFailed, r.code)
		require.True(t, strings.HasPrefix(r.errs, unknown), r.errs)
	}
	require.Equal(t, result{exitOK, "crm/tenant-7 is paused\n", ""}, pause("crm/tenant-7", "--force"))
	require.Equal(t, result{exitOK, "C/new is paused\n", ""}, pause("C/new"), "in a known type")
}
