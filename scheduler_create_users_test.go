package almanac_test

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// folk are users with ids of their host's.
func folk(n int) []almanac.Profile {
	users := make([]almanac.Profile, n)
	for i := range users {
		own := binary.BigEndian.AppendUint64(nil, uint64(i))
		users[i] = almanac.Profile{
			ID: uuid.NewSHA1(uuid.NameSpaceOID, own), FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		}
	}
	return users
}

// each yields the profiles as CreateUsers takes them, none with an error.
func each(users []almanac.Profile) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for _, p := range users {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// stored counts what is there.
func (w *world) stored(t *testing.T) int {
	t.Helper()
	n, err := w.store.Count(t.Context(), nil)
	require.NoError(t, err)
	return n
}

func TestCreateUsersStoresValidUsers(t *testing.T) {
	t.Parallel()
	for name, open := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openOn(open(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			users := folk(25)
			_, err := scheduler.CreateUser(t.Context(), users[3])
			require.NoError(t, err)
			users[7].Timezone, users[7].FirstName = "Mars/Base", ""
			users[16] = almanac.Profile{DateOfBirth: "1990-02-30"}
			users[20].ID = users[2].ID
			<-w.notices
			<-w.notices

			var last almanac.CreateUsersResult
			done, err := scheduler.CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{Batch: 4, Progress: func(d almanac.CreateUsersResult) {
				require.LessOrEqual(t, last.Created+last.Existing+len(last.Refused), d.Created+d.Existing+len(d.Refused)-1)
				last = d
			}})

			require.NoError(t, err)
			require.Equal(t, 21, done.Created)
			require.Equal(t, 21, done.Events)
			require.Equal(t, 2, done.Existing)
			require.Equal(t, last.Created, done.Created, "progress says all in the end")
			require.Len(t, done.Refused, 2)
			var invalid *almanac.ValidationError
			require.Equal(t, 7, done.Refused[0].Position)
			require.Equal(t, users[7].ID, done.Refused[0].UserID)
			require.ErrorAs(t, done.Refused[0].Err, &invalid)
			require.Len(t, invalid.Fields, 2)
			require.Equal(t, 16, done.Refused[1].Position)
			require.ErrorIs(t, done.Refused[1].Err, almanac.ErrInvalid)
			require.Equal(t, 22, w.stored(t))
			received := make(map[almanac.NoticeKind]int)
			for range len(w.notices) {
				n := <-w.notices
				received[n.Kind]++
				if n.Kind == almanac.EventCreated {
					require.Equal(t, w.event(t, n.Event), n.Event, "as stored")
				}
			}
			require.Equal(t, map[almanac.NoticeKind]int{almanac.UserCreated: 21, almanac.EventCreated: 21}, received)

			again, err := scheduler.CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})
			require.NoError(t, err)
			require.Equal(t, 23, again.Existing)
			require.Zero(t, again.Created)
			require.Len(t, again.Refused, 2)
			require.Equal(t, 22, w.stored(t))
			require.Empty(t, w.notices)
		})
	}
}

func TestCreateUsersRefusesExternalIDsThatAreTaken(t *testing.T) {
	t.Parallel()
	for name, open := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openOn(open(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			users := folk(8)
			for i := range users {
				users[i].ExternalID = []string{"a", "b", "c", "", "a", "", "d", "b"}[i]
			}
			_, err := scheduler.CreateUser(t.Context(), users[1])
			require.NoError(t, err)
			<-w.notices
			<-w.notices

			var existing []int
			options := almanac.CreateUsersOptions{Existing: func(position int) { existing = append(existing, position) }}
			done, err := scheduler.CreateUsers(t.Context(), each(users), options)

			require.NoError(t, err)
			require.Equal(t, [4]int{5, 5, 1, 2}, [4]int{done.Created, done.Events, done.Existing, len(done.Refused)})
			require.Equal(t, []int{1}, existing)
			for i, position := range []int{4, 7} {
				var taken *almanac.ExternalIDTakenError
				require.Equal(t, position, done.Refused[i].Position)
				require.ErrorAs(t, done.Refused[i].Err, &taken)
				require.Equal(t, almanac.ExternalIDTakenError{
					UserID: users[position].ID, Holder: users[i].ID, ExternalID: users[position].ExternalID,
				}, *taken)
			}
			require.Len(t, w.notices, 10)
			again, err := scheduler.CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})
			require.NoError(t, err)
			require.Equal(t, 6, again.Existing)
			require.Len(t, again.Refused, 2)
		})
	}
}

func TestCreateUsersRefusesUsersThatAHandlerCannotPlan(t *testing.T) {
	t.Parallel()
	w := openOn(almanactest.NewRepository(nil))
	users := folk(3)
	users[1].FirstName = "Worse"

	done, err := w.scheduler(t, choosy{}).CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})

	require.NoError(t, err)
	require.Equal(t, 2, done.Created)
	require.Len(t, done.Refused, 1)
	require.ErrorContains(t, done.Refused[0].Err, "panicked: worse")
	_, err = w.store.User(t.Context(), users[1].ID)
	require.ErrorIs(t, err, almanac.ErrNotFound)
}

func TestAnInterruptedCreateUsersCanBeRepeated(t *testing.T) {
	t.Parallel()
	for name, open := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openOn(open(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			users := folk(120)
			ctx, kill := context.WithCancel(t.Context())
			defer kill()

			cut, err := scheduler.CreateUsers(ctx, each(users), almanac.CreateUsersOptions{Batch: 10, Progress: func(d almanac.CreateUsersResult) {
				if d.Created >= 30 {
					kill()
				}
			}})
			require.ErrorIs(t, err, context.Canceled)
			require.Less(t, cut.Created, 120)
			require.Equal(t, cut.Created, w.stored(t), "what is stored is what is said")

			rest, err := scheduler.CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{Batch: 10})
			require.NoError(t, err)
			require.Equal(t, cut.Created, rest.Existing)
			require.Equal(t, 120-cut.Created, rest.Created)
			require.Equal(t, 120, w.stored(t))
		})
	}
}

// deadly is a repository that cancels the context of its caller while it stores.
type deadly struct {
	*almanactest.Repository
	kill func()
}

func (r deadly) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	r.kill()
	return r.Repository.CreateUsers(ctx, users)
}

func TestCreateUsersFinishesTheBatchBeingStored(t *testing.T) {
	t.Parallel()
	ctx, kill := context.WithCancel(t.Context())
	w := openOn(deadly{almanactest.NewRepository(nil), kill})

	done, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(ctx, each(folk(100)), almanac.CreateUsersOptions{Batch: 10, Writers: 1})

	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 10, done.Created)
	require.Equal(t, 10, w.stored(t))
}

func TestCreateUsersEndsWithAnErrorOfTheProfiles(t *testing.T) {
	t.Parallel()
	w := openOn(almanactest.NewRepository(nil))
	torn := errors.New("line 8: a quote is not closed")
	users := func(yield func(almanac.Profile, error) bool) {
		for _, p := range folk(7) {
			if !yield(p, nil) {
				return
			}
		}
		yield(almanac.Profile{}, torn)
	}

	done, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), users, almanac.CreateUsersOptions{Batch: 5})

	require.ErrorIs(t, err, torn)
	require.Equal(t, 7, done.Created, "what comes before it is stored")
}

// sick is a repository that fails after so many batches.
type sick struct {
	*almanactest.Repository
	mu   sync.Mutex
	well int
}

var errSick = errors.New("no room on the disk")

func (r *sick) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.well--; r.well < 0 {
		return nil, errSick
	}
	return r.Repository.CreateUsers(ctx, users)
}

func TestCreateUsersEndsWithAnErrorOfTheRepository(t *testing.T) {
	t.Parallel()
	w := openOn(&sick{Repository: almanactest.NewRepository(nil), well: 2})

	done, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(folk(1000)), almanac.CreateUsersOptions{Batch: 5})

	require.ErrorIs(t, err, errSick)
	require.Equal(t, 10, done.Created)
	require.Equal(t, 10, w.stored(t))
}

// unheard is a repository that stores a batch, and whose answer is lost.
type unheard struct{ *almanactest.Repository }

func (r unheard) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	_, err := r.Repository.CreateUsers(ctx, users[:len(users)-1])
	return nil, errors.Join(err, errSick)
}

func TestCreateUsersLooksUpStoredUsersAfterAnError(t *testing.T) {
	t.Parallel()
	repository := almanactest.NewRepository(nil)
	w := openOn(unheard{repository})
	users := folk(5)
	before := almanactest.User()
	before.ID = users[0].ID
	_, _, err := almanactest.CreateUser(t.Context(), repository, before)
	require.NoError(t, err)

	done, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})

	require.ErrorIs(t, err, errSick)
	require.Equal(t, almanac.CreateUsersResult{Created: 3, Events: 3}, almanac.CreateUsersResult{Created: done.Created, Events: done.Events},
		"neither who was there before nor the last, who was not stored")
	require.Equal(t, 3, w.stored(t))
}

func TestCreateUsersStopsItsGoroutinesWhenProfilesPanic(t *testing.T) {
	t.Parallel()
	w := openOn(almanactest.NewRepository(nil))
	users := func(yield func(almanac.Profile, error) bool) {
		yield(folk(1)[0], nil)
		panic("no more")
	}
	require.PanicsWithValue(t, "no more", func() {
		_, _ = w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), users, almanac.CreateUsersOptions{Batch: 1})
	})
	require.Equal(t, 1, w.stored(t))
}

func TestCreateUsersByTwoProcessesAtOnce(t *testing.T) {
	t.Parallel()
	w := open(t)
	users := folk(300)
	var racing sync.WaitGroup
	var done [3]almanac.CreateUsersResult
	for i := range done {
		racing.Go(func() {
			mine := slices.Clone(users)
			if i == 1 {
				slices.Reverse(mine)
			}
			var err error
			done[i], err = w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(mine), almanac.CreateUsersOptions{Batch: 20})
			if err != nil {
				t.Errorf("enrol: %v", err)
			}
		})
	}
	racing.Wait()
	locked := 0 // on a busy machine, another process may store a user for longer than a tenth of a second
	for _, one := range done {
		for _, r := range one.Refused {
			require.ErrorIs(t, r.Err, almanac.ErrLocked)
			locked++
		}
	}
	require.Equal(t, 300, done[0].Created+done[1].Created+done[2].Created)
	require.Equal(t, 600, done[0].Existing+done[1].Existing+done[2].Existing+locked)
	require.Equal(t, 300, w.stored(t))
}

func TestCreateUsersWakesRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		soon := time.Now().UTC().Add(10 * time.Second)
		at := calendar.WallTimeOf(soon).Clock
		late := make(chan time.Duration, 1)
		deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
			late <- time.Since(soon)
			return nil
		})
		scheduler := w.run(t, greetAt(at), almanac.WithPoll(time.Hour), almanac.WithDeliverer(almanac.ChannelWebhook, deliver))
		synctest.Wait()

		_, err := scheduler.CreateUsers(t.Context(), each([]almanac.Profile{born(t, "UTC", 0)}), almanac.CreateUsersOptions{})

		require.NoError(t, err)
		require.Zero(t, (<-late).Truncate(time.Microsecond), "to which the clock of the repository is exact")
		require.NoError(t, w.stop())
	})
}

func TestCreateUsersNamesOptionsOutOfRange(t *testing.T) {
	t.Parallel()
	w := openOn(almanactest.NewRepository(nil))
	for _, options := range []almanac.CreateUsersOptions{{Batch: -1, Writers: -1}, {Batch: 1001, Writers: 65}} {
		_, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(folk(1)), options)
		var invalid *almanac.ValidationError
		require.ErrorAs(t, err, &invalid)
		require.Len(t, invalid.Fields, 2)
	}
	require.Zero(t, w.stored(t))
}
