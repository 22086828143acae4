package command

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// marching is due on 14 March, from 2094.
func marching(hour int) almanac.Recurring {
	return almanac.Recurring{Type: "NIGHTLY", Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Bounded{Rule: calendar.Yearly{Month: time.March, Day: 14, At: calendar.Clock{Hour: hour}},
			Start: calendar.WallTime{Date: calendar.Date{Year: 2094, Month: time.January, Day: 1}}}, nil
	}}
}

func TestARollOutShowsWhatMovesAndThenMovesIt(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first := subscribers(t, url, hostOf(t, marching(9)), 3)
	rollOut := func(hour int, args ...string) result {
		return runAs(t.Context(), hostOf(t, marching(hour)), append([]string{"roll-out", "NIGHTLY", "--database-url", url}, args...)...)
	}

	r := rollOut(22, "--dry-run", "--json")
	require.Equal(t, exitOK, r.code, r.errs)
	var dry rollOutReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &dry))
	require.Equal(t, 3, dry.Would.Users)
	require.Equal(t, 3, dry.Would.Moved)
	require.Equal(t, []rollOutMoves{{24 * 60 * 60, 0, 3}}, dry.Would.By)
	require.Nil(t, dry.Done)
	require.Len(t, dry.Examples, 3)
	same, err := storeAt(t, url).Event(t.Context(), first[0].ID)
	require.NoError(t, err)
	require.Equal(t, first[0].Due, same.Due)

	r = rollOut(22, "--yes", "--json", "--rate", "1000")
	require.Equal(t, exitOK, r.code, r.errs)
	var run rollOutReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &run))
	require.Equal(t, dry.Would, run.Would)
	require.Equal(t, dry.Would, *run.Done)
	r = rollOut(22, "--yes")
	require.Regexp(t, `^EVENTS OF NIGHTLY  WOULD  DONE\nunchanged +3 +3\nmoved +0 +0\nadded +0 +0\nremoved +0 +0\nusers +3 +3\n$`, r.out)
	require.Empty(t, r.errs)
	stock := func(args ...string) result {
		return almanacAt(t, today, append([]string{"roll-out", "BIRTHDAY", "--birthday", "--database-url", url}, args...)...)
	}
	checkMisuse(t, stock(), "either --dry-run or --yes is required")
	checkMisuse(t, stock("--yes", "--passed", "later", "--after", "x"), `--passed: "later" is none of edit, now and skip, and no duration such as 24h`, `--after: "x" is not where a roll-out ended`)
}

func TestARollOutThatIsInterruptedSaysWhereToContinue(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	subscribers(t, url, hostOf(t, marching(9)), 3)
	ctx, cancel := context.WithCancel(t.Context())
	host := hostOf(t, marching(22))
	stop := func(context.Context, almanac.Event) { cancel() }
	host.Options = []almanac.Option{almanac.WithObserver(almanac.Hooks{Rescheduled: stop, Removed: stop})}

	r := runAs(ctx, host, "roll-out", "NIGHTLY", "--yes", "--rate", "1", "--database-url", url)

	require.Equal(t, exitInterrupted, r.code, r.errs)
	next := regexp.MustCompile(`not done to the end: go on with --after (\S+)\nacme: interrupted\n$`).FindStringSubmatch(r.errs)
	require.NotNil(t, next, r.errs)
	r = runAs(t.Context(), hostOf(t, marching(22)), "roll-out", "NIGHTLY", "--yes", "--after", next[1], "--json", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	var report rollOutReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.Equal(t, 2, report.Done.Users)
}

// The users of a dry run have not been changed, so to continue after them would leave them out.
func TestARollOutThatIsInterruptedInItsDryRunBeginsAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	subscribers(t, url, hostOf(t, marching(9)), 3)
	ctx, cancel := context.WithCancel(t.Context())
	later := marching(22)
	rule := later.Rule
	later.Rule = func(u almanac.User) (calendar.Recurrence, error) {
		cancel()
		return rule(u)
	}

	r := runAs(ctx, hostOf(t, later), "roll-out", "NIGHTLY", "--yes", "--rate", "1", "--database-url", url)

	require.Equal(t, exitInterrupted, r.code, r.errs)
	require.Contains(t, r.errs, "nothing was stored: begin again\n")
	require.NotContains(t, r.errs, "--after")
}
