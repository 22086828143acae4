package postgres_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// cutter breaks one connection after the server has run the statement, and before its
// answer arrives.
type cutter struct {
	after  string // part of the statement
	commit bool   // not after it, but after a COMMIT that follows
	pooler bool   // what breaks is a pooler's connection, which says so
	cuts   atomic.Int64
}

func (c *cutter) option(config *pgxpool.Config) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &cuttable{Conn: conn, cutter: c}, err
	}
}

// cuttable is a connection under a cutter.
type cuttable struct {
	net.Conn
	cutter  *cutter
	seen    bool // the statement was sent
	cut     atomic.Bool
	refused atomic.Bool // by the pooler
}

func (c *cuttable) Write(p []byte) (int, error) {
	c.seen = c.seen || bytes.Contains(p, []byte(c.cutter.after))
	c.cutIf(c.seen && !c.cutter.commit)
	return c.Conn.Write(p)
}

func (c *cuttable) cutIf(now bool) {
	if now && c.cutter.cuts.CompareAndSwap(0, 1) {
		c.cut.Store(true)
	}
}

func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p) // so that the server has done it
	c.cutIf(c.seen && c.cutter.commit && bytes.Contains(p[:n], []byte("COMMIT")))
	if !c.cut.Load() {
		return n, err
	}
	_ = c.Close() // what matters is that nothing more comes
	if c.cutter.pooler && c.refused.CompareAndSwap(false, true) {
		refusal := pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: "server conn crashed?"}
		said, err := refusal.Encode(nil)
		return copy(p, said), err
	}
	return 0, io.ErrUnexpectedEOF
}

// The statements after which connections break, each in a transaction of its own.
const (
	claiming  = `INSERT INTO "almanac".leases`
	settling  = `INSERT INTO "almanac".history`
	enrolling = `INSERT INTO "almanac".users`
)

// Leases last for an hour and there is no sweep: what is not resolved at once is not resolved
// at all.
func TestOperationsAreResolvedAfterABrokenConnection(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cutter *cutter
		claims []int // of which it may be any: the events of the first claim are released
	}{
		// It is cut while it is prepared; or, if nothing is, when it and its COMMIT were sent.
		"in a claim":                  {&cutter{after: claiming}, []int{1, 2}},
		"in the COMMIT of a claim":    {&cutter{after: claiming, commit: true}, []int{2}},
		"by a pooler, in its COMMIT":  {&cutter{after: claiming, commit: true, pooler: true}, []int{2}},
		"in an outcome":               {&cutter{after: settling}, []int{1}},
		"in the COMMIT of an outcome": {&cutter{after: settling, commit: true}, []int{1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t, tt.cutter.option)
			store := mustStore(t, pool)
			enrolment, err := newScheduler(t, store).CreateUser(t.Context(), almanac.Profile{
				FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"})
			require.NoError(t, err)
			e := enrolment.Events[0]
			// Its wall time too, so that comparing zone rules does not set it right.
			now := nowOf(t, store)
			e.Due, e.Wall = now.Truncate(time.Second), calendar.WallTimeOf(now.Truncate(time.Second))
			_, err = store.Update(t.Context(), e, e.Version)
			require.NoError(t, err)
			var deliveries atomic.Int64
			deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { deliveries.Add(1); return nil })
			worker := newScheduler(t, store, almanac.WithDeliverer(almanac.ChannelWebhook, deliver),
				almanac.WithLease(time.Hour), almanac.WithSweep(time.Hour))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- worker.Run(ctx) }()

			require.Eventually(t, func() bool {
				e, err = store.Event(t.Context(), e.ID)
				return err == nil && e.Status == almanac.Completed
			}, time.Minute, 10*time.Millisecond)
			stop()
			require.NoError(t, <-ended)

			require.EqualValues(t, 1, tt.cutter.cuts.Load(), "a connection was cut")
			require.EqualValues(t, 1, deliveries.Load())
			require.Contains(t, tt.claims, e.ClaimCount)
			require.Zero(t, e.CrashCount)
			n, err := store.Count(t.Context(), almanac.ForUser(e.UserID))
			require.NoError(t, err)
			require.Equal(t, 2, n, "it, and its successor")
			requireLeasesMatchEvents(t, pool)
		})
	}
}

func TestAnErrorSaysWhetherAnythingMayBeStored(t *testing.T) {
	t.Parallel()
	c := &cutter{after: enrolling, commit: true}
	store := newStore(t, c.option)
	scheduler := newScheduler(t, store)

	_, err := scheduler.CreateUser(t.Context(), ada)
	require.Error(t, err)
	require.False(t, pgconn.SafeToRetry(err), "the COMMIT was sent")
	n, err := store.Count(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, n, "and it took effect")

	c = &cutter{after: enrolling}
	_, err = newScheduler(t, newStore(t, c.option)).CreateUser(t.Context(), ada)
	require.NoError(t, err, "without it, it is repeated by itself")
	require.EqualValues(t, 1, c.cuts.Load())
}
