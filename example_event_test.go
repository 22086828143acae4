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

// An event is the stored form of an occurrence. Its instant, its payload and its
// idempotency key are known before it is stored.
func ExampleNewEvent() {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	user, err := almanac.NewUser(almanac.Profile{
		ID:        uuid.MustParse("123e4567-e89b-12d3-a456-426614174000"),
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-07-10", Timezone: "America/New_York",
	}, now)
	if err != nil {
		panic(err)
	}
	birthday := almanac.Birthday{}
	occurrence, err := birthday.Next(user, now)
	if err != nil {
		panic(err)
	}

	event, err := almanac.NewEvent(user, birthday, almanac.Occurrence{Occurrence: occurrence})
	if err != nil {
		panic(err)
	}
	fmt.Println(event.Type, event.OccurrenceKey, event.Status, "at version", event.Version)
	fmt.Println(event.Wall, "in", event.Zone, "is", event.Due.Format(time.RFC3339))
	fmt.Println(event.IdempotencyKey, string(event.Payload))
	// Output:
	// BIRTHDAY 2026 PENDING at version 1
	// 2026-07-10T09:00:00 in America/New_York is 2026-07-10T13:00:00Z
	// event-42131f80fd7556f8 {"message":"Hey, Ada Lovelace it's your birthday"}
}

// Each transition returns a new value and raises the version by one. A transition that is
// not allowed is a typed error.
func ExampleEvent_Claim() {
	pending := almanac.Event{Status: almanac.Pending, Version: 1}

	claimed, err := pending.Claim(uuid.New())
	fmt.Println(claimed.Status, claimed.Version, err)
	done, err := claimed.Complete(time.Date(2026, time.July, 10, 13, 0, 0, 0, time.UTC))
	fmt.Println(done.Status, done.Version, err)
	fmt.Println(pending.Status, pending.Version, "as it was")

	_, err = done.Claim(uuid.New())
	var refused *almanac.InvalidStateTransitionError
	if errors.As(err, &refused) {
		fmt.Println("refused:", refused.From, "to", refused.To)
	}
	// Output:
	// PROCESSING 2 <nil>
	// COMPLETED 3 <nil>
	// PENDING 1 as it was
	// refused: COMPLETED to PROCESSING
}

// The same user, instant and type always have the same key.
func ExampleNewIdempotencyKey() {
	due := time.Date(2025, time.March, 15, 14, 0, 0, 0, time.UTC)
	fmt.Println(almanac.NewIdempotencyKey("user-123", due, almanac.TypeBirthday))
	fmt.Println(almanac.NewLongIdempotencyKey("user-123", due, almanac.TypeBirthday, "2025"))
	// Output:
	// event-0da59425d0ba435e
	// event-6f96ac097b17a7af998ce68de4657a74
}

func ExampleNotFoundError() {
	_, err := almanactest.NewRepository(nil).User(context.Background(), uuid.Nil)
	var missing *almanac.NotFoundError
	fmt.Println(errors.As(err, &missing), missing.Kind, errors.Is(err, almanac.ErrNotFound))
	// Output:
	// true user true
}

func ExampleInvalidStateTransitionError() {
	now := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	done := almanactest.Event(now, almanactest.InStatus(almanac.Completed))
	_, err := done.Claim(uuid.New())
	var refused *almanac.InvalidStateTransitionError
	fmt.Println(errors.As(err, &refused), refused.From, refused.To)
	// Output:
	// true COMPLETED PROCESSING
}

func ExampleUnsupportedEventTypeError() {
	registry := must(almanac.NewRegistry(almanac.Birthday{}))
	_, err := registry.Handler("WEDDING")
	var unknown *almanac.UnsupportedEventTypeError
	fmt.Println(errors.As(err, &unknown), err)
	// Output:
	// true almanac: no handler for event type "WEDDING"
}

// A transient failure, a permanent failure, and a failure with a time for the next
// attempt.
func ExampleRetryAfter() {
	busy := errors.New("receiver is busy")
	for _, err := range []error{busy, almanac.Permanent(busy), almanac.RetryAfter(time.Minute, busy)} {
		fmt.Println(err, errors.Is(err, almanac.ErrPermanent))
	}
	// Output:
	// receiver is busy false
	// receiver is busy true
	// receiver is busy false
}
