package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// stored stores a user with events that are due at an instant.
func stored(r almanac.Repository, due ...time.Time) (almanac.User, []almanac.Event) {
	u := almanactest.User(almanactest.LivingIn("Europe/London"))
	var pending []almanac.Event
	for _, at := range due {
		pending = append(pending, almanactest.Event(at, almanactest.For(u), almanactest.DueIn(0)))
	}
	u, pending, err := almanactest.CreateUser(context.Background(), r, u, pending...)
	if err != nil {
		panic(err)
	}
	return u, pending
}

// claimAll asks for all due birthdays.
func claimAll() almanac.ClaimRequest {
	return almanac.ClaimRequest{Token: uuid.New(), Owner: "example", Types: []string{almanac.TypeBirthday}, Limit: 100, Lease: time.Minute}
}

// The repository in memory does what the repository on PostgreSQL does, for tests.
func ExampleRepository() {
	var r almanac.Repository = almanactest.NewRepository(func() time.Time { return spring })
	stored(r, spring, spring.Add(time.Hour))
	fmt.Println(must(r.Count(context.Background(), nil)), "events,", must(r.Count(context.Background(), almanac.Ready{})), "of them ready")
	// Output: 2 events, 1 of them ready
}

// An update names the version that it replaces. After a conflict, read the event again.
func ExampleEventRepository() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	_, pending := stored(repository, spring)
	var r almanac.EventRepository = repository
	e := must(r.Event(ctx, pending[0].ID))
	claimed := must(e.Claim(uuid.New()))
	claimed = must(r.Update(ctx, claimed, e.Version))
	fmt.Println(claimed.Status, "at version", claimed.Version)
	_, err := r.Update(ctx, claimed, e.Version)
	fmt.Println(errors.Is(err, almanac.ErrOptimisticLock))
	// Output:
	// PROCESSING at version 2
	// true
}

// A claim takes due events, oldest first, up to its limit.
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

// A released event is available again after its delay.
func ExampleSettlement() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring)
	claim := must(repository.Claim(ctx, claimAll()))

	settled := must(repository.Settle(ctx, []almanac.Settlement{{
		Event: claim.Events[0], User: claim.Users[claim.Events[0].UserID],
		Outcome: almanac.Released(almanac.AfterFailure, "receiver answered 503", 10*time.Second),
	}}))
	again := settled[0].Event
	fmt.Println(again.Status, "until", again.AvailableAt.Format(time.TimeOnly), "for:", again.LastError)
	// Output: PENDING until 00:00:10 for: receiver answered 503
}

// An edit is stored as a whole, and the stored edit is returned.
func ExampleEdit() {
	ctx := context.Background()
	scheduler, repository := birthdaysIn()
	ada := must(scheduler.CreateUser(ctx, adaInLondon))
	edit := must(repository.EditUser(ctx, ada.User.ID, func(r almanac.Roster) (almanac.Edit, error) {
		name := "Augusta"
		u, err := r.User.Edit(almanac.ProfileChange{FirstName: &name}, r.Now)
		return almanac.Edit{User: &u, Removed: r.Pending}, err
	}))
	fmt.Println(edit.User.Name(), "at version", edit.User.Version, "loses the event", edit.Removed[0].Type)
	// Output: Augusta Lovelace at version 2 loses the event BIRTHDAY
}

// hostsOwn is a repository in a transaction of the host.
type hostsOwn struct{ almanac.Repository }

func (hostsOwn) InTransaction() bool { return true }

// Observers are not notified of changes that may still be rolled back.
func ExampleRepository_inTransaction() {
	ctx := context.Background()
	scheduler, repository := birthdaysIn(almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
		fmt.Println("notified:", n.Kind)
	})))
	var bound almanac.Repository = hostsOwn{repository}
	fmt.Println(bound.InTransaction(), len(must(scheduler.With(bound).CreateUser(ctx, adaInLondon)).Events))
	// Output: true 1
}

// Specs are literals. A repository translates the same value to a query.
func ExampleSpec() {
	ready := almanac.And{almanac.Ready{}, almanac.Not{Spec: almanac.OfType("REMINDER")}}

	nine := time.Date(2026, time.December, 10, 9, 0, 0, 0, time.UTC)
	birthday := almanac.Event{Type: almanac.TypeBirthday, Status: almanac.Pending, Due: nine, AvailableAt: nine}
	reminder := birthday
	reminder.Type = "REMINDER"

	fmt.Println(ready.Matches(birthday, nine), ready.Matches(birthday, nine.Add(-time.Second)), ready.Matches(reminder, nine))
	// Output: true false false
}
