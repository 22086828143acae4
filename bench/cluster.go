package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

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
	copies    int
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
	if c.gauge, err = newGauge(ctx, admin); err != nil {
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

// drop removes a database, whoever is still connected to it.
func (c *cluster) drop(ctx context.Context, name string) error {
	delete(c.templates, name)
	_, err := c.admin.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}

// copy makes a physical copy of a template. Its tables are in memory, and every
// page counts as written before the last checkpoint: each run pays for its
// full-page images.
func (c *cluster) copy(ctx context.Context, template string) (database, error) {
	c.copies++
	name := fmt.Sprintf("run_%d", c.copies)
	_, err := c.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE "+pgx.Identifier{template}.Sanitize())
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

// discard removes a copy.
func (c *cluster) discard(ctx context.Context, db database) error {
	db.pool.Close()
	return c.drop(context.WithoutCancel(ctx), db.name)
}

// with hands use a copy of a template, and removes it afterwards.
func (c *cluster) with(ctx context.Context, template string, use func(database) error) error {
	db, err := c.copy(ctx, template)
	if err != nil {
		return err
	}
	return errors.Join(use(db), c.discard(ctx, db))
}

// warm reads everything into the server's memory, the largest first, so that what
// has no room there is part of something large.
func (db database) warm(ctx context.Context) error {
	if _, err := db.pool.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_prewarm"); err != nil {
		return err
	}
	_, err := db.pool.Exec(ctx, `
		SELECT pg_prewarm(oid)
		FROM pg_class
		WHERE relkind IN ('r', 'i') AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
		ORDER BY pg_relation_size(oid) DESC`)
	return err
}
