package main

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/shards"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// planned opens two databases, and creates users until each has one at least. The scheduler sends its deliveries to the channel.
func planned(t *testing.T) (c *cluster, scheduler almanac.Scheduler, users []almanac.User, greeted chan uuid.UUID) {
	t.Helper()
	c, err := open(t.Context(), pgtest.EmptyURL(t), pgtest.EmptyURL(t))
	require.NoError(t, err)
	t.Cleanup(c.close)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	greeted = make(chan uuid.UUID)
	scheduler, err = almanac.NewScheduler(c.Store, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		greeted <- d.User.ID
		return nil
	})))
	require.NoError(t, err)
	for at := map[string]bool{}; len(at) < 2 || len(users) < 10; {
		created, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"})
		require.NoError(t, err)
		users = append(users, created.User)
		at[c.SchemaOf(created.User.ID)] = true
	}
	return c, scheduler, users, greeted
}

// stored counts the users of a database.
func stored(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.users").Scan(&n))
	return n
}

// Users are divided among both databases, a page lists the events of all, and one Run delivers for all.
func TestTwoDatabasesAreUsedAsOne(t *testing.T) {
	t.Parallel()
	c, scheduler, users, greeted := planned(t)
	first, second := stored(t, c.pools[0]), stored(t, c.pools[1])
	require.Positive(t, first)
	require.Positive(t, second)
	require.Equal(t, len(users), first+second)
	var page strings.Builder
	require.NoError(t, upcoming(t.Context(), c, &page, 1000))
	for _, u := range users {
		require.Contains(t, page.String(), " BIRTHDAY "+u.ID.String()+" "+c.SchemaOf(u.ID)+"\n")
	}
	require.Equal(t, len(users), strings.Count(page.String(), "\n"))

	var want []uuid.UUID
	for _, u := range users {
		_, err := scheduler.RunNow(t.Context(), almanactest.PendingEvent(t, c.Store, u.ID, almanac.TypeBirthday).ID, almanac.ForceOptions{})
		require.NoError(t, err)
		want = append(want, u.ID)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	go func() { ended <- scheduler.Run(ctx) }()
	var got []uuid.UUID
	for range users {
		got = append(got, <-greeted)
	}
	require.ElementsMatch(t, want, got)
	stop()
	require.NoError(t, <-ended)
	almanactest.FindEvents(t, c.Store, almanac.InStatus(almanac.Completed), len(users))
}

// When a server cannot be reached, the page has the events of the other one, and the error names what is missing.
func TestAPageWithoutAServerSaysSo(t *testing.T) {
	t.Parallel()
	c, _, _, _ := planned(t)
	others := stored(t, c.pools[0])
	c.pools[1].Close()
	var page strings.Builder
	var partial *shards.PartialError
	require.ErrorAs(t, upcoming(t.Context(), c, &page, 1000), &partial)
	require.Equal(t, []string{"shard-2"}, partial.Missing)
	require.Equal(t, others, strings.Count(page.String(), "\n"))
}
