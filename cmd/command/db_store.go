package command

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/postgres"
)

// server says which database a command works on.
type server struct {
	DatabaseURL string `help:"The PostgreSQL database; required." placeholder:"URL" env:"DATABASE_URL" default:""`
}

func (s *server) validate(env *environment) error {
	if env.host.Open != nil {
		return nil // there is no such flag
	}
	if s.DatabaseURL == "" {
		return errors.New("--database-url or DATABASE_URL is required")
	}
	_, err := pgx.ParseConfig(s.DatabaseURL)
	return about("--database-url", err)
}

// pool returns the host's pool, or one of so many connections at most, and tries it.
func (s *server) pool(ctx context.Context, env *environment, connections int32) (*pgxpool.Pool, error) {
	open := env.host.Open
	if open == nil {
		open = func(ctx context.Context) (*pgxpool.Pool, error) {
			config, err := pgxpool.ParseConfig(s.DatabaseURL)
			if err != nil {
				return nil, err
			}
			config.ConnConfig.RuntimeParams["application_name"] = env.host.Name
			config.MaxConns = connections
			return pgxpool.NewWithConfig(ctx, config)
		}
	}
	pool, err := open(ctx)
	if err != nil {
		return nil, err
	}
	trying, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if err := pool.Ping(trying); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// tables says where users and events are that a command is about.
type tables struct {
	Server server `embed:""`
	Schema string `help:"The schema of the tables (default ${default})." placeholder:"NAME" default:"${schema}"`
}

// validate returns everything that is wrong with it, without asking the database.
func (t *tables) validate(env *environment) error {
	return errors.Join(t.Server.validate(env), validateSchema(t.Schema))
}

func validateSchema(name string) error {
	_, err := postgres.New(new(pgx.Conn), postgres.WithSchema(name)) // which does not connect
	return about("--schema", err)
}

// statementLimit is patience with one statement: what a command asks for may be
// rare, and found by looking at everything.
const statementLimit = time.Minute

// open returns a store on a database that this release can work on, and what closes
// it.
func (t *tables) open(ctx context.Context, env *environment, connections int32) (*postgres.Store, func(), error) {
	pool, store, err := t.opened(ctx, env, connections)
	if err != nil {
		return nil, nil, err
	}
	return store, pool.Close, nil
}

// use opens a store for do, if neither the flags nor other arguments are wrong.
func (t *tables) use(ctx context.Context, env *environment, wrong error, do func(*postgres.Store) error) error {
	if err := misused(wrong, t.validate(env)); err != nil {
		return err
	}
	store, closing, err := t.open(ctx, env, 1)
	if err != nil {
		return err
	}
	defer closing()
	return do(store)
}

// opened is open for a command that also asks the database by itself. The caller closes the
// pool.
func (t *tables) opened(ctx context.Context, env *environment, connections int32) (*pgxpool.Pool, *postgres.Store, error) {
	pool, err := t.Server.pool(ctx, env, connections)
	if err != nil {
		return nil, nil, err
	}
	store, err := postgres.New(pool, postgres.WithSchema(t.Schema), postgres.WithTimeout(statementLimit))
	if err == nil {
		err = store.Verify(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return pool, store, nil
}

// dial returns a connection and a store on it, whatever release the database is of,
// with some patience for each operation.
func (t *tables) dial(ctx context.Context, env *environment, patience time.Duration) (*pgx.Conn, *postgres.Store, error) {
	conn, err := env.connect(ctx, t.Server.DatabaseURL)
	if err != nil {
		return nil, nil, err
	}
	store, err := postgres.New(conn, postgres.WithSchema(t.Schema), postgres.WithTimeout(patience))
	if err != nil {
		disconnect(ctx, conn)
		return nil, nil, err
	}
	return conn, store, nil
}
