package almanac_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
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
