package ops_test

import (
	"bytes"
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
		rehearsed := func(o ops.RehearseOptions) []ops.RehearseCount {
			o.For = 70 * 24 * time.Hour
			users := new(bytes.Buffer)
			_, err := ops.CopyUsers(context.Background(), repository, []string{"NOTICE"}, users, ops.CopyUsersOptions{})
			require.NoError(t, err)
			is, err := ops.Rehearse(context.Background(), scheduler, users, o)
			require.NoError(t, err)
			return is.Counts
		}
		next := rehearsed(ops.RehearseOptions{RollOut: true, Passed: passed})
		run := roll(false, 3)
		require.Equal(t, next, rehearsed(ops.RehearseOptions{}), "the same events as a rehearsal of the roll-out")
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

func (u *unsteady) Rosters(ctx context.Context, types []string, page almanac.Page) (almanac.List[almanac.Roster], error) {
	u.rosters++
	if err := u.fails("rosters", u.rosters); err != nil {
		return almanac.List[almanac.Roster]{}, err
	}
	return u.Repository.Rosters(ctx, types, page)
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

// refusal is an error about a row.
type refusal struct{ error }

func (refusal) SafeToRetry() bool { return true }
func (refusal) Refused() bool     { return true }

func TestARollOutTriesPagesAndLockedUsersAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		storedUsers(t, repository, notices(28, 9, ""), 7)
		bad := refusal{errors.New("a trigger does not agree")}
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

// Wherever the database fails, up to four times between two edits: no user is refused, and each is
// counted once.
func TestARollOutEditsUsersAgainWhenTheDatabaseFails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		failures, inRow, call := rapid.SliceOfN(rapid.Bool(), 60, 60).Draw(rt, "failures"), 0, 0
		options := ops.RollOutOptions{PageSize: rapid.IntRange(1, 8).Draw(rt, "page")}
		synctest.Test(t, func(t *testing.T) {
			repository := almanactest.NewRepository(nil)
			storedUsers(t, repository, notices(28, 9, ""), 7)
			u := &unsteady{Repository: repository, fails: func(of string, _ int) error {
				if call++; call < len(failures) && failures[call] && inRow < 4 {
					inRow++
					return errors.New("connection lost")
				}
				if of == "edit" {
					inRow = 0
				}
				return nil
			}}
			done, err := ops.RollOut(t.Context(), schedulerWith(t, u, notices(28, 8, "")), "NOTICE", options)
			require.NoError(t, err)
			require.Empty(t, done.Refused)
			require.Equal(t, 7, done.Users)
			require.Equal(t, 7, done.Moved())
		})
	})
}

func TestARollOutEndsWhenTheDatabaseFailsForEachUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		storedUsers(t, repository, notices(28, 9, ""), 7)
		full := errors.New("the disk is full")
		u := &unsteady{Repository: repository, fails: func(call string, n int) error {
			if call == "edit" && n > 3 {
				return full
			}
			return nil
		}}
		done, err := ops.RollOut(t.Context(), schedulerWith(t, u, notices(28, 8, "")), "NOTICE", ops.RollOutOptions{})
		require.ErrorIs(t, err, full)
		require.Empty(t, done.Refused)
		require.Equal(t, 3, done.Users)
		require.Equal(t, 3+1+5+1, u.edits, "the first failure goes on, five more do not, and the next user fails, too")

		u.fails = func(string, int) error { return nil }
		rest, err := ops.RollOut(t.Context(), schedulerWith(t, u, notices(28, 8, "")), "NOTICE", ops.RollOutOptions{After: done.Next})
		require.NoError(t, err)
		require.Equal(t, 4, rest.Moved())
	})
}

// One user's edit always fails while others are stored: this user alone is refused, at the end.
func TestARollOutGoesPastAUserForWhomTheDatabaseAlwaysFails(t *testing.T) {
	t.Parallel()
	store, err := postgres.New(pgtest.ReusedPool(t))
	require.NoError(t, err)
	storedUsers(t, store, notices(28, 9, ""), 40)
	first, err := store.FindUsers(t.Context(), almanac.UserFilter{}, almanac.Page{Limit: 5})
	require.NoError(t, err)
	slow := failing{store, first.Items[4].ID, errors.New("the statement took too long")}
	done, err := ops.RollOut(t.Context(), schedulerWith(t, slow, notices(28, 8, "")), "NOTICE", ops.RollOutOptions{PageSize: 20})
	require.NoError(t, err)
	require.Equal(t, 39, done.Moved())
	require.Equal(t, 39, done.Users)
	require.Len(t, done.Refused, 1)
	require.Equal(t, slow.user, done.Refused[0].UserID)
	require.ErrorIs(t, done.Refused[0].Err, slow.err)
}

// failing always fails for one user.
type failing struct {
	almanac.Repository
	user uuid.UUID
	err  error
}

func (f failing) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	if id == f.user {
		return almanac.Edit{}, f.err
	}
	return f.Repository.EditUser(ctx, id, edit)
}

// Connections are dropped in the middle of edits, more often than the store repeats an edit.
func TestARollOutSurvivesConnectionsThatAreDropped(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	storedUsers(t, store, notices(28, 9, ""), 50)
	_, err = pool.Exec(t.Context(), `
		CREATE SEQUENCE public.attempts; -- which no rollback sets back
		CREATE FUNCTION public.drop_connection() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('public.attempts') % 40 < 30 AND (SELECT last_value FROM public.attempts) < 110 THEN
				PERFORM pg_terminate_backend(pg_backend_pid());
			END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER drop_connection BEFORE UPDATE ON almanac.series FOR EACH STATEMENT EXECUTE FUNCTION public.drop_connection()`)
	require.NoError(t, err)
	done, err := ops.RollOut(t.Context(), schedulerWith(t, store, notices(28, 8, "")), "NOTICE", ops.RollOutOptions{PageSize: 30})
	require.NoError(t, err)
	require.Empty(t, done.Refused)
	require.Equal(t, 50, done.Users)
	require.Equal(t, 50, done.Moved())
	var attempts int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT last_value FROM public.attempts").Scan(&attempts))
	require.Greater(t, attempts, 110)
}

// A mandatory type becomes one that users can refuse: a dry run counts the events that the run cancels.
func TestARollOutCountsTheEventsThatItCancels(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, time.January, 3, 0, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	rule := notices(0, 9, "").(almanac.Recurring)
	rule.OverrideOptOuts = true
	storedUsers(t, repository, rule, 3)
	before := schedulerWith(t, repository, rule)
	now = now.AddDate(0, 0, 2)
	claim, err := repository.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{"NOTICE"}, Limit: 2, Lease: time.Minute})
	require.NoError(t, err)
	for _, e := range claim.Events {
		_, err := repository.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour)}})
		require.NoError(t, err)
		_, err = before.OptOut(t.Context(), e.UserID, almanac.OptOut{Type: "NOTICE"})
		require.NoError(t, err)
	}
	rule.OverrideOptOuts = false
	after := schedulerWith(t, repository, rule)
	dry, err := ops.RollOut(t.Context(), after, "NOTICE", ops.RollOutOptions{DryRun: true})
	require.NoError(t, err)
	run, err := ops.RollOut(t.Context(), after, "NOTICE", ops.RollOutOptions{})
	require.NoError(t, err)
	require.Equal(t, ops.RollOutCounts{Users: 3, Unchanged: 1, Cancelled: 2}, dry.RollOutCounts)
	require.Equal(t, dry.RollOutCounts, run.RollOutCounts)
	require.Len(t, run.Examples, 2)
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

// Two hundred users whose events move earlier must not hide the few that are removed, added or due at once.
func TestARollOutShowsExamplesOfEachKind(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, time.March, 26, 12, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	zones := func(none, same, late string) almanac.EventHandler {
		return almanac.Recurring{Type: "NOTICE", Rule: func(u almanac.User) (calendar.Recurrence, error) {
			switch u.Timezone.String() {
			case none:
				return nil, nil
			case same:
				return calendar.Monthly{Day: 28, At: calendar.Clock{Hour: 9}}, nil
			case late:
				return calendar.Monthly{Day: 25, At: calendar.Clock{Hour: 9}}, nil
			default:
				return calendar.Monthly{Day: 29, At: calendar.Clock{Hour: 9}}, nil
			}
		}}
	}
	storedUsers(t, repository, zones("", "Europe/Berlin", ""), 200) // also Kolkata and New York, on the 29th
	schedule := func(dry bool) ops.RollOutResult {
		after := zones("Asia/Kolkata", "America/New_York", "Europe/Berlin")
		done, err := ops.RollOut(t.Context(), schedulerWith(t, repository, after), "NOTICE", ops.RollOutOptions{DryRun: dry, Passed: almanac.PassedNow, PageSize: 30})
		require.NoError(t, err)
		return done
	}
	kinds := func(done ops.RollOutResult) (text []string) {
		for _, e := range done.Examples {
			switch {
			case e.Is.ID == uuid.Nil:
				text = append(text, "removed "+e.Was.Zone)
			case !e.Is.Due.After(now):
				text = append(text, "due at once "+e.Is.Zone)
			default:
				text = append(text, "moved "+e.Is.Zone)
			}
		}
		return text
	}
	dry := schedule(true)
	moved, due, removed := "moved America/New_York", "due at once Europe/Berlin", "removed Asia/Kolkata"
	require.Equal(t, []string{moved, moved, moved, moved, due, due, due, removed, removed, removed}, kinds(dry))
	require.Equal(t, dry.Examples, schedule(true).Examples)
	require.Equal(t, kinds(dry), kinds(schedule(false)))
}
