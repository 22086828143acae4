package postgres

import (
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/almanac-go/almanac"
)

// How the store handles failures (the codes are those of appendix A of the PostgreSQL manual):
//
//	40001, 40P01, undone in favour of another transaction   repeats the operation, see do
//	55P03, lock timeout                                     returns an error that matches almanac.ErrLocked
//	the connection was lost before COMMIT                   repeats the operation on another connection
//	42P01, 42703, 42883, 3F000, an object is missing        returns an error that matches almanac.ErrOutdated, see absent
//	25006, the session may not write                        closes the connection, repeats on another
//	57014, a statement took too long                        stores the other rows of the batch
//	a row was refused, see refused and doubtful             stores the other rows of the batch
//
// Every other error is returned. The caller may repeat the call later. Repeating it at once would add load
// while connections, memory or disk space are short (class 53), or while the server is starting (57P03).
// After such an error nothing is stored, except perhaps if the connection was lost during COMMIT.
const (
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	lockNotAvailable      = "55P03"
	readOnly              = "25006"
	queryCanceled         = "57014"
	idleTooLong           = "25P03" // idle_in_transaction_session_timeout, such as while a plan takes long
	transactionTooLong    = "25P04" // transaction_timeout, from PostgreSQL 17 on
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	undefinedFunction     = "42883"
	undefinedSchema       = "3F000"
	featureNotSupported   = "0A000" // also says that a prepared statement returns other types than before
	insufficientPrivilege = "42501"
	classConnection       = "08" // also sent by poolers that have lost the server
	classSyntaxOrAccess   = "42"
	classIntegrity        = "23"
)

// passing reports whether a failed operation may succeed if it is repeated soon, on another
// connection if necessary.
func passing(err error) bool {
	var lost *lostError
	return rolledBack(err) || errors.As(err, &lost) && !unknown(err)
}

// rolledBack reports whether the database undid a statement in favour of another transaction.
func rolledBack(err error) bool {
	code := stateOf(err)
	return code == serializationFailure || code == deadlockDetected
}

// refused reports whether the database rejected a row, and would reject it again. That is every
// error of a server unless its class says that the server, the session or the schema may be the
// cause: a trigger of the host may use any code.
func refused(err error) bool {
	code := stateOf(err)
	switch classOf(code) {
	case "", classConnection, "25", "26", "28", "3B", "3D", "40", "53", "57":
		return false
	}
	return !doubtful(err) && !absent(err)
}

// doubtful reports whether the database rejected one row or all rows. A right that a trigger lacks,
// a limit of an index, or a damaged block, can be about one row; a right on the table, or the limit of
// transaction ids, is about all. It is about one row if other rows can be stored.
func doubtful(err error) bool {
	switch classOf(stateOf(err)) {
	case "0A", "3F", classSyntaxOrAccess, "54", "55", "58", "72", "F0", "HV", "XX":
		return !absent(err)
	}
	return false
}

// absent reports whether the text of a statement of the store names an object that does not exist. So does every
// text while the schema has another name, as at the end of a move to another server, and no row is at fault. For a
// statement in a function, such as a trigger of the host that lacks its own table, the server returns no Position.
func absent(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && outdated(err) && pg.Position > 0
}

// outdated reports whether the database lacks a schema, table, column or function that a statement names.
func outdated(err error) bool {
	switch stateOf(err) {
	case undefinedTable, undefinedColumn, undefinedFunction, undefinedSchema:
		return true
	}
	return false
}

// misread reports whether the database found another operator, function or type than a statement means.
func misread(err error) bool {
	code := stateOf(err)
	return code == featureNotSupported || classOf(code) == classSyntaxOrAccess && code != insufficientPrivilege
}

// violates reports whether the database rejected a row because of a constraint.
func violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && classOf(pg.Code) == classIntegrity && pg.ConstraintName == constraint
}

// unknown reports whether a failed operation may have been stored: the response to COMMIT
// is missing, or does not say that nothing was committed. If the server aborts in the
// middle of a COMMIT, the result is unknown too.
//
// pgconn.SafeToRetry does not help here. If a connection breaks while the response to
// COMMIT is awaited, pgx 5.12 reports that the connection was closed before.
func unknown(err error) bool {
	if _, ok := errors.AsType[*commitError](err); !ok {
		return false
	}
	var pg *pgconn.PgError
	denied := errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" && classOf(pg.Code) != classConnection
	return !denied
}

func stateOf(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

func classOf(code string) string { return code[:min(2, len(code))] }

// lostError marks an error after which the connection cannot be used.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// commitError marks an error of COMMIT. An operation that fails before COMMIT is undone.
type commitError struct{ err error }

func (e *commitError) Error() string { return e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// domainError marks an error that is returned without a prefix: an error of package almanac,
// or of a function that the caller passed.
type domainError struct{ err error }

func (e *domainError) Error() string { return e.err.Error() }

// asIs prevents wrap from adding a prefix to an error. It returns nil for nil.
func asIs(err error) error {
	if err == nil {
		return nil
	}
	return &domainError{err}
}

// failure is the error of an operation.
type failure struct {
	what string
	err  error
}

func (f *failure) Error() string {
	text := "postgres: " + f.what + ": " + f.err.Error()
	if outdated(f.err) {
		text += ": is this the right database and schema, and is it migrated?"
	}
	return text
}

func (f *failure) Unwrap() error { return f.err }

// Is makes errors.Is(err, almanac.ErrLocked) true after a lock timeout, and
// errors.Is(err, almanac.ErrOutdated) when the schema or a part of it is missing.
func (f *failure) Is(target error) bool {
	return target == almanac.ErrLocked && stateOf(f.err) == lockNotAvailable ||
		target == almanac.ErrOutdated && outdated(f.err)
}

// SafeToRetry reports whether it is certain that nothing was stored. pgconn.SafeToRetry
// calls it, and almanac.Repository describes it.
func (f *failure) SafeToRetry() bool { return !unknown(f.err) }

// Refused reports whether the database may have rejected one of the rows, as almanac.Repository describes.
func (f *failure) Refused() bool { return refused(f.err) || doubtful(f.err) }

// wrap adds the name of the failed operation. It returns a domain error unchanged.
func wrap(what string, err error) error {
	if domain, ok := errors.AsType[*domainError](err); ok {
		return domain.err
	}
	if f, ok := err.(*failure); ok && f.what == what {
		return f
	}
	return &failure{what, err}
}

// missing replaces pgx.ErrNoRows by an [*almanac.NotFoundError] for an object of a kind.
func missing(err error, kind string, id uuid.UUID) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return asIs(&almanac.NotFoundError{Kind: kind, ID: id})
	}
	return err
}
