package almanac_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// gauge is an observer of nothing but the claims that find something.
type gauge struct{ almanac.Hooks }

func (gauge) MeasureClaim(_ context.Context, m almanac.ClaimMeasurement) {
	if m.Found > 0 {
		fmt.Println(m.Found, "of at most", m.BatchSize, m.Err)
	}
}

// An observer that has the method is notified of each claim. This one was made ahead of
// the event's instant, for which half of the workers may be taken.
func ExampleClaimMeasurer() {
	overAYear(new(almanactest.Recorder), []almanac.EventHandler{almanac.Birthday{}}, almanac.WithObserver(gauge{}), almanac.WithWorkers(10))
	// Output:
	// 1 of at most 5 <nil>
	// 2000-12-10T09:00:00 BIRTHDAY {"message":"Hey, Ada Lovelace it's your birthday"} <nil>
}

// A claim that found nothing asks for as many as there are free workers.
func ExampleClaimMeasurement() {
	m := almanac.ClaimMeasurement{BatchSize: 100}
	fmt.Println(m.Found, m.BatchSize, m.Ahead)
	// Output: 0 100 false
}

// rates is an observer of the updates that lose to others.
type rates struct{ almanac.Hooks }

func (rates) MeasureUpdate(_ context.Context, m almanac.UpdateMeasurement) {
	fmt.Printf("%s: %d stored, %d in conflict\n", m.Kind, m.Stored, m.Conflicts)
}

// An edit of a version that is no longer the stored one is a conflict.
func ExampleUpdateMeasurer() {
	ctx := context.Background()
	scheduler, _ := birthdaysIn(almanac.WithObserver(rates{}))
	ada, tokyo := must(scheduler.CreateUser(ctx, adaInLondon)), "Asia/Tokyo"
	for range 2 {
		_, err := scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{Version: 1, Timezone: &tokyo})
		fmt.Println(errors.Is(err, almanac.ErrOptimisticLock))
	}
	// Output:
	// user: 1 stored, 0 in conflict
	// false
	// user: 0 stored, 1 in conflict
	// true
}

// Rates are the conflicts among all updates of a kind.
func ExampleUpdateMeasurement() {
	m := almanac.UpdateMeasurement{Kind: almanac.UpdateOutcome, Stored: 98, Conflicts: 2}
	fmt.Printf("%.0f %%\n", 100*float64(m.Conflicts)/float64(m.Stored+m.Conflicts))
	// Output: 2 %
}

// The kinds tell whose versions conflict: those of outcomes are leases that were lost.
func ExampleUpdateKind() {
	fmt.Println(almanac.UpdateOutcome, almanac.UpdateUser, almanac.UpdateEvent)
	// Output: outcome user event
}
