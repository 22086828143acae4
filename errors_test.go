package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

var sentinels = map[string]error{
	"not found": almanac.ErrNotFound, "exists": almanac.ErrExists, "external id taken": almanac.ErrExternalIDTaken, "invalid": almanac.ErrInvalid,
	"invalid date of birth":       almanac.ErrInvalidDateOfBirth,
	"date of birth in the future": almanac.ErrDateOfBirthInFuture, "max retries exceeded": almanac.ErrMaxRetriesExceeded,
	"invalid state transition": almanac.ErrInvalidStateTransition, "optimistic lock": almanac.ErrOptimisticLock,
	"unsupported event type": almanac.ErrUnsupportedEventType,
	"lease lost":             almanac.ErrLeaseLost, "permanent": almanac.ErrPermanent, "running": almanac.ErrRunning,
}

func TestTypedErrorsMatchOnlyTheirSentinel(t *testing.T) {
	t.Parallel()

	id := uuid.MustParse("123e4567-e89b-12d3-a456-426614174000")
	tests := map[string]struct {
		err  error
		is   string
		says string
	}{
		"not found":     {&almanac.NotFoundError{Kind: "user", ID: id}, "not found", "almanac: no user " + id.String()},
		"external id":   {&almanac.NotFoundError{Kind: "user", ExternalID: "secret"}, "not found", "almanac: no user with this external id"},
		"taken":         {&almanac.ExternalIDTakenError{UserID: id, Holder: uuid.Max, ExternalID: "member-17"}, "external id taken", "almanac: user " + uuid.Max.String() + ` has the external id "member-17"`},
		"taken, whose":  {&almanac.ExternalIDTakenError{UserID: id, ExternalID: "member-17"}, "external id taken", `almanac: another user has the external id "member-17"`},
		"validation":    {&almanac.ValidationError{Fields: []almanac.FieldError{{Field: "a", Problem: "is bad"}, {Field: "b", Problem: "is worse"}}}, "invalid", "almanac: invalid input: a is bad; b is worse"},
		"date of birth": {&almanac.InvalidDateOfBirthError{Value: "2030-01-01", Reason: "is in the future"}, "invalid date of birth", `almanac: date of birth "2030-01-01" is in the future`},
		"retry limit":   {&almanac.MaxRetriesExceededError{EventID: id, Failed: 3, Limit: 3}, "max retries exceeded", "3 of 3 attempts have failed"},
		"transition":    {&almanac.InvalidStateTransitionError{EventID: id, From: almanac.Completed, To: almanac.Processing}, "invalid state transition", "almanac: event " + id.String() + ": invalid state transition from COMPLETED to PROCESSING"},
		"lock, user":    {&almanac.OptimisticLockError{UserID: id, Expected: 3}, "optimistic lock", "almanac: user " + id.String() + " was modified by another transaction (expected version 3)"},
		"lock":          {&almanac.OptimisticLockError{EventID: id, Expected: 3}, "optimistic lock", "almanac: event " + id.String() + " was modified by another transaction (expected version 3)"},
		"event type":    {&almanac.UnsupportedEventTypeError{EventType: "DIGEST"}, "unsupported event type", `almanac: no handler for event type "DIGEST"`},
		"permanent":     {almanac.Permanent(errors.New("webhook: HTTP 404")), "permanent", "webhook: HTTP 404"},
		"retry after":   {almanac.RetryAfter(time.Minute, errors.New("webhook: HTTP 503")), "", "webhook: HTTP 503"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			wrapped := fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", tt.err))
			for sentinel, target := range sentinels {
				if got, want := errors.Is(wrapped, target), sentinel == tt.is; got != want {
					t.Errorf("errors.Is(%v, %v) = %v, want %v", wrapped, target, got, want)
				}
			}
			if tt.err.Error() != tt.says {
				t.Errorf("says %q, want %q", tt.err, tt.says)
			}
			target := reflect.New(reflect.TypeOf(tt.err))
			if !errors.As(wrapped, target.Interface()) || target.Elem().Interface() != tt.err {
				t.Errorf("errors.As did not find the %T in %v", tt.err, wrapped)
			}
		})
	}
}

func TestSentinelsMatchOnlyThemselves(t *testing.T) {
	t.Parallel()

	for name, err := range sentinels {
		for other, target := range sentinels {
			if errors.Is(err, target) != (name == other) {
				t.Errorf("%q and %q are confused", err, target)
			}
		}
		if !strings.HasPrefix(err.Error(), "almanac: ") {
			t.Errorf("%q does not name its package", err)
		}
	}
}

func TestValidationErrorHoldsTheErrorsBehindItsFields(t *testing.T) {
	t.Parallel()

	err := error(&almanac.ValidationError{Fields: []almanac.FieldError{
		{Field: "firstName", Problem: "is empty"},
		{Field: "timezone", Problem: "is odd", Err: &calendar.InvalidTimezoneError{Name: "EST"}},
		{Field: "dateOfBirth", Problem: "is odd", Err: &almanac.InvalidDateOfBirthError{Value: "never"}},
	}})
	var zone *calendar.InvalidTimezoneError
	var born *almanac.InvalidDateOfBirthError
	if !errors.As(err, &zone) || zone.Name != "EST" || !errors.As(err, &born) || born.Value != "never" {
		t.Errorf("errors.As found %v and %v in %v", zone, born, err)
	}
	for _, target := range []error{almanac.ErrInvalid, calendar.ErrInvalidTimezone, almanac.ErrInvalidDateOfBirth} {
		if !errors.Is(err, target) {
			t.Errorf("%v does not match %v", err, target)
		}
	}
}

func TestMarksKeepTheErrorTheyMark(t *testing.T) {
	t.Parallel()

	cause := &almanac.NotFoundError{Kind: "user"}
	marked := almanac.RetryAfter(time.Minute, almanac.Permanent(fmt.Errorf("webhook: %w", cause)))
	var found *almanac.NotFoundError
	if !errors.As(marked, &found) || found != cause || !errors.Is(marked, almanac.ErrNotFound) || !errors.Is(marked, almanac.ErrPermanent) {
		t.Errorf("the marks hide %v", cause)
	}
	if err := almanac.Permanent(nil); err != nil {
		t.Errorf("Permanent(nil) = %v, want nil", err)
	}
	if err := almanac.RetryAfter(time.Hour, nil); err != nil {
		t.Errorf("RetryAfter of nil = %v, want nil", err)
	}
}

func TestErrorTypeClassifiesAnAttempt(t *testing.T) {
	t.Parallel()
	refused, stopped := errors.New("refused"), errors.New("the process stops")
	tests := map[string]struct {
		cause, err error
		want       string
	}{
		"accepted":                   {nil, nil, ""},
		"accepted though stopped":    {stopped, nil, ""},
		"refused":                    {nil, refused, "failed"},
		"refused for good":           {nil, almanac.Permanent(refused), "permanent"},
		"snoozed":                    {nil, almanac.Snooze(time.Minute, ""), "snoozed"},
		"called off":                 {nil, fmt.Errorf("mail: %w", almanac.NotOwed("no address")), "not_owed"},
		"too slow":                   {context.DeadlineExceeded, refused, "timeout"},
		"too slow, refused for good": {context.DeadlineExceeded, almanac.Permanent(refused), "permanent"},
		"cut short":                  {stopped, almanac.Permanent(refused), "canceled"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.cause != nil {
				cancel(tt.cause)
			}
			require.Equal(t, tt.want, almanac.ErrorType(ctx, tt.err))
		})
	}
}
