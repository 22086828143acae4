package ops_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// looking looks at the database between two pages.
type looking struct {
	almanac.Repository
	between func()
	pages   int
}

func (l *looking) Rosters(ctx context.Context, types []string, page almanac.Page) (almanac.List[almanac.Roster], error) {
	found, err := l.Repository.Rosters(ctx, types, page)
	l.pages++
	l.between()
	return found, err
}

// A copy of users holds back neither vacuum nor another transaction, and a rehearsal of it stores nothing.
func TestARehearsalLeavesTheDatabaseAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	rule := notices(28, 9, "")
	storedUsers(t, store, rule, 1003)
	_, err = pool.Exec(t.Context(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$")
	require.NoError(t, err)
	pool.Reset() // from here on, whatever writes fails
	l := &looking{Repository: store, between: func() {
		var held int
		require.NoError(t, pool.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR xact_start IS NOT NULL)").Scan(&held))
		require.Zero(t, held, "between pages, the session has no transaction and no snapshot")
	}}
	var users bytes.Buffer
	var progress []int
	done, err := ops.CopyUsers(t.Context(), l, []string{"NOTICE"}, &users, ops.CopyUsersOptions{Progress: func(n int) { progress = append(progress, n) }})
	require.NoError(t, err)
	require.Equal(t, 2, l.pages)
	require.Equal(t, []int{1000, 1003}, progress)
	require.Equal(t, 1003, done.Copied)

	result, err := ops.Rehearse(t.Context(), schedulerWith(t, store, rule), &users, ops.RehearseOptions{For: 200 * 24 * time.Hour})
	require.NoError(t, err)
	require.Empty(t, result.Refused)
	require.Equal(t, 1003, result.Users)
	require.GreaterOrEqual(t, result.Delivered, 6*1003)
	_, err = pool.Exec(t.Context(), "DELETE FROM almanac.queue")
	require.ErrorContains(t, err, "read-only")
}

// june returns a repository with users, at noon of 1 June 2027.
func june(t testing.TB, rule almanac.EventHandler, n int) *almanactest.Repository {
	t.Helper()
	now := time.Date(2027, time.June, 1, 12, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	storedUsers(t, repository, rule, n)
	return repository
}

func TestASampleHasTheSameUsersEachTime(t *testing.T) {
	t.Parallel()
	rule := notices(0, 9, "")
	repository := june(t, rule, 600)
	s := schedulerWith(t, repository, rule)
	sample := func(every int) ops.RehearseResult {
		result, err := ops.Rehearse(t.Context(), s, copied(t, repository, []string{"NOTICE"}, ops.CopyUsersOptions{Every: every}), ops.RehearseOptions{For: 48 * time.Hour})
		require.NoError(t, err)
		return result
	}
	all, tenth := sample(0), sample(10)
	require.Equal(t, tenth, sample(10))
	require.InDelta(t, 60, tenth.Users, 25)
	require.Equal(t, 1200, all.Delivered)
	require.Equal(t, 2*10*tenth.Users, tenth.Delivered, "each event counts for those of ten users")
	first, err := ops.Rehearse(t.Context(), s, copied(t, repository, []string{"NOTICE"}, ops.CopyUsersOptions{Limit: 7}), ops.RehearseOptions{})
	require.NoError(t, err)
	require.Equal(t, 7, first.Users)
	require.True(t, first.Cut)
	require.False(t, all.Cut)
}

// What was interrupted is no copy.
func TestAnIncompleteCopyIsRefused(t *testing.T) {
	t.Parallel()
	rule := notices(28, 9, "")
	repository := june(t, rule, 500)
	s := schedulerWith(t, repository, rule)
	whole := copied(t, repository, []string{"NOTICE"}, ops.CopyUsersOptions{}).Bytes()
	text, err := gzip.NewReader(bytes.NewReader(whole))
	require.NoError(t, err)
	plain, err := io.ReadAll(text)
	require.NoError(t, err)
	lines := bytes.SplitAfter(plain, []byte("\n"))
	zipped := func(parts ...[]byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		for _, part := range parts {
			_, err := w.Write(part)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	for name, bad := range map[string][]byte{
		"empty": nil, "no gzip": plain, "cut": whole[:len(whole)-40], "without the end": zipped(lines[:400]...), "without a user": zipped(append(lines[:1:1], lines[2:]...)...),
		"head alone": zipped(lines[0]), "another form": zipped([]byte(`{"Format":7}` + "\n")), "end in the middle": zipped(append(append([][]byte{lines[0]}, lines[len(lines)-2]), lines[1:]...)...),
	} {
		_, err := ops.Rehearse(t.Context(), s, bytes.NewReader(bad), ops.RehearseOptions{})
		require.ErrorContains(t, err, "copy", name)
	}
	for _, o := range []ops.RehearseOptions{{For: -1}, {For: 367 * 24 * time.Hour}, {Capacity: -1}, {Workers: -1}} {
		_, err := ops.Rehearse(t.Context(), s, bytes.NewReader(whole), o)
		require.ErrorIs(t, err, almanac.ErrInvalid)
	}
	for _, o := range []ops.CopyUsersOptions{{Every: -1}, {Limit: -1}} {
		_, err := ops.CopyUsers(t.Context(), repository, []string{"NOTICE"}, io.Discard, o)
		require.ErrorIs(t, err, almanac.ErrInvalid)
	}
	_, err = ops.CopyUsers(t.Context(), repository, nil, io.Discard, ops.CopyUsersOptions{})
	require.ErrorIs(t, err, almanac.ErrInvalid)
}

func TestACopyThatIsInterruptedSaysSo(t *testing.T) {
	t.Parallel()
	rule := notices(28, 9, "")
	repository := june(t, rule, 2500)
	ctx, stop := context.WithCancel(t.Context())
	l := &looking{Repository: repository}
	l.between = func() {
		if l.pages == 2 {
			stop()
		}
	}
	_, err := ops.CopyUsers(ctx, l, []string{"NOTICE"}, io.Discard, ops.CopyUsersOptions{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = ops.Rehearse(ctx, schedulerWith(t, repository, rule), copied(t, repository, []string{"NOTICE"}, ops.CopyUsersOptions{}), ops.RehearseOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

// Limits delay no event. They say how long events would wait.
func TestPeaksAreComparedWithLimits(t *testing.T) {
	t.Parallel()
	rule := notices(0, 9, "")
	repository := june(t, rule, 300) // 100 of each zone
	require.NoError(t, repository.PutLane(t.Context(), almanac.Lane{Name: "NOTICE", Rate: 2, Burst: 10, Daily: 250}))
	result := rehearse(t, schedulerWith(t, repository, rule), repository, []string{"NOTICE"}, ops.RehearseOptions{For: 5 * 24 * time.Hour, Capacity: 50})
	require.Len(t, result.Peaks, 2)
	at := time.Date(2027, time.June, 1, 13, 0, 0, 0, time.UTC) // 09:00 in New York
	all, lane := result.Peaks[0], result.Peaks[1]
	require.Equal(t, ops.RehearseMost{Events: 100, At: at}, all.Second)
	require.Equal(t, ops.RehearseMost{Events: 100, At: at}, all.Minute)
	require.Equal(t, 1500, all.Events)
	require.InDelta(t, 2, all.Wait.Seconds(), 0.1)
	require.Equal(t, "NOTICE", lane.Lane)
	require.InDelta(t, 45, lane.Wait.Seconds(), 0.1, "90 events after the burst, 2 in a second")
	require.Equal(t, at, lane.WaitFrom)
	require.WithinDuration(t, at.Add(45*time.Second), lane.WaitUntil, time.Second)
	require.Equal(t, 4*50, lane.Left-lane.Left%50, "300 events a day, 250 of which may start: %v", lane.Left)
}

// Two programs rehearse one copy.
func TestRehearsalsOfTwoRulesAreCompared(t *testing.T) {
	t.Parallel()
	before, after := notices(28, 9, ""), notices(25, 9, "Asia/Kolkata")
	repository := june(t, before, 30)
	run := func(h almanac.EventHandler, rollOut bool) ops.RehearseResult {
		users := copied(t, repository, []string{"NOTICE"}, ops.CopyUsersOptions{})
		result, err := ops.Rehearse(t.Context(), schedulerWith(t, repository, h), users, ops.RehearseOptions{For: 60 * 24 * time.Hour, RollOut: rollOut})
		require.NoError(t, err)
		text, err := json.Marshal(result)
		require.NoError(t, err)
		var read ops.RehearseResult
		require.NoError(t, json.Unmarshal(text, &read))
		require.Equal(t, result, read, "a result can be stored")
		return read
	}
	was := run(before, false)
	same, err := ops.CompareRehearsals(was, run(before, true))
	require.NoError(t, err)
	require.True(t, same.IsEmpty(), "%+v", same)
	differs, err := ops.CompareRehearsals(was, run(after, true))
	require.NoError(t, err)
	require.Equal(t, []ops.RehearseTypeDifference{{Type: "NOTICE", Was: 60, Is: 40, Moved: 40}}, differs.Types)
	june28 := calendar.Date{Year: 2027, Month: time.June, Day: 28}
	require.Contains(t, differs.Days, ops.RehearseDayDifference{Date: june28, Type: "NOTICE", Was: 30})
	require.Len(t, differs.Days, 4)

	hour, err := ops.CompareRehearsals(was, run(notices(28, 8, ""), true))
	require.NoError(t, err)
	require.Contains(t, hour.Days, ops.RehearseDayDifference{Date: june28, Type: "NOTICE", Was: 30, Is: 30}, "another hour of the day")
	stays, err := ops.CompareRehearsals(was, run(notices(28, 8, ""), false))
	require.NoError(t, err)
	require.Len(t, stays.Days, 1, "the pending events stay")
	_, err = ops.CompareRehearsals(was, ops.RehearseResult{})
	require.Error(t, err)
}

// A handler that fails for one user stops no other, and the user's events before count.
func TestAUserWhoCannotBePlannedIsRefused(t *testing.T) {
	t.Parallel()
	repository := june(t, notices(0, 9, ""), 9)
	bad := uuid.NewSHA1(uuid.NameSpaceOID, []byte("4"))
	rule := almanac.Recurring{Type: "NOTICE", Rule: func(u almanac.User) (calendar.Recurrence, error) {
		if u.ID == bad {
			return nil, errors.New("no rule for this one")
		}
		return calendar.Daily{At: calendar.Clock{Hour: 9}}, nil
	}}
	users := copied(t, repository, []string{"NOTICE"}, ops.CopyUsersOptions{})
	result, err := ops.Rehearse(t.Context(), schedulerWith(t, repository, rule), users, ops.RehearseOptions{For: 10 * 24 * time.Hour})
	require.NoError(t, err)
	require.Equal(t, 1, result.RefusedUsers)
	require.Equal(t, bad, result.Refused[0].UserID)
	require.Contains(t, result.Refused[0].Error, "no rule for this one")
	require.Equal(t, 8*10+1, result.Delivered, "the pending event of the user, too")

	var table strings.Builder
	require.NoError(t, result.WriteCSV(&table))
	require.True(t, strings.HasPrefix(table.String(), "date,type,zone,channel,lane,events\n2027-06-01,NOTICE,America/New_York,webhook,NOTICE,3\n2027-06-02,"), table.String())
}

// Of more than 40 lanes with limits, the result says that the limits of the others are not known.
func TestARehearsalSaysThatLimitsAreLeftOut(t *testing.T) {
	t.Parallel()
	rule := notices(28, 9, "")
	for lanes, want := range map[int][]string{39: {}, 41: {"limits"}} {
		repository := june(t, rule, 1)
		for i := range lanes {
			require.NoError(t, repository.PutLane(t.Context(), almanac.Lane{Name: fmt.Sprintf("CRM/%02d", i), Rate: 1}))
		}
		var users bytes.Buffer
		_, err := ops.CopyUsers(t.Context(), repository, []string{"NOTICE"}, &users, ops.CopyUsersOptions{})
		require.NoError(t, err)
		result, err := ops.Rehearse(t.Context(), schedulerWith(t, repository, rule), &users, ops.RehearseOptions{})
		require.NoError(t, err)
		require.ElementsMatch(t, want, result.Merged, lanes)
	}
}
