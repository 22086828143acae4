package calendar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

func TestTypedErrorsOfTheCalendarMatchTheirSentinelAndNoOther(t *testing.T) {
	t.Parallel()

	gap := calendar.WallTimeError{Wall: wall(t, "2026-03-29T02:30:00"), Zone: zone(t, "Europe/Berlin"), Reading: calendar.ShownNever}
	gap.Change = calendar.Change{At: instant(t, "2026-03-29T01:00:00Z"), Before: time.Hour, After: 2 * time.Hour}
	rejected := gap
	rejected.Rejected = true
	sentinels := []error{
		calendar.ErrInvalidTimezone, calendar.ErrSkippedWallTime, calendar.ErrRejectedWallTime, calendar.ErrInvalidRecurrence,
		calendar.ErrNoOccurrence, calendar.ErrInvalidInput,
	}
	tests := map[string]struct {
		err  error
		is   error
		says string
	}{
		"timezone":        {&calendar.InvalidTimezoneError{Name: "Mars/Base"}, calendar.ErrInvalidTimezone, `calendar: "Mars/Base" is not a known time zone`},
		"timezone, near":  {&calendar.InvalidTimezoneError{Name: "tokyo", Suggestion: "Asia/Tokyo"}, calendar.ErrInvalidTimezone, `calendar: "tokyo" is not a known time zone; did you mean "Asia/Tokyo"?`},
		"timezone, none":  {&calendar.InvalidTimezoneError{}, calendar.ErrInvalidTimezone, "calendar: the name of the time zone is empty"},
		"timezone, blank": {&calendar.InvalidTimezoneError{Name: " "}, calendar.ErrInvalidTimezone, `calendar: " " is empty`},
		"timezone, new":   {&calendar.InvalidTimezoneError{Name: "Asia/New", NoData: true}, calendar.ErrInvalidTimezone, `calendar: "Asia/New" is a time zone for which this machine has no data`},
		"skipped":         {&gap, calendar.ErrSkippedWallTime, "calendar: clocks in Europe/Berlin show 2026-03-29T02:30:00 never: clocks skip 02:00–03:00"},
		"rejected":        {&rejected, calendar.ErrRejectedWallTime, "calendar: clocks in Europe/Berlin show 2026-03-29T02:30:00 never: clocks skip 02:00–03:00"},
		"recurrence":      {&calendar.InvalidRecurrenceError{Rule: "daily", Problems: []string{"a", "b"}}, calendar.ErrInvalidRecurrence, `calendar: invalid recurrence "daily": a; b`},
		"input":           {&calendar.InputError{Problems: []calendar.InputProblem{{Field: "gap", Problem: "is bad"}, {Field: "fold", Problem: "is worse"}}}, calendar.ErrInvalidInput, "calendar: gap is bad; fold is worse"},
		"format":          {&calendar.FormatError{Text: "25:00", Problem: "is not a time of day"}, nil, `calendar: "25:00" is not a time of day`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			wrapped := fmt.Errorf("outer: %w", tt.err)
			for _, target := range sentinels {
				if got, want := errors.Is(wrapped, target), target == tt.is; got != want {
					t.Errorf("errors.Is(%v, %v) = %v, want %v", wrapped, target, got, want)
				}
			}
			if tt.err.Error() != tt.says {
				t.Errorf("says %q, want %q", tt.err, tt.says)
			}
		})
	}
	for _, err := range sentinels {
		if !strings.HasPrefix(err.Error(), "calendar: ") {
			t.Errorf("%q does not name its package", err)
		}
	}
}

func TestPoliciesAreCheckedByField(t *testing.T) {
	t.Parallel()

	if err := (calendar.Policies{Gap: calendar.GapSkip}).Check(); err != nil {
		t.Errorf("a good policy is refused: %v", err)
	}
	err := calendar.Policies{Gap: "a", Fold: "b", LeapDay: "c", MonthEnd: "d"}.Check()
	const want = `calendar: gap is "a", which is no policy; fold is "b", which is no policy; leap day is "c", which is no policy; month end is "d", which is no policy`
	if err == nil || err.Error() != want {
		t.Errorf("bad policies: %v, want %s", err, want)
	}
	if _, refused := zone(t, "UTC").Resolve(wall(t, "2027-01-01T00:00:00"), calendar.Policies{Gap: "a"}); !errors.Is(refused, calendar.ErrInvalidInput) {
		t.Errorf("Resolve by a policy that is none: %v", refused)
	}
}
