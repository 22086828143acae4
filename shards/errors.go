package shards

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/almanac-go/almanac"
)

// PartialError says that a call did not reach all schemas. A read has returned what the other schemas have. A write has
// changed the other schemas, and can be repeated.
type PartialError struct {
	Missing []string // the names of the schemas that are missing in the result, or were perhaps not changed, in the order of the directory
	Err     error    // their errors
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("shards: without %s: %v", strings.Join(e.Missing, ", "), e.Err)
}

// Unwrap returns the errors of the schemas.
func (e *PartialError) Unwrap() error { return e.Err }

// BoundError says that a store which is bound to a transaction was asked for a user of another schema (see [Store.With]).
// Nothing was changed there.
type BoundError struct {
	Schema string // the schema of the user
	Bound  string // the schema of the transaction
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("shards: schema %s is not that of the transaction, which is %s", e.Schema, e.Bound)
}

// laterError is the error of an outcome that could not be stored because its schema did not answer. The event is still
// leased, and the outcome can be stored later.
type laterError struct{ err error }

func (e *laterError) Error() string        { return e.err.Error() }
func (e *laterError) Unwrap() error        { return e.err }
func (e *laterError) Is(target error) bool { return target == almanac.ErrLocked }

// isRefusal reports whether an error is about the call and not about a schema.
func isRefusal(err error) bool {
	return errors.Is(err, almanac.ErrInvalid) || errors.Is(err, errors.ErrUnsupported)
}

// failures are the errors of schemas, by index.
type failures struct {
	store *Store
	errs  []error
}

func (s *Store) failures() *failures { return &failures{s, make([]error, len(s.names))} }

// add notes the error of a schema, which nil is not.
func (f *failures) add(schema int, err error) {
	if err == nil {
		return
	}
	if _, bound := errors.AsType[*BoundError](err); !bound && !errors.Is(err, errAbsent) && f.store.onError != nil {
		f.store.onError(f.store.names[schema], err)
	}
	f.errs[schema] = errors.Join(f.errs[schema], err)
}

// asPartial returns an error as a [*PartialError].
func asPartial(err error) (*PartialError, bool) { return errors.AsType[*PartialError](err) }

// partial returns a [*PartialError], or nil if no schema has failed.
func (f *failures) partial() error {
	var missing []string
	for i, err := range f.errs {
		if err != nil {
			missing = append(missing, f.store.names[i])
		}
	}
	if missing == nil {
		return nil
	}
	return &PartialError{missing, errors.Join(f.errs...)}
}

// ended returns the error of a context that has ended, and nil before.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("shards: %w", err)
	}
	return nil
}
