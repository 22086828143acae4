package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/webhook"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// crm is the receiver. It notes each request, and fails from one time to another.
type crm struct {
	mu           sync.Mutex
	requests     []time.Time
	last         map[string]time.Time // the last greeting of each tenant
	greeted      map[string]int       // by user
	fails, works time.Time
}

func (c *crm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Message string }
	err := json.NewDecoder(r.Body).Decode(&body)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.requests = append(c.requests, now)
	if now.After(c.fails) && now.Before(c.works) || err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	c.greeted[body.Message]++
	for _, tenant := range []string{"large", "small", "tiny"} {
		if len(body.Message) > len(tenant) && body.Message[5:5+len(tenant)] == tenant {
			c.last[tenant] = now
		}
	}
}

// All birthdays of three tenants are due at once. The receiver takes fifty a second, from three processes, of which
// one comes later, and fails for a while.
func TestTheWaveKeepsTheRateAndIsFair(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	c := &crm{last: make(map[string]time.Time), greeted: make(map[string]int)}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	sizes := map[string]int{"large": 400, "small": 20, "tiny": 5}
	process := func() almanac.Scheduler {
		return newScheduler(must(postgres.New(pool)), must(webhook.New(server.URL, webhook.AllowPrivate())))
	}
	first := process()
	require.NoError(t, first.SetLane(t.Context(), receiver))
	store(t, first, sizes)

	began := time.Now()
	c.fails, c.works = began.Add(4*time.Second), began.Add(8*time.Second)
	running, stop := context.WithCancel(t.Context())
	var processes sync.WaitGroup
	run := func(s almanac.Scheduler) { processes.Go(func() { require.NoError(t, s.Run(running)) }) }
	run(first)
	run(process())
	greeted := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.greeted) >= n
		}, 2*time.Minute, 100*time.Millisecond)
	}
	greeted(100)
	run(process())
	greeted(425)
	stop()
	processes.Wait()

	for user, n := range c.greeted {
		require.Equal(t, 1, n, user)
	}
	for i := range c.requests { // a burst of two, fifty a second, and a quarter of a second until a start; as long on a busy machine
		for j := range i {
			most := 2 + 50*(c.requests[i].Sub(c.requests[j]).Seconds()+0.5)
			require.LessOrEqual(t, float64(i-j+1), most, "requests %d to %d", j, i)
		}
	}
	require.Less(t, c.last["tiny"].Sub(began), 3*time.Second, "it has a third of the rate")
	require.Less(t, c.last["small"].Sub(began), 4*time.Second)
	require.Less(t, len(c.requests), 425+60, "single events are tried while it fails")
	var failed, retries int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE status = 'FAILED'), max(retry_count) FROM almanac.ended_events").Scan(&failed, &retries))
	require.Zero(t, failed)
	require.LessOrEqual(t, retries, 1)
}

// store stores users whose birthdays are due now.
func store(t *testing.T, s almanac.Scheduler, sizes map[string]int) {
	t.Helper()
	for tenant, n := range sizes {
		for range n {
			created, err := s.CreateUser(t.Context(), almanac.Profile{
				FirstName: tenant, LastName: uuid.NewString(), DateOfBirth: "1990-12-10", Timezone: "Europe/London",
				Attributes: json.RawMessage(`{"tenant": "` + tenant + `"}`),
			})
			require.NoError(t, err)
			_, err = s.RunNow(t.Context(), created.Events[0].ID, almanac.ForceOptions{})
			require.NoError(t, err)
		}
	}
}
