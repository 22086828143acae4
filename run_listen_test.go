package almanac_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// overheard is a repository that reports its calls to a function.
type overheard struct {
	*almanactest.Repository
	listen func(ctx context.Context, wake func()) error
}

func (o overheard) Listen(ctx context.Context, wake func()) error { return o.listen(ctx, wake) }

// attend runs a scheduler that looks by itself once an hour, for so long, and
// returns when it delivered, from its start, and what it logged.
func attend(t *testing.T, r overheard, d time.Duration) (delivered []time.Duration, log string) {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
		delivered = append(delivered, time.Since(start))
		return nil
	})
	var text bytes.Buffer
	scheduler, err := almanac.NewScheduler(r, registry, almanac.WithDeliverer(almanac.ChannelWebhook, deliver), almanac.WithWorkers(1),
		almanac.WithPoll(time.Hour), almanac.WithLogger(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelInfo}))))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	if err := scheduler.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return delivered, text.String()
}

// store stores an event past the scheduler, as another process does.
func (o overheard) store(t *testing.T, due time.Duration) {
	t.Helper()
	u := almanactest.User()
	if _, _, err := almanactest.CreateUser(t.Context(), o, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.DueIn(due))); err != nil {
		t.Error(err)
	}
}

func TestAHintWakesTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := overheard{Repository: almanactest.NewRepository(nil)}
		r.listen = func(ctx context.Context, wake func()) error {
			wake()
			time.Sleep(time.Minute)
			r.store(t, 3*time.Second)
			wake()
			<-ctx.Done()
			return nil
		}

		delivered, _ := attend(t, r, 10*time.Minute)

		want := time.Minute + 3*time.Second // and less than the microsecond to which the repository's clock is exact
		if len(delivered) != 1 || delivered[0].Truncate(time.Microsecond) != want {
			t.Errorf("delivered at %v, want %v", delivered, want)
		}
	})
}

func TestListeningIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := overheard{Repository: almanactest.NewRepository(nil)}
		var tries []time.Time
		r.listen = func(ctx context.Context, wake func()) error {
			tries = append(tries, time.Now())
			switch len(tries) {
			case 1, 15: // is lost after a while
				wake()
				time.Sleep(time.Minute)
				return errLost
			case 30:
				wake()
				<-ctx.Done()
				return ctx.Err()
			}
			return errLost
		}

		_, log := attend(t, r, time.Hour)

		if len(tries) != 30 {
			t.Fatalf("tried %d times, want 30", len(tries))
		}
		for _, n := range []int{2, 16} { // the first of an outage
			if wait := tries[n-1].Sub(tries[n-2]); wait > time.Minute+200*time.Millisecond {
				t.Errorf("tried %v after it was received, want a tenth of a second after the minute", wait)
			}
		}
		if wait := tries[13].Sub(tries[12]); wait < time.Minute || wait > 72*time.Second {
			t.Errorf("tried after %v when it had failed a dozen times, want about a minute", wait)
		}
		if lost, again := strings.Count(log, "level=WARN"), strings.Count(log, "received again"); lost != 2 || again != 2 {
			t.Errorf("%d outages begin and %d end in the log, want 2:\n%s", lost, again, log)
		}
	})
}

func TestListenIsNotRepeatedWithoutHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := overheard{almanactest.NewRepository(nil), func(context.Context, func()) error {
			asked++
			return nil
		}}

		_, log := attend(t, r, time.Hour)

		if asked != 1 || strings.Contains(log, "level=WARN") {
			t.Errorf("asked %d times, want once and no complaint:\n%s", asked, log)
		}
	})
}

func TestRunWaitsForItsListener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := false
		r := overheard{almanactest.NewRepository(nil), func(ctx context.Context, wake func()) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // a farewell that takes its time
			gone = true
			return nil
		}}

		attend(t, r, time.Minute)

		if !gone {
			t.Error("Run has returned before Listen")
		}
	})
}
