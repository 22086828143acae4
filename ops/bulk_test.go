package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
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

// twoOfEach has pairs of empty repositories of each kind.
var twoOfEach = map[string]func(t *testing.T) [2]almanac.Repository{
	"in memory": func(*testing.T) [2]almanac.Repository {
		return [2]almanac.Repository{almanactest.NewRepository(nil), almanactest.NewRepository(nil)}
	},
	"in PostgreSQL": func(t *testing.T) (pair [2]almanac.Repository) {
		for i := range pair {
			store, err := postgres.New(pgtest.Pool(t))
			require.NoError(t, err)
			pair[i] = store
		}
		return pair
	},
}

// side is one of two schedulers that must do the same.
type side struct {
	almanac.Scheduler
	repository almanac.Repository

	mu      sync.Mutex
	notices []string
}

func newSide(t *testing.T, r almanac.Repository, handlers ...almanac.EventHandler) *side {
	t.Helper()
	registry, err := almanac.NewRegistry(handlers...)
	require.NoError(t, err)
	narrow, err := calendar.ParseWindow("Mo-Su 08:00-08:01")
	require.NoError(t, err)
	s := &side{repository: r}
	s.Scheduler, err = almanac.NewScheduler(r, registry, almanac.WithLogger(slog.New(slog.DiscardHandler)), almanac.WithObserver(s), almanac.WithWindow(func(u almanac.User) calendar.Window {
		if u.FirstName == "Night" {
			return narrow
		}
		return calendar.Window{}
	}))
	require.NoError(t, err)
	return s
}

// Observe records what a notice is about, but for what differs from run to run.
func (s *side) Observe(_ context.Context, n almanac.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := n.User.ID
	if id == uuid.Nil {
		id = n.Event.UserID
	}
	s.notices = append(s.notices, fmt.Sprintln(id, n.Kind, n.Event.Type, n.Event.Status, n.Event.Version, n.User.Version))
}

// taken returns the notices since the last call, sorted: events that were created in one millisecond have ids in any order.
func (s *side) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.notices
	s.notices = nil
	slices.Sort(list)
	return list
}

// outline is what an event has in common with that of the other side.
func outline(e almanac.Event) string {
	if e.ID == uuid.Nil {
		return ""
	}
	return fmt.Sprintln(e.UserID, e.Type, e.Series, e.OccurrenceKey, e.Status, e.Version, e.FailureReason, e.Origin.Kind, e.Wall.Date, e.Zone, string(e.Payload))
}

func outlines(t *testing.T, r almanac.Repository) (all []string) {
	t.Helper()
	for page := (almanac.Page{Limit: 1000}); ; {
		found, err := r.Find(t.Context(), nil, page)
		require.NoError(t, err)
		for _, e := range found.Items {
			all = append(all, outline(e))
		}
		if page.After = found.Next; page.After == "" {
			slices.Sort(all)
			return all
		}
	}
}

// kindOf is what errors of both sides have in common.
func kindOf(err error) string {
	for _, is := range []error{
		almanac.ErrNotFound, almanac.ErrInvalidStateTransition, almanac.ErrOptimisticLock, almanac.ErrExists,
		almanac.ErrOptedOut, almanac.ErrUnsupportedEventType, almanac.ErrLocked,
	} {
		if errors.Is(err, is) {
			return is.Error()
		}
	}
	if errors.As(err, new(*almanac.SuccessorError)) {
		return "successor"
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

var digest = almanac.Recurring{Type: "DIGEST", Rule: func(u almanac.User) (calendar.Recurrence, error) {
	return calendar.Daily{At: calendar.Clock{Hour: 9}}, nil
}}

var errPuzzling = errors.New("puzzling")

// puzzled has no second occurrence for some users.
var puzzled = almanac.Recurring{Type: "PUZZLE", Rule: func(u almanac.User) (calendar.Recurrence, error) {
	if u.LastName == "Puzzling" {
		return nil, errPuzzling
	}
	return calendar.Daily{At: calendar.Clock{Hour: 10}}, nil
}}

// Operations on many events have the results, the notices and the stored events of operations on one event each.
func TestOperateDoesWhatSingleCallsDo(t *testing.T) {
	t.Parallel()
	for where, pair := range twoOfEach {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			repositories := pair(t)
			var sides [2]*side
			for i, r := range repositories {
				sides[i] = prepared(t, r, rand.New(rand.NewPCG(seed, 1)))
			}
			random := rand.New(rand.NewPCG(seed, 2))
			for range 6 {
				what := []ops.Operation{ops.Cancel, ops.RunNow, ops.Requeue}[random.IntN(3)]
				which := []almanac.Spec{nil, almanac.OfType("DIGEST"), almanac.OfType("PUZZLE")}[random.IntN(3)]
				options := ops.OperateOptions{
					Cancel:  almanac.CancelOptions{Reason: "drawn", EndSeries: random.IntN(2) == 0},
					RunNow:  almanac.ForceOptions{Force: random.IntN(2) == 0},
					Requeue: almanac.ForceOptions{Force: random.IntN(2) == 0},
				}
				dry := options
				dry.DryRun = true
				found, err := ops.Operate(t.Context(), sides[1], what, which, dry)
				require.NoError(t, err)

				many, err := ops.Operate(t.Context(), sides[0], what, which, options)
				require.NoError(t, err)
				var single ops.OperateResult
				for _, e := range found.Events {
					stored, unplanned, err := operateOn(t.Context(), sides[1], what, e.ID, options)
					switch {
					case err != nil:
						single.Refused = append(single.Refused, almanac.Refusal{EventID: e.ID, Err: err})
					default:
						single.Events = append(single.Events, stored)
						if unplanned {
							single.Unplanned++
						}
					}
				}
				texts := func(r ops.OperateResult) (all []string) {
					for _, e := range r.Events {
						all = append(all, outline(e))
					}
					for _, one := range r.Refused {
						all = append(all, kindOf(one.Err))
					}
					slices.Sort(all)
					return append(all, fmt.Sprint(r.Unplanned))
				}
				require.Equal(t, texts(single), texts(many), what)
				require.Equal(t, outlines(t, repositories[1]), outlines(t, repositories[0]), what)
				require.Equal(t, sides[1].taken(), sides[0].taken(), what)
			}
		})
	}
}

func operateOn(ctx context.Context, s almanac.Scheduler, what ops.Operation, id uuid.UUID, options ops.OperateOptions) (almanac.Event, bool, error) {
	switch what {
	case ops.Cancel:
		done, err := s.Cancel(ctx, id, options.Cancel)
		return done.Event, done.Unplanned, err
	case ops.RunNow:
		e, err := s.RunNow(ctx, id, options.RunNow)
		return e, false, err
	}
	e, err := s.Requeue(ctx, id, options.Requeue)
	return e, false, err
}

// prepared stores users with events of each status. Equal random numbers store the same.
func prepared(t *testing.T, r almanac.Repository, random *rand.Rand) *side {
	t.Helper()
	s := newSide(t, r, almanac.Birthday{}, digest, puzzled)
	other := newSide(t, r, almanac.Birthday{}, digest, puzzled, almanac.Recurring{Type: "FOREIGN", Rule: digest.Rule})
	id := func() (u uuid.UUID) {
		for i := range u {
			u[i] = byte(random.UintN(256))
		}
		return u
	}
	for range 25 {
		p := almanac.Profile{ID: id(), FirstName: []string{"Ada", "Night"}[random.IntN(2)], LastName: "Lovelace", DateOfBirth: "1990-03-15", Timezone: "Asia/Tokyo"}
		planner := almanac.Scheduler(s)
		if random.IntN(3) == 0 {
			planner = other
		}
		created, err := planner.CreateUser(t.Context(), p)
		require.NoError(t, err)
		for _, e := range created.Events {
			if random.IntN(3) > 0 {
				continue
			}
			_, err := other.RunNow(t.Context(), e.ID, almanac.ForceOptions{Force: true})
			require.NoError(t, err)
			claim, err := r.Claim(t.Context(), almanac.ClaimRequest{
				Token: uuid.New(), Types: []string{almanac.TypeBirthday, "DIGEST", "PUZZLE", "FOREIGN"}, Limit: 10, Lease: time.Minute,
			})
			require.NoError(t, err)
			require.Len(t, claim.Events, 1)
			_, err = r.Settle(t.Context(), []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.GaveUp("HTTP 404")}})
			require.NoError(t, err)
		}
		switch random.IntN(6) {
		case 0:
			_, err = s.UpdateUser(t.Context(), p.ID, almanac.ProfileChange{OptOut: []almanac.OptOut{{Type: "DIGEST"}}})
			require.NoError(t, err)
		case 1:
			_, err = r.EditUser(t.Context(), p.ID, func(r almanac.Roster) (almanac.Edit, error) {
				u := r.User
				u.LastName = "Puzzling"
				u.Version++
				return almanac.Edit{User: &u}, nil
			})
			require.NoError(t, err)
		}
	}
	s.taken()
	return s
}

func sequence(profiles []almanac.Profile) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for _, p := range profiles {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// A nightly import writes what differs, and does it as single calls do.
func TestPutUsersDoesWhatSingleCallsDo(t *testing.T) {
	t.Parallel()
	for where, pair := range twoOfEach {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 3))
			repositories := pair(t)
			many, single := newSide(t, repositories[0], almanac.Birthday{}, digest), newSide(t, repositories[1], almanac.Birthday{}, digest)
			profile := func(i int) almanac.Profile {
				p := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: fmt.Sprintf("1990-03-%02d", random.IntN(28)+1), Timezone: []string{"UTC", "Asia/Tokyo", "no zone"}[min(random.IntN(20), 2)]}
				p.ID = uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i))
				p.ExternalID = fmt.Sprint(i)
				if random.IntN(4) == 0 {
					p.Attributes = json.RawMessage(fmt.Sprintf(`{"b": %d.0, "a": [1e1]}`, random.IntN(2)))
				}
				if random.IntN(6) == 0 {
					p.OptOuts = []almanac.OptOut{{Type: "DIGEST"}}
				}
				return p
			}
			for range 3 {
				var profiles []almanac.Profile
				for range 40 {
					profiles = append(profiles, profile(random.IntN(30)))
				}
				done, err := ops.PutUsers(t.Context(), many, sequence(profiles), ops.PutUsersOptions{})
				require.NoError(t, err)
				var want ops.PutUsersResult
				for i, p := range profiles {
					putOne(t, single, &want, i, p)
				}
				require.Equal(t, len(want.Refused), len(done.Refused))
				want.Refused, done.Refused = nil, nil
				require.Equal(t, want, done)
				require.Equal(t, outlines(t, repositories[1]), outlines(t, repositories[0]))
				require.Equal(t, single.taken(), many.taken())

				again := profiles[:0]
				for _, p := range profiles {
					if u, err := many.repository.UserByExternalID(t.Context(), p.ExternalID); err == nil {
						again = append(again, almanac.Profile{ExternalID: p.ExternalID, FirstName: u.FirstName, Timezone: u.Timezone.String(), DateOfBirth: u.DateOfBirth.String(), Attributes: u.Attributes})
					}
				}
				for _, dry := range []bool{true, false} {
					done, err = ops.PutUsers(t.Context(), many, sequence(again), ops.PutUsersOptions{DryRun: dry})
					require.NoError(t, err)
					require.Equal(t, ops.PutUsersResult{Unchanged: len(again)}, done)
				}
				require.Empty(t, many.taken())
			}
		})
	}
}

// Changes of many users have the results, errors and notices of single changes, also if a user comes twice.
func TestUpdateUsersDoesWhatSingleCallsDo(t *testing.T) {
	t.Parallel()
	for where, pair := range twoOfEach {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			repositories := pair(t)
			many, single := newSide(t, repositories[0], almanac.Birthday{}), newSide(t, repositories[1], almanac.Birthday{})
			var ids []uuid.UUID
			for i := range 20 {
				id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i))
				for _, s := range []*side{many, single} {
					_, err := s.CreateUser(t.Context(), almanac.Profile{ID: id, FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-03-15", Timezone: "UTC"})
					require.NoError(t, err)
				}
				ids = append(ids, id)
			}
			ids = append(ids, uuid.New(), ids[0], ids[0]) // unknown, and twice
			zones := []string{"Asia/Tokyo", "nowhere", "UTC"}
			changes := make([]almanac.ProfileChange, len(ids))
			for i := range changes {
				changes[i] = almanac.ProfileChange{Timezone: &zones[i%3], Merge: fmt.Appendf(nil, `{"n": %d}`, i), Version: i % 4}
			}
			changes[len(ids)-1] = almanac.ProfileChange{OptOut: []almanac.OptOut{{Type: "BIRTHDAY"}}}

			results, errs := many.UpdateUsers(t.Context(), ids, changes)

			for i, id := range ids {
				want, err := single.UpdateUser(t.Context(), id, changes[i])
				require.Equal(t, kindOf(err), kindOf(errs[i]), i)
				require.Equal(t, []int{want.User.Version, len(want.Added), len(want.Moved), len(want.Removed)},
					[]int{results[i].User.Version, len(results[i].Added), len(results[i].Moved), len(results[i].Removed)}, i)
			}
			require.Equal(t, single.taken(), many.taken())
			require.Equal(t, outlines(t, repositories[1]), outlines(t, repositories[0]))
			_, errs = many.UpdateUsers(t.Context(), ids[:2], changes[:1])
			require.ErrorIs(t, errs[1], almanac.ErrInvalid)
		})
	}
}

// putOne creates or changes a user by single calls.
func putOne(t *testing.T, s *side, done *ops.PutUsersResult, i int, p almanac.Profile) {
	t.Helper()
	refuse := func(err error) { done.Refused = append(done.Refused, almanac.Refusal{Position: i, Err: err}) }
	was, err := s.repository.User(t.Context(), p.ID)
	if errors.Is(err, almanac.ErrNotFound) {
		created, err := s.CreateUser(t.Context(), p)
		if err != nil {
			refuse(err)
			return
		}
		done.Created++
		done.Added += len(created.Events)
		return
	}
	require.NoError(t, err)
	c := almanac.ProfileChange{Attributes: p.Attributes, OptOut: p.OptOuts}
	if p.DateOfBirth != was.DateOfBirth.String() {
		c.DateOfBirth = &p.DateOfBirth
	}
	if p.Timezone != was.Timezone.String() {
		c.Timezone = &p.Timezone
	}
	var a, b any
	require.NoError(t, json.Unmarshal(was.Attributes, &a))
	if p.Attributes != nil {
		require.NoError(t, json.Unmarshal(p.Attributes, &b))
	}
	if fmt.Sprint(a) == fmt.Sprint(b) {
		c.Attributes = nil
	}
	if c.DateOfBirth == nil && c.Timezone == nil && c.Attributes == nil && (len(c.OptOut) == 0 || len(was.OptOuts) > 0) {
		done.Unchanged++
		return
	}
	result, err := s.UpdateUser(t.Context(), p.ID, c)
	if err != nil {
		refuse(err)
		return
	}
	done.Changed++
	done.Added += len(result.Added)
	done.Moved += len(result.Moved)
	done.Removed += len(result.Removed) + len(result.Cancelled)
}

// A dry run counts, and reports what would be refused.
func TestPutUsersCountsInADryRun(t *testing.T) {
	t.Parallel()
	r := almanactest.NewRepository(nil)
	s := newSide(t, r, almanac.Birthday{})
	known := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-03-15", Timezone: "UTC", ExternalID: "1"}
	_, err := s.CreateUser(t.Context(), known)
	require.NoError(t, err)
	s.taken()
	changed, added, bad, nameless := known, known, known, known
	changed.Timezone, added.ExternalID, bad.Timezone, nameless.ExternalID = "Asia/Tokyo", "2", "nowhere", ""

	done, err := ops.PutUsers(t.Context(), s, sequence([]almanac.Profile{known, changed, added, bad, nameless}), ops.PutUsersOptions{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 1}, []int{done.Created, done.Changed, done.Unchanged})
	require.Len(t, done.Refused, 2)
	require.Equal(t, 3, done.Refused[0].Position)
	require.Equal(t, 4, done.Refused[1].Position)
	require.Empty(t, s.taken())
	_, err = r.UserByExternalID(t.Context(), "2")
	require.ErrorIs(t, err, almanac.ErrNotFound)

	errBroken := errors.New("the file is cut")
	done, err = ops.PutUsers(t.Context(), s, func(yield func(almanac.Profile, error) bool) {
		_ = yield(added, nil) && yield(almanac.Profile{}, errBroken)
	}, ops.PutUsersOptions{})
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, 1, done.Created)
}

// An external id that a user gives up in the same call is no longer that user's.
func TestPutUsersDoesNotChangeAUserWhoGaveUpTheExternalID(t *testing.T) {
	t.Parallel()
	r := almanactest.NewRepository(nil)
	s := newSide(t, r, almanac.Birthday{})
	ada := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-03-15", Timezone: "UTC", ExternalID: "X"}
	created, err := s.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	renamed, bob := ada, ada
	renamed.ID, renamed.ExternalID, bob.FirstName = created.User.ID, "Y", "Bob"

	done, err := ops.PutUsers(t.Context(), s, sequence([]almanac.Profile{renamed, bob}), ops.PutUsersOptions{})
	require.NoError(t, err)
	require.Len(t, done.Refused, 1)
	require.ErrorIs(t, done.Refused[0].Err, almanac.ErrOptimisticLock)
	again, err := ops.PutUsers(t.Context(), s, sequence([]almanac.Profile{renamed, bob}), ops.PutUsersOptions{})
	require.NoError(t, err)
	require.Equal(t, []int{1, 0, 1}, []int{again.Created, again.Changed, again.Unchanged})
	is, err := r.User(t.Context(), created.User.ID)
	require.NoError(t, err)
	require.Equal(t, "Ada Y", is.FirstName+" "+is.ExternalID)
}

func TestPutUsersCreatesAUserWithAnExternalIDThatAChangeGivesUp(t *testing.T) {
	t.Parallel()
	for name, repositories := range twoOfEach {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry, err := almanac.NewRegistry(almanac.Birthday{})
			require.NoError(t, err)
			s, err := almanac.NewScheduler(repositories(t)[0], registry, almanac.WithLogger(slog.New(slog.DiscardHandler)))
			require.NoError(t, err)
			put := func(profiles ...almanac.Profile) ops.PutUsersResult {
				done, err := ops.PutUsers(t.Context(), s, func(yield func(almanac.Profile, error) bool) {
					for _, p := range profiles {
						if !yield(p, nil) {
							return
						}
					}
				}, ops.PutUsersOptions{})
				require.NoError(t, err)
				require.Empty(t, done.Refused)
				return done
			}
			first := almanac.Profile{ID: uuid.New(), ExternalID: "4711", FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"}
			second := first
			second.ID = uuid.New()
			require.Equal(t, 1, put(first).Created)
			first.ExternalID = "old-4711"

			done := put(second, first)

			require.Equal(t, []int{1, 1}, []int{done.Created, done.Changed})
		})
	}
}
