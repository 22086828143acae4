package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/almanac-go/almanac"
)

// DB is what a store needs of pgx. *pgxpool.Pool, *pgx.Conn and pgx.Tx have it.
type DB interface {
	// Begin begins a transaction, or sets a savepoint in one.
	Begin(ctx context.Context) (pgx.Tx, error)
	// Exec runs a statement that returns no rows.
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	// Query runs a statement that returns rows.
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	// SendBatch runs statements in one round trip.
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Store is an [almanac.Repository] in PostgreSQL. It is safe for concurrent use if
// its DB is; a pool is, a connection and a transaction are not.
type Store struct {
	db         DB
	host       *sql.Tx // instead of db
	schema     string
	timeout    time.Duration
	locks      time.Duration // the wait for a lock; zero is the timeout
	pollOnly   bool
	hearing    hearing
	statements map[string]string // by file name without .sql
}

var (
	_ almanac.Repository     = (*Store)(nil)
	_ almanac.BulkRepository = (*Store)(nil)
	_ almanac.Verifier       = (*Store)(nil)

	_ almanac.PauseRepository = (*Store)(nil)
)

// Option is a setting of [New], [Migrate] and [MigrateDown].
type Option func(*Store)

// DefaultSchema is the PostgreSQL schema that holds the tables unless another is
// asked for.
const DefaultSchema = "almanac"

// WithSchema sets the PostgreSQL schema that holds the tables: lower-case letters,
// digits and underscores, at most 63, not beginning with a digit or with "pg_".
// The default is [DefaultSchema].
func WithSchema(name string) Option { return func(s *Store) { s.schema = name } }

// WithTimeout sets how long one operation may take before it is given up, however
// long its context would last. For as long a transaction may be silent before the
// server ends it, in case its process is frozen. It must be positive. The default is
// five seconds. Migrations are not bounded by it, but may not be silent either.
func WithTimeout(d time.Duration) Option { return func(s *Store) { s.timeout = d } }

// WithLockTimeout sets how long a statement of a transaction waits for a lock that
// another transaction holds. Then the operation fails with an error that matches
// [almanac.ErrLocked], nothing is stored, and its connection is free for others. A short
// one is for stores that answer requests. It must not be negative. Zero, the default, is
// half of [WithTimeout]. In the host's own transaction the host's setting of
// lock_timeout holds instead.
func WithLockTimeout(d time.Duration) Option { return func(s *Store) { s.locks = d } }

// PollOnly lets a store neither listen for hints of what other processes store (see
// [Store.Listen]) nor give any. It is for stores behind a pooler in transaction mode,
// which carries no notifications to who listens, and for hosts that prepare
// transactions, since one that notifies cannot be prepared. Events that other
// processes store wait for the poll then, as they do when a hint is lost.
func PollOnly() Option { return func(s *Store) { s.pollOnly = true } }

// New returns a store on db. It does not connect; [Migrate] must have been called
// once on the database. For a transaction of database/sql see [NewSQL].
func New(db DB, options ...Option) (*Store, error) {
	if db == nil {
		return nil, errors.New("postgres: no database")
	}
	return open(&Store{db: db}, options)
}

func open(s *Store, options []Option) (*Store, error) {
	s.schema, s.timeout, s.hearing = DefaultSchema, 5*time.Second, carefully
	for _, option := range options {
		option(s)
	}
	if s.timeout <= 0 {
		return nil, fmt.Errorf("postgres: timeout of %v is not positive", s.timeout)
	}
	if s.locks < 0 {
		return nil, fmt.Errorf("postgres: lock timeout of %v is negative", s.locks)
	}
	if s.locks == 0 {
		s.locks = s.timeout / 2
	}
	if err := checkSchemaName(s.schema); err != nil {
		return nil, err
	}
	var err error
	s.statements, err = s.load()
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

// leaseHolds is a condition: lease l still holds something. OFFSET 0 has the series
// looked up one by one, by their ids, until one is found.
const leaseHolds = `EXISTS (
	SELECT
	FROM unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
	CROSS JOIN LATERAL (
		SELECT
		FROM :"schema".series s
		WHERE s.id = held.series_id
			AND s.event_id = held.event_id
			AND s.version = held.version
		OFFSET 0
	) s
)`

// unpaused is an array: those of @types that are not paused. It is looked up once a
// statement.
const unpaused = `ARRAY (
	SELECT t.name
	FROM unnest(@types::text[]) AS t (name)
	WHERE t.name NOT IN (SELECT p.event_type FROM :"schema".pauses p)
)`

// reach is a condition: row q of the queue is available as early as a claim asks for, and
// not before its mark.
const reach = `q.available_at <= now() + @ahead::interval
	AND q.available_at >= CASE WHEN @mark::timestamptz <= now() THEN @mark::timestamptz ELSE '-infinity' END`

// taken is a condition: consumer c has read row o of the outbox.
const taken = `(pg_visible_in_snapshot(o.transaction_id, c.seen)
	OR (o.sequence <= c.last AND pg_visible_in_snapshot(o.transaction_id, c.reading)))`

//go:embed queries/*.sql
var queries embed.FS

// load reads the statements and fills in what stands for other text.
func (s *Store) load() (map[string]string, error) {
	files, err := queries.ReadDir("queries")
	if err != nil {
		return nil, fmt.Errorf("postgres: load statements: %w", err)
	}
	statements := make(map[string]string, len(files))
	within := func(text string) string { return strings.ReplaceAll(text, `:"schema"`, quoted(s.schema)) }
	fill := strings.NewReplacer(`:"schema"`, quoted(s.schema), ":event", eventColumns, ":claimed", claimedColumns, ":user", userColumns,
		":holds", within(leaseHolds), ":types", within(unpaused), ":reach", reach,
		":taken", taken)
	for _, file := range files {
		text, err := queries.ReadFile("queries/" + file.Name())
		if err != nil {
			return nil, fmt.Errorf("postgres: load statements: %w", err)
		}
		statements[strings.TrimSuffix(file.Name(), ".sql")] = fill.Replace(withoutHeader(string(text)))
	}
	return statements, nil
}

// withoutHeader drops the comment that begins a statement's file: it is for
// readers, not for the wire.
func withoutHeader(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(text)
}

func quoted(schema string) string { return pgx.Identifier{schema}.Sanitize() }

// Now returns the database's time.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.do(ctx, "now", func(ctx context.Context, db DB) (err error) {
		now, err = one(ctx, db, s.statements["now"], nil, scanTime)
		return err
	})
	return now, err
}
