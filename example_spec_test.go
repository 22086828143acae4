package almanac_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// Specs are literals. A repository makes the same value a query.
func ExampleSpec() {
	ready := almanac.And{almanac.Ready{}, almanac.Not{Spec: almanac.OfType("REMINDER")}}

	nine := time.Date(2026, time.December, 10, 9, 0, 0, 0, time.UTC)
	birthday := almanac.Event{Type: almanac.TypeBirthday, Status: almanac.Pending, Due: nine, AvailableAt: nine}
	reminder := birthday
	reminder.Type = "REMINDER"

	fmt.Println(ready.Matches(birthday, nine), ready.Matches(birthday, nine.Add(-time.Second)), ready.Matches(reminder, nine))
	// Output: true false false
}

// count prints how many of three events match each spec: one of Ada's that has been
// ready for an hour, one of hers that is due in a week, and another's that FAILED.
func count(specs ...func(ada almanac.User) almanac.Spec) {
	repository := almanactest.NewRepository(func() time.Time { return spring })
	ada, tomoe := almanactest.User(almanactest.LivingIn("Europe/London")), almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
	synctest.Test(new(testing.T), func(t *testing.T) { // a test is given its own
		almanactest.Store(t, repository, ada,
			almanactest.Event(spring, almanactest.For(ada), almanactest.ReadyFor(time.Hour)),
			almanactest.Event(spring, almanactest.For(ada), almanactest.OfType("REMINDER"), almanactest.DueIn(7*24*time.Hour)))
		almanactest.Store(t, repository, tomoe,
			almanactest.Event(spring, almanactest.For(tomoe), almanactest.FailedBecause("receiver answered 410")))
	})
	for _, spec := range specs {
		fmt.Println(must(repository.Count(context.Background(), spec(ada))))
	}
}

func ExampleAnd() {
	count(func(ada almanac.User) almanac.Spec {
		return almanac.And{almanac.ForUser(ada.ID), almanac.OfType("REMINDER")}
	},
		func(almanac.User) almanac.Spec { return almanac.And{} }) // all of nothing
	// Output:
	// 1
	// 3
}

func ExampleOr() {
	count(func(almanac.User) almanac.Spec {
		return almanac.Or{almanac.InStatus(almanac.Failed), almanac.OfType("REMINDER")}
	},
		func(almanac.User) almanac.Spec { return almanac.Or{} }) // none of nothing
	// Output:
	// 2
	// 0
}

func ExampleNot() {
	count(func(ada almanac.User) almanac.Spec { return almanac.Not{Spec: almanac.ForUser(ada.ID)} })
	// Output: 1
}

func ExampleOfType() {
	count(func(almanac.User) almanac.Spec { return almanac.OfType(almanac.TypeBirthday) })
	// Output: 2
}

func ExampleInStatus() {
	count(func(almanac.User) almanac.Spec { return almanac.InStatus(almanac.Pending) })
	// Output: 2
}

func ExampleForUser() {
	count(func(ada almanac.User) almanac.Spec { return almanac.ForUser(ada.ID) })
	// Output: 2
}

func ExampleInZone() {
	count(func(almanac.User) almanac.Spec { return almanac.InZone{"Asia/Tokyo", "Asia/Seoul"} })
	// Output: 1
}

// The end does not belong to it. An end that is left out is far away.
func ExampleDueBetween() {
	week := spring.Add(7 * 24 * time.Hour)
	count(func(almanac.User) almanac.Spec { return almanac.DueBetween{From: spring, Until: week} },
		func(almanac.User) almanac.Spec { return almanac.DueBetween{From: week} })
	// Output:
	// 0
	// 1
}

// What is ready can be claimed now.
func ExampleReady() {
	count(func(almanac.User) almanac.Spec { return almanac.Ready{} })
	// Output: 1
}

func ExampleOverdue() {
	count(func(almanac.User) almanac.Spec { return almanac.Overdue{By: 59 * time.Minute} },
		func(almanac.User) almanac.Spec { return almanac.Overdue{By: 61 * time.Minute} })
	// Output:
	// 1
	// 0
}
