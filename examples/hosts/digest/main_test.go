package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), schema)
	require.NoError(t, err)
	return pool
}

func comment(t *testing.T, pool *pgxpool.Pool, user uuid.UUID, at, text string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "INSERT INTO comments VALUES ($1, $2::text::timestamptz, $3)", user, at, text)
	require.NoError(t, err)
}

// post keeps the letters.
type post struct {
	mu      sync.Mutex
	letters []letter
}

func (p *post) send(_ context.Context, l letter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.letters = append(p.letters, l)
	return nil
}

func registry(t *testing.T) almanac.Registry {
	t.Helper()
	r, err := almanac.NewRegistry(weekly())
	require.NoError(t, err)
	return r
}

// Three months in virtual time, with the comments in PostgreSQL. Clocks in London go forward on 26
// March 2000, so that week has 167 hours.
func TestEachCommentIsInTheDigestOfItsWeek(t *testing.T) {
	t.Parallel()
	pool := open(t)
	ada, kenji := uuid.New(), uuid.New()
	comment(t, pool, ada, "2000-01-08 12:00Z", "a Saturday")
	comment(t, pool, ada, "2000-01-09 18:00Z", "on the dot")
	comment(t, pool, ada, "2000-01-09 18:00:01Z", "a second late")
	comment(t, pool, ada, "2000-03-19 17:30Z", "before the digest of the 19th")
	comment(t, pool, ada, "2000-03-26 16:59Z", "before the digest of the 26th")
	comment(t, pool, kenji, "2000-01-09 10:00Z", "after 18:00 in Tokyo")
	var got []string
	synctest.Test(t, func(t *testing.T) {
		letters := &almanactest.Recorder{Deliverer: digest{pool, func(_ context.Context, l letter) error {
			for _, text := range l.comments {
				got = append(got, l.to.FirstName+": "+text)
			}
			return nil
		}}}
		rehearsal := almanactest.Rehearse(t, registry(t), almanac.WithWorkers(1), almanac.WithDeliverer(almanac.ChannelWebhook, letters))
		for _, p := range []almanac.Profile{
			{ID: ada, FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"},
			{ID: kenji, FirstName: "Kenji", LastName: "Sato", DateOfBirth: "1990-12-10", Timezone: "Asia/Tokyo"},
		} {
			_, err := rehearsal.Scheduler.CreateUser(t.Context(), p)
			require.NoError(t, err)
		}

		rehearsal.For(91 * 24 * time.Hour)

		require.Len(t, letters.AttemptsFor(ada), 13, "every Sunday")
		var sent []string
		for _, a := range letters.Attempts() {
			require.Equal(t, "18:00:00", a.Wall().Clock.String())
			if a.Err == nil {
				sent = append(sent, a.Event.Zone+" "+a.Wall().Date.String())
			} else {
				require.ErrorIs(t, a.Err, almanac.ErrNotOwed)
			}
		}
		require.Equal(t, []string{
			"Europe/London 2000-01-09", "Asia/Tokyo 2000-01-16", "Europe/London 2000-01-16",
			"Europe/London 2000-03-19", "Europe/London 2000-03-26",
		}, sent)
	})
	require.Equal(t, []string{
		"Ada: a Saturday", "Ada: on the dot", "Kenji: after 18:00 in Tokyo", "Ada: a second late",
		"Ada: before the digest of the 19th", "Ada: before the digest of the 26th",
	}, got)
}

// On PostgreSQL throughout: a week without comments ends without a letter, and the series goes on.
func TestAnEmptyWeekIsCalledOff(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	var sent post
	scheduler, err := almanac.NewScheduler(store, registry(t), almanac.WithDeliverer(almanac.ChannelWebhook, digest{pool, sent.send}))
	require.NoError(t, err)
	created, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"})
	require.NoError(t, err)
	_, err = scheduler.RunNow(t.Context(), created.Events[0].ID, almanac.ForceOptions{})
	require.NoError(t, err)

	did, err := scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})

	require.NoError(t, err)
	require.Equal(t, 1, did.Cancelled)
	require.Empty(t, sent.letters)
	called := almanactest.FindEvents(t, store, almanac.InStatus(almanac.Cancelled), 1)[0]
	require.Equal(t, "no comments in the week", called.FailureReason)
	almanactest.PendingEvent(t, store, created.User.ID, "DIGEST")
}

// A repeated delivery has the same letter, although there are more comments by then.
func TestARepeatedDigestIsTheSame(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var sent post
	user := uuid.New()
	comment(t, pool, user, "2000-01-08 12:00Z", "hello")
	var failed bool
	synctest.Test(t, func(t *testing.T) {
		deliver := digest{pool, func(ctx context.Context, l letter) error {
			if err := sent.send(ctx, l); err != nil || failed {
				return err
			}
			failed = true
			comment(t, pool, user, "2000-01-09 18:00:05Z", "for the next digest")
			return errors.New("connection reset by peer")
		}}
		rehearsal := almanactest.Rehearse(t, registry(t), almanac.WithDeliverer(almanac.ChannelWebhook, deliver))
		_, err := rehearsal.Scheduler.CreateUser(t.Context(), almanac.Profile{ID: user, FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"})
		require.NoError(t, err)
		rehearsal.Until(time.Date(2000, time.January, 10, 0, 0, 0, 0, time.UTC))
	})

	require.Len(t, sent.letters, 2)
	require.Equal(t, sent.letters[0].key, sent.letters[1].key)
	require.Equal(t, [][]string{{"hello"}, {"hello"}}, [][]string{sent.letters[0].comments, sent.letters[1].comments})
}
