package almanac_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

func TestStockChecks(t *testing.T) {
	t.Parallel()

	due := instant(t, "2026-12-10T09:00:00Z")
	event := almanac.Event{Status: almanac.Processing, Due: due, RetryCount: 2, CrashCount: 4}
	requeued := func(check almanac.Check) almanac.Check { // two hours after its instant
		return func(e almanac.Event, now time.Time) error {
			e.Origin, e.CreatedAt = almanac.Origin{Kind: almanac.OriginRequeued, From: uuid.New()}, due.Add(2*time.Hour)
			return check(e, now)
		}
	}
	scheduled := func(check almanac.Check) almanac.Check {
		return func(e almanac.Event, now time.Time) error {
			e.Origin, e.CreatedAt = almanac.Origin{Kind: almanac.OriginScheduled}, due.Add(2*time.Hour)
			return check(e, now)
		}
	}
	moved := func(check almanac.Check) almanac.Check {
		return func(e almanac.Event, now time.Time) error {
			e.ReadyAt = due.Add(2 * time.Hour)
			return check(e, now)
		}
	}
	tests := map[string]struct {
		check almanac.Check
		now   time.Time
		want  string // the refusal; "" means that it passes
	}{
		"the status":                      {almanac.HasStatus(almanac.Processing), due, ""},
		"another status":                  {almanac.HasStatus(almanac.Pending), due, "event is PROCESSING, not PENDING"},
		"due just now":                    {almanac.IsDue(), due, ""},
		"due long since":                  {almanac.IsDue(), due.Add(time.Hour), ""},
		"due in a moment":                 {almanac.IsDue(), due.Add(-time.Nanosecond), "event is due in 1ns"},
		"one attempt left":                {almanac.AttemptsLeft(3), due, ""},
		"no attempt left":                 {almanac.AttemptsLeft(2), due, "2 of 2 attempts have failed"},
		"more attempts than there were":   {almanac.AttemptsLeft(1), due, "2 of 1 attempts have failed"},
		"one crash left":                  {almanac.CrashesBelow(5), due, ""},
		"no crash left":                   {almanac.CrashesBelow(4), due, "worker died 4 times"},
		"as old as may be":                {almanac.NotOlderThan(time.Hour), due.Add(time.Hour), ""},
		"older":                           {almanac.NotOlderThan(time.Hour), due.Add(time.Hour + time.Minute), "missed: 1h1m0s after its instant, more than 1h0m0s"},
		"requeued, as old as may be":      {requeued(almanac.NotOlderThan(time.Hour)), due.Add(3 * time.Hour), ""},
		"requeued, older":                 {requeued(almanac.NotOlderThan(time.Hour)), due.Add(4 * time.Hour), "missed: 2h0m0s after it was requeued, more than 1h0m0s"},
		"scheduled, as old as may be":     {scheduled(almanac.NotOlderThan(time.Hour)), due.Add(3 * time.Hour), ""},
		"scheduled, older":                {scheduled(almanac.NotOlderThan(time.Hour)), due.Add(4 * time.Hour), "missed: 2h0m0s after it was scheduled, more than 1h0m0s"},
		"moved, as old as may be":         {moved(almanac.NotOlderThan(time.Hour)), due.Add(3 * time.Hour), ""},
		"moved, older":                    {moved(almanac.NotOlderThan(time.Hour)), due.Add(4 * time.Hour), "missed: 2h0m0s after it was ready, more than 1h0m0s"},
		"early, which is never too late":  {almanac.NotOlderThan(0), due.Add(-time.Hour), ""},
		"on time, when nothing is waited": {almanac.NotOlderThan(0), due, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := ""
			if err := tt.check(event, tt.now); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("refusal %q, want %q", got, tt.want)
			}
		})
	}
}

// The refusals of a chain are joined, and each is found by its type.
func TestTheRetryLimitMatchesItsError(t *testing.T) {
	t.Parallel()

	event := almanac.Event{ID: uuid.New(), Status: almanac.Failed, RetryCount: 3}
	err := almanac.Checks{almanac.HasStatus(almanac.Processing), almanac.AttemptsLeft(3)}.All(event, instant(t, "2026-12-10T09:00:00Z"))
	var limit *almanac.MaxRetriesExceededError
	if !errors.Is(err, almanac.ErrMaxRetriesExceeded) || !errors.As(err, &limit) || *limit != (almanac.MaxRetriesExceededError{EventID: event.ID, Failed: 3, Limit: 3}) {
		t.Errorf("refusal %v, %+v", err, limit)
	}
}

func TestChecksAreCalledInOrder(t *testing.T) {
	t.Parallel()

	first, second := errors.New("on holiday"), errors.New("has unsubscribed")
	var asked []string
	check := func(name string, answer error) almanac.Check {
		return func(almanac.Event, time.Time) error {
			asked = append(asked, name)
			return answer
		}
	}
	chain := almanac.Checks{check("a", nil), check("b", first), check("c", nil), check("d", second)}

	if err := chain.First(almanac.Event{}, time.Time{}); !errors.Is(err, first) || errors.Is(err, second) {
		t.Errorf("First = %v, want %v alone", err, first)
	}
	if got := len(asked); got != 2 {
		t.Errorf("First asked %q, want only up to the refusal", asked)
	}
	asked = nil
	err := chain.All(almanac.Event{}, time.Time{})
	if !errors.Is(err, first) || !errors.Is(err, second) || err.Error() != "on holiday\nhas unsubscribed" {
		t.Errorf("All = %v, want both in order", err)
	}
	if got := len(asked); got != 4 {
		t.Errorf("All asked %q, want everybody", asked)
	}
	for name, passing := range map[string]almanac.Checks{"empty": nil, "content": {check("a", nil)}} {
		if first, all := passing.First(almanac.Event{}, time.Time{}), passing.All(almanac.Event{}, time.Time{}); first != nil || all != nil {
			t.Errorf("the %s chain says %v and %v, want nil", name, first, all)
		}
	}
}
