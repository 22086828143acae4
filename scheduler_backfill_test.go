package almanac_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
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

// choosy is another type of event, which not every user has.
type choosy struct{ almanac.Birthday }

func (choosy) EventType() string { return "CHOOSY" }

func (c choosy) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	switch u.FirstName {
	case "Unplanned":
		return calendar.Occurrence{}, calendar.ErrNoOccurrence
	case "Bad":
		return calendar.Occurrence{}, errors.New("bad")
	case "Worse":
		panic("worse")
	}
	return c.Birthday.Next(u, after)
}

// countNotices counts the notices that observers have got by now.
func (w *world) countNotices(kind almanac.NoticeKind) int {
	received := 0
	for range len(w.notices) {
		if n := <-w.notices; n.Kind == kind {
			received++
		}
	}
	return received
}

func TestBackfillStoresEventsForUsersWithoutOne(t *testing.T) {
	t.Parallel()
	for name, open := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openOn(open(t))
			users := folk(12)
			users[2].FirstName, users[5].FirstName, users[9].FirstName = "Unplanned", "Bad", "Worse"
			_, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})
			require.NoError(t, err)
			scheduler := w.schedulerOf(t, []almanac.EventHandler{almanac.Birthday{}, choosy{}})
			early, err := scheduler.Schedule(t.Context(), users[7].ID, "CHOOSY")
			require.NoError(t, err)
			w.countNotices(almanac.EventCreated)

			done, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{})

			require.NoError(t, err)
			require.Equal(t, 12, done.Users)
			require.Equal(t, 8, done.Events)
			require.Empty(t, done.Next)
			refused := make(map[uuid.UUID]string)
			for _, r := range done.Refused {
				refused[r.UserID] = r.Err.Error()
			}
			require.Len(t, refused, 2)
			require.Equal(t, `almanac: handler of "CHOOSY": bad`, refused[users[5].ID])
			require.Contains(t, refused[users[9].ID], "panicked: worse")
			require.Equal(t, 8, w.countNotices(almanac.EventCreated))
			require.Equal(t, 12+9, w.stored(t))
			require.Equal(t, early[0], w.event(t, early[0]), "who had one keeps it")

			again, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{})
			require.NoError(t, err)
			require.Zero(t, again.Events)
			require.Equal(t, 12+9, w.stored(t))
		})
	}
}

// twice is a repository that plans for a page a second time, when some users are locked.
type twice struct{ almanac.Repository }

func (r twice) AddEvents(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) (almanac.AddEventsResult, error) {
	added, err := r.Repository.AddEvents(ctx, eventType, page, plan)
	if page.Limit == 1 || err != nil {
		return added, err
	}
	users, err := r.FindUsers(ctx, almanac.UserFilter{}, almanac.Page{})
	for _, u := range users.Items {
		if u.FirstName == "Bad" {
			added.Users, added.Locked = added.Users-1, append(added.Locked, u.ID)
		}
	}
	return added, err
}

// The handler refused a user in the first attempt. In the second one the user was locked, so Backfill tries the user again.
func TestBackfillRefusesNoUserTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(twice{almanactest.NewRepository(nil)})
		users := folk(3)
		users[0].FirstName = "Bad"
		_, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})
		require.NoError(t, err)

		done, err := w.scheduler(t, choosy{}).Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{})

		require.NoError(t, err)
		require.Equal(t, 3, done.Users)
		require.Len(t, done.Refused, 1)
		require.ErrorContains(t, done.Refused[0].Err, "bad")
	})
}

// Users who were locked until a call is interrupted are refused, because the next call continues after them.
func TestAnInterruptedBackfillNamesTheLockedUsers(t *testing.T) {
	t.Parallel()
	for name, rate := range map[string]int{"before the next page": 2, "before it tries them again": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := openOn(twice{almanactest.NewRepository(nil)})
				users := folk(4)
				users[0].FirstName = "Bad"
				_, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})
				require.NoError(t, err)
				ctx, interrupt := context.WithCancel(t.Context())

				done, err := w.scheduler(t, choosy{}).Backfill(ctx, "CHOOSY", almanac.BackfillOptions{Rate: rate, Progress: func(almanac.BackfillResult) { interrupt() }})

				require.ErrorIs(t, err, context.Canceled)
				require.Len(t, done.Refused, 1)
				require.ErrorIs(t, done.Refused[0].Err, almanac.ErrLocked)
				require.Equal(t, rate == 0, done.Next == "")
			})
		})
	}
}

func TestBackfillKeepsItsRateAndContinuesFromItsCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		_, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(folk(45)), almanac.CreateUsersOptions{})
		require.NoError(t, err)
		scheduler := w.scheduler(t, choosy{})
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		began := time.Now()
		options := almanac.BackfillOptions{Rate: 10, Progress: func(d almanac.BackfillResult) {
			if d.Users == 20 {
				kill()
			}
		}}

		cut, err := scheduler.Backfill(ctx, "CHOOSY", options)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 20, cut.Events)
		require.Equal(t, time.Second, time.Since(began), "ten at once, and ten a second later")
		require.Equal(t, 45+20, w.stored(t))

		options.After = cut.Next
		rest, err := scheduler.Backfill(t.Context(), "CHOOSY", options)
		require.NoError(t, err)
		require.Equal(t, 25, rest.Users, "no user is examined twice")
		require.Equal(t, 25, rest.Events)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestBackfillNeverRepeatsAUsedOccurrence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // on the first of January 2000
		repository := almanactest.NewRepository(nil)
		w := openOn(repository)
		u := almanactest.User(almanactest.BornOn("1990-12-10"))
		_, _, err := almanactest.CreateUser(t.Context(), repository, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.Of("2000")))
		require.NoError(t, err)
		claim, err := repository.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute})
		require.NoError(t, err)
		_, err = repository.Settle(t.Context(), []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.Delivered(time.Now())}})
		require.NoError(t, err)

		done, err := w.scheduler(t, almanac.Birthday{}).Backfill(t.Context(), almanac.TypeBirthday, almanac.BackfillOptions{})

		require.NoError(t, err)
		require.Equal(t, 1, done.Events)
		require.Equal(t, "2001", almanactest.PendingEvent(t, repository, u.ID, almanac.TypeBirthday).OccurrenceKey)
	})
}

func TestBackfillWhileAllUsersMove(t *testing.T) {
	t.Parallel()
	w := open(t)
	users := folk(100)
	_, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})
	require.NoError(t, err)
	scheduler := w.schedulerOf(t, []almanac.EventHandler{almanac.Birthday{}, choosy{}})
	var racing sync.WaitGroup
	for range 2 {
		racing.Go(func() {
			if _, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{}); err != nil {
				t.Errorf("backfill: %v", err)
			}
		})
	}
	for i := range 4 {
		racing.Go(func() {
			for _, p := range users[25*i : 25*(i+1)] {
				if _, err := scheduler.UpdateUser(t.Context(), p.ID, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")}); err != nil {
					t.Errorf("update: %v", err)
				}
			}
		})
	}
	racing.Wait()
	for _, p := range users {
		require.Equal(t, "Asia/Tokyo", almanactest.PendingEvent(t, w.store, p.ID, "CHOOSY").Zone)
	}
	require.Equal(t, 200, w.stored(t))
}

func TestBackfillListsRefusedUsers(t *testing.T) {
	t.Parallel()
	w := openOn(almanactest.NewRepository(nil))
	scheduler := w.scheduler(t, almanac.Birthday{})
	_, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{})
	require.ErrorIs(t, err, almanac.ErrUnsupportedEventType)
	_, err = scheduler.Backfill(t.Context(), almanac.TypeBirthday, almanac.BackfillOptions{Rate: -1})
	require.ErrorIs(t, err, almanac.ErrInvalid)
	_, err = scheduler.Backfill(t.Context(), almanac.TypeBirthday, almanac.BackfillOptions{After: "here"})
	require.ErrorIs(t, err, almanac.ErrInvalid)
}

// paged is a repository that observes the pages of a Backfill. It has any number of users, and
// stores nothing.
type paged struct {
	almanac.Repository
	user        almanac.User // as which all are stored, but for their ids
	users       int
	transaction bool // whether it is part of a host's transaction
	together    int  // how many pages, from the first, end only after the next has begun
	fails       int  // the page that fails, from 1

	mu         sync.Mutex
	begun      int
	inProgress int
	most       int           // pages in progress at a time
	next       chan struct{} // closed when the next page begins
}

func (p *paged) InTransaction() bool { return p.transaction }

// enter returns the number of a page, and a channel that is closed when the next page begins.
func (p *paged) enter() (int, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun > 0 {
		close(p.next)
	}
	p.begun++
	p.inProgress++
	p.most, p.next = max(p.most, p.inProgress), make(chan struct{})
	return p.begun, p.next
}

func (p *paged) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inProgress--
}

func (p *paged) AddEvents(_ context.Context, _ string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) (added almanac.AddEventsResult, err error) {
	number, next := p.enter()
	defer p.leave()
	_, after, err := page.Bounds()
	if err != nil {
		return added, err
	}
	first := int(binary.BigEndian.Uint64(after[8:])) + 1
	last := min(first+page.Limit-1, p.users)
	var users []almanac.UserSeries
	for n := first; n <= last; n++ {
		one := almanac.UserSeries{User: p.user}
		binary.BigEndian.PutUint64(one.User.ID[8:], uint64(n))
		users = append(users, one)
	}
	added.Users = len(users)
	if added.Events, err = plan(users, time.Now()); err != nil || number == p.fails {
		return almanac.AddEventsResult{}, cmp.Or(err, errors.New("no space"))
	}
	if number <= p.together {
		<-next
	}
	if len(users) == page.Limit {
		added.Next = almanac.Cursor(users[len(users)-1].User.ID.String())
	}
	time.Sleep(time.Millisecond)
	return added, nil
}

func TestBackfillPlansAPageWhileAnotherIsStored(t *testing.T) {
	t.Parallel()
	const page, users = 1000, 2001
	for name, c := range map[string]struct {
		pages *paged
		rate  int
		most  int
	}{
		"by default":                       {pages: &paged{together: 2}, most: 2},
		"not with a rate":                  {pages: &paged{}, rate: page, most: 1},
		"not in a transaction of the host": {pages: &paged{transaction: true}, most: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c.pages.Repository, c.pages.user, c.pages.users = almanactest.NewRepository(nil), ada(t), users
				w := openOn(c.pages)
				w.notices = make(chan almanac.Notice, 2*users)
				var progress []int

				done, err := w.scheduler(t, choosy{}).Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{Rate: c.rate, Progress: func(d almanac.BackfillResult) {
					progress = append(progress, d.Events)
				}})

				require.NoError(t, err)
				require.Equal(t, almanac.BackfillResult{Users: users, Events: users}, done)
				require.Equal(t, []int{page, 2 * page, users}, progress)
				require.Equal(t, c.most, c.pages.most)
			})
		})
	}
}

func TestBackfillCanContinueBeforeThePageThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const page, users = 1000, 3001
		w := openOn(&paged{Repository: almanactest.NewRepository(nil), user: ada(t), users: users, together: 1, fails: 2})
		w.notices = make(chan almanac.Notice, 2*users)
		scheduler := w.scheduler(t, choosy{})

		cut, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{})
		require.ErrorContains(t, err, "no space")
		require.Equal(t, page, cut.Events)

		rest, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{After: cut.Next})
		require.NoError(t, err)
		require.Equal(t, users-page, rest.Users)
	})
}

// on is a monthly rule. Pia has none.
func on(day, hour int) almanac.EventHandler {
	return almanac.Recurring{
		Type: "NOTICE",
		Rule: func(u almanac.User) (calendar.Recurrence, error) {
			if u.FirstName == "Pia" {
				return nil, nil
			}
			return calendar.Monthly{Day: day, At: calendar.Clock{Hour: hour}}, nil
		},
	}
}

// A changed rule moves what is pending, in pages; what stays is not written; a dry run says the same before.
func TestRescheduleTypeMovesWhatThePresentRuleMoves(t *testing.T) {
	t.Parallel()
	for name, open := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openOn(open(t))
			users := folk(7)
			users[1].FirstName = "Pia"
			_, err := w.schedulerOf(t, []almanac.EventHandler{on(28, 9), almanac.Birthday{}}).CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})
			require.NoError(t, err)
			w.countNotices(almanac.EventCreated)
			scheduler := w.schedulerOf(t, []almanac.EventHandler{on(28, 8), almanac.Birthday{}})
			var moved [2]int
			for i, replan := range []func(context.Context, string, almanac.Page, time.Duration) (almanac.List[almanac.UpdateUserResult], []almanac.Refusal, error){scheduler.PreviewReschedule, scheduler.RescheduleType} {
				for page := (almanac.Page{Limit: 3}); ; {
					found, refused, err := replan(t.Context(), "NOTICE", page, 0)
					require.NoError(t, err)
					require.Empty(t, refused)
					for _, u := range found.Items {
						require.Zero(t, u.Unchanged+len(u.Refreshed)+len(u.Added)+len(u.Removed)+len(u.SameDay)+len(u.Passed))
						for j, e := range u.Moved {
							require.Equal(t, u.Was[j].OccurrenceKey, e.OccurrenceKey)
							require.Equal(t, -time.Hour, e.Due.Sub(u.Was[j].Due))
						}
						moved[i] += len(u.Moved)
					}
					if page.After = found.Next; page.After == "" {
						break
					}
				}
				require.Equal(t, 6*i, w.countNotices(almanac.EventRescheduled))
			}
			require.Equal(t, [2]int{6, 6}, moved)
			again, _, err := scheduler.RescheduleType(t.Context(), "NOTICE", almanac.Page{}, 0)
			require.NoError(t, err)
			for _, u := range again.Items {
				require.Equal(t, u.User.FirstName != "Pia", u.Unchanged == 1)
				require.Empty(t, u.Moved)
			}
			require.Empty(t, w.notices)
		})
	}
}

// What becomes of an occurrence whose new time has passed.
func TestRescheduleTypeWithANewTimeThatHasPassed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		passed time.Duration
		key    string // of the pending event afterwards
		dueIn  time.Duration
	}{
		"is as an edit by default": {0, "2000-02", 25 * 24 * time.Hour},
		"is due at once":           {almanac.PassedNow, "2000-01", -6 * 24 * time.Hour},
		"is due if not too old":    {7 * 24 * time.Hour, "2000-01", -6 * 24 * time.Hour},
		"is too old to be due":     {5 * 24 * time.Hour, "2000-02", 25 * 24 * time.Hour},
		"is removed":               {almanac.PassedSkip, "2000-02", 25 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // from the first of January 2000
				w := openOn(almanactest.NewRepository(nil))
				user := folk(1)[0]
				_, err := w.scheduler(t, on(28, 9)).CreateUser(t.Context(), user)
				require.NoError(t, err)
				time.Sleep(15*24*time.Hour + 9*time.Hour) // the sixteenth, at nine
				var found [2]almanac.UpdateUserResult
				for i := range found {
					replan := w.scheduler(t, on(10, 9)).PreviewReschedule
					if i == 1 {
						replan = w.scheduler(t, on(10, 9)).RescheduleType
					}
					page, _, err := replan(t.Context(), "NOTICE", almanac.Page{}, c.passed)
					require.NoError(t, err)
					found[i] = page.Items[0]
				}
				for _, u := range found {
					require.Len(t, u.Passed, 1)
					require.Equal(t, c.dueIn < 0, len(u.Moved) == 1)
					require.Equal(t, c.dueIn > 0, len(u.Removed) == 1 && len(u.Added) == 1)
				}
				e := almanactest.PendingEvent(t, w.store, user.ID, "NOTICE")
				require.Equal(t, c.key, e.OccurrenceKey)
				require.Equal(t, c.dueIn, time.Until(e.Due))
			})
		})
	}
}
