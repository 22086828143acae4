package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestGreetingsArePlannedOutsideQuietHours(t *testing.T) {
	t.Parallel()
	c, err := parse([]string{"-webhook-url", "https://example.com/", "-anniversary", "hired", "-quiet-hours", "22:00-07:30"}, environment())
	require.NoError(t, err)
	now := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	for deliverAt, want := range map[string]string{"23:15": "07:30:00", "06:00": "07:30:00", "21:59": "21:59:00", "07:30": "07:30:00"} {
		u, err := almanac.NewUser(almanac.Profile{FirstName: "A", LastName: "B", DateOfBirth: "1990-05-06", Timezone: "Asia/Tokyo",
			Attributes: []byte(`{"hired":"2020-05-06","deliverAt":"` + deliverAt + `"}`)}, now)
		require.NoError(t, err)
		for _, h := range c.handlers() {
			next, err := h.(greeter).Next(u, now)
			require.NoError(t, err)
			require.Equal(t, "2026-05-06", next.Wall.Date.String(), "%s at %s", h.EventType(), deliverAt)
			require.Equal(t, want, next.Wall.Clock.String(), "%s at %s", h.EventType(), deliverAt)
		}
	}
}

func TestGreetingsArePlannedWithinWeeklyHours(t *testing.T) {
	t.Parallel()
	c, err := parse([]string{"-webhook-url", "https://example.com/", "-anniversary", "hired", "-hours", "Mo-Fr 10:00-18:00; Sa 11:00-14:00"}, environment())
	require.NoError(t, err)
	now := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	for day, want := range map[string]string{"05-08": "2026-05-08T10:00:00", "05-09": "2026-05-09T11:00:00", "05-10": "2026-05-11T10:00:00"} { // a Friday and the days after it
		u, err := almanac.NewUser(almanac.Profile{FirstName: "A", LastName: "B", DateOfBirth: "1990-" + day, Timezone: "Asia/Tokyo", Attributes: []byte(`{"hired":"2020-` + day + `"}`)}, now)
		require.NoError(t, err)
		for _, h := range c.handlers() {
			next, err := h.(greeter).Next(u, now)
			require.NoError(t, err)
			require.Equal(t, want, next.Wall.String(), "%s on %s", h.EventType(), day)
			require.Equal(t, "2026", next.Key)
		}
		late, err := time.Parse(time.DateOnly, "2026-"+day)
		require.NoError(t, err)
		opens, _, _ := c.window(u).Next(u.Timezone, late)
		require.Equal(t, want, u.Timezone.WallTime(opens).String(), "a late one, from 09:00 there")
	}
}

func TestALateGreetingWaitsForTheEndOfQuietHours(t *testing.T) {
	t.Parallel()
	pool, h := pgtest.Pool(t), listen(t, http.StatusOK)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	now := time.Now().UTC().Truncate(time.Second)
	missed(t, store, now.Add(-time.Hour))
	quiet := now.Add(-2*time.Hour).Format("15:04") + "-" + now.Add(2*time.Hour).Format("15:04")
	flags := append(h.flags(), "-once", "-database-url", pool.Config().ConnString())

	p := begin(t, append(flags, "-quiet-hours", quiet)...)

	require.Equal(t, 0, p.wait())
	require.Contains(t, p.out.String(), "claimed 1: 0 completed, 0 failed, 0 called off, 1 to be tried again")
	h.silent()
	page, err := store.Find(t.Context(), nil, almanac.Page{})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Zero(t, page.Items[0].RetryCount)
	require.WithinRange(t, page.Items[0].AvailableAt, now.Add(2*time.Hour-time.Minute), now.Add(2*time.Hour+time.Second))
}
