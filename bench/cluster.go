package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// settings are those of the server that are not its defaults.
func settings() map[string]string { return map[string]string{"shared_buffers": "1GB"} }

// cluster is a PostgreSQL server of this program's own, durable.
type cluster struct {
	server    *pgserver.Server
	admin     *pgxpool.Pool
	gauge     *gauge
	templates map[string]bool
	strategy  string       // how the server copies a database, as CREATE DATABASE takes it
	one       sync.Mutex   // is held while a database is copied
	copies    int          // so far
	copying   atomic.Int64 // nanoseconds spent on copies
}

func startCluster(ctx context.Context, settings map[string]string) (*cluster, error) {
	server, err := pgserver.Start(ctx, pgserver.Config{Durable: true, MaxConnections: 200, Settings: settings})
	if err != nil {
		return nil, err
	}
	admin, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		return nil, errors.Join(err, server.Stop(ctx))
	}
	c := &cluster{server: server, admin: admin, templates: make(map[string]bool)}
	c.gauge, err = newGauge(ctx, admin)
	if err == nil {
		// Before version 15 this is the only way. The other writes the whole copy to the log.
		err = admin.QueryRow(ctx, `
			SELECT CASE WHEN current_setting('server_version_num')::integer >= 150000 THEN ' STRATEGY FILE_COPY' ELSE '' END`).Scan(&c.strategy)
	}
	if err != nil {
		return nil, errors.Join(err, c.close(ctx))
	}
	return c, nil
}

func (c *cluster) close(ctx context.Context) error {
	c.admin.Close()
	return c.server.Stop(context.WithoutCancel(ctx))
}

// database is one that a single run has to itself.
type database struct {
	name  string
	url   string
	pool  *pgxpool.Pool
	gauge *gauge // of the server
}

func (c *cluster) open(ctx context.Context, name string) (database, error) {
	u, err := url.Parse(c.server.URL())
	if err != nil {
		return database{}, err
	}
	u.Path = name
	pool, err := poolOf(ctx, u.String(), 12) // enough for eight writers
	return database{name, u.String(), pool, c.gauge}, err
}

// poolOf returns a pool of a number of connections.
func poolOf(ctx context.Context, url string, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, config)
}

// template makes a database once and fills it; later calls do nothing. It is
// vacuumed and analyzed, as a database that has been in use for a while is.
func (c *cluster) template(ctx context.Context, name string, fill func(context.Context, database) error) error {
	if c.templates[name] {
		return nil
	}
	if _, err := c.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return err
	}
	db, err := c.open(ctx, name)
	if err != nil {
		return err
	}
	defer db.pool.Close()
	if err := fill(ctx, db); err != nil {
		return fmt.Errorf("fill %s: %w", name, err)
	}
	if _, err := db.pool.Exec(ctx, "VACUUM (ANALYZE)"); err != nil {
		return err
	}
	c.templates[name] = true
	return nil
}

// drop removes a database, and ends connections to it.
func (c *cluster) drop(ctx context.Context, name string) error {
	delete(c.templates, name)
	_, err := c.admin.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}

// copy makes a physical copy of a template. Its tables are in memory, and every page
// counts as written before the last checkpoint: each run pays for its full-page images.
func (c *cluster) copy(ctx context.Context, template string) (database, error) {
	c.one.Lock()
	defer c.one.Unlock()
	defer c.count(time.Now())
	c.copies++
	name := fmt.Sprintf("run_%d", c.copies)
	_, err := c.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE "+pgx.Identifier{template}.Sanitize()+c.strategy)
	if err != nil {
		return database{}, err
	}
	db, err := c.open(ctx, name)
	if err == nil {
		err = db.warm(ctx)
	}
	if err == nil {
		_, err = c.admin.Exec(ctx, "CHECKPOINT")
	}
	return db, err
}

// count adds what a copy took, or its removal.
func (c *cluster) count(began time.Time) { c.copying.Add(int64(time.Since(began))) }

// discard removes a copy.
func (c *cluster) discard(ctx context.Context, db database) error {
	defer c.count(time.Now())
	db.pool.Close()
	return c.drop(context.WithoutCancel(ctx), db.name)
}

// with calls use with a copy of a template, and removes the copy afterwards.
func (c *cluster) with(ctx context.Context, template string, use func(database) error) error {
	db, err := c.copy(ctx, template)
	if err != nil {
		return err
	}
	return errors.Join(use(db), c.discard(ctx, db))
}

// on returns a function that measures on a copy of a template.
func (c *cluster) on(template string, measure func(context.Context, database) ([]reading, error)) func(context.Context) ([]reading, error) {
	return func(ctx context.Context) (readings []reading, err error) {
		err = c.with(ctx, template, func(db database) error {
			readings, err = measure(ctx, db)
			return err
		})
		return readings, err
	}
}

// inBulk lets a large fill go on without triggers, whose look-ups take as long again, and without
// indexes, which are built afterwards. They have as much room as random entries leave.
func (db database) inBulk(ctx context.Context, fill func(*pgxpool.Conn) error) error {
	const (
		suspend = `
			UPDATE pg_index
			SET indisready = false, indisvalid = false
			WHERE indrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'almanac'::regnamespace)`
		rebuild = `
			DO $$
			DECLARE
				suspended record;
			BEGIN
				FOR suspended IN
					SELECT i.indexrelid::regclass AS name, c.reloptions IS NULL AS plain
					FROM pg_index i
					JOIN pg_class c ON c.oid = i.indexrelid
					WHERE NOT i.indisready
				LOOP
					IF suspended.plain THEN
						EXECUTE format('ALTER INDEX %s SET (fillfactor = 70)', suspended.name);
					END IF;
					EXECUTE format('REINDEX INDEX %s', suspended.name);
					IF suspended.plain THEN
						EXECUTE format('ALTER INDEX %s RESET (fillfactor)', suspended.name);
					END IF;
				END LOOP;
			END $$`
	)
	return db.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		for _, sql := range []string{"SET session_replication_role = replica", "SET maintenance_work_mem = '256MB'", suspend} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if err := fill(conn); err != nil {
			return err
		}
		for _, sql := range []string{rebuild, "RESET session_replication_role", "RESET maintenance_work_mem"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// warm reads everything into the server's memory, the largest first, so that what
// has no room there is part of something large. Temporary tables may be dropped meanwhile: their sessions end.
func (db database) warm(ctx context.Context) error {
	if _, err := db.pool.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_prewarm"); err != nil {
		return err
	}
	_, err := db.pool.Exec(ctx, `
		SELECT pg_prewarm(oid)
		FROM pg_class
		WHERE relkind IN ('r', 'i') AND relpersistence <> 't' AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
		ORDER BY pg_relation_size(oid) DESC`)
	return err
}
