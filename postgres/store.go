package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// DB is the part of pgx that a store uses. *pgxpool.Pool, *pgx.Conn and pgx.Tx implement it.
// A connection and a transaction serve one call at a time: [almanac.Runner].Run needs a pool.
type DB interface {
	// Begin begins a transaction. In a transaction it sets a savepoint.
	Begin(ctx context.Context) (pgx.Tx, error)
	// Exec runs a statement that returns no rows.
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	// Query runs a statement that returns rows.
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	// SendBatch runs statements in one round trip.
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Store is an [almanac.Repository] in PostgreSQL. It is safe for concurrent use if
// its DB is. A pool is safe for concurrent use; a connection and a transaction are not.
type Store struct {
	db         DB
	host       *sql.Tx // set instead of db by NewSQL
	schema     string
	timeout    time.Duration
	locks      time.Duration // how long a statement waits for a lock
	pollOnly   bool
	readOnly   bool
	readLimit  time.Duration // how long a statement of a read-only store may take
	probing    probing
	statements statements
	files      fs.FS // the migrations of this release
	earlier    earlier
}

// earlier is what earlier calls have shown.
type earlier struct {
	lastSeries atomic.Pointer[int64]     // of the last page of requeueLost; nil to begin anywhere
	settles    atomic.Bool               // whether Settle has stored an outcome since it last put one aside
	claimed    atomic.Int64              // how many events the last claim took; the next one probably takes as many
	limits     atomic.Bool               // whether the last claim took events of lanes with limits, or had no room to look
	only       atomic.Pointer[onlyLanes] // at the last claim that looked for other events; nil if there were some then, or are now
	claims     atomic.Int64              // how many claims there were while that was so
	backlog    atomic.Pointer[backlog]   // after a claim that took as many events as it could; nil after another one
	clock      atomic.Pointer[clock]     // at the last claim from lanes, or a later one; nil before the first
	visits     atomic.Pointer[visits]    // at the last such claim
	limited    atomic.Pointer[error]     // the error of the last claim from lanes with limits, if the next claim is to return it
}

var (
	_ almanac.Repository = (*Store)(nil)
	_ ops.Statistics     = (*Store)(nil)
)

// Option is an option of the functions that open a store or take a [DB], such as [New] and [Migrate].
type Option func(*Store)

// DefaultSchema is the PostgreSQL schema that holds the tables, unless [WithSchema] names another.
const DefaultSchema = "almanac"

// WithSchema sets the PostgreSQL schema that holds the tables. The name has at most 63 lower-case letters,
// digits and underscores, and does not begin with a digit or with "pg_". The default is [DefaultSchema].
func WithSchema(name string) Option { return func(s *Store) { s.schema = name } }

// WithTimeout sets how long one operation may take, even if its context lasts longer. Then the operation
// fails. The server also ends a transaction that has been idle for this long, in case its process is frozen.
// The default is five seconds. The timeout must be positive. It does not bound migrations, and the limit for
// idle transactions is off while migrations are applied or undone. An edit during which a handler does not
// return ends with its context, or five seconds later (see [almanac.Health]).
func WithTimeout(d time.Duration) Option { return func(s *Store) { s.timeout = d } }

// WithLockTimeout sets how long a statement of a transaction waits for a lock that another transaction holds.
// Then the operation fails with an error that matches [almanac.ErrLocked], nothing is stored, and the
// connection is released. The default is zero, which means half of [WithTimeout]. The timeout must not be
// negative. Set a short timeout for stores that serve requests. In the host's own transaction the host's
// lock_timeout applies instead.
func WithLockTimeout(d time.Duration) Option { return func(s *Store) { s.locks = d } }

// PollOnly turns hints off: the store neither listens for notifications of other
// processes (see [Store.Listen]) nor sends any. Events that other processes store then
// wait for the next poll, as they do when a hint is lost.
//
// Use it behind a pooler in transaction mode, which does not forward notifications to
// listeners. Also use it in hosts that prepare transactions (PREPARE TRANSACTION), because
// a transaction that notifies cannot be prepared.
func PollOnly() Option { return func(s *Store) { s.pollOnly = true } }

// New returns a store on db. It does not connect. Before the store is used, [Migrate] must
// have been called on the database. For a transaction of database/sql see [NewSQL]. New
// fails when db is nil or an option is not valid.
func New(db DB, options ...Option) (*Store, error) {
	if db == nil {
		return nil, errors.New("postgres: no database")
	}
	return configure(&Store{db: db}, options)
}

func configure(s *Store, options []Option) (*Store, error) {
	s.schema, s.timeout, s.probing, s.files = DefaultSchema, 5*time.Second, defaultProbing, migrationFiles
	for _, option := range options {
		option(s)
	}
	if s.timeout <= 0 {
		return nil, fmt.Errorf("postgres: timeout of %v is not positive", s.timeout)
	}
	if s.locks < 0 {
		return nil, fmt.Errorf("postgres: lock timeout of %v is negative", s.locks)
	}
	if s.readLimit < 0 {
		return nil, fmt.Errorf("postgres: read-only timeout of %v is negative", s.readLimit)
	}
	s.locks = cmp.Or(s.locks, s.timeout/2)
	if err := checkSchemaName(s.schema); err != nil {
		return nil, err
	}
	var err error
	s.statements, err = load(s.schema)
	return s, err
}

// InTransaction reports whether the store is bound to a transaction.
func (s *Store) InTransaction() bool {
	_, ok := s.db.(pgx.Tx)
	return ok || s.host != nil
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func checkSchemaName(name string) error {
	if !schemaName.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("postgres: %q is no name for a schema: use a-z, 0-9 and _, at most 63, not beginning with a digit or pg_", name)
	}
	return nil
}

// Now returns the current time of the database clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.do(ctx, "now", func(ctx context.Context, db DB) (err error) {
		now, err = one(ctx, db, s.statements.Now, nil, scanTime)
		return err
	})
	return now, err
}
