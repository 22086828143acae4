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
