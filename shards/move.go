package shards

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/almanac-go/almanac"
)

// Move moves a schema from one server to another by logical replication (PostgreSQL manual, chapter 31), while programs use it. It can be repeated after
// any error and after a crash: what is done already it finds in the catalogs of both servers. See docs/adr/0085-moving-a-schema.md.
//
//   - The target gets the schema with its rights and triggers. Until the end, a trigger refuses every write to it that is not replicated.
//   - The rows are copied, and what changes meanwhile is sent.
//   - The source is closed: when no transaction writes, the schema is renamed. A program that still names it gets an error, and
//     nothing that it has begun is stored.
//   - The target gets the last changes, the numbers of sequences, and the positions of the outbox. Then it takes writes.
//   - Publish is called.
//
// From and to are connections that Move alone uses. The role of from owns the schema, and may make publications and replication slots. That of to may
// make subscriptions, and set the role of the owner: in PostgreSQL 15 it is a superuser. Both servers are PostgreSQL 15 or later. The source
// has wal_level logical. While one Move or Abandon of a schema runs, another one is an error.
func Move(ctx context.Context, from, to *pgx.Conn, o MoveOptions) (MoveResult, error) {
	m, err := newMove(ctx, from, to, o)
	if err != nil {
		return MoveResult{}, err
	}
	defer m.unlock(ctx)
	for {
		step, err := m.next(ctx)
		if err == nil {
			m.result.Step = step
			err = m.check(ctx, step)
		}
		if err != nil {
			return m.result, fmt.Errorf("shards: move %s: %w", o.Schema, err)
		}
		m.progress(MoveProgress{Step: step})
		if step == Done || o.DryRun {
			return m.result, nil
		}
		err = context.Cause(ctx)
		if err == nil {
			err = m.do(ctx, step)
		}
		if err != nil {
			return m.result, fmt.Errorf("shards: move %s: %s: %w", o.Schema, step, err)
		}
		m.result.Step = steps[slices.Index(steps, step)+1] // also if the catalogs cannot be read now
	}
}

// MoveOptions are options of [Move]. Schema and Source are required.
type MoveOptions struct {
	Schema string // the schema, at most 50 bytes
	Source string // the connection string by which the server of the target reaches that of the source
	// Publish stores that the schema is on the other server, so that programs go there. Until it has returned, programs find the schema
	// nowhere. It is called again when Move is repeated.
	Publish func(ctx context.Context) error
	// Wait is how long the switch waits for transactions that write to the schema, before it lets all go on and tries again: at least
	// 10 ms. It should be shorter than deadlock_timeout, or PostgreSQL may end a transaction that waits for the switch. Zero means 500 ms.
	Wait time.Duration
	// DryRun checks both servers, and changes nothing.
	DryRun bool
	// Progress, if not nil, is called when a step begins, and about once a second while one lasts.
	Progress func(MoveProgress)
}

// MoveStep is a step of a move.
type MoveStep string

// The steps, in their order.
const (
	Prepare MoveStep = "prepare" // the target gets the schema, without rows
	Copy    MoveStep = "copy"    // the rows are copied
	Close   MoveStep = "close"   // the source takes no writes any more
	Wake    MoveStep = "wake"    // the target has everything, and takes writes
	Publish MoveStep = "publish" // programs are told, and replication ends
	Done    MoveStep = "done"
)

var steps = []MoveStep{Prepare, Copy, Close, Wake, Publish, Done}

// MoveProgress is how far a move is.
type MoveProgress struct {
	Step   MoveStep
	Tables int   // tables that were copied, in the step Copy
	Of     int   // of how many
	Behind int64 // bytes of the write-ahead log that the target has not got yet; in the steps Copy and Wake
	Tries  int   // in the step Close, how often a transaction was in the way
}

// MoveResult is the result of a move.
type MoveResult struct {
	Step   MoveStep      // the step that comes next, or that failed; "" if it could not be found out
	Tries  int           // how often the switch was tried
	Closed time.Duration // how long neither server took writes; zero if an earlier call closed the source
	Kept   string        // the schema of the source under its new name, which is left to the host to drop; "" before
}

// ErrClocks means that the clocks of two servers differ by more than a second. Events would start early or late after the move.
var ErrClocks = errors.New("the clocks of the servers differ by more than a second")

// move is a move that has begun.
type move struct {
	MoveOptions
	from, to *pgx.Conn
	name     string // of the publication, the subscription and the replication slot
	closed   string // the schema of the source when it is closed
	owner    string // of the schema
	target   string // names the database of the target in the publication
	since    time.Time
	result   MoveResult
}

// newMove checks the options, and locks the schema on both servers against other moves.
func newMove(ctx context.Context, from, to *pgx.Conn, o MoveOptions) (*move, error) {
	var bad almanac.ValidationError
	for _, f := range []struct {
		wrong          bool
		field, problem string
	}{
		{o.Schema == "" || len(o.Schema) > 50, "schema", "does not have 1 to 50 bytes"},
		{o.Source == "" && !o.DryRun, "source", "is empty"},
		{o.Publish == nil && !o.DryRun, "publish", "is nil"},
		{o.Wait != 0 && o.Wait < 10*time.Millisecond, "wait", "is less than 10 ms"},
	} {
		if f.wrong {
			bad.Fields = append(bad.Fields, almanac.FieldError{Field: f.field, Problem: f.problem})
		}
	}
	if len(bad.Fields) > 0 {
		return nil, &bad
	}
	if o.Wait == 0 {
		o.Wait = 500 * time.Millisecond
	}
	m := &move{MoveOptions: o, from: from, to: to, closed: o.Schema + "_moved"}
	var database uint32
	if err := from.QueryRow(ctx, `SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()`).Scan(&database); err != nil {
		return nil, fmt.Errorf("shards: move %s: %w", o.Schema, err)
	}
	const identity = `SELECT pg_catalog.format('server %s, database %s', s.system_identifier, d.oid) FROM pg_catalog.pg_control_system() s, pg_catalog.pg_database d
		WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()`
	if err := to.QueryRow(ctx, identity).Scan(&m.target); err != nil {
		return nil, fmt.Errorf("shards: move %s: %w", o.Schema, err)
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(o.Schema)) // never fails
	m.name = fmt.Sprintf("almanac_move_%d_%08x", database, hash.Sum32())
	for _, conn := range []*pgx.Conn{from, to} {
		var alone bool
		if err := conn.QueryRow(ctx, `SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended($1, 0))`, m.name).Scan(&alone); err != nil || !alone {
			m.unlock(ctx)
			if err == nil {
				err = errors.New("another move of the schema is under way")
			}
			return nil, fmt.Errorf("shards: move %s: %w", o.Schema, err)
		}
	}
	return m, nil
}

// unlock ends the locks of newMove.
func (m *move) unlock(ctx context.Context) {
	for _, conn := range []*pgx.Conn{m.from, m.to} {
		if !conn.IsClosed() { // or it has none
			_, _ = conn.Exec(context.WithoutCancel(ctx), `SELECT pg_catalog.pg_advisory_unlock_all()`) // the connection is the move's own
		}
	}
}

func (m *move) progress(p MoveProgress) {
	if m.Progress != nil {
		m.Progress(p)
	}
}

// next finds the next step in the catalogs.
func (m *move) next(ctx context.Context) (MoveStep, error) {
	var open, closed, published bool
	const at = `SELECT pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) IS NOT NULL, pg_catalog.to_regnamespace(pg_catalog.quote_ident($2)) IS NOT NULL,
		EXISTS (SELECT FROM pg_catalog.pg_publication p WHERE p.pubname OPERATOR(pg_catalog.=) $3::text::name)`
	if err := m.from.QueryRow(ctx, at, m.Schema, m.closed, m.name).Scan(&open, &closed, &published); err != nil {
		return "", err
	}
	var there, asleep, subscribed bool
	const then = `SELECT pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) IS NOT NULL, pg_catalog.to_regproc(pg_catalog.quote_ident($1) || '.asleep') IS NOT NULL,
		EXISTS (SELECT FROM pg_catalog.pg_subscription s WHERE s.subname OPERATOR(pg_catalog.=) $2::text::name
			AND s.subdbid OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()))`
	if err := m.to.QueryRow(ctx, then, m.Schema, m.name).Scan(&there, &asleep, &subscribed); err != nil {
		return "", err
	}
	if closed {
		m.result.Kept = m.closed
	}
	switch {
	case open && closed:
		if published || asleep {
			return "", fmt.Errorf("a program has made the schema %s anew since the source was closed: drop that one, and not %s, which has the rows", m.Schema, m.closed)
		}
		return "", fmt.Errorf("the source has the schemas %s and %s: drop %s if it is left from an earlier move", m.Schema, m.closed, m.closed)
	case open && there && !asleep:
		return "", fmt.Errorf("the target has a schema %s that takes writes", m.Schema)
	case !open && !closed:
		return "", fmt.Errorf("the source has no schema %s", m.Schema)
	case !open && !there:
		return "", fmt.Errorf("the source is closed, and the target has no schema %s", m.Schema)
	case open && !there:
		return Prepare, nil
	case open && !subscribed:
		return Copy, nil
	case open:
		copied, err := m.copied(ctx)
		if err != nil || !copied {
			return Copy, err
		}
		return Close, nil
	case asleep:
		return Wake, nil
	case published || subscribed:
		return Publish, nil
	}
	return Done, nil
}

func (m *move) do(ctx context.Context, step MoveStep) error {
	switch step {
	case Prepare:
		return m.prepare(ctx)
	case Copy:
		return m.copy(ctx)
	case Close:
		return m.close(ctx)
	case Wake:
		return m.wake(ctx)
	default:
		return m.publish(ctx)
	}
}

// slotsNeeded is how many replication slots a move needs: its own, and one for each of two tables that are copied at a time.
const slotsNeeded = 3

// check refuses servers between which the schema cannot move. When the source is closed, the target must be the one for which it was closed.
func (m *move) check(ctx context.Context, step MoveStep) error {
	if step == Wake || step == Publish {
		_, err := m.sameTarget(ctx)
		return err
	}
	if step != Prepare && step != Copy && step != Close {
		return nil
	}
	var level string
	var slots int
	const source = `SELECT pg_catalog.current_setting('wal_level'), pg_catalog.current_setting('max_replication_slots')::int OPERATOR(pg_catalog.-) (SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots)`
	if err := m.from.QueryRow(ctx, source).Scan(&level, &slots); err != nil {
		return err
	}
	var problems []error
	for _, one := range []struct {
		server string
		conn   *pgx.Conn
	}{{"source", m.from}, {"target", m.to}} {
		var version int
		if err := one.conn.QueryRow(ctx, `SELECT pg_catalog.current_setting('server_version_num')::int`).Scan(&version); err != nil {
			return err
		}
		if version < 150000 {
			problems = append(problems, fmt.Errorf("the %s is older than PostgreSQL 15", one.server))
		}
	}
	if level != "logical" {
		problems = append(problems, fmt.Errorf("the source has wal_level %s, and not logical", level))
	}
	if step == Prepare && slots < slotsNeeded {
		problems = append(problems, fmt.Errorf("the source has %d free replication slots, and not %d (max_replication_slots)", slots, slotsNeeded))
	}
	apart, err := m.apart(ctx)
	if err != nil {
		return err
	}
	if apart > time.Second {
		problems = append(problems, fmt.Errorf("%w: by %s", ErrClocks, apart.Round(time.Millisecond)))
	}
	missing, err := m.missingRoles(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		problems = append(problems, fmt.Errorf("the target lacks the roles %s, which have rights on the schema", strings.Join(missing, ", ")))
	}
	return errors.Join(problems...)
}

// apart returns by how much the clocks differ at least.
func (m *move) apart(ctx context.Context) (time.Duration, error) {
	var before, between, after time.Time
	const clock = `SELECT pg_catalog.clock_timestamp()`
	for _, one := range []struct {
		conn *pgx.Conn
		at   *time.Time
	}{{m.from, &before}, {m.to, &between}, {m.from, &after}} {
		if err := one.conn.QueryRow(ctx, clock).Scan(one.at); err != nil {
			return 0, err
		}
	}
	return max(before.Sub(between), between.Sub(after), 0), nil
}

// missingRoles returns the roles with rights on the schema that the target does not have.
func (m *move) missingRoles(ctx context.Context) ([]string, error) {
	grants, err := m.grants(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{m.owner}
	for _, g := range grants {
		names = append(names, g.role)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
	rows, err := m.to.Query(ctx, `SELECT n FROM pg_catalog.unnest($1::text[]) AS u (n) WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) n::name) ORDER BY n COLLATE "C"`, names)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// isBusy reports whether an error means that another transaction was in the way.
func isBusy(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == "55P03" || refused.Code == "40P01" || refused.Code == "57014")
}
