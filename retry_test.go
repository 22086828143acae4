package almanac_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

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
		"by default":                              {almanac.Execution{}, errBusy, 20 * s, []time.Duration{10 * s, 5 * m}},
		"as chosen":                               {almanac.Execution{AttemptTimeout: m, RetryPolicy: chosen}, errBusy, m, []time.Duration{m, 2 * m, 3 * m}},
		"no sooner than is asked":                 {almanac.Execution{}, asks(h), 20 * s, []time.Duration{h, h}},
		"later than is asked, if that is usual":   {almanac.Execution{}, asks(s), 20 * s, []time.Duration{10 * s, 5 * m}},
		"no longer than a day, whatever is asked": {almanac.Execution{}, asks(87600 * h), 20 * s, []time.Duration{24 * h, 24 * h}},
		"no longer than chosen, either":           {almanac.Execution{RetryPolicy: fewer}, asks(87600 * h), 20 * s, []time.Duration{3 * m, 3 * m}},
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

// check runs a hundred events, of which every attempt fails, to their end.
func (r retried) check(t *testing.T) {
	const people = 100
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
		if _, _, err := repository.CreateUser(t.Context(), u, almanactest.Event(time.Now(), almanactest.OfType("DIGEST"), almanactest.For(u))); err != nil {
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
		if least < wait || most > wait+wait/5 || most-least < wait*16/100 { // the third happens by chance once in 10^8
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
