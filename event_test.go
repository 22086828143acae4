package almanac_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

var (
	someToken = uuid.MustParse("0198c0de-0000-4000-8000-000000000001")
	statuses  = []almanac.Status{almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, almanac.Cancelled}
)

// planned returns Ada's next birthday, PENDING and never claimed.
func planned(t testing.TB) almanac.Event {
	t.Helper()
	u := ada(t)
	o, err := almanac.Birthday{}.Next(u, u.CreatedAt)
	if err != nil {
		t.Fatal(err)
	}
	e, err := almanac.NewEvent(u, almanac.Birthday{}, almanac.Occurrence{Occurrence: o})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// in returns an event that came to a status by the way that events come there.
func in(t testing.TB, s almanac.Status) almanac.Event {
	t.Helper()
	e := planned(t)
	if s == almanac.Pending {
		return e
	}
	if s == almanac.Cancelled {
		e, err := e.Cancel("moved house")
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e, err := e.Claim(someToken)
	if err == nil && s == almanac.Completed {
		e, err = e.Complete(e.Due)
	}
	if err == nil && s == almanac.Failed {
		e, err = e.Fail("gone")
	}
	if err != nil || e.Status != s {
		t.Fatalf("event is %s, not %s: %v", e.Status, s, err)
	}
	return e
}

// verb is a step of an event's life: where it leads, and from where it may begin.
type verb struct {
	to   almanac.Status
	from []almanac.Status
	do   func(e almanac.Event) (almanac.Event, error)
}

func verbs() map[string]verb {
	at := time.Date(2026, 12, 10, 9, 0, 1, 0, time.UTC)
	release := func(c almanac.ReleaseCause) func(e almanac.Event) (almanac.Event, error) {
		return func(e almanac.Event) (almanac.Event, error) { return e.Release(c, "busy", at) }
	}
	apply := func(o almanac.Outcome) func(e almanac.Event) (almanac.Event, error) {
		return func(e almanac.Event) (almanac.Event, error) { return o.Apply(e, at) }
	}
	waiting, claimed := []almanac.Status{almanac.Pending}, []almanac.Status{almanac.Processing}
	return map[string]verb{
		"Claim":                  {almanac.Processing, waiting, func(e almanac.Event) (almanac.Event, error) { return e.Claim(someToken) }},
		"Cancel":                 {almanac.Cancelled, slices.Concat(waiting, claimed), func(e almanac.Event) (almanac.Event, error) { return e.Cancel("moved house") }},
		"Complete":               {almanac.Completed, claimed, func(e almanac.Event) (almanac.Event, error) { return e.Complete(at) }},
		"Fail":                   {almanac.Failed, claimed, func(e almanac.Event) (almanac.Event, error) { return e.Fail("gone") }},
		"Release after failure":  {almanac.Pending, claimed, release(almanac.AfterFailure)},
		"Release after a crash":  {almanac.Pending, claimed, release(almanac.AfterCrash)},
		"Release after shutdown": {almanac.Pending, claimed, release(almanac.AfterShutdown)},
		"Apply Delivered":        {almanac.Completed, claimed, apply(almanac.Delivered(at))},
		"Apply GaveUp":           {almanac.Failed, claimed, apply(almanac.GaveUp("gone"))},
		"Apply CalledOff":        {almanac.Cancelled, claimed, apply(almanac.CalledOff("no address"))},
		"Apply Released":         {almanac.Pending, claimed, apply(almanac.Released(almanac.AfterFailure, "busy", time.Minute))},
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()

	for name, v := range verbs() {
		for _, from := range statuses {
			t.Run(fmt.Sprintf("%s from %s", name, from), func(t *testing.T) {
				t.Parallel()
				was := in(t, from)
				kept := was

				got, err := v.do(was)

				if !reflect.DeepEqual(was, kept) {
					t.Errorf("the receiver changed from %+v to %+v", kept, was)
				}
				if slices.Contains(v.from, from) {
					if err != nil || got.Status != v.to || got.Version != was.Version+1 {
						t.Errorf("became %s at version %d, %v; want %s at version %d", got.Status, got.Version, err, v.to, was.Version+1)
					}
					if err := almanac.CheckChange(was, got); err != nil {
						t.Errorf("CheckChange refuses it: %v", err)
					}
					return
				}
				want := almanac.InvalidStateTransitionError{EventID: was.ID, From: from, To: v.to}
				var refused *almanac.InvalidStateTransitionError
				if !errors.As(err, &refused) || *refused != want || !errors.Is(err, almanac.ErrInvalidStateTransition) {
					t.Errorf("error %v, want %v", err, &want)
				}
				if !reflect.DeepEqual(got, was) {
					t.Errorf("a refused step returned %+v, want the event as it was", got)
				}
			})
		}
	}
}

func TestStatusCanBecome(t *testing.T) {
	t.Parallel()

	allowed := map[[2]almanac.Status]bool{
		{almanac.Pending, almanac.Processing}:   true,
		{almanac.Pending, almanac.Cancelled}:    true,
		{almanac.Processing, almanac.Completed}: true,
		{almanac.Processing, almanac.Failed}:    true,
		{almanac.Processing, almanac.Cancelled}: true,
		{almanac.Processing, almanac.Pending}:   true,
	}
	all := append([]almanac.Status{"", "PAUSED"}, statuses...)
	for _, from := range all {
		if got, want := from.Terminal(), from == almanac.Completed || from == almanac.Failed || from == almanac.Cancelled; got != want {
			t.Errorf("%s.Terminal() = %v, want %v", from, got, want)
		}
		for _, to := range all {
			if got, want := from.CanBecome(to), allowed[[2]almanac.Status{from, to}]; got != want {
				t.Errorf("%s.CanBecome(%s) = %v, want %v", from, to, got, want)
			}
		}
	}
}

func TestTransitionsRecordWhatHappened(t *testing.T) {
	t.Parallel()

	elsewhere := time.FixedZone("elsewhere", 3600)
	later := instant(t, "2026-12-10T09:00:10Z")
	tests := map[string]struct {
		from   almanac.Status
		do     func(e almanac.Event) (almanac.Event, error)
		expect func(e *almanac.Event)
	}{
		"a claim stores its token": {almanac.Pending, func(e almanac.Event) (almanac.Event, error) { return e.Claim(someToken) }, func(e *almanac.Event) {
			e.Status, e.LeaseToken, e.AvailableAt, e.ClaimCount = almanac.Processing, someToken, time.Time{}, 1
		}},
		"a cancellation counts nothing": {almanac.Pending, func(e almanac.Event) (almanac.Event, error) { return e.Cancel("moved house") }, func(e *almanac.Event) {
			e.Status, e.AvailableAt, e.FailureReason = almanac.Cancelled, time.Time{}, "moved house"
		}},
		"a worker's cancellation keeps the token and counts no attempt": {almanac.Processing, func(e almanac.Event) (almanac.Event, error) { return e.Cancel("no address") }, func(e *almanac.Event) {
			e.Status, e.FailureReason = almanac.Cancelled, "no address"
		}},
		"completion keeps the token": {almanac.Processing, func(e almanac.Event) (almanac.Event, error) { return e.Complete(later.In(elsewhere)) }, func(e *almanac.Event) {
			e.Status, e.ExecutedAt = almanac.Completed, later
		}},
		"failure counts as an attempt": {almanac.Processing, func(e almanac.Event) (almanac.Event, error) { return e.Fail("HTTP 404") }, func(e *almanac.Event) {
			e.Status, e.FailureReason, e.RetryCount = almanac.Failed, "HTTP 404", 1
		}},
		"failure always has a reason": {almanac.Processing, func(e almanac.Event) (almanac.Event, error) { return e.Fail("") }, func(e *almanac.Event) {
			e.Status, e.FailureReason, e.RetryCount = almanac.Failed, "unknown", 1
		}},
		"release after a failure counts it": {almanac.Processing, func(e almanac.Event) (almanac.Event, error) {
			return e.Release(almanac.AfterFailure, "HTTP 503", later.In(elsewhere))
		}, func(e *almanac.Event) {
			e.Status, e.LeaseToken, e.AvailableAt, e.LastError, e.RetryCount = almanac.Pending, uuid.Nil, later, "HTTP 503", 1
		}},
		"release after a crash counts that": {almanac.Processing, func(e almanac.Event) (almanac.Event, error) {
			return e.Release(almanac.AfterCrash, "lease ran out", later)
		}, func(e *almanac.Event) {
			e.Status, e.LeaseToken, e.AvailableAt, e.LastError, e.CrashCount = almanac.Pending, uuid.Nil, later, "lease ran out", 1
		}},
		"release never makes it available before its target": {almanac.Processing, func(e almanac.Event) (almanac.Event, error) {
			return e.Release(almanac.AfterCrash, "", e.Due.Add(-2*time.Hour))
		}, func(e *almanac.Event) {
			e.Status, e.LeaseToken, e.AvailableAt, e.CrashCount = almanac.Pending, uuid.Nil, e.Due, 1
		}},
		"release at shutdown counts nothing": {almanac.Processing, func(e almanac.Event) (almanac.Event, error) {
			return e.Release(almanac.AfterShutdown, "", later)
		}, func(e *almanac.Event) {
			e.Status, e.LeaseToken, e.AvailableAt = almanac.Pending, uuid.Nil, later
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := in(t, tt.from)

			got, err := tt.do(was)

			want := was
			want.Version++
			tt.expect(&want)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

// The repositories have room for 400 bytes of calendars. An event that needs more is refused when it is planned.
func TestAnEventOfTooManyCalendarsIsRefused(t *testing.T) {
	t.Parallel()
	u := ada(t)
	o, err := almanac.Birthday{}.Next(u, u.CreatedAt)
	if err != nil {
		t.Fatal(err)
	}
	for bytes, refused := range map[int]bool{400: false, 401: true} {
		o.Consulted.Calendars = strings.Repeat("X", bytes)
		_, err := almanac.NewEvent(u, almanac.Birthday{}, almanac.Occurrence{Occurrence: o})
		invalid, is := errors.AsType[*almanac.ValidationError](err)
		if is != refused || is && (len(invalid.Fields) != 1 || invalid.Fields[0].Field != "calendars") {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

func TestReasonsBecomeStorable(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ reason, want string }{
		"a short one is kept":                 {"HTTP 503", "HTTP 503"},
		"a thousand bytes are kept":           {strings.Repeat("a", 1000), strings.Repeat("a", 1000)},
		"more are cut":                        {strings.Repeat("a", 1001), strings.Repeat("a", 1000) + "…"},
		"cut between characters":              {strings.Repeat("a", 999) + "äää", strings.Repeat("a", 999) + "…"},
		"cut between long characters":         {strings.Repeat("🎂", 251), strings.Repeat("🎂", 250) + "…"},
		"cut before a character that is long": {"a" + strings.Repeat("🎂", 250), "a" + strings.Repeat("🎂", 249) + "…"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := in(t, almanac.Processing)

			failed, _ := e.Fail(tt.reason)
			released, _ := e.Release(almanac.AfterFailure, tt.reason, e.Due)

			if failed.FailureReason != tt.want || released.LastError != tt.want {
				t.Errorf("reason %q became %q and %q, want %q", tt.reason, failed.FailureReason, released.LastError, tt.want)
			}
		})
	}
}

// What a receiver answers can hold any bytes. PostgreSQL takes neither U+0000 nor
// broken UTF-8 as text, and a reason that it refuses would keep the outcomes of a
// whole batch from being stored.
func TestReasonsOfAnyBytesBecomeStorable(t *testing.T) {
	t.Parallel()

	for _, reason := range []string{"a\x00b", "a\xffb", "\xc3", strings.Repeat("\x80", 2000), "half a character \xf0\x9f"} {
		e := in(t, almanac.Processing)
		failed, _ := e.Fail(reason)
		released, _ := e.Release(almanac.AfterFailure, reason, e.Due)
		for _, got := range []string{failed.FailureReason, released.LastError} {
			if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || len(got) > 1100 {
				t.Errorf("reason %.20q became %.20q, %d bytes, which cannot be stored", reason, got, len(got))
			}
		}
	}
}

func TestReschedule(t *testing.T) {
	t.Parallel()

	e := planned(t)
	moved, err := ada(t).Edit(almanac.ProfileChange{FirstName: ptr("Augusta"), Timezone: ptr("Asia/Tokyo")}, instant(t, "2026-06-01T00:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := almanac.Birthday{}.Next(moved, e.Due.Add(-72*time.Hour))
	if err != nil {
		t.Fatal(err)
	}

	got, err := e.Reschedule(moved, almanac.Birthday{}, almanac.Occurrence{Occurrence: o})

	want := e
	want.Version, want.UserVersion, want.Zone = 2, 2, "Asia/Tokyo"
	want.Due, want.AvailableAt = instant(t, "2026-12-10T00:00:00Z"), instant(t, "2026-12-10T00:00:00Z")
	want.Payload = json.RawMessage(`{"message":"Hey, Augusta Lovelace it's your birthday"}`)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Reschedule = %+v, %v\nwant %+v", got, err, want)
	}
	if err := almanac.CheckChange(e, got); err != nil {
		t.Errorf("CheckChange refuses it: %v", err)
	}

	claimed, _ := e.Claim(someToken)
	released, _ := claimed.Release(almanac.AfterShutdown, "", e.Due)
	for _, once := range []almanac.Event{claimed, released, in(t, almanac.Completed), in(t, almanac.Failed)} {
		same, err := once.Reschedule(moved, almanac.Birthday{}, almanac.Occurrence{Occurrence: o})
		var refused *almanac.InvalidStateTransitionError
		if !errors.As(err, &refused) || refused.From != once.Status || refused.To != almanac.Pending || !reflect.DeepEqual(same, once) {
			t.Errorf("%s after %d claims: %v, want it refused", once.Status, once.ClaimCount, err)
		}
	}
	o.Policies.Gap = "later"
	if same, err := e.Reschedule(moved, almanac.Birthday{}, almanac.Occurrence{Occurrence: o}); err == nil || !reflect.DeepEqual(same, e) {
		t.Errorf("an occurrence that does not resolve gave %+v, %v; want the event as it was", same, err)
	}
}

func TestLateness(t *testing.T) {
	t.Parallel()

	e := in(t, almanac.Processing)
	if got := e.Lateness(); got != 0 {
		t.Errorf("Lateness of what was not delivered = %v, want 0", got)
	}
	done, _ := e.Complete(e.Due.Add(37 * time.Millisecond))
	if got := done.Lateness(); got != 37*time.Millisecond {
		t.Errorf("Lateness = %v, want 37ms", got)
	}
	done.ReadyAt = done.Due.Add(30 * time.Millisecond)
	if got := done.Lateness(); got != 7*time.Millisecond {
		t.Errorf("Lateness of what was moved to an instant that had passed = %v, want 7ms", got)
	}
	done.ReadyAt = done.Due.Add(-time.Hour)
	if got := done.Lateness(); got != 37*time.Millisecond {
		t.Errorf("Lateness = %v, want 37ms: it is never before the instant", got)
	}
}

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
		e.Due, e.Zone, e.Wall.Clock.Hour = e.Due.Add(time.Hour), "Asia/Tokyo", 10
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
		"available at another moment":       {released, func(e *almanac.Event) { e.AvailableAt = e.Due }, allowed},
		"available, with another count":     {released, func(e *almanac.Event) { e.AvailableAt = e.Due; e.ClaimCount++ }, transition},
		"a new target with the claim":       {fresh, func(e *almanac.Event) { claim(e); move(e) }, otherwise},
		"a new target while completing":     {claimed, func(e *almanac.Event) { e.Status = almanac.Completed; move(e) }, otherwise},
		"another due while completing":      {claimed, func(e *almanac.Event) { e.Status = almanac.Completed; e.Due = e.Due.Add(1) }, otherwise},
		"another zone while releasing":      {claimed, func(e *almanac.Event) { e.Status = almanac.Pending; e.Zone = "UTC" }, otherwise},
		"another key while releasing":       {claimed, func(e *almanac.Event) { e.Status = almanac.Pending; e.OccurrenceKey = "2027" }, otherwise},
		"another key, never claimed":        {fresh, func(e *almanac.Event) { e.OccurrenceKey = "2027" }, otherwise},
		"another wall time while failing":   {claimed, func(e *almanac.Event) { e.Status = almanac.Failed; e.Wall.Clock.Hour++ }, otherwise},
		"a claim count without a claim":     {fresh, func(e *almanac.Event) { e.ClaimCount = 1 }, transition},
		"the count set back by a release":   {claimed, func(e *almanac.Event) { e.Status, e.ClaimCount = almanac.Pending, 0 }, otherwise},
		"another policy while completing":   {claimed, func(e *almanac.Event) { e.Status = almanac.Completed; e.Policies.Gap = calendar.GapSkip }, otherwise},
		"another payload while releasing":   {claimed, func(e *almanac.Event) { e.Status = almanac.Pending; e.Payload = json.RawMessage(`{}`) }, otherwise},
		"another payload with a new claim":  {released, func(e *almanac.Event) { claim(e); e.Payload = json.RawMessage(`{}`) }, otherwise},
		"the same due elsewhere":            {claimed, func(e *almanac.Event) { e.Status = almanac.Failed; e.Due = e.Due.In(time.FixedZone("", 60)) }, allowed},
		"the claim count set back":          {released, func(e *almanac.Event) { e.ClaimCount = 0; move(e) }, transition},
		"a claim":                           {fresh, claim, allowed},
		"a claim after a release":           {released, claim, allowed},
		"PENDING to COMPLETED":              {fresh, func(e *almanac.Event) { e.Status = almanac.Completed }, transition},
		"COMPLETED to PENDING":              {completed, func(e *almanac.Event) { e.Status = almanac.Pending }, transition},
		"an unknown status":                 {claimed, func(e *almanac.Event) { e.Status = "PAUSED" }, transition},
		"a cancellation":                    {fresh, func(e *almanac.Event) { e.Status = almanac.Cancelled }, allowed},
		"a cancellation after a release":    {released, func(e *almanac.Event) { e.Status = almanac.Cancelled }, allowed},
		"a cancellation in flight":          {claimed, func(e *almanac.Event) { e.Status = almanac.Cancelled }, allowed},
		"a cancellation of what has ended":  {completed, func(e *almanac.Event) { e.Status = almanac.Cancelled }, transition},
		"another origin":                    {fresh, func(e *almanac.Event) { e.Origin.From = other }, otherwise},
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

func TestRandomTransitionsFollowTheModel(t *testing.T) {
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
				step(next, err, want.status == almanac.Pending || want.status == almanac.Processing, life{almanac.Cancelled, want.version, want.claims, want.retries, want.crashes})
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
				o, err := almanac.Birthday{}.Next(u, e.Due.Add(-time.Second))
				if err != nil {
					t.Fatal(err)
				}
				next, err := e.Reschedule(u, almanac.Birthday{}, almanac.Occurrence{Occurrence: o})
				step(next, err, want.status == almanac.Pending && want.claims == 0, want)
			},
			"": func(t *rapid.T) {
				if got := (life{e.Status, e.Version, e.ClaimCount, e.RetryCount, e.CrashCount}); got != want {
					t.Fatalf("event is %+v, want %+v", got, want)
				}
				if held, ended := e.LeaseToken != uuid.Nil, e.Status.Terminal(); e.Status != almanac.Cancelled && held != (e.Status != almanac.Pending) || ended != (e.Status == almanac.Completed && !e.ExecutedAt.IsZero() || e.FailureReason != "") {
					t.Fatalf("event does not fit together: %+v", e)
				}
				if e.AvailableAt.IsZero() != (e.Status != almanac.Pending) || e.ID != born.ID || e.IdempotencyKey != born.IdempotencyKey {
					t.Fatalf("event does not fit together: %+v", e)
				}
			},
		})
	})
}

func TestEvent_RunNow_waitsForThePointOfAnEventThatWasClaimed(t *testing.T) {
	t.Parallel()
	e := planned(t)
	e.ReadyAt = e.Due.Add(time.Hour)
	e.AvailableAt, e.ClaimCount = e.ReadyAt.Add(time.Minute), 1
	for minutes, early := range map[time.Duration]bool{59: true, 60: false} {
		next, err := e.RunNow(e.Due.Add(minutes * time.Minute))
		var state *almanac.InvalidStateTransitionError
		if errors.As(err, &state) != early || early == next.AvailableAt.Before(e.AvailableAt) {
			t.Errorf("after %d minutes: available at %s, %v", minutes, next.AvailableAt, err)
		}
	}
}
