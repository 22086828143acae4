package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/postgres"
)

// pools are the connections to the database. The API has its own pool, so that many
// requests do not delay the storing of deliveries. Within the API, changes have a separate
// pool: they may wait for locked users while reads are answered. The probe has its own pool
// too, so that many requests do not look like a lost database.
type pools struct {
	read, edit, probe, look, worker *pgxpool.Pool
}

const (
	readConns      = 4
	editConns      = 4
	probeConns     = 1
	lookConns      = 2                // for the dashboard
	lockTimeout    = time.Second      // for a change that waits for a locked user
	workerConns    = 6                // one to claim, two to settle, one to renew, and two for maintenance tasks
	connectTimeout = 5 * time.Second  // for one connection
	connectLimit   = 20 * time.Second // for a server that is just starting
	connectPause   = 250 * time.Millisecond
)

// connect opens the pools, waits until the server answers, and migrates the schema.
func connect(ctx context.Context, url string, log *slog.Logger) (_ pools, err error) {
	var p pools
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for _, one := range []struct {
		pool  **pgxpool.Pool
		conns int32
	}{{&p.worker, workerConns}, {&p.read, readConns}, {&p.edit, editConns}, {&p.probe, probeConns}, {&p.look, lookConns}} {
		if *one.pool, err = open(ctx, url, one.conns); err != nil {
			return p, err
		}
	}
	if err := await(ctx, p.worker, log); err != nil {
		return p, err
	}
	return p, postgres.Migrate(ctx, p.worker)
}

func (p pools) close() {
	for _, pool := range []*pgxpool.Pool{p.read, p.edit, p.probe, p.look, p.worker} {
		if pool != nil {
			pool.Close()
		}
	}
}

func open(ctx context.Context, url string, conns int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("-database-url: %w", err)
	}
	c.MaxConns = conns
	c.ConnConfig.ConnectTimeout = connectTimeout
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "birthdayd"
	}
	return pgxpool.NewWithConfig(ctx, c)
}

// await returns when the server answers. It retries while the server cannot be reached, is
// starting up, or has no free connection. It does not retry when the server refuses.
func await(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	for told := false; ; told = true {
		err := pool.Ping(ctx)
		if err == nil || refused(err) {
			return err
		}
		if !told {
			log.WarnContext(ctx, "the database does not answer yet", slog.Any("error", err), slog.Duration("patience", connectLimit))
		}
		select {
		case <-time.After(connectPause):
		case <-ctx.Done():
			return fmt.Errorf("the database did not answer within %v: %w", connectLimit, err)
		}
	}
}

// refused reports whether the server answered with a permanent error. That is every
// SQLSTATE except those of a server that is starting or stopping (class 57) or lacks
// resources, in particular connections (class 53).
func refused(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code[:2] != "57" && answer.Code[:2] != "53"
}

// describe describes the pool's server in one line, without the password.
func describe(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var version string
	if err := pool.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", err
	}
	c := pool.Config().ConnConfig
	return fmt.Sprintf("PostgreSQL %s at %s port %d, database %s, as given", version, c.Host, c.Port, c.Database), nil
}
