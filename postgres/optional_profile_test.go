package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// optional returns a scheduler that accepts users without names and dates of birth.
func optional(t *testing.T, r almanac.Repository) almanac.Scheduler {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	s, err := almanac.NewScheduler(r, registry, almanac.WithOptionalProfile(), almanac.WithDeliverer(almanac.ChannelWebhook, deliver))
	require.NoError(t, err)
	return s
}

// The dates of birth are stored so that SQL finds birthdays, with or without a year.
func TestBirthdaysAreFoundBySQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	s := optional(t, mustStore(t, pool))
	for _, born := range []string{"1992-02-29", "--02-29", "--03-01", "", "1990-12-10"} {
		_, err := s.CreateUser(t.Context(), almanac.Profile{DateOfBirth: born, Timezone: "UTC"})
		require.NoError(t, err)
	}
	_, err := pool.Exec(t.Context(), "CREATE INDEX ON almanac.users (extract(month FROM date_of_birth), extract(day FROM date_of_birth))")
	require.NoError(t, err, "the expressions can be indexed")
	for question, want := range map[string]int{
		"extract(month FROM date_of_birth) = 2 AND extract(day FROM date_of_birth) = 29": 2,
		"date_of_birth IS NULL":        1,
		"date_of_birth < '1900-01-01'": 2,
	} {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.users WHERE "+question).Scan(&n))
		require.Equal(t, want, n, question)
	}
}

// A date of birth that comes or goes plans or removes the birthday, and the outbox says so.
func TestBirthdaysFollowTheDateOfBirth(t *testing.T) {
	t.Parallel()
	require.NoError(t, calendar.RegisterSystems(calendartest.Lunar{}))
	pool := pgtest.Pool(t)
	require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
	s := optional(t, mustStore(t, pool))
	created, err := s.CreateUser(t.Context(), almanac.Profile{Timezone: "UTC"})
	require.NoError(t, err)
	require.Empty(t, created.Events)
	want := []string{}
	for _, step := range []struct {
		born, by                       string
		added, removed, moved, changed int
	}{
		{"--02-29", "", 1, 0, 0, 1}, {"--03-15", "", 0, 0, 1, 1}, {"1990-03-15", "", 0, 0, 0, 1}, {"1990-03-15", "", 0, 0, 0, 0},
		{"1986-03L-08", "lunar", 1, 1, 0, 1}, {"--03L-08", "lunar", 0, 0, 0, 1}, {"--03L-08", "lunar", 0, 0, 0, 0}, {"1990-03-15", "", 1, 1, 0, 1},
		{"", "", 0, 1, 0, 1}, {"", "", 0, 0, 0, 0},
	} {
		result, err := s.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{DateOfBirth: &step.born, Calendar: &step.by})
		require.NoError(t, err)
		require.Equal(t, []int{step.added, step.removed, step.moved}, []int{len(result.Added), len(result.Removed), len(result.Moved)}, "born %q", step.born)
		if step.changed > 0 {
			want = append(want, "user_birthday_changed")
		}
	}
	rows, err := pool.Query(t.Context(), "SELECT kind FROM almanac.outbox WHERE kind = 'user_birthday_changed'")
	require.NoError(t, err)
	defer rows.Close()
	got := []string{}
	for rows.Next() {
		var kind string
		require.NoError(t, rows.Scan(&kind))
		got = append(got, kind)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, want, got)
}
