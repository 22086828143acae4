package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// Twenty clients edit a user for whom the handler never returns, on a pool of four connections.
// Each returns with its context, and the connections are free for other users.
func TestABlockedHandlerKeepsNoConnection(t *testing.T) {
	pool := pgtest.Pool(t, pgtest.MaxConns(4))
	store := mustStore(t, pool)
	done := make(chan struct{})
	registry, err := almanac.NewRegistry(almanac.Recurring{Type: "DAILY", Rule: func(u almanac.User) (calendar.Recurrence, error) {
		if u.FirstName == "Blocked" {
			<-done
		}
		return calendar.Daily{At: calendar.Clock{Hour: 9}}, nil
	}})
	require.NoError(t, err)
	s, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	var users []almanac.User
	for _, name := range []string{"Ada", "Grace"} {
		u, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: name, LastName: "X", DateOfBirth: "1990-01-01", Timezone: "UTC"})
		require.NoError(t, err)
		users = append(users, u.User)
	}
	edit := func(u almanac.User, name string, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := s.UpdateUser(ctx, u.ID, almanac.ProfileChange{FirstName: &name})
		return err
	}

	var clients sync.WaitGroup
	errs := make([]error, 20)
	began := time.Now()
	for i := range errs {
		clients.Go(func() { errs[i] = edit(users[0], "Blocked", time.Second) })
	}
	clients.Wait()

	require.Less(t, time.Since(began), 4*time.Second)
	for i, err := range errs {
		require.Error(t, err, fmt.Sprint("client ", i))
	}
	require.Eventually(t, func() bool { return s.Health().Blocked > 0 }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, edit(users[1], "Hedy", time.Minute))
	close(done)
	require.Eventually(t, func() bool { return s.Health().Blocked == 0 }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, edit(users[0], "Augusta", time.Minute))
}
