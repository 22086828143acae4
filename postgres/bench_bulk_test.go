package postgres_test

import (
	"fmt"
	"io"
	"iter"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// One operation is one user who is changed by an import, or one event that is changed.
func BenchmarkBulk(b *testing.B) {
	for _, c := range []struct {
		name string
		each func(b *testing.B, s almanac.Scheduler, people iter.Seq2[almanac.Profile, error])
	}{
		{"users unchanged", func(b *testing.B, s almanac.Scheduler, _ iter.Seq2[almanac.Profile, error]) {
			put(b, s, benchPeople(b.N, "Ada", "UTC"), func(done ops.PutUsersResult) int { return done.Unchanged })
		}},
		{"users with another name", func(b *testing.B, s almanac.Scheduler, _ iter.Seq2[almanac.Profile, error]) {
			put(b, s, benchPeople(b.N, "Grace", "UTC"), func(done ops.PutUsersResult) int { return done.Changed })
		}},
		{"users with another zone", func(b *testing.B, s almanac.Scheduler, _ iter.Seq2[almanac.Profile, error]) {
			put(b, s, benchPeople(b.N, "Ada", "Asia/Tokyo"), func(done ops.PutUsersResult) int { return done.Moved })
		}},
		{"events run now", operateOn(ops.RunNow)},
		{"events cancelled", operateOn(ops.Cancel)},
	} {
		b.Run(c.name, func(b *testing.B) {
			pool := pgtest.Pool(b)
			store, err := postgres.New(pool)
			require.NoError(b, err)
			registry, err := almanac.NewRegistry(almanac.Birthday{})
			require.NoError(b, err)
			s, err := almanac.NewScheduler(store, registry, almanac.WithLogger(slog.New(slog.DiscardHandler)))
			require.NoError(b, err)
			people := benchPeople(b.N, "Ada", "UTC")
			put(b, s, people, func(done ops.PutUsersResult) int { return done.Created })
			_, err = pool.Exec(b.Context(), "VACUUM ANALYZE almanac.series, almanac.queue, almanac.users")
			require.NoError(b, err)
			b.ResetTimer()
			c.each(b, s, people)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// One operation is one user who is copied for a rehearsal. -benchtime 100000x has as many users, which the benchmark stores first.
func BenchmarkCopyUsers(b *testing.B) {
	yearly := func(eventType string) almanac.EventHandler {
		return almanac.Recurring{Type: eventType, Rule: func(u almanac.User) (calendar.Recurrence, error) {
			return u.DateOfBirth.Birthdays(calendar.Clock{Hour: 12})
		}}
	}
	for _, handlers := range [][]almanac.EventHandler{{almanac.Birthday{}}, {almanac.Birthday{}, yearly("RENEWAL"), yearly("DIGEST")}} {
		b.Run(fmt.Sprint(len(handlers), " events each"), func(b *testing.B) {
			pool := pgtest.Pool(b)
			store, err := postgres.New(pool)
			require.NoError(b, err)
			registry, err := almanac.NewRegistry(handlers...)
			require.NoError(b, err)
			s, err := almanac.NewScheduler(store, registry, almanac.WithLogger(slog.New(slog.DiscardHandler)))
			require.NoError(b, err)
			put(b, s, benchPeople(b.N, "Ada", "UTC"), func(done ops.PutUsersResult) int { return done.Created })
			_, err = pool.Exec(b.Context(), "VACUUM ANALYZE almanac.series, almanac.queue, almanac.users")
			require.NoError(b, err)
			b.ResetTimer()
			done, err := ops.CopyUsers(b.Context(), store, registry.EventTypes(), io.Discard, ops.CopyUsersOptions{})
			require.NoError(b, err)
			require.Equal(b, b.N, done.Copied)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "users/s")
		})
	}
}

func benchPeople(n int, name, zone string) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for i := range n {
			external := fmt.Sprint(i)
			p := almanac.Profile{
				ID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(external)), ExternalID: external,
				FirstName: name, LastName: "Lovelace", DateOfBirth: fmt.Sprintf("1990-%02d-%02d", i%12+1, i%28+1), Timezone: zone,
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

func put(b *testing.B, s almanac.Scheduler, people iter.Seq2[almanac.Profile, error], count func(ops.PutUsersResult) int) {
	b.Helper()
	done, err := ops.PutUsers(b.Context(), s, people, ops.PutUsersOptions{})
	require.NoError(b, err)
	require.Empty(b, done.Refused)
	require.Equal(b, b.N, count(done))
}

func operateOn(what ops.Operation) func(*testing.B, almanac.Scheduler, iter.Seq2[almanac.Profile, error]) {
	return func(b *testing.B, s almanac.Scheduler, _ iter.Seq2[almanac.Profile, error]) {
		done, err := ops.Operate(b.Context(), s, what, nil, ops.OperateOptions{Limit: b.N})
		require.NoError(b, err)
		require.Len(b, done.Events, b.N)
	}
}
