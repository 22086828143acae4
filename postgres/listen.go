package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
)

var _ almanac.Listener = (*Store)(nil)

// ListenerName begins the application name of a connection that only listens. What
// follows, after a colon, is the name that the pool gives its connections.
const ListenerName = "almanac listen"

var (
	errDeaf        = errors.New("a notification was sent and not heard: a pooler in transaction mode is in between, or the connection is dead")
	errListensOnly = errors.New("a session that listens has nothing to cancel")
)

// Listen calls wake when somebody has stored an event that can be claimed within a
// minute, until ctx is done. It holds a connection of its own beside those of the
// pool, made as the pool makes its own but for the application name (see
// [ListenerName]), with the pool's BeforeConnect and without its AfterConnect. It
// makes sure that it hears what is sent through the pool, first before it calls wake
// for the first time, and then whenever it has heard nothing for a while.
//
// It returns nil at once under [PollOnly], and for a store that is not on a pool.
func (s *Store) Listen(ctx context.Context, wake func()) error {
	pool, ok := s.db.(interface{ Config() *pgxpool.Config })
	if s.pollOnly || !ok {
		return nil
	}
	conn, err := s.connectEar(ctx, pool.Config())
	if err == nil {
		err = (&ear{s, conn, wake, uuid.NewString()}).listen(ctx)
		hangUp(ctx, conn)
	}
	if ctx.Err() != nil {
		return nil
	}
	return wrap("listen", err)
}

// connectEar makes a connection as the pool would.
func (s *Store) connectEar(ctx context.Context, pool *pgxpool.Config) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	config := pool.ConnConfig // ours: Pool.Config copies
	name := ListenerName
	if application := config.RuntimeParams["application_name"]; application != "" {
		name += ": " + application
	}
	config.RuntimeParams["application_name"] = name
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return nil, err
		}
	}
	config.OnNotification = nil // pgx keeps them for WaitForNotification
	// A wait that times out is everyday here, and must not cancel anything.
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	// pgx connects once more to cancel what a connection that broke was about, and
	// waits for an answer that a dead network does not give.
	var connected atomic.Bool
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errListensOnly
		}
		return dial(ctx, network, address)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	connected.Store(true)
	return conn, err
}

// hangUp closes a connection and waits for the goroutine that pgx may have left to
// do so.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
	_ = conn.PgConn().Conn().Close() // also under one who waits for a farewell
	<-conn.PgConn().CleanupDone()
}

// hearing says how an ear makes sure that it hears.
type hearing struct {
	quiet    time.Duration // without a notification, until it asks for one; give or take a fifth
	patience time.Duration // to wait for that
}

// A half-open connection is found within 25 seconds, and while nothing happens, a
// process sends a notification every quarter of a minute. It is heard by all, who
// need not send their own.
var carefully = hearing{quiet: 15 * time.Second, patience: 5 * time.Second}

// ear is a connection that listens.
type ear struct {
	*Store
	conn *pgx.Conn
	wake func()
	sign string // that nobody else sends
}

// listen passes hints on until ctx is done or nothing can be heard.
func (e *ear) listen(ctx context.Context) error {
	for {
		if err := e.check(ctx); err != nil {
			return err
		}
		e.wake() // for what was stored before, and for hints that the check took
		if err := e.untilQuiet(ctx); err != nil {
			return err
		}
	}
}

// untilQuiet passes hints on until none has come for a while, nor anything else.
func (e *ear) untilQuiet(ctx context.Context) error {
	quiet := e.hearing.quiet
	for {
		payload, heard, err := e.next(ctx, quiet-quiet/5+rand.N(2*quiet/5+1))
		if err != nil || !heard {
			return err
		}
		if payload == hintPayload {
			e.wake()
		}
	}
}

// check makes sure that the connection is alive and hears what others send: a sign
// of its own, since anything else may have come before. The sign goes through the
// pool: behind a pooler that lends out sessions, one that was sent on the same
// connection would come back on it, and nobody else's. To listen once more changes
// nothing, except that the session was not idle.
func (e *ear) check(ctx context.Context) error {
	if err := e.sendSign(ctx); err != nil {
		return err
	}
	for {
		payload, heard, err := e.next(ctx, e.hearing.patience)
		switch {
		case err != nil:
			return err
		case !heard:
			e.unlisten(ctx)
			return errDeaf
		case payload == e.sign:
			return nil
		}
	}
}

func (e *ear) sendSign(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.hearing.patience)
	defer cancel()
	if _, err := e.conn.Exec(ctx, "LISTEN "+quoted(e.channel())); err != nil {
		return err
	}
	return e.do(ctx, "notify", func(ctx context.Context, db DB) error {
		_, err := db.Exec(ctx, e.statements["notify"], e.notification(e.sign))
		return err
	})
}

// unlisten takes back what a pooler may have told a session that is somebody
// else's by now. With luck it is the same one.
func (e *ear) unlisten(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = e.conn.Exec(ctx, "UNLISTEN "+quoted(e.channel()))
}

// next waits for a notification, and reports whether one came in time.
func (e *ear) next(ctx context.Context, patience time.Duration) (payload string, heard bool, err error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n, err := e.conn.WaitForNotification(within)
	switch {
	case err == nil:
		return n.Payload, true, nil
	case within.Err() != nil && ctx.Err() == nil && !e.conn.IsClosed():
		return "", false, nil
	}
	return "", false, err
}
