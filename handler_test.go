package almanac_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
)

// tuned is a plain handler with settings.
type tuned struct {
	plain
	almanac.Execution
}

func TestRegistryFindsHandlers(t *testing.T) {
	t.Parallel()

	reminder := plain{eventType: "REMINDER", payload: []byte("0")}
	registry, err := almanac.NewRegistry(reminder, almanac.Birthday{Via: "sms"}, plain{eventType: "ANNIVERSARY"})
	if err != nil {
		t.Fatal(err)
	}

	h, err := registry.Handler("REMINDER")
	if err != nil || h.EventType() != "REMINDER" || string(h.(plain).payload) != "0" {
		t.Errorf("Handler(REMINDER) = %+v, %v; want the one that was given", h, err)
	}
	for _, unknown := range []string{"", "reminder", "DIGEST"} {
		h, err := registry.Handler(unknown)
		var unsupported *almanac.UnsupportedEventTypeError
		if h != nil || !errors.As(err, &unsupported) || unsupported.EventType != unknown || !errors.Is(err, almanac.ErrUnsupportedEventType) {
			t.Errorf("Handler(%q) = %v, %v; want an *UnsupportedEventTypeError of it", unknown, h, err)
		}
	}
	want := []string{"ANNIVERSARY", "BIRTHDAY", "REMINDER"}
	types := registry.EventTypes()
	if !slices.Equal(types, want) {
		t.Errorf("EventTypes = %q, want %q", types, want)
	}
	types[0] = "MINE"
	if again := registry.EventTypes(); !slices.Equal(again, want) {
		t.Errorf("EventTypes after the caller changed theirs = %q, want %q", again, want)
	}
}

func TestNewRegistryWithoutHandlersIsEmpty(t *testing.T) {
	t.Parallel()

	registry, err := almanac.NewRegistry()
	if err != nil || len(registry.EventTypes()) != 0 {
		t.Errorf("NewRegistry() = %v, %v; want an empty one", registry, err)
	}
}

func TestNewRegistryRefuses(t *testing.T) {
	t.Parallel()

	with := func(x almanac.Execution) almanac.EventHandler { return tuned{plain{eventType: "A"}, x} }
	retry := func(p almanac.RetryPolicy) almanac.EventHandler { return with(almanac.Execution{RetryPolicy: p}) }
	a, b := plain{eventType: "A"}, plain{eventType: "B"}
	tests := map[string]struct {
		handlers []almanac.EventHandler
		want     []string // what the error says; nil means that there is none
	}{
		"nothing that is good":     {[]almanac.EventHandler{a, b}, nil},
		"good settings":            {[]almanac.EventHandler{with(almanac.Execution{AttemptTimeout: time.Second, RetryPolicy: almanac.PatientRetry()})}, nil},
		"the narrowest settings":   {[]almanac.EventHandler{retry(almanac.RetryPolicy{Attempts: 1, First: 1, Factor: 1, Max: 1, Jitter: 1})}, nil},
		"a type at its bound":      {[]almanac.EventHandler{plain{eventType: strings.Repeat("A", 50)}}, nil},
		"two of one type":          {[]almanac.EventHandler{a, b, a}, []string{`two handlers for event type "A"`}},
		"a nil handler":            {[]almanac.EventHandler{a, nil}, []string{"handler 1 is nil"}},
		"no type":                  {[]almanac.EventHandler{plain{}}, []string{"has 0 bytes"}},
		"a type too long":          {[]almanac.EventHandler{plain{eventType: strings.Repeat("A", 51)}}, []string{"has 51 bytes"}},
		"a negative timeout":       {[]almanac.EventHandler{with(almanac.Execution{AttemptTimeout: -1})}, []string{"timeout of -1ns is negative"}},
		"a negative catch-up age":  {[]almanac.EventHandler{with(almanac.Execution{CatchUpPolicy: almanac.CatchUp{SkipOlder: -1}})}, []string{"catch-up age of -1ns is negative"}},
		"negative attempts":        {[]almanac.EventHandler{retry(almanac.RetryPolicy{Attempts: -1})}, []string{"retry policy"}},
		"a negative first wait":    {[]almanac.EventHandler{retry(almanac.RetryPolicy{First: -1})}, []string{"retry policy"}},
		"a factor that shrinks":    {[]almanac.EventHandler{retry(almanac.RetryPolicy{Factor: 0.5})}, []string{"retry policy"}},
		"a negative longest wait":  {[]almanac.EventHandler{retry(almanac.RetryPolicy{Max: -1})}, []string{"retry policy"}},
		"a negative jitter":        {[]almanac.EventHandler{retry(almanac.RetryPolicy{Jitter: -0.1})}, []string{"retry policy"}},
		"a jitter beyond the wait": {[]almanac.EventHandler{retry(almanac.RetryPolicy{Jitter: 1.1})}, []string{"retry policy"}},
		"everything at once": {
			[]almanac.EventHandler{nil, a, a, plain{}, tuned{b, almanac.Execution{AttemptTimeout: -1, RetryPolicy: almanac.RetryPolicy{Attempts: -1}}}},
			[]string{"handler 0 is nil", `two handlers for event type "A"`, "has 0 bytes", `handler of "B"`, "timeout", "retry policy"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			registry, err := almanac.NewRegistry(tt.handlers...)

			if (err == nil) != (tt.want == nil) || (registry == nil) != (err != nil) {
				t.Fatalf("NewRegistry = %v, %v; want errors %q", registry, err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestFunctionsAreDeliverersAndObservers(t *testing.T) {
	t.Parallel()

	sent := errors.New("sent")
	var d almanac.Deliverer = almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return sent })
	if err := d.Deliver(t.Context(), almanac.Delivery{}); !errors.Is(err, sent) {
		t.Errorf("Deliver = %v, want the function's error", err)
	}
	var heard almanac.NoticeKind
	var o almanac.Observer = almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { heard = n.Kind })
	o.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCreated})
	if heard != almanac.EventCreated {
		t.Errorf("Observe told %q, want %q", heard, almanac.EventCreated)
	}
}
