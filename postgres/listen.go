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
)

// ListenerName is the beginning of the application name of a connection that only listens. If
// the pool has an application name, a colon and that name follow.
const ListenerName = "almanac listen"

var (
	errNotReceived = errors.New("a notification was sent and not received: a pooler in transaction mode is in between, or the connection is dead")
	errQueueFull   = errors.New("the server's queue of notifications is half full, so none is sent: a session listens and does not end its transaction")
	errListensOnly = errors.New("a session that listens has nothing to cancel")
)

// Listen calls wake when a process has stored an event that can be claimed within a minute, until ctx is
// done. It also calls wake once when it begins to listen, and after each check of its connection. When ctx is
// done, it returns nil. When the connection fails, or does not receive notifications, it returns an error.
//
// Listen holds a connection of its own besides those of the pool. It connects as the pool does,
// with the pool's BeforeConnect and without its AfterConnect, and under another application
// name: see [ListenerName]. Before it first calls wake, and then after about 15 seconds without
// a notification, it checks that it receives notifications that are sent through the pool.
//
// Listen returns nil at once under [PollOnly], and for a store that is not on a pool.
func (s *Store) Listen(ctx context.Context, wake func()) error {
	pool, ok := s.db.(interface{ Config() *pgxpool.Config })
	if s.pollOnly || !ok {
		return nil
	}
	conn, err := s.connectListener(ctx, pool.Config())
	if err == nil {
		err = (&listener{s, conn, wake, uuid.NewString()}).listen(ctx)
		closeListener(ctx, conn)
	}
	if ctx.Err() != nil {
		return nil
	}
	return wrap("listen", err)
}

// connectListener makes a connection with the configuration of the pool.
func (s *Store) connectListener(ctx context.Context, pool *pgxpool.Config) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	config := pool.ConnConfig // a copy, made by Pool.Config
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
	config.OnNotification = nil // so that pgx queues notifications for WaitForNotification
	// Waits time out regularly here, which must not cancel anything.
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	// When a connection breaks, pgx makes another one to cancel the statement, and waits for a
	// response that does not come over a dead network. So only the first connection is allowed.
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

// closeListener closes a connection, and waits for the goroutine with which pgx may close it.
func closeListener(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
	_ = conn.PgConn().Conn().Close() // ends a goroutine that still waits to send the goodbye
	<-conn.PgConn().CleanupDone()
}

// probing has the times of the check that a listener receives notifications.
type probing struct {
	quiet time.Duration // without a notification until the next check, plus or minus a fifth
	limit time.Duration // for a check to send its notification, and again to receive it
}

// With these times a half-open connection is found within 25 seconds. While nothing happens,
// some process sends a notification about every 15 seconds. All listeners receive it, so the
// others need not send their own. See docs/adr/0025-listen.md.
var defaultProbing = probing{quiet: 15 * time.Second, limit: 5 * time.Second}

// listener is a connection that listens.
type listener struct {
	*Store
	conn  *pgx.Conn
	wake  func()
	token string // the payload of its checks, which no other listener sends
}

// listen calls wake for each hint, until ctx is done or the connection fails.
func (l *listener) listen(ctx context.Context) error {
	for {
		if err := l.check(ctx); err != nil {
			return err
		}
		l.wake() // for events that were stored before, and for hints that the check received
		if err := l.untilQuiet(ctx); err != nil {
			return err
		}
	}
}

// untilQuiet calls wake for each hint, until no notification has come for a while.
func (l *listener) untilQuiet(ctx context.Context) error {
	quiet := l.probing.quiet
	for {
		payload, received, err := l.next(ctx, quiet-quiet/5+rand.N(2*quiet/5+1))
		if err != nil || !received {
			return err
		}
		if payload == hintPayload {
			l.wake()
		}
	}
}

// check sends a notification with the listener's token through the pool, and waits until the connection
// receives it. Other notifications do not prove that the connection is alive, because they may have come
// before. The token goes through the pool for this reason: behind a pooler that assigns sessions, a
// notification that was sent on the same connection would come back on it, but notifications of other
// connections would not. Repeating LISTEN has no effect, except that the session is not idle.
func (l *listener) check(ctx context.Context) error {
	if err := l.sendToken(ctx); err != nil {
		return err
	}
	for {
		payload, received, err := l.next(ctx, l.probing.limit)
		switch {
		case err != nil:
			return err
		case !received:
			l.unlisten(ctx)
			return errNotReceived
		case payload == l.token:
			return nil
		}
	}
}

func (l *listener) sendToken(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.probing.limit)
	defer cancel()
	if _, err := l.conn.Exec(ctx, "LISTEN "+quoted(l.channel())); err != nil {
		return err
	}
	return l.do(ctx, "notify", func(ctx context.Context, db DB) error {
		tag, err := db.Exec(ctx, l.statements.Notify, l.notification(l.token))
		if err == nil && tag.RowsAffected() == 0 {
			err = errQueueFull
		}
		return err
	})
}

// unlisten sends UNLISTEN, in case a pooler has run the LISTEN in a session that it shares with
// other clients. It may not reach the same session.
func (l *listener) unlisten(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = l.conn.Exec(ctx, "UNLISTEN "+quoted(l.channel()))
}

// next waits for a notification. It reports false if none came in time.
func (l *listener) next(ctx context.Context, limit time.Duration) (payload string, received bool, err error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := l.conn.WaitForNotification(within)
	switch {
	case err == nil:
		return n.Payload, true, nil
	case within.Err() != nil && ctx.Err() == nil && !l.conn.IsClosed():
		return "", false, nil
	}
	return "", false, err
}
