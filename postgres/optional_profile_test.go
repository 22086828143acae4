package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
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

// oldRead is how the previous release reads a user: into a string and a time.
func oldRead(t *testing.T, db *pgxpool.Pool, id uuid.UUID) (first string, born time.Time, err error) {
	t.Helper()
	err = db.QueryRow(t.Context(), "SELECT u.first_name, u.date_of_birth FROM almanac.users u WHERE u.id = $1", id).Scan(&first, &born)
	return first, born, err
}

func TestAProgramOfTheReleaseBeforeMayRunBesideOptionalProfiles(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	s := optional(t, store)

	// It reads and edits users of one name, whose name stays absent.
	mononym, err := s.CreateUser(t.Context(), almanac.Profile{LastName: "Teller", DateOfBirth: "1948-02-14", Timezone: "UTC"})
	require.NoError(t, err)
	first, born, err := oldRead(t, pool, mononym.User.ID)
	require.NoError(t, err)
	require.Empty(t, first)
	require.Equal(t, "1948-02-14", born.Format(time.DateOnly))
	_, err = pool.Exec(t.Context(), `UPDATE almanac.users SET first_name = '', last_name = 'Teller', date_of_birth = '1948-02-14', timezone = 'Asia/Tokyo',
		attributes = '{}', version = version + 1, updated_at = clock_timestamp() WHERE id = $1`, mononym.User.ID)
	require.NoError(t, err)
	is, err := store.User(t.Context(), mononym.User.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"Teller", "1948-02-14", "Asia/Tokyo"}, []string{is.Name(), is.DateOfBirth.String(), is.Timezone.String()})

	// What it creates is read as ever.
	grace := uuid.New()
	_, err = pool.Exec(t.Context(), oldCreate, grace)
	require.NoError(t, err)
	is, err = store.User(t.Context(), grace)
	require.NoError(t, err)
	require.Equal(t, []string{"Grace Hopper", "1906-12-09"}, []string{is.Name(), is.DateOfBirth.String()})

	// It overwrites a date without its year by a whole one, and no trace of the former is left.
	ada, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", DateOfBirth: "--12-10", Timezone: "UTC"})
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), oldUpdate, ada.User.ID)
	require.NoError(t, err)
	is, err = store.User(t.Context(), ada.User.ID)
	require.NoError(t, err)
	require.Equal(t, "1990-12-10", is.DateOfBirth.String())

	// This is why the option waits until it is gone: it cannot read such dates.
	nobody, err := s.CreateUser(t.Context(), almanac.Profile{Timezone: "UTC"})
	require.NoError(t, err)
	_, _, err = oldRead(t, pool, nobody.User.ID)
	require.Error(t, err)
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
	pool := pgtest.Pool(t)
	require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
	s := optional(t, mustStore(t, pool))
	created, err := s.CreateUser(t.Context(), almanac.Profile{Timezone: "UTC"})
	require.NoError(t, err)
	require.Empty(t, created.Events)
	want := []string{}
	for _, step := range []struct {
		born                           string
		added, removed, moved, changed int
	}{{"--02-29", 1, 0, 0, 1}, {"--03-15", 0, 0, 1, 1}, {"1990-03-15", 0, 0, 0, 1}, {"1990-03-15", 0, 0, 0, 0}, {"", 0, 1, 0, 1}, {"", 0, 0, 0, 0}} {
		result, err := s.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{DateOfBirth: &step.born})
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

func TestOptionalProfilesAreLostOnTheWayDownOnlyIfTheyMay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		profile          almanac.Profile
		named, born      string
		refuses, planned int
	}{
		"no first name": {almanac.Profile{LastName: "Teller", DateOfBirth: "1948-02-14"}, "- Teller", "1948-02-14", 0, 1},
		"no last name":  {almanac.Profile{FirstName: "Sukarno", DateOfBirth: "1901-06-06"}, "Sukarno -", "1901-06-06", 0, 1},
		"no year":       {almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "--02-29"}, "Ada Lovelace", "1904-02-29", 0, 1},
		"no date":       {almanac.Profile{FirstName: "Ada", LastName: "Lovelace"}, "Ada Lovelace", "1900-01-01", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			store := mustStore(t, pool)
			tt.profile.Timezone = "UTC"
			created, err := optional(t, store).CreateUser(t.Context(), tt.profile)
			require.NoError(t, err)
			downTo(t, pool, 16)

			var loss *postgres.DataLossError
			require.ErrorAs(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}), &loss)
			require.Equal(t, []string{"users"}, loss.Tables)

			downTo(t, pool, 15)
			_, _, err = oldRead(t, pool, created.User.ID)
			require.NoError(t, err, "the previous release reads it")
			require.NoError(t, postgres.Migrate(t.Context(), pool))
			u, err := store.User(t.Context(), created.User.ID)
			require.NoError(t, err)
			require.Equal(t, []string{tt.named, tt.born}, []string{u.Name(), u.DateOfBirth.String()})
			require.Len(t, u.OptOuts, tt.refuses, "nobody is greeted on a day that was made up")
			_, err = newScheduler(t, store).Reschedule(t.Context(), u.ID)
			require.NoError(t, err)
			n, err := store.Count(t.Context(), almanac.ForUser(u.ID))
			require.NoError(t, err)
			require.Equal(t, tt.planned, n)
		})
	}
}
