package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// stored stores somebody who is owed events that are due at an instant.
func stored(r almanac.Repository, due ...time.Time) (almanac.User, []almanac.Event) {
	u := almanactest.User(almanactest.LivingIn("Europe/London"))
	var owed []almanac.Event
	for _, at := range due {
		owed = append(owed, almanactest.Event(at, almanactest.For(u), almanactest.DueIn(0)))
	}
	u, owed, err := r.CreateUser(context.Background(), u, owed...)
	if err != nil {
		panic(err)
	}
	return u, owed
}

// claimAll asks for every birthday that is due.
func claimAll() almanac.ClaimRequest {
	return almanac.ClaimRequest{Token: uuid.New(), Owner: "example", Types: []string{almanac.TypeBirthday}, Limit: 100, Lease: time.Minute}
}

// One in memory does what that on PostgreSQL does, for tests.
func ExampleRepository() {
	var r almanac.Repository = almanactest.NewRepository(func() time.Time { return spring })
	stored(r, spring, spring.Add(time.Hour))
	fmt.Println(must(r.Count(context.Background(), nil)), "events,", must(r.Count(context.Background(), almanac.Ready{})), "of them ready")
	// Output: 2 events, 1 of them ready
}

// People are stored together with what they are owed.
func ExampleUserRepository() {
	ctx := context.Background()
	var r almanac.UserRepository = almanactest.NewRepository(nil)
	ada := almanactest.User(almanactest.Named("Ada", "Lovelace"))
	_, events, err := r.CreateUser(ctx, ada, almanactest.Event(spring, almanactest.For(ada)))
	fmt.Println(must(r.User(ctx, ada.ID)).Name(), "is owed", len(events), err)
	_, _, err = r.CreateUser(ctx, ada)
	fmt.Println(errors.Is(err, almanac.ErrExists))
	// Output:
	// Ada Lovelace is owed 1 <nil>
	// true
}

// An update is for one version. Who comes second has to read again.
func ExampleEventRepository() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	_, owed := stored(repository, spring)
	var r almanac.EventRepository = repository

	e := must(r.Event(ctx, owed[0].ID))
	claimed := must(e.Claim(uuid.New()))
	claimed = must(r.Update(ctx, claimed, e.Version))
	fmt.Println(claimed.Status, "at version", claimed.Version)
	_, err := r.Update(ctx, claimed, e.Version)
	fmt.Println(errors.Is(err, almanac.ErrOptimisticLock))
	// Output:
	// PROCESSING at version 2
	// true
}

// A list ends where there is no next page.
func ExampleFound() {
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring, spring.Add(time.Hour), spring.Add(2*time.Hour))
	first := must(repository.Find(context.Background(), nil, almanac.Page{Limit: 2}))
	second := must(repository.Find(context.Background(), nil, almanac.Page{Limit: 2, After: first.Next}))
	fmt.Println(len(first.Events), first.Next != "", len(second.Events), second.Next != "")
	// Output: 2 true 1 false
}

// A cursor that no list ended with is refused.
func ExampleCursor() {
	_, err := almanactest.NewRepository(nil).Find(context.Background(), nil, almanac.Page{After: almanac.Cursor("page 2"), Limit: 5000})
	fmt.Println(err)
	// Output: almanac: invalid input: limit is not between 1 and 1000; cursor is not one that a page ended with
}

// A claim takes what is due, oldest first, and leaves the rest.
func ExampleClaimRequest() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring.Add(-time.Minute), spring.Add(-time.Hour), spring.Add(time.Minute))
	for _, e := range must(repository.Claim(ctx, claimAll())).Events {
		fmt.Println(e.Due.Format(time.TimeOnly), e.Status)
	}
	// Output:
	// 23:00:00 PROCESSING
	// 23:59:00 PROCESSING
}

// What was claimed comes with its people, and with the clock that decided.
func ExampleClaim() {
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring.Add(-time.Minute))
	claim := must(repository.Claim(context.Background(), claimAll()))
	e := claim.Events[0]
	fmt.Println(claim.Users[e.UserID].FirstName, "is greeted", claim.At.Sub(e.Due), "late")
	// Output: Ada is greeted 1m0s late
}

// An event that is given back is available again after its delay.
func ExampleSettlement() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring)
	claim := must(repository.Claim(ctx, claimAll()))

	settled := must(repository.Settle(ctx, []almanac.Settlement{{
		Event: claim.Events[0], User: claim.Users[claim.Events[0].UserID],
		Outcome: almanac.GaveBack(almanac.AfterFailure, "receiver answered 503", 10*time.Second),
	}}))
	again := settled[0].Event
	fmt.Println(again.Status, "until", again.AvailableAt.Format(time.TimeOnly), "for:", again.LastError)
	// Output: PENDING until 00:00:10 for: receiver answered 503
}

// Who has lost the lease is refused, each for itself.
func ExampleSettled() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring, spring)
	request := claimAll()
	claim := must(repository.Claim(ctx, request))
	must(repository.Release(ctx, request.Token))
	again := must(repository.Claim(ctx, claimAll()))

	for _, s := range must(repository.Settle(ctx, []almanac.Settlement{
		{Event: claim.Events[0], Outcome: almanac.Delivered(spring)},
		{Event: again.Events[1], Outcome: almanac.Delivered(spring)},
	})) {
		fmt.Println(s.Event.Status, errors.Is(s.Err, almanac.ErrLeaseLost), s.Successor == nil)
	}
	// Output:
	//  true true
	// COMPLETED false true
}

// An edit is stored as a whole, and answers with what was stored.
func ExampleEdit() {
	ctx := context.Background()
	scheduler, repository := birthdaysIn()
	ada := must(scheduler.CreateUser(ctx, adaInLondon))
	edit := must(repository.EditUser(ctx, ada.User.ID, func(r almanac.Roster) (almanac.Edit, error) {
		name := "Augusta"
		u, err := r.User.Edit(almanac.ProfileChange{FirstName: &name}, r.Now)
		return almanac.Edit{User: &u, Removed: r.Pending}, err
	}))
	fmt.Println(edit.User.Name(), "at version", edit.User.Version, "is not owed", edit.Removed[0].Type)
	// Output: Augusta Lovelace at version 2 is not owed BIRTHDAY
}

// What was pruned is gone, and its occurrence used up all the same.
func ExampleRetentionRepository() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	ada, _ := stored(repository, spring)
	claim := must(repository.Claim(ctx, claimAll()))
	must(repository.Settle(ctx, []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.Delivered(spring)}}))

	var r almanac.RetentionRepository = repository
	fmt.Println(must(r.Prune(ctx, spring.Add(time.Hour), almanac.Page{})).Count, "pruned")
	again := must(repository.EditUser(ctx, ada.ID, func(almanac.Roster) (almanac.Edit, error) {
		return almanac.Edit{Added: claim.Events}, nil
	}))
	fmt.Println(len(again.Added), "stored again")
	// Output:
	// 1 pruned
	// 0 stored again
}

// Pruning goes by pages, as finding does.
func ExamplePruned() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring, spring, spring)
	for _, e := range must(repository.Claim(ctx, claimAll())).Events {
		must(repository.Settle(ctx, []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(spring)}}))
	}
	for page := (almanac.Page{Limit: 2}); ; {
		gone := must(repository.Prune(ctx, spring.Add(time.Hour), page))
		fmt.Println(gone.Count, "pruned")
		if page.After = gone.Next; gone.Next == "" {
			break
		}
	}
	// Output:
	// 2 pruned
	// 1 pruned
}

// The repository's clock decides how long there is to wait.
func ExampleTimekeeper() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring.Add(90*time.Second))
	var clock almanac.Timekeeper = repository
	wait, known, err := clock.Until(ctx, []string{almanac.TypeBirthday}, time.Time{})
	fmt.Println(must(clock.Now(ctx)).Format(time.DateTime), wait, known, err)
	// Output: 2027-03-01 00:00:00 1m30s true <nil>
}

// A program notes the rules that it plans by, so that another with other rules notices.
func ExampleZoneRepository() {
	ctx := context.Background()
	var r almanac.ZoneRepository = almanactest.NewRepository(func() time.Time { return spring })
	london := must(must(almanac.LoadTimezone("Europe/London")).Rules(2027))
	for range 2 {
		err := r.EditZoneRules(ctx, func(known almanac.ZoneBook) ([]almanac.ZoneRules, error) {
			fmt.Println(slices.ContainsFunc(known.Rules, func(k almanac.ZoneRules) bool { return k.Fingerprint == london.Fingerprint }))
			return []almanac.ZoneRules{london}, nil
		})
		if err != nil {
			panic(err)
		}
	}
	// Output:
	// false
	// true
}

// A page of people goes in one transaction; who is there already does no harm.
func ExampleBulkRepository() {
	ctx := context.Background()
	var r almanac.BulkRepository = almanactest.NewRepository(nil)
	ada, grace := almanac.Enrolment{User: almanactest.User()}, almanac.Enrolment{User: almanactest.User()}
	for range 2 {
		for _, one := range must(r.CreateUsers(ctx, []almanac.Enrolment{ada, grace})) {
			fmt.Println(one.User.Version, errors.Is(one.Err, almanac.ErrExists))
		}
	}
	// Output:
	// 1 false
	// 1 false
	// 0 true
	// 0 true
}

// Each of a page is stored, or says why not.
func ExampleEnrolled() {
	ada := almanac.Enrolment{User: almanactest.User()}
	for _, one := range must(almanactest.NewRepository(nil).CreateUsers(context.Background(), []almanac.Enrolment{ada, ada})) {
		fmt.Println(one.Err == nil, errors.Is(one.Err, almanac.ErrExists))
	}
	// Output:
	// true false
	// false true
}

// A plan for a page of people is shown what each has of the type.
func ExampleStanding() {
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring)
	must(repository.AddEvents(context.Background(), almanac.TypeBirthday, almanac.Page{}, func(people []almanac.Standing, _ time.Time) ([]almanac.Event, error) {
		for _, p := range people {
			fmt.Println(p.User.FirstName, "has", len(p.Open), "open and", len(p.Used), "used up")
		}
		return nil, nil
	}))
	// Output: Ada has 1 open and 0 used up
}

// Events are added for those who lack one.
func ExampleAdded() {
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository)
	added := must(repository.AddEvents(context.Background(), "GIFT", almanac.Page{}, func(people []almanac.Standing, now time.Time) ([]almanac.Event, error) {
		return []almanac.Event{almanactest.Event(now, almanactest.For(people[0].User), almanactest.OfType("GIFT"))}, nil
	}))
	fmt.Println(added.Users, "looked at,", len(added.Events), "added, more:", added.Next != "")
	// Output: 1 looked at, 1 added, more: false
}

// A program that lacks a handler leaves the next event to one that has it.
func ExampleSuccessionRepository() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	user, owed := stored(repository, spring)
	must(repository.EditUser(ctx, user.ID, func(r almanac.Roster) (almanac.Edit, error) {
		return almanac.Edit{Cancelled: []almanac.Event{must(owed[0].Cancel("moved house"))}, Unplanned: []uuid.UUID{owed[0].ID}}, nil
	}))
	added := must(repository.AddSuccessors(ctx, almanac.TypeBirthday, almanac.Page{}, func(users []almanac.Standing, now time.Time) ([]almanac.Event, []uuid.UUID, error) {
		return []almanac.Event{almanactest.Event(now, almanactest.For(users[0].User))}, nil, nil
	}))
	fmt.Println(added.Users, "looked at,", len(added.Events), "added")
	// Output: 1 looked at, 1 added
}

// Claims leave out what is paused.
func ExamplePauseRepository() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring)
	var r almanac.PauseRepository = repository
	fmt.Println(r.Pause(ctx, almanac.TypeBirthday), len(must(repository.Claim(ctx, claimAll())).Events))
	fmt.Println(r.Resume(ctx, almanac.TypeBirthday), len(must(repository.Claim(ctx, claimAll())).Events))
	// Output:
	// <nil> 0
	// <nil> 1
}

// hostsOwn is a repository in a transaction of the host's.
type hostsOwn struct{ almanac.Repository }

func (hostsOwn) InTransaction() bool { return true }

// What may yet be rolled back is told to nobody.
func ExampleTransactional() {
	ctx := context.Background()
	scheduler, repository := birthdaysIn(almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
		fmt.Println("told:", n.Kind)
	})))
	var bound almanac.Repository = hostsOwn{repository}
	_, transactional := bound.(almanac.Transactional)
	fmt.Println(transactional, len(must(scheduler.With(bound).CreateUser(ctx, adaInLondon)).Events))
	// Output: true 1
}

// lastYears is a repository that lacks a migration.
type lastYears struct{ almanac.Repository }

func (lastYears) Verify(context.Context) error {
	return fmt.Errorf("migration 4 is missing: %w", almanac.ErrOutdated)
}

// A program that is newer than its database claims nothing.
func ExampleVerifier() {
	scheduler, repository := birthdaysIn(almanac.WithDeliverer(almanac.ChannelWebhook, new(almanactest.Recorder)))
	err := scheduler.With(lastYears{repository}).Run(context.Background())
	fmt.Println(errors.Is(err, almanac.ErrOutdated))
	// Output: true
}

// A hint wakes a process that would have looked within the hour.
func ExampleListener() {
	synctest.Test(new(testing.T), func(t *testing.T) { // a test is given its own
		r := overheard{Repository: almanactest.NewRepository(nil)}
		r.listen = func(ctx context.Context, wake func()) error {
			wake()
			time.Sleep(time.Minute)
			r.store(t, 0) // as another process does
			wake()
			<-ctx.Done()
			return nil
		}
		delivered, _ := attend(t, r, 2*time.Minute)
		fmt.Println("delivered after", delivered[0].Round(time.Second))
	})
	// Output: delivered after 1m0s
}

// What is claimed ahead of its instant is asked about at the instant.
func ExampleConfirmer() {
	ctx := context.Background()
	now := spring
	repository := almanactest.NewRepository(func() time.Time { return now })
	ada, _ := stored(repository, spring.Add(time.Second))
	request := claimAll()
	request.Ahead = 2 * time.Second
	early := must(repository.Claim(ctx, request)).Events

	must(repository.DeleteUser(ctx, ada.ID, almanac.Delete{}))

	now = early[0].Due
	var c almanac.Confirmer = repository
	fmt.Println(len(early), "claimed,", len(must(c.Confirm(ctx, early)).Held), "held at its instant")
	// Output: 1 claimed, 0 held at its instant
}

// What is renewed by itself does not keep what was claimed with it.
func ExampleLeaser() {
	ctx := context.Background()
	now := spring
	repository := almanactest.NewRepository(func() time.Time { return now })
	stored(repository, spring)
	stored(repository, spring)
	claimed := must(repository.Claim(ctx, claimAll())).Events
	leased := must(repository.LeaseEach(ctx, claimed, "example", time.Minute))
	must(repository.Renew(ctx, []uuid.UUID{leased[0].LeaseToken}, time.Hour))

	now = now.Add(2 * time.Minute)
	released := must(repository.ReleaseExpired(ctx, 10))
	fmt.Println(len(released), "released:", released[0].ID == leased[1].ID)
	// Output: 1 released: true
}
