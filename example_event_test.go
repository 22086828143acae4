package almanac_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// An event is the stored form of an occurrence: its instant, its words and its
// idempotency key are known before anything is written.
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

	event, err := almanac.NewEvent(user, birthday, occurrence)
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

// Each step returns a new value and raises the version by one; a step that an
// event's life does not know is a typed error.
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

// The same person, instant and type always have the same key.
func ExampleNewIdempotencyKey() {
	due := time.Date(2025, time.March, 15, 14, 0, 0, 0, time.UTC)
	fmt.Println(almanac.NewIdempotencyKey("user-123", due, almanac.TypeBirthday))
	// Output: event-0da59425d0ba435e
}

// The short key is made of person, instant and type; where it belongs to another
// occurrence already, the long one tells them apart.
func ExampleIdempotencyKey() {
	e := almanac.Event{UserID: uuid.MustParse("123e4567-e89b-12d3-a456-426614174000"), Type: almanac.TypeBirthday, OccurrenceKey: "2026"}
	e.Due = time.Date(2026, time.July, 10, 13, 0, 0, 0, time.UTC)
	var short almanac.IdempotencyKey = almanac.NewIdempotencyKey(e.UserID.String(), e.Due, e.Type)
	fmt.Println(short, len(e.LongKey()))
	// Output: event-42131f80fd7556f8 38
}
