package almanactest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// A repository whose clock the test sets.
func ExampleRepository() {
	now := time.Date(2027, time.December, 10, 8, 59, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	ada := almanactest.User()
	if _, _, err := almanactest.CreateUser(context.Background(), repository, ada, almanactest.Event(now, almanactest.For(ada), almanactest.DueIn(time.Minute))); err != nil {
		panic(err)
	}
	for range 2 {
		ready, err := repository.Count(context.Background(), almanac.Ready{})
		fmt.Println(now.Format(time.TimeOnly), ready, err)
		now = now.Add(time.Minute)
	}
	// Output:
	// 08:59:00 0 <nil>
	// 09:00:00 1 <nil>
}

// Properties that a test does not set are valid.
func ExampleUserOption() {
	u := almanactest.User(almanactest.Named("Tomoe", "Gozen"), almanactest.LivingIn("Asia/Tokyo"), almanactest.WithAttributes(`{"plan": "gold"}`))
	fmt.Println(u.Name(), u.DateOfBirth, u.Timezone, string(u.Attributes))
	// Output: Tomoe Gozen 1990-01-01 Asia/Tokyo {"plan": "gold"}
}

// Options apply in order, so the status comes last.
func ExampleEventOption() {
	now := time.Date(2027, time.March, 15, 14, 0, 0, 0, time.UTC)
	e := almanactest.Event(now, almanactest.Of("2027"), almanactest.Tried(2), almanactest.DeliveredLate(time.Minute))
	fmt.Println(e.OccurrenceKey, e.Status, "after", e.RetryCount, "failures,", e.ExecutedAt.Sub(e.Due), "late")
	// Output: 2027 COMPLETED after 2 failures, 1m0s late
}

// An attempt has the delivery and its result.
func ExampleAttempt() {
	letters := &almanactest.Recorder{Deliverer: almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
		return errors.New("no stamp")
	})}
	now := time.Date(2027, time.March, 15, 14, 0, 0, 0, time.UTC)
	_ = letters.Deliver(context.Background(), almanac.Delivery{Event: almanactest.Event(now, almanactest.Of("2027")), Attempt: 1, At: now})
	for _, a := range letters.Attempts() {
		fmt.Println(a.Attempt, a.Event.OccurrenceKey, a.Wall().Clock, a.Err)
	}
	// Output: 1 2027 14:00:00 no stamp
}
