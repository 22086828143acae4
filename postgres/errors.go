package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/almanac-go/almanac"
)

// What the store does about a failure (the codes are those of appendix A of the
// PostgreSQL manual):
//
//	40001, 40P01, undone for another's sake           it repeats the operation, see do
//	55P03, a lock was waited for long enough          it says so, see almanac.ErrLocked
//	the connection was lost before COMMIT             it repeats it on another
//	25006, the session may not write                  it closes the connection, and repeats it on another
//	57014, a statement took too long                  it stores a batch of outcomes in halves
//	classes 22 and 23, P0001, refused for good        it stores the others of the batch
//
// Everything else is for the caller to try again, later: at once would make it
// worse where connections, memory or room are short (class 53) or the server is
// starting (57P03). Nothing was stored then, except perhaps where the connection
// was lost during COMMIT.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	readOnly             = "25006"
	queryCanceled        = "57014"
	raised               = "P0001" // RAISE in a function, such as a trigger of the host's
	classConnection      = "08"    // said by poolers when the server's side is lost
	classDataException   = "22"
	classIntegrity       = "23"
)

// passing reports whether an operation that failed may succeed if it is repeated
// soon, on another connection if need be.
func passing(err error) bool {
	var lost *lostError
	return rolledBack(err) || errors.As(err, &lost) && !unknown(err)
}

// rolledBack reports whether the database undid a statement to let another pass.
func rolledBack(err error) bool {
	code := stateOf(err)
	return code == serializationFailure || code == deadlockDetected
}

// refused reports whether the database will never take the row, however often it
// is asked.
func refused(err error) bool {
	code := stateOf(err)
	return code == raised || classOf(code) == classDataException || classOf(code) == classIntegrity
}

// unknown reports whether the operation may have been stored although it failed:
// the answer to COMMIT is missing, or does not say that nothing was committed. A
// server that gives up in the middle of it does not know either.
//
// pgconn.SafeToRetry is of no help: of a connection that breaks while the answer to
// COMMIT is awaited, pgx 5.12 says that it was closed before.
func unknown(err error) bool {
	var commit *commitError
	if !errors.As(err, &commit) {
		return false
	}
	var pg *pgconn.PgError
	denied := errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" && classOf(pg.Code) != classConnection
	return !denied
}

func stateOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

func classOf(code string) string { return code[:min(2, len(code))] }

// lostError marks an error after which the connection is of no use.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// commitError marks an error of COMMIT. Whatever fails before is undone.
type commitError struct{ err error }

func (e *commitError) Error() string { return e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// domainError marks an error that says all there is to say: one of package
// almanac, or of a function that the caller gave.
type domainError struct{ err error }

func (e *domainError) Error() string { return e.err.Error() }

// asIs keeps an error from being wrapped.
func asIs(err error) error { return &domainError{err} }

// failure is an operation that failed.
type failure struct {
	what string
	err  error
}

func (f *failure) Error() string { return "postgres: " + f.what + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Is makes errors.Is(err, almanac.ErrLocked) hold where a lock was waited for in vain.
func (f *failure) Is(target error) bool {
	return target == almanac.ErrLocked && stateOf(f.err) == lockNotAvailable
}

// SafeToRetry reports whether it is certain that nothing was stored. It is what
// pgconn.SafeToRetry and almanac.Repository speak of.
func (f *failure) SafeToRetry() bool { return !unknown(f.err) }

// wrap names the operation that failed. Domain errors pass as they are.
func wrap(what string, err error) error {
	var domain *domainError
	if errors.As(err, &domain) {
		return domain.err
	}
	return &failure{what, err}
}
