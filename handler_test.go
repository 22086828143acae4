package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
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
		"a negative timeout":       {[]almanac.EventHandler{with(almanac.Execution{AttemptTimeout: -1})}, []string{"timeout of -1ns is under a microsecond"}},
		"a timeout without a unit": {[]almanac.EventHandler{with(almanac.Execution{AttemptTimeout: 20})}, []string{"timeout of 20ns is under a microsecond"}},
		"a negative catch-up age":  {[]almanac.EventHandler{with(almanac.Execution{CatchUpPolicy: almanac.CatchUp{SkipOlder: -1}})}, []string{"catch-up age of -1ns is under a microsecond"}},
		"a negative pause":         {[]almanac.EventHandler{with(almanac.Execution{Breaker: true, PauseAfter: -1})}, []string{"pause after -1ns, which is under a microsecond"}},
		"a pause of no breaker":    {[]almanac.EventHandler{with(almanac.Execution{PauseAfter: time.Hour})}, []string{"pause after 1h0m0s without a breaker"}},
		"a negative spread":        {[]almanac.EventHandler{with(almanac.Execution{Spread: -1})}, []string{"spread of -1ns is not between 0 and 24h0m0s"}},
		"a spread of over a day":   {[]almanac.EventHandler{with(almanac.Execution{Spread: 25 * time.Hour})}, []string{"spread of 25h0m0s"}},
		"negative attempts":        {[]almanac.EventHandler{retry(almanac.RetryPolicy{Attempts: -1})}, []string{"retry policy"}},
		"a negative first wait":    {[]almanac.EventHandler{retry(almanac.RetryPolicy{First: -1})}, []string{"retry policy"}},
		"a factor that shrinks":    {[]almanac.EventHandler{retry(almanac.RetryPolicy{Factor: 0.5})}, []string{"retry policy"}},
		"a negative longest wait":  {[]almanac.EventHandler{retry(almanac.RetryPolicy{Max: -1})}, []string{"retry policy"}},
		"a negative jitter":        {[]almanac.EventHandler{retry(almanac.RetryPolicy{Jitter: -0.1})}, []string{"retry policy"}},
		"a jitter beyond the wait": {[]almanac.EventHandler{retry(almanac.RetryPolicy{Jitter: 1.1})}, []string{"retry policy"}},
		"days before the day before": {[]almanac.EventHandler{almanac.Birthday{Before: -3}, almanac.Anniversary{Before: 365}},
			[]string{`handler of "BIRTHDAY": -3 days before`, `handler of "ANNIVERSARY": 365 days before are not between 0 and 364`}},
		"no rule":           {[]almanac.EventHandler{almanac.Recurring{Type: "A"}}, []string{`handler of "A": the handler has no rule`}},
		"an unknown policy": {[]almanac.EventHandler{almanac.Reminder{Policies: calendar.Policies{Gap: "leap"}}}, []string{`is "leap", which is no policy`}},
		"an embedded one":   {[]almanac.EventHandler{struct{ almanac.Birthday }{almanac.Birthday{Before: 400}}}, []string{"400 days before"}},
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

func TestFunctionsImplementDelivererAndObserver(t *testing.T) {
	t.Parallel()

	sent := errors.New("sent")
	var d almanac.Deliverer = almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return sent })
	if err := d.Deliver(t.Context(), almanac.Delivery{}); !errors.Is(err, sent) {
		t.Errorf("Deliver = %v, want the function's error", err)
	}
	var received almanac.NoticeKind
	var o almanac.Observer = almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { received = n.Kind })
	o.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCreated})
	if received != almanac.EventCreated {
		t.Errorf("Observe was notified of %q, want %q", received, almanac.EventCreated)
	}
}

// aDay are the last 24 hours on the hour, of which a downtime left only the first
// stored, and one to come.
func aDay() []time.Time {
	var hours []time.Duration
	for h := 24; h > 0; h-- {
		hours = append(hours, time.Duration(h)*time.Hour)
	}
	return ago(append(hours, nextYear)...)
}

func TestCatchUpDecidesWhatIsDeliveredAfterADowntime(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy    almanac.CatchUp
		delivered int // the last ones of those that were stored
		missed    int
	}{
		"the pending one fires, then the present": {almanac.CatchUp{}, 1, 0},
		"each one fires":                              {almanac.CatchUp{All: true}, 24, 0},
		"events that are too old are missed":          {almanac.CatchUp{SkipOlder: 23 * time.Hour}, 0, 1},
		"events that are not too old fire":            {almanac.CatchUp{SkipOlder: 25 * time.Hour}, 1, 0},
		"recent events of each series fire":           {almanac.CatchUp{All: true, SkipOlder: 150 * time.Minute}, 2, 22},
		"each one is missed when all of them are old": {almanac.CatchUp{All: true, SkipOlder: time.Minute}, 0, 24},
	}
	for where, repository := range onBoth {
		for name, tt := range tests {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				w, r := openOn(repository(t)), new(receiver)
				handler := series{Execution: almanac.Execution{CatchUpPolicy: tt.policy}, eventType: "DIGEST", seconds: aDay(), execute: r.Deliver}
				storeEvent(t, w.store, handler)

				w.run(t, handler)
				for next := (almanac.Event{}); !next.Due.Equal(handler.seconds[24]); {
					next = w.await(t, almanac.EventCreated)
				}
				require.NoError(t, w.stop())

				found, err := w.store.Find(t.Context(), nil, almanac.Page{})
				require.NoError(t, err)
				require.Equal(t, tt.missed+tt.delivered+1, len(found.Items), "events in all")
				for i, e := range found.Items[:tt.missed] {
					require.Equal(t, handler.seconds[i], e.Due, "in their order, and none left out")
					require.Equal(t, almanac.Failed, e.Status)
					require.True(t, strings.HasPrefix(e.FailureReason, "missed: "), e.FailureReason)
				}
				for i, e := range found.Items[tt.missed : tt.missed+tt.delivered] {
					require.Equal(t, handler.seconds[tt.missed+i], e.Due)
					require.Equal(t, almanac.Completed, e.Status)
				}
				require.Equal(t, almanac.Pending, found.Items[tt.missed+tt.delivered].Status)
				require.Len(t, r.deliveries(), tt.delivered)
			})
		}
	}
}

// A clock that strikes each hour runs for two and a half of them, stands still for
// a day, and runs for two more.
func TestADayOfDowntimeFromEndToEnd(t *testing.T) {
	t.Parallel()
	from := func(first, last int) (hours []int) {
		for h := first; h <= last; h++ {
			hours = append(hours, h)
		}
		return hours
	}
	for name, tt := range map[string]struct {
		policy almanac.CatchUp
		struck []int // hours since the beginning
		missed []int
	}{
		"latest":                           {almanac.CatchUp{}, []int{1, 2, 3, 27, 28}, nil},
		"all":                              {almanac.CatchUp{All: true}, from(1, 28), nil},
		"skip older than 100 minutes":      {almanac.CatchUp{SkipOlder: 100 * time.Minute}, []int{1, 2, 27, 28}, []int{3}},
		"all, skip older than 100 minutes": {almanac.CatchUp{All: true, SkipOlder: 100 * time.Minute}, append([]int{1, 2}, from(25, 28)...), from(3, 24)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var struck []int
				start := time.Now()
				hourOf := func(e almanac.Event) int { return int(e.Due.Sub(start) / time.Hour) }
				rule, err := calendar.ParseCron("0 * * * *")
				require.NoError(t, err)
				handler := always(rule)
				handler.CatchUpPolicy = tt.policy
				registry, err := almanac.NewRegistry(handler)
				require.NoError(t, err)
				repository := almanactest.NewRepository(nil)
				s, err := almanac.NewScheduler(repository, registry, almanac.WithDeliverer(handler.Channel(almanac.Event{}), almanac.DelivererFunc(
					func(_ context.Context, d almanac.Delivery) error {
						mu.Lock()
						defer mu.Unlock()
						struck = append(struck, hourOf(d.Event))
						return nil
					})))
				require.NoError(t, err)
				_, err = s.CreateUser(t.Context(), grace)
				require.NoError(t, err)
				runFor := func(d time.Duration) {
					ctx, stop := context.WithTimeout(t.Context(), d)
					defer stop()
					require.NoError(t, s.Run(ctx))
				}

				runFor(150 * time.Minute)
				time.Sleep(24 * time.Hour)
				missed, err := s.Missed(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, missed.Count, "the rest is not stored yet")
				require.Equal(t, start.Add(3*time.Hour).UTC(), missed.Oldest)
				runFor(2 * time.Hour)

				require.Equal(t, tt.struck, struck)
				found, err := repository.Find(t.Context(), almanac.InStatus(almanac.Failed), almanac.Page{})
				require.NoError(t, err)
				var failed []int
				for _, e := range found.Items {
					failed = append(failed, hourOf(e))
				}
				require.Equal(t, tt.missed, failed)
			})
		})
	}
}

// A user who is being tried again is not missed, however old the event is by
// then.
func TestSkipOlderAppliesOnlyBeforeTheFirstAttempt(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			handler := series{Execution: soon, eventType: "DIGEST", seconds: ago(2 * time.Hour), execute: r.Deliver}
			handler.CatchUpPolicy.SkipOlder = time.Hour
			planned := storeEvent(t, w.store, handler)
			claimed, err := planned.Claim(planned.ID)
			require.NoError(t, err)
			claimed, err = w.store.Update(t.Context(), claimed, 1)
			require.NoError(t, err)
			released, err := claimed.Release(almanac.AfterFailure, "busy", claimed.Due)
			require.NoError(t, err)
			_, err = w.store.Update(t.Context(), released, 2)
			require.NoError(t, err)

			w.run(t, handler)
			w.await(t, almanac.EventCompleted)
			require.NoError(t, w.stop())

			require.Len(t, r.deliveries(), 1)
		})
	}
}

// retried is how a handler is executed, and what becomes of its attempts.
type retried struct {
	execution almanac.Execution
	answer    error
	attempt   time.Duration   // how long each may take
	waits     []time.Duration // after each but the last, without the jitter
}

// What a handler that chooses nothing gets, and one that chooses patience: how
// long an attempt may take, how many there are, and how long it is between them.
func TestRunWaitsBetweenAttempts(t *testing.T) {
	t.Parallel()
	const s, m, h = time.Second, time.Minute, time.Hour
	asks := func(d time.Duration) error { return almanac.RetryAfter(d, errBusy) }
	chosen := almanac.RetryPolicy{Attempts: 4, First: m, Factor: 2, Max: 3 * m}
	fewer := almanac.RetryPolicy{Attempts: 3, First: m, Factor: 2, Max: 3 * m}
	tests := map[string]retried{
		"by default":                 {almanac.Execution{}, errBusy, 20 * s, []time.Duration{10 * s, 5 * m}},
		"as chosen":                  {almanac.Execution{AttemptTimeout: m, RetryPolicy: chosen}, errBusy, m, []time.Duration{m, 2 * m, 3 * m}},
		"no sooner than Retry-After": {almanac.Execution{}, asks(h), 20 * s, []time.Duration{h, h}},
		"later than Retry-After, if the policy is slower": {almanac.Execution{}, asks(s), 20 * s, []time.Duration{10 * s, 5 * m}},
		"at most a day":                 {almanac.Execution{}, asks(87600 * h), 20 * s, []time.Duration{24 * h, 24 * h}},
		"no longer than chosen, either": {almanac.Execution{RetryPolicy: fewer}, asks(87600 * h), 20 * s, []time.Duration{3 * m, 3 * m}},
		"with patience": {almanac.Execution{RetryPolicy: almanac.PatientRetry()}, errBusy, 20 * s,
			[]time.Duration{30 * s, 2 * m, 8 * m, 32 * m, 128 * m, 512 * m, 13 * h, 13 * h, 13 * h, 13 * h, 13 * h}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, tt.check)
		})
	}
}

// check runs thirty events, of which every attempt fails, to their end.
func (r retried) check(t *testing.T) {
	const people = 30
	var mu sync.Mutex
	waited, ended := make(map[int][]time.Duration), 0
	deliver := almanac.DelivererFunc(func(ctx context.Context, _ almanac.Delivery) error {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != r.attempt {
			t.Errorf("an attempt may take %v, want %v", time.Until(deadline), r.attempt)
		}
		return r.answer
	})
	observe := almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
		mu.Lock()
		defer mu.Unlock()
		switch e := n.Event; n.Kind {
		case almanac.EventReleased:
			waited[e.RetryCount] = append(waited[e.RetryCount], e.AvailableAt.Sub(e.UpdatedAt))
		case almanac.EventFailed:
			ended++
			if e.RetryCount != len(r.waits)+1 {
				t.Errorf("%d attempts, want %d", e.RetryCount, len(r.waits)+1)
			}
		}
	})
	registry, err := almanac.NewRegistry(tuned{plain{eventType: "DIGEST"}, r.execution})
	if err != nil {
		t.Fatal(err)
	}
	repository := almanactest.NewRepository(nil)
	scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithDeliverer(almanac.ChannelWebhook, deliver), almanac.WithObserver(observe),
		almanac.WithPoll(time.Hour), almanac.WithSweep(time.Hour), almanac.WithLease(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for range people {
		u := almanactest.User()
		if _, _, err := almanactest.CreateUser(t.Context(), repository, u, almanactest.Event(time.Now(), almanactest.OfType("DIGEST"), almanactest.For(u))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 4*24*time.Hour)
	defer stop()
	if err := scheduler.Run(ctx); err != nil {
		t.Fatal(err)
	}

	if ended != people {
		t.Errorf("%d of %d events ended in four days", ended, people)
	}
	for i, wait := range r.waits {
		if n := len(waited[i+1]); n != people {
			t.Errorf("%d events waited after attempt %d, want %d", n, i+1, people)
			continue
		}
		least, most := slices.Min(waited[i+1]), slices.Max(waited[i+1])
		if least < wait || most > wait+wait/5 || most-least < wait/10 { // the third happens by chance once in 10^7
			t.Errorf("waited %v to %v after attempt %d, want %v and up to a fifth more", least, most, i+1, wait)
		}
	}
}

// PatientRetry says how long it lasts; this adds it up.
func TestPatientRetryLastsThreeToFourDays(t *testing.T) {
	t.Parallel()
	p := almanac.PatientRetry()
	var whole time.Duration
	wait := p.First
	for range p.Attempts - 1 {
		whole += min(wait, p.Max)
		wait = time.Duration(float64(wait) * p.Factor)
	}
	const least, most = 76*time.Hour + 22*time.Minute + 30*time.Second, 91*time.Hour + 39*time.Minute
	if longest := whole + whole/5; p.Attempts != 12 || p.Jitter != 0 || whole != least || longest != most {
		t.Errorf("%d attempts with jitter %v over %v to %v, want 12 with the default over %v to %v", p.Attempts, p.Jitter, whole, longest, least, most)
	}
}

// unwanted is a handler whose first event is not owed, and which must not be asked what
// follows it.
type unwanted struct {
	series
	t *testing.T
}

func (h unwanted) Follow(_ almanac.User, ended almanac.Event) ([]almanac.FollowUp, error) {
	if ended.Status != almanac.Completed {
		h.t.Errorf("asked what follows an event that is %s", ended.Status)
	}
	return nil, nil
}

// An event is called off after an attempt that failed, also from within middleware that
// wraps errors. Its series goes on.
func TestNotOwedCallsAnEventOff(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"by itself":        almanac.NotOwed("no address"),
		"wrapped":          fmt.Errorf("mail: %w", almanac.NotOwed("no address")),
		"though permanent": almanac.Permanent(almanac.NotOwed("no address")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				book, logged, notices := new(logbook), new(logbook), make(map[almanac.NoticeKind]int)
				h := unwanted{t: t, series: series{eventType: "DIGEST", seconds: ago(time.Minute, -time.Hour), execute: func(_ context.Context, d almanac.Delivery) error {
					switch {
					case d.Event.Due.After(d.At.Add(-time.Second)):
						return nil
					case d.Attempt == 1:
						return errBusy
					}
					return answer
				}}}
				registry, err := almanac.NewRegistry(h)
				require.NoError(t, err)
				count := almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { notices[n.Kind]++ })
				around := func(next almanac.Deliverer) almanac.Deliverer {
					return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
						if err := next.Deliver(ctx, d); err != nil {
							return fmt.Errorf("around: %w", err)
						}
						return nil
					})
				}
				rehearsal := almanactest.Rehearse(t, registry, almanac.WithMiddleware(around), almanac.WithObserver(count),
					almanac.WithObserver(almanac.LogObserver(book.at(slog.LevelInfo))), almanac.WithLogger(logged.at(slog.LevelInfo)))
				first := storeEvent(t, rehearsal.Repository, h.series)
				rehearsal.For(2 * time.Hour)

				is, err := rehearsal.Repository.Event(t.Context(), first.ID)
				require.NoError(t, err)
				require.Equal(t, almanac.Cancelled, is.Status)
				require.Equal(t, "no address", is.FailureReason)
				require.Equal(t, 1, is.RetryCount, "the attempt before")
				require.Equal(t, errBusy.Error(), strings.TrimPrefix(is.LastError, "around: "))
				completed, err := rehearsal.Repository.Count(t.Context(), almanac.InStatus(almanac.Completed))
				require.NoError(t, err)
				require.Equal(t, 1, completed, "the series goes on")
				require.Equal(t, 1, notices[almanac.EventCancelled])
				require.Zero(t, notices[almanac.EventFailed])
				lines := book.about(t, "event.cancelled")
				require.Len(t, lines, 1)
				require.Equal(t, "INFO", lines[0]["level"])
				require.Equal(t, "no address", lines[0]["reason"])
				require.Empty(t, logged.about(t, "delivery failed"))
			})
		})
	}
}

// The formula is public: see [almanac.Series.Spread]. The vectors are from another program.
func TestSpreadIsFixedForAUserAndASeries(t *testing.T) {
	t.Parallel()
	const user = "018f3a5c-7e2b-7c41-9d0e-5b6f7a8c9d0e"
	birthday, pills := almanac.Series{Type: "BIRTHDAY"}, almanac.Series{Type: "REMINDER", Name: "pills"}
	for _, v := range []struct {
		user   string
		series almanac.Series
		window time.Duration
		want   time.Duration
	}{
		{uuid.Nil.String(), birthday, 30 * time.Minute, 1264919532 * time.Microsecond},
		{user, birthday, 30 * time.Minute, 439069142 * time.Microsecond},
		{user, pills, 30 * time.Minute, 48243468 * time.Microsecond},
		{user, almanac.Series{Type: "REMINDER", Name: "pills", Detached: "scheduled:1"}, 30 * time.Minute, 48243468 * time.Microsecond},
		{user, birthday, 24 * time.Hour, 21075318844 * time.Microsecond},
		{user, birthday, time.Microsecond, 0},
		{user, birthday, 0, 0},
		{user, birthday, -time.Hour, 0},
	} {
		require.Equal(t, v.want, v.series.Spread(uuid.MustParse(v.user), v.window), v)
	}
	rapid.Check(t, func(rt *rapid.T) {
		window := time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(rt, "window"))
		by := birthday.Spread(uuid.New(), window)
		if by < 0 || by >= window || by%time.Microsecond != 0 {
			rt.Errorf("%v within %v", by, window)
		}
	})
}

// Two years of birthdays of one zone, each spread over half an hour.
func TestSpreadEventsStartAtTheirPointOfTheWindow(t *testing.T) {
	t.Parallel()
	const users, window = 40, 30 * time.Minute
	for name, lookAhead := range map[string]time.Duration{"claimed ahead": time.Second, "claimed when ready": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, r := openOn(almanactest.NewRepository(nil)), new(receiver)
				handler := almanac.Birthday{Execution: almanac.Execution{Spread: window}}
				for range users {
					_, err := w.scheduler(t, handler).CreateUser(t.Context(), inBeirut)
					require.NoError(t, err)
				}
				w.run(t, handler, almanac.WithLookAhead(lookAhead), almanac.WithPoll(24*time.Hour), almanac.WithSweep(24*time.Hour), almanac.WithLease(24*time.Hour), almanac.WithDeliverer(almanac.ChannelWebhook, r))
				time.Sleep(2*365*24*time.Hour + 24*time.Hour)
				require.NoError(t, w.stop())

				starts := make(map[time.Duration]int)
				for _, d := range r.deliveries() {
					e := d.Event
					by := almanac.SeriesOf(e).Spread(e.UserID, window)
					require.Equal(t, e.Due.Add(by), d.At, "starts when it is ready")
					require.Equal(t, calendar.Clock{Hour: 9}, e.Wall.Clock, "keeps its wall time")
					require.Equal(t, almanac.NewIdempotencyKey(e.UserID.String(), e.Due, e.Type), e.IdempotencyKey)
					starts[by]++
				}
				require.Len(t, starts, users, "each user has a point of the window")
				for by, n := range starts {
					require.Equal(t, 2, n, "the same point each year: %v", by)
				}
			})
		})
	}
}

// A changed event is ready at its point of the window after its new instant, and never earlier.
func TestChangesKeepTheSpreadOfAnEvent(t *testing.T) {
	t.Parallel()
	handler := almanac.Birthday{Execution: almanac.Execution{Spread: 30 * time.Minute}}
	spread := func(t *testing.T, e almanac.Event) {
		t.Helper()
		by := almanac.SeriesOf(e).Spread(e.UserID, handler.Spread)
		require.Equal(t, e.Due.Add(by), e.ReadyAt)
		require.Equal(t, e.ReadyAt, e.AvailableAt)
	}
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			s := w.scheduler(t, handler)
			e := enrol(t, s, "Asia/Beirut", "1990-06-15")
			spread(t, e)
			ahead, err := s.Preview(t.Context(), e.UserID, e.Type, 2)
			require.NoError(t, err)
			require.Equal(t, e.ReadyAt, ahead.Ahead[0].Available)
			require.Equal(t, e.ReadyAt.Sub(e.Due), ahead.Ahead[1].Available.Sub(ahead.Ahead[1].Resolution.Instant))

			edited, err := s.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{FirstName: ptr("Augusta")})
			require.NoError(t, err)
			spread(t, edited.Refreshed[0])
			edited, err = s.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")})
			require.NoError(t, err)
			spread(t, edited.Moved[0])
			edited, err = s.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{Timezone: ptr("Asia/Beirut")})
			require.NoError(t, err)
			spread(t, edited.Moved[0])

			_, err = s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: rulesOf(t, "2026a", beirutAsItIs)})
			require.NoError(t, err)
			_, err = s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: rulesOf(t, "2026b", beirutLateSummer)})
			require.NoError(t, err)
			moved := w.event(t, e)
			require.Equal(t, e.Due.Add(time.Hour), moved.Due, "the rules have changed")
			spread(t, moved)

			now, err := s.RunNow(t.Context(), e.ID, almanac.ForceOptions{})
			require.NoError(t, err)
			require.Less(t, now.AvailableAt.Sub(now.Due), 5*time.Second, "run now waits for no window")
			edited, err = s.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{FirstName: ptr("Ada")})
			require.NoError(t, err)
			require.Equal(t, now.AvailableAt, w.event(t, e).AvailableAt, "and an edit leaves it due")
		})
	}
}

// A host may choose a wall time in the quiet hours. The window alone delivers no event in them.
func TestASpreadLeadsIntoNoQuietHours(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hour  int  // of the event
		waits bool // until the quiet hours end
	}{
		"from outside": {21, true},
		"from inside":  {23, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, r := openOn(almanactest.NewRepository(nil)), new(receiver)
				start := time.Now().UTC()
				at := calendar.WallTimeOf(start.Add(time.Duration(tt.hour) * time.Hour))
				handler := almanac.Recurring{Execution: almanac.Execution{Spread: time.Hour}, Type: "TICK", Rule: func(almanac.User) (calendar.Recurrence, error) {
					return calendar.Once{At: at}, nil
				}}
				inUTC := inBeirut
				inUTC.Timezone = "UTC"
				_, err := w.scheduler(t, handler).CreateUser(t.Context(), inUTC)
				require.NoError(t, err)
				quiet := func(almanac.User) calendar.Window {
					return calendartest.Quiet("21:00:01-08:00")
				}
				w.run(t, handler, almanac.WithWindow(quiet), almanac.WithDeliverer(almanac.ChannelWebhook, r))
				time.Sleep(36 * time.Hour)
				require.NoError(t, w.stop())
				require.Len(t, r.deliveries(), 1)
				d := r.deliveries()[0]
				by := almanac.SeriesOf(d.Event).Spread(d.Event.UserID, time.Hour)
				want := time.Duration(tt.hour)*time.Hour + by
				if tt.waits && by >= time.Second {
					want = 32 * time.Hour
				}
				require.WithinDuration(t, start.Add(want), d.At, 10*time.Millisecond)
			})
		})
	}
}

// An edit may come while an event waits for its point of a window, or after RunNow has made it due. Whatever it
// changes, the occurrence is not lost, because it was not delivered yet.
func TestAnEditInTheWindowLosesNoOccurrence(t *testing.T) {
	t.Parallel()
	const nine = 9 * time.Hour
	name, earlier, tokyo := ptr("Augusta"), json.RawMessage(`{"deliverAt": "08:30"}`), ptr("Asia/Tokyo")
	for what, tt := range map[string]struct {
		spread, at time.Duration // the edit is at this time of the day
		runNow     time.Duration // 0 for never
		change     almanac.ProfileChange
		window     bool // the event waits for its point, unless that has passed
	}{
		"another name after RunNow in the window":         {12 * time.Hour, nine + time.Minute, nine + time.Second, almanac.ProfileChange{FirstName: name}, false},
		"another zone after RunNow in the window":         {12 * time.Hour, nine + time.Minute, nine + time.Second, almanac.ProfileChange{Timezone: tokyo}, true},
		"another name after RunNow before the wall time":  {0, 8*time.Hour + 30*time.Minute, 8 * time.Hour, almanac.ProfileChange{FirstName: name}, false},
		"another zone, where it has passed, after RunNow": {0, 8*time.Hour + 30*time.Minute, 8 * time.Hour, almanac.ProfileChange{Timezone: tokyo}, false},
		"an earlier time of day in the window":            {12 * time.Hour, nine + time.Second, 0, almanac.ProfileChange{Attributes: earlier}, true},
		"an earlier time of day, another day":             {12 * time.Hour, 7 * time.Hour, 0, almanac.ProfileChange{Attributes: earlier}, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := openOn(almanactest.NewRepository(nil))
				s := w.scheduler(t, almanac.Birthday{Execution: almanac.Execution{Spread: tt.spread}, At: almanac.AtAttribute("deliverAt", calendar.Clock{Hour: 9})})
				e := enrol(t, s, "UTC", "1990-01-01")
				if tt.runNow > 0 {
					time.Sleep(tt.runNow)
					_, err := s.RunNow(t.Context(), e.ID, almanac.ForceOptions{})
					require.NoError(t, err)
				}
				time.Sleep(tt.at - tt.runNow)
				edited, err := s.UpdateUser(t.Context(), e.UserID, tt.change)
				require.NoError(t, err)
				require.Empty(t, edited.Removed)
				require.Empty(t, edited.Added)
				is := w.event(t, e)
				require.Equal(t, "2000", is.OccurrenceKey)
				if point := is.Due.Add(almanac.SeriesOf(e).Spread(e.UserID, tt.spread)); tt.window && point.After(time.Now()) {
					require.Equal(t, point, is.AvailableAt)
				} else {
					require.False(t, is.AvailableAt.After(time.Now()), "due")
				}
				for range 2 { // before nine and after it, or after the point of the window
					time.Sleep(13 * time.Minute)
					edited, err = s.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{LastName: ptr(time.Now().String())})
					require.NoError(t, err)
					require.Empty(t, edited.Removed)
					require.Empty(t, edited.Added)
					require.Equal(t, is.AvailableAt, w.event(t, e).AvailableAt, "a later edit of the name")
					time.Sleep(12 * time.Hour)
				}
			})
		})
	}
}

// An occurrence is still to come until its point of the window, also when its wall time has passed.
func TestAnOccurrenceInTheWindowIsStillToCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		s := w.scheduler(t, almanac.Birthday{Execution: almanac.Execution{Spread: 12 * time.Hour}})
		e := enrol(t, s, "UTC", "1990-01-01")
		time.Sleep(time.Until(e.ReadyAt) - time.Millisecond)
		require.False(t, e.Due.After(time.Now()))
		preview, err := s.Preview(t.Context(), e.UserID, almanac.TypeBirthday, 2)
		require.NoError(t, err)
		require.Equal(t, []string{"2000", "2001"}, []string{preview.Ahead[0].Key, preview.Ahead[1].Key})
		out, err := s.OptOut(t.Context(), e.UserID, almanac.OptOut{Type: almanac.TypeBirthday})
		require.NoError(t, err)
		require.Len(t, out.Removed, 1)
		in, err := s.OptIn(t.Context(), e.UserID, almanac.OptOut{Type: almanac.TypeBirthday})
		require.NoError(t, err)
		require.Equal(t, "2000", in.Added[0].OccurrenceKey)
		require.Equal(t, e.ReadyAt, in.Added[0].ReadyAt)
	})
}

// Attempts of one day last until after the wall time of the next day, whose point is still to come.
func TestRetriesInAWindowLoseNoOccurrence(t *testing.T) {
	t.Parallel()
	const window = 23 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		w, r := openOn(almanactest.NewRepository(nil)), new(receiver)
		h := almanac.Recurring{
			Type: "DAILY",
			Rule: func(almanac.User) (calendar.Recurrence, error) {
				return calendar.Daily{At: calendar.Clock{Hour: 9}}, nil
			},
			Execution: almanac.Execution{Spread: window, RetryPolicy: almanac.RetryPolicy{Attempts: 3, First: time.Hour, Factor: 1, Max: time.Hour}},
		}
		id := uuid.UUID{15: 1}
		for (almanac.Series{Type: "DAILY"}).Spread(id, window) < 22*time.Hour+10*time.Minute {
			id[15]++
		}
		_, err := w.scheduler(t, h).CreateUser(t.Context(), almanac.Profile{ID: id, FirstName: "Ada", LastName: "L", DateOfBirth: "1990-05-05", Timezone: "UTC"})
		require.NoError(t, err)
		w.run(t, h, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
			if d.Event.OccurrenceKey == "2000-01-01" && d.Attempt < 3 {
				return errors.New("down")
			}
			return r.Deliver(ctx, d)
		})), almanac.WithPoll(time.Hour), almanac.WithSweep(time.Hour))
		time.Sleep(84 * time.Hour)
		require.NoError(t, w.stop())
		require.Equal(t, []string{"1999-12-31", "2000-01-01", "2000-01-02", "2000-01-03"}, r.keys())
	})
}

// A host may ask for a wall time in the quiet hours. The point of the window counts as on time, not as late.
func TestAPointOfAWindowInTheQuietHoursIsOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := openOn(almanactest.NewRepository(nil)), new(receiver)
		handler := almanac.Birthday{
			Execution: almanac.Execution{Spread: 30 * time.Minute, CatchUpPolicy: almanac.CatchUp{SkipOlder: time.Hour}},
			At:        func(almanac.User) calendar.Clock { return calendar.Clock{Hour: 6} },
		}
		e := enrol(t, w.scheduler(t, handler), "UTC", "1990-01-01")
		w.run(t, handler, almanac.WithWindow(quiet(22, 8)), almanac.WithDeliverer(almanac.ChannelWebhook, r))
		time.Sleep(12 * time.Hour)
		require.NoError(t, w.stop())
		require.Len(t, r.deliveries(), 1)
		require.WithinDuration(t, e.ReadyAt, r.deliveries()[0].At, 10*time.Millisecond)
	})
}
