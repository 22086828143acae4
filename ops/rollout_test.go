package ops_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// notices is a rule that changes: monthly on a day, or daily on day 0. Users in the zone left out have none.
func notices(day, hour int, leftOut string) almanac.EventHandler {
	return almanac.Recurring{Type: "NOTICE", Rule: func(u almanac.User) (calendar.Recurrence, error) {
		switch at := (calendar.Clock{Hour: hour}); {
		case u.Timezone.String() == leftOut:
			return nil, nil
		case day == 0:
			return calendar.Daily{At: at}, nil
		default:
			return calendar.Monthly{Day: day, At: at}, nil
		}
	}}
}

var zonesOfUsers = []string{"Europe/Berlin", "Asia/Kolkata", "America/New_York"}

func people(n int) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for i := range n {
			id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i))
			if !yield(almanac.Profile{ID: id, FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: zonesOfUsers[i%len(zonesOfUsers)]}, nil) {
				return
			}
		}
	}
}

func schedulerWith(t require.TestingT, r almanac.Repository, h almanac.EventHandler) almanac.Scheduler {
	registry, err := almanac.NewRegistry(h)
	require.NoError(t, err)
	s, err := almanac.NewScheduler(r, registry)
	require.NoError(t, err)
	return s
}

func storedUsers(t require.TestingT, r almanac.Repository, h almanac.EventHandler, n int) {
	_, err := schedulerWith(t, r, h).CreateUsers(context.Background(), people(n), almanac.CreateUsersOptions{})
	require.NoError(t, err)
}

// Whatever the rules are, and what becomes of times that have passed: a dry run counts what the run changes,
// and a second run changes nothing.
func TestADryRunCountsWhatARollOutChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2027, time.January, rapid.IntRange(1, 28).Draw(t, "on"), rapid.IntRange(0, 23).Draw(t, "hour"), 0, 0, 0, time.UTC)
		repository := almanactest.NewRepository(func() time.Time { return now })
		rule := func(name string) almanac.EventHandler {
			left := rapid.SampledFrom(append(zonesOfUsers, "nowhere")).Draw(t, name+": without")
			return notices(rapid.IntRange(0, 31).Draw(t, name+": day"), rapid.IntRange(0, 23).Draw(t, name+": hour"), left)
		}
		storedUsers(t, repository, rule("before"), 7)
		now = now.Add(time.Duration(rapid.IntRange(0, 40*24).Draw(t, "hours later")) * time.Hour)
		claimed := rapid.IntRange(0, 2).Draw(t, "in flight")
		if claimed > 0 {
			_, err := repository.Claim(context.Background(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"NOTICE"}, Limit: claimed, Lease: time.Minute})
			require.NoError(t, err)
		}
		scheduler := schedulerWith(t, repository, rule("after"))
		passed := rapid.SampledFrom([]time.Duration{0, almanac.PassedNow, almanac.PassedSkip, 24 * time.Hour}).Draw(t, "passed")
		roll := func(dry bool, size int) ops.RollOutResult {
			done, err := ops.RollOut(context.Background(), scheduler, "NOTICE", ops.RollOutOptions{DryRun: dry, Passed: passed, PageSize: size})
			require.NoError(t, err)
			require.Empty(t, done.Refused)
			require.Empty(t, done.Next)
			require.Equal(t, 7, done.Users)
			return done
		}
		dry := roll(true, 3)
		require.Equal(t, dry.RollOutCounts, roll(true, 1000).RollOutCounts, "a dry run changes nothing")
		run := roll(false, 3)
		require.Equal(t, dry.RollOutCounts, run.RollOutCounts)
		again := roll(false, 2)
		require.Equal(t, ops.RollOutCounts{Users: 7, Unchanged: again.Unchanged, InFlight: run.InFlight}, again.RollOutCounts)
		require.Equal(t, run.Unchanged+run.Refreshed+run.Moved()+run.Added, again.Unchanged)
	})
}

// unsteady fails at chosen calls.
type unsteady struct {
	almanac.Repository
	rosters, edits int // calls so far
	fails          func(call string, n int) error
}

func (u *unsteady) Rosters(ctx context.Context, eventType string, page almanac.Page) (almanac.List[almanac.Roster], error) {
	u.rosters++
	if err := u.fails("rosters", u.rosters); err != nil {
		return almanac.List[almanac.Roster]{}, err
	}
	return u.Repository.Rosters(ctx, eventType, page)
}

// InTransaction makes edits follow one another, so that they can be counted.
func (u *unsteady) InTransaction() bool { return true }

func (u *unsteady) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	u.edits++
	if err := u.fails("edit", u.edits); err != nil {
		return almanac.Edit{}, err
	}
	return u.Repository.EditUser(ctx, id, edit)
}

func TestARollOutTriesPagesAndLockedUsersAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		storedUsers(t, repository, notices(28, 9, ""), 7)
		bad := errors.New("the disk is full")
		u := &unsteady{Repository: repository, fails: func(call string, n int) error {
			switch {
			case call == "rosters" && n == 2:
				return errors.New("no connection")
			case call == "edit" && n == 2:
				return almanac.ErrLocked
			case call == "edit" && n == 4:
				return bad
			}
			return nil
		}}
		done, err := ops.RollOut(t.Context(), schedulerWith(t, u, notices(28, 8, "")), "NOTICE", ops.RollOutOptions{PageSize: 3, Rate: 3000})
		require.NoError(t, err)
		require.Equal(t, 6, done.Users)
		require.Equal(t, 6, done.Moved())
		require.Equal(t, 6, done.Earlier[1], "by up to an hour")
		require.Len(t, done.Refused, 1)
		require.ErrorIs(t, done.Refused[0].Err, bad)
		require.Len(t, done.Examples, 6)
	})
}

// Killed at each call of the database, and continued from the last page that was reported: every user ends
// with the new rule, and nothing is stored twice.
func TestARollOutThatIsKilledContinues(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 10; at++ {
		t.Run(fmt.Sprint("at call ", at), func(t *testing.T) {
			t.Parallel()
			store, err := postgres.New(pgtest.ReusedPool(t))
			require.NoError(t, err)
			storedUsers(t, store, notices(28, 9, ""), 7)
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			calls := 0
			u := &unsteady{Repository: store, fails: func(string, int) error {
				if calls++; calls == at {
					kill()
				}
				return ctx.Err()
			}}
			var reported ops.RollOutResult
			options := ops.RollOutOptions{PageSize: 3, Progress: func(done ops.RollOutResult) { reported = done }}
			_, err = ops.RollOut(ctx, schedulerWith(t, u, notices(28, 8, "")), "NOTICE", options)
			require.ErrorIs(t, err, context.Canceled)

			options.After, options.Progress = reported.Next, nil
			done, err := ops.RollOut(t.Context(), schedulerWith(t, store, notices(28, 8, "")), "NOTICE", options)
			require.NoError(t, err)
			require.Equal(t, 7, reported.Users+done.Users)
			events, err := store.Find(t.Context(), almanac.OfType("NOTICE"), almanac.Page{})
			require.NoError(t, err)
			require.Len(t, events.Items, 7)
			for _, e := range events.Items {
				require.Equal(t, 8, e.Wall.Clock.Hour)
				require.Equal(t, 2, e.Version, "moved once")
			}
		})
	}
}

func TestARollOutRefusesWrongOptions(t *testing.T) {
	t.Parallel()
	s := schedulerWith(t, almanactest.NewRepository(nil), notices(1, 1, ""))
	for _, options := range []ops.RollOutOptions{{Rate: -1}, {PageSize: 1001}, {After: "x"}} {
		_, err := ops.RollOut(t.Context(), s, "NOTICE", options)
		require.ErrorIs(t, err, almanac.ErrInvalid)
	}
	_, err := ops.RollOut(t.Context(), s, "OTHER", ops.RollOutOptions{})
	require.ErrorIs(t, err, almanac.ErrUnsupportedEventType)
}

// See what a changed rule moves, then move it.
func ExampleRollOut() {
	ctx := context.Background()
	now := time.Date(2027, time.June, 1, 0, 0, 0, 0, time.UTC)
	store := almanactest.NewRepository(func() time.Time { return now })
	before := must(almanac.NewScheduler(store, must(almanac.NewRegistry(notices(28, 9, "")))))
	must(before.CreateUsers(ctx, people(3), almanac.CreateUsersOptions{}))

	after := must(almanac.NewScheduler(store, must(almanac.NewRegistry(notices(25, 9, "")))))
	dry := must(ops.RollOut(ctx, after, "NOTICE", ops.RollOutOptions{DryRun: true}))
	fmt.Println("would move", dry.Moved(), "and remove", dry.Removed)
	done := must(ops.RollOut(ctx, after, "NOTICE", ops.RollOutOptions{Rate: 5000}))
	fmt.Println("as the dry run said:", done.RollOutCounts == dry.RollOutCounts)
	// Output:
	// would move 3 and remove 0
	// as the dry run said: true
}
