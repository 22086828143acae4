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

func ExampleNotFoundError() {
	_, err := almanactest.NewRepository(nil).User(context.Background(), uuid.Nil)
	var missing *almanac.NotFoundError
	fmt.Println(errors.As(err, &missing), missing.Kind, errors.Is(err, almanac.ErrNotFound))
	// Output:
	// true user true
}

func ExampleInvalidTimezoneError() {
	_, err := almanac.LoadTimezone("Europe/Berln")
	var unknown *almanac.InvalidTimezoneError
	fmt.Println(errors.As(err, &unknown), unknown.Suggestion)
	// Output:
	// true Europe/Berlin
}

func ExampleInvalidDateOfBirthError() {
	_, err := almanac.ParseDateOfBirth("1990-02-30")
	var bad *almanac.InvalidDateOfBirthError
	fmt.Println(errors.As(err, &bad), bad.Value, bad.Reason)
	// Output:
	// true 1990-02-30 is not a day of the calendar: February 1990 has 28 days
}

// A host's own program asks the chain of checks before it delivers an event by hand.
func ExampleMaxRetriesExceededError() {
	err := almanac.Checks{almanac.AttemptsLeft(3)}.All(almanac.Event{RetryCount: 3}, time.Now())
	var limit *almanac.MaxRetriesExceededError
	fmt.Println(errors.As(err, &limit), errors.Is(err, almanac.ErrMaxRetriesExceeded), limit)
	// Output: true true 3 of 3 attempts have failed
}

func ExampleNoDelivererError() {
	registry, err := almanac.NewRegistry(almanac.Birthday{}, almanac.Recurring{Type: "DIGEST", Via: "letter"})
	if err != nil {
		fmt.Println(err)
	}
	webhook := almanac.WithDeliverer(almanac.ChannelWebhook, new(almanactest.Recorder))
	_, err = almanac.NewScheduler(almanactest.NewRepository(nil), registry, webhook)
	var missing *almanac.NoDelivererError
	fmt.Println(errors.As(err, &missing), missing.EventType, missing.Channel)
	// Output:
	// true DIGEST letter
}

func ExampleInvalidRecurrenceError() {
	_, err := almanac.ParseCron("61 25 * * *")
	var bad *almanac.InvalidRecurrenceError
	if errors.As(err, &bad) {
		for _, problem := range bad.Problems {
			fmt.Println(problem)
		}
	}
	// Output:
	// minute "61": "61" is not between 0 and 59
	// hour "25": "25" is not between 0 and 23
}

// What has ended never changes.
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

func ExampleWallTimeError() {
	berlin := must(almanac.LoadTimezone("Europe/Berlin"))
	_, err := berlin.Resolve(must(almanac.ParseWallTime("2027-03-28T02:30:00")), almanac.Policies{Gap: almanac.GapReject})
	var rejected *almanac.WallTimeError
	fmt.Println(errors.As(err, &rejected), errors.Is(err, almanac.ErrRejectedWallTime))
	fmt.Println(err)
	// Output:
	// true true
	// almanac: clocks in Europe/Berlin show 2027-03-28T02:30:00 never: clocks skip 02:00–03:00
}

func ExampleFieldError() {
	_, err := almanac.NewUser(almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Mars/Base"}, time.Now())
	var invalid *almanac.ValidationError
	if errors.As(err, &invalid) {
		field := invalid.Fields[0]
		fmt.Println(field.Field, errors.Is(field.Err, almanac.ErrInvalidTimezone))
	}
	// Output:
	// timezone true
}

// A transient failure, a permanent one, and one whose receiver said when to come again.
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
