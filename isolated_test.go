package almanac_test

import (
	"context"
	"encoding/json"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// rude is a birthday handler whose code does something else for the user Rude, once their
// event was delivered.
type rude struct {
	almanac.Birthday
	where string // next, payload or follow
	act   func()
	on    *sync.Map // "yes" is stored once their event was delivered
}

func (h rude) misbehave(where string, u almanac.User) {
	if _, yes := h.on.Load("yes"); yes && h.where == where && u.FirstName == "Rude" {
		h.act()
	}
}

func (h rude) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	h.misbehave("next", u)
	return h.Birthday.Next(u, after)
}

func (h rude) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	h.misbehave("payload", u)
	return h.Birthday.Payload(u, o)
}

func (h rude) Follow(u almanac.User, _ almanac.Event) ([]almanac.FollowUp, error) {
	h.misbehave("follow", u)
	return nil, nil
}

// One user's handler or an observer misbehaves while the outcomes of five users are stored.
// The four others go on with their series, and so does the program.
func TestTheHostsCodeDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ways := map[string]func(done <-chan struct{}) func(){
		"ends its goroutine": func(<-chan struct{}) func() { return runtime.Goexit },
		"panics":             func(<-chan struct{}) func() { return func() { panic("oh") } },
		"never returns":      func(done <-chan struct{}) func() { return func() { <-done } },
	}
	for _, where := range []string{"next", "payload", "follow", "observer"} {
		for way, act := range ways {
			t.Run(where+" "+way, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					done, delivered := make(chan struct{}), new(sync.Map)
					h := rude{where: where, act: act(done), on: delivered}
					r := almanactest.NewRepository(nil)
					registry, err := almanac.NewRegistry(h)
					require.NoError(t, err)
					completed := 0
					s, err := almanac.NewScheduler(r, registry, almanac.WithPoll(12*time.Hour), almanac.WithSweep(12*time.Hour),
						almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
							delivered.Store("yes", true)
							return nil
						})),
						almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
							if n.Kind != almanac.EventCompleted {
								return
							}
							mu.Lock()
							completed++
							first := completed == 1
							mu.Unlock()
							if first && where == "observer" {
								h.act()
							}
						})))
					require.NoError(t, err)
					for _, name := range []string{"Ada", "Grace", "Rude", "Alan", "Edsger"} {
						_, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: name, LastName: "X", DateOfBirth: "1990-01-02", Timezone: "UTC"})
						require.NoError(t, err)
					}
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- s.Run(ctx) }()
					time.Sleep(48 * time.Hour)

					n, err := r.Count(t.Context(), almanac.InStatus(almanac.Completed))
					require.NoError(t, err)
					require.Equal(t, 5, n, "delivered")
					n, err = r.Count(t.Context(), almanac.InStatus(almanac.Processing))
					require.NoError(t, err)
					require.Zero(t, n)
					n, err = r.Count(t.Context(), almanac.InStatus(almanac.Pending))
					require.NoError(t, err)
					want := 5
					if where == "next" || where == "payload" {
						want = 4
					}
					require.Equal(t, want, n, "successors")
					health := s.Health()
					require.NoError(t, health.Err())
					require.Zero(t, health.Held)
					if way == "never returns" {
						require.Equal(t, 1, health.Blocked)
					} else {
						require.Zero(t, health.Blocked)
					}
					close(done)
					synctest.Wait()
					require.Zero(t, s.Health().Blocked, "it has returned")
					stop()
					require.NoError(t, <-ended)
				})
			})
		}
	}
}
