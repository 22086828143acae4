package almanac_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
)

func TestCheckChange(t *testing.T) {
	t.Parallel()

	other := uuid.MustParse("0198c0de-0000-7000-8000-00000000000f")
	const allowed, transition, otherwise = "allowed", "transition", "otherwise"
	released := func(t *testing.T) almanac.Event {
		e, err := in(t, almanac.Processing).Release(almanac.AfterShutdown, "", instant(t, "2026-12-10T10:00:00Z"))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	fresh := func(t *testing.T) almanac.Event { return in(t, almanac.Pending) }
	claimed := func(t *testing.T) almanac.Event { return in(t, almanac.Processing) }
	completed := func(t *testing.T) almanac.Event { return in(t, almanac.Completed) }
	move := func(e *almanac.Event) {
		e.Due, e.Zone, e.Wall.Clock.Hour, e.OccurrenceKey = e.Due.Add(time.Hour), "Asia/Tokyo", 10, "2027"
	}
	claim := func(e *almanac.Event) { e.Status, e.ClaimCount = almanac.Processing, e.ClaimCount+1 }
	tests := map[string]struct {
		from   func(t *testing.T) almanac.Event
		change func(e *almanac.Event)
		want   string
	}{
		"nothing, never claimed":            {fresh, func(*almanac.Event) {}, allowed},
		"nothing, in flight":                {claimed, func(*almanac.Event) {}, transition},
		"nothing, terminal":                 {completed, func(*almanac.Event) {}, transition},
		"a new target, never claimed":       {fresh, move, allowed},
		"a new payload, never claimed":      {fresh, func(e *almanac.Event) { e.Payload = json.RawMessage(`{}`) }, allowed},
		"a new target, after a release":     {released, move, transition},
		"a new target with the claim":       {fresh, func(e *almanac.Event) { claim(e); move(e) }, otherwise},
		"a new target while completing":     {claimed, func(e *almanac.Event) { e.Status = almanac.Completed; move(e) }, otherwise},
		"another due while completing":      {claimed, func(e *almanac.Event) { e.Status = almanac.Completed; e.Due = e.Due.Add(1) }, otherwise},
		"another zone while releasing":      {claimed, func(e *almanac.Event) { e.Status = almanac.Pending; e.Zone = "UTC" }, otherwise},
		"another key while releasing":       {claimed, func(e *almanac.Event) { e.Status = almanac.Pending; e.OccurrenceKey = "2027" }, otherwise},
		"another wall time while failing":   {claimed, func(e *almanac.Event) { e.Status = almanac.Failed; e.Wall.Clock.Hour++ }, otherwise},
		"a claim count without a claim":     {fresh, func(e *almanac.Event) { e.ClaimCount = 1 }, transition},
		"the count set back by a release":   {claimed, func(e *almanac.Event) { e.Status, e.ClaimCount = almanac.Pending, 0 }, otherwise},
		"another policy while completing":   {claimed, func(e *almanac.Event) { e.Status = almanac.Completed; e.Policies.Gap = almanac.GapSkip }, otherwise},
		"another payload while releasing":   {claimed, func(e *almanac.Event) { e.Status = almanac.Pending; e.Payload = json.RawMessage(`{}`) }, otherwise},
		"another payload with a new claim":  {released, func(e *almanac.Event) { claim(e); e.Payload = json.RawMessage(`{}`) }, otherwise},
		"the same due elsewhere":            {claimed, func(e *almanac.Event) { e.Status = almanac.Failed; e.Due = e.Due.In(time.FixedZone("", 60)) }, allowed},
		"the claim count set back":          {released, func(e *almanac.Event) { e.ClaimCount = 0; move(e) }, transition},
		"a claim":                           {fresh, claim, allowed},
		"a claim after a release":           {released, claim, allowed},
		"PENDING to COMPLETED":              {fresh, func(e *almanac.Event) { e.Status = almanac.Completed }, transition},
		"COMPLETED to PENDING":              {completed, func(e *almanac.Event) { e.Status = almanac.Pending }, transition},
		"a status nobody knows":             {claimed, func(e *almanac.Event) { e.Status = "PAUSED" }, transition},
		"a cancellation":                    {fresh, func(e *almanac.Event) { e.Status = almanac.Cancelled }, allowed},
		"a cancellation after a release":    {released, func(e *almanac.Event) { e.Status = almanac.Cancelled }, allowed},
		"a cancellation in flight":          {claimed, func(e *almanac.Event) { e.Status = almanac.Cancelled }, transition},
		"another origin":                    {fresh, func(e *almanac.Event) { e.RequeuedFrom = other }, otherwise},
		"another id":                        {fresh, func(e *almanac.Event) { e.ID = other }, otherwise},
		"another user":                      {fresh, func(e *almanac.Event) { e.UserID = other }, otherwise},
		"another type":                      {fresh, func(e *almanac.Event) { e.Type = "ANNIVERSARY" }, otherwise},
		"another idempotency key":           {fresh, func(e *almanac.Event) { e.IdempotencyKey = "event-0" }, otherwise},
		"another idempotency key at an end": {claimed, func(e *almanac.Event) { e.Status = almanac.Failed; e.IdempotencyKey = "event-0" }, otherwise},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := tt.from(t)
			to := from
			to.Version++
			tt.change(&to)

			err := almanac.CheckChange(from, to)

			got := otherwise
			if err == nil {
				got = allowed
			} else if errors.Is(err, almanac.ErrInvalidStateTransition) {
				got = transition
			}
			if got != tt.want {
				t.Errorf("CheckChange: %v, which is %q, want %q", err, got, tt.want)
			}
		})
	}
}

// life is what an event should be after the steps taken: a model of it, so small
// that it is plainly right.
type life struct {
	status                            almanac.Status
	version, claims, retries, crashes int
}

func TestAnyLifeFollowsTheModel(t *testing.T) {
	t.Parallel()

	u := ada(t)
	born := planned(t)
	rapid.Check(t, func(t *rapid.T) {
		e, want := born, life{status: almanac.Pending, version: 1}
		// step compares what a verb did with what it should have done to the model.
		step := func(next almanac.Event, err error, allowed bool, model life) {
			if allowed != (err == nil) || err != nil && !errors.Is(err, almanac.ErrInvalidStateTransition) {
				t.Fatalf("%+v: %v, allowed %v", want, err, allowed)
			}
			if allowed {
				if err := almanac.CheckChange(e, next); err != nil {
					t.Fatalf("%+v: CheckChange: %v", want, err)
				}
				model.version++
				e, want = next, model
			}
		}
		at := func() time.Time {
			return e.Due.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "seconds")) * time.Second)
		}
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(*rapid.T) {
				next, err := e.Claim(uuid.New())
				step(next, err, want.status == almanac.Pending, life{almanac.Processing, want.version, want.claims + 1, want.retries, want.crashes})
			},
			"complete": func(*rapid.T) {
				next, err := e.Complete(at())
				step(next, err, want.status == almanac.Processing, life{almanac.Completed, want.version, want.claims, want.retries, want.crashes})
			},
			"cancel": func(*rapid.T) {
				next, err := e.Cancel("moved house")
				step(next, err, want.status == almanac.Pending, life{almanac.Cancelled, want.version, want.claims, want.retries, want.crashes})
			},
			"fail": func(*rapid.T) {
				next, err := e.Fail("gone")
				step(next, err, want.status == almanac.Processing, life{almanac.Failed, want.version, want.claims, want.retries + 1, want.crashes})
			},
			"release": func(t *rapid.T) {
				model := want
				model.status = almanac.Pending
				cause := rapid.SampledFrom([]almanac.ReleaseCause{almanac.AfterFailure, almanac.AfterCrash, almanac.AfterShutdown}).Draw(t, "cause")
				switch cause {
				case almanac.AfterFailure:
					model.retries++
				case almanac.AfterCrash:
					model.crashes++
				case almanac.AfterShutdown:
				}
				next, err := e.Release(cause, "busy", at())
				step(next, err, want.status == almanac.Processing, model)
			},
			"reschedule": func(*rapid.T) {
				o, err := almanac.Birthday{}.Next(u, e.Due)
				if err != nil {
					t.Fatal(err)
				}
				next, err := e.Reschedule(u, almanac.Birthday{}, o)
				step(next, err, want.status == almanac.Pending && want.claims == 0, want)
			},
			"": func(t *rapid.T) {
				if got := (life{e.Status, e.Version, e.ClaimCount, e.RetryCount, e.CrashCount}); got != want {
					t.Fatalf("event is %+v, want %+v", got, want)
				}
				if held, ended := e.LeaseToken != uuid.Nil, e.Status.Terminal(); held != (e.Status != almanac.Pending && e.Status != almanac.Cancelled) || ended != (e.Status == almanac.Completed && !e.ExecutedAt.IsZero() || e.FailureReason != "") {
					t.Fatalf("event does not fit together: %+v", e)
				}
				if e.AvailableAt.IsZero() != (e.Status != almanac.Pending) || e.ID != born.ID || e.IdempotencyKey != born.IdempotencyKey {
					t.Fatalf("event does not fit together: %+v", e)
				}
			},
		})
	})
}
