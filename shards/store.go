package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/internal/slots"
	"github.com/almanac-go/almanac/ops"
)

// Options has what [New] needs.
type Options struct {
	// Directory assigns users to schemas.
	Directory Directory
	// Schemas are the schemas of the directory, in any order.
	Schemas []Schema
	// Reservations keep external ids unique over all schemas. Nil means that users who have no external id cannot get
	// one: the error matches [errors.ErrUnsupported].
	Reservations Reservations
	// Patience is how long a call over all schemas waits for each of them. Zero means ten seconds. A negative Patience is an
	// error.
	Patience time.Duration
	// OnError, if not nil, is called with each error for which a call over several schemas goes on without one of them. The name
	// is that of the schema, or "reservations". It is called by several goroutines at once, and must be quick.
	OnError func(schema string, err error)
}

// Schema is one of the schemas of a [Store].
type Schema struct {
	Name       string             // as in the [Directory]
	Repository almanac.Repository // such as a postgres.Store
	Statistics ops.Statistics     // about the Repository, usually the same value; nil if there are none
	Broadcasts broadcast.Store    // for the Repository, usually the same value; nil if there are none
}

// Store is an [almanac.Repository] over several schemas. It is also [ops.Statistics] and a [broadcast.Store]. It is safe for concurrent use, and its
// methods do what these interfaces say. docs/shards.md says where several schemas make a difference.
type Store struct {
	directory    Directory
	names        []string // of the schemas, in the order of the directory
	schemas      []Schema
	base         []Schema // as schemas, but never bound to a transaction
	reservations Reservations
	patience     time.Duration
	onError      func(string, error)
	bound        int            // the schema that is bound to a transaction; -1 if there is none
	claims       *atomic.Uint32 // counts claims
	tasks        *atomic.Uint32 // counts calls of TakeBroadcast
	absences     []absences     // of each schema
}

var (
	_ almanac.Repository = (*Store)(nil)
	_ ops.Statistics     = (*Store)(nil)
	_ broadcast.Store    = (*Store)(nil)
)

// New returns a store. The error is an [*almanac.ValidationError] that names each invalid field of the directory and the options.
func New(o Options) (*Store, error) {
	var bad almanac.ValidationError
	if wrong, is := errors.AsType[*almanac.ValidationError](o.Directory.Check()); is {
		bad = *wrong
	}
	refuse := func(field, problem string, args ...any) {
		bad.Fields = append(bad.Fields, almanac.FieldError{Field: field, Problem: fmt.Sprintf(problem, args...)})
	}
	given := make(map[string]Schema)
	for i, one := range o.Schemas {
		known := slices.ContainsFunc(o.Directory.Schemas, func(p Place) bool { return p.Schema == one.Name })
		_, twice := given[one.Name]
		switch {
		case !known:
			refuse(fmt.Sprintf("schemas[%d]", i), "is %q, which is not in the directory", one.Name)
		case twice:
			refuse(fmt.Sprintf("schemas[%d]", i), "is %q, which was given before", one.Name)
		case one.Repository == nil:
			refuse(fmt.Sprintf("schemas[%d]", i), "is %q, which has no repository", one.Name)
		}
		given[one.Name] = one
	}
	s := &Store{directory: o.Directory, reservations: o.Reservations, patience: o.Patience, onError: o.OnError, bound: -1, claims: new(atomic.Uint32), tasks: new(atomic.Uint32)}
	for _, place := range o.Directory.Schemas {
		one, is := given[place.Schema]
		if !is {
			refuse("schemas", "lack %q, which is in the directory", place.Schema)
		}
		s.names, s.schemas = append(s.names, place.Schema), append(s.schemas, one)
	}
	if o.Patience < 0 {
		refuse("patience", "is negative")
	}
	if bad.Fields != nil {
		return nil, &bad
	}
	if s.patience == 0 {
		s.patience = 10 * time.Second
	}
	s.base, s.absences = s.schemas, make([]absences, len(s.names))
	return s, nil
}

// With returns a store that uses r for one schema, which is bound to a transaction of the host, such as With of a
// postgres.Store returns it. A transaction binds one server, so the store refuses users of other schemas with a
// [*BoundError]. Reads over all schemas read this one alone, and also return a [*PartialError]. The result is not safe for
// concurrent use.
//
// Reservations of external ids are made outside of the transaction. If it is rolled back, an external id that an
// existing user would have got is free again at once, and that of a new user after ten minutes. A transaction that creates a
// user with an external id must end within ten minutes.
//
// With panics if the directory has no such schema.
func (s *Store) With(schema string, r almanac.Repository) *Store {
	i := slices.Index(s.names, schema)
	if i < 0 {
		panic(fmt.Sprintf("shards: the directory has no schema %q", schema))
	}
	bound := *s
	bound.schemas, bound.bound = slices.Clone(s.schemas), i
	bound.schemas[i].Repository = r
	bound.schemas[i].Broadcasts, _ = r.(broadcast.Store)
	return &bound
}

// SchemaOf returns the name of the schema of a user.
func (s *Store) SchemaOf(userID uuid.UUID) string { return s.names[s.of(userID)] }

// InTransaction reports whether the store is bound to a transaction of the host.
func (s *Store) InTransaction() bool { return s.bound >= 0 }

// of returns the schema of a user.
func (s *Store) of(user uuid.UUID) int { return int(s.directory.Slots[slots.Of(user)]) }

// named returns the schema that the id of an event names. An id that was not made by a scheduler may name a wrong one.
func (s *Store) named(event uuid.UUID) int { return int(s.directory.Slots[slots.In(event)]) }

// at returns the repository of a schema, or a [*BoundError].
func (s *Store) at(schema int) (almanac.Repository, error) {
	if s.bound >= 0 && schema != s.bound {
		return nil, &BoundError{s.names[schema], s.names[s.bound]}
	}
	return s.schemas[schema].Repository, nil
}

// ask calls a method of one schema.
func ask[T any](s *Store, schema int, call func(almanac.Repository) (T, error)) (T, error) {
	r, err := s.at(schema)
	if err != nil {
		var none T
		return none, err
	}
	return call(r)
}

// answer is the result of one schema.
type answer[T any] struct {
	schema int
	is     T
}

// all calls a method of all schemas at once, and returns the results of those that answer, in the order of the directory. The
// error is a [*PartialError] if others have failed. After any other error there are no results.
func all[T any](ctx context.Context, s *Store, call func(context.Context, almanac.Repository) (T, error)) ([]answer[T], error) {
	return allIndexed(ctx, s, func(ctx context.Context, schema int) (T, error) {
		return ask(s, schema, func(r almanac.Repository) (T, error) { return call(ctx, r) })
	})
}

// allIndexed is all for a function that gets the index of the schema.
func allIndexed[T any](ctx context.Context, s *Store, call func(context.Context, int) (T, error)) ([]answer[T], error) {
	return gathered(ctx, s, func(schema int) (none T, err error) {
		if err := s.present(ctx, schema); err != nil {
			return none, err
		}
		limit := s.patience
		if _, has := ctx.Deadline(); has {
			limit = s.limit(ctx, patient)
		}
		within, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return call(within, schema)
	})
}

// gathered calls a function for all schemas at once.
func gathered[T any](ctx context.Context, s *Store, call func(schema int) (T, error)) ([]answer[T], error) {
	results, errs := make([]T, len(s.names)), make([]error, len(s.names))
	var wg sync.WaitGroup
	for i := range s.names {
		wg.Go(func() { results[i], errs[i] = call(i) })
	}
	wg.Wait()
	if err := ended(ctx); err != nil {
		return nil, err
	}
	failed := s.failures()
	var answers []answer[T]
	for i, err := range errs {
		if isRefusal(err) {
			return nil, err
		}
		if failed.add(i, err); err == nil {
			answers = append(answers, answer[T]{i, results[i]})
		}
	}
	return answers, failed.partial()
}

// allQuickly is allIndexed for calls that delay claims (see quickly).
func allQuickly[T any](ctx context.Context, s *Store, call func(context.Context, int) (T, error)) ([]answer[T], error) {
	return gathered(ctx, s, func(schema int) (T, error) {
		return quicklyIn(ctx, s, schema, claiming, func(ctx context.Context) (none T, err error) {
			if _, err := s.at(schema); err != nil {
				return none, err
			}
			return call(ctx, schema)
		})
	})
}

// copies is all for what every schema has a copy of. A schema that does not answer is left out, unless none does.
func copies[T any](ctx context.Context, s *Store, call func(context.Context, almanac.Repository) (T, error)) ([]answer[T], error) {
	answers, err := all(ctx, s, call)
	if len(answers) > 0 {
		return answers, nil
	}
	return nil, err
}

// everywhere changes all schemas, one after another, in the order of the directory. The error is a [*PartialError] that names
// the schemas which were perhaps not changed.
func (s *Store) everywhere(ctx context.Context, change func(context.Context, int, almanac.Repository) error) error {
	if s.bound >= 0 && len(s.names) > 1 {
		return &BoundError{s.names[(s.bound+1)%len(s.names)], s.names[s.bound]}
	}
	failed := s.failures()
	for i, one := range s.schemas {
		err := s.present(ctx, i)
		if err == nil {
			within, cancel := context.WithTimeout(ctx, s.patience)
			err = change(within, i, one.Repository)
			cancel()
		}
		if isRefusal(err) && i == 0 {
			return err
		}
		failed.add(i, err)
	}
	if err := ended(ctx); err != nil {
		return err
	}
	return failed.partial()
}

// bySchema returns the indexes of a list for each schema, in the order of the list.
func bySchema[T any](s *Store, list []T, of func(T) uuid.UUID) [][]int {
	groups := make([][]int, len(s.names))
	for i, one := range list {
		schema := s.of(of(one))
		groups[schema] = append(groups[schema], i)
	}
	return groups
}

// pick returns the elements of a list that have the given indexes.
func pick[T any](list []T, indexes []int) []T {
	picked := make([]T, len(indexes))
	for k, i := range indexes {
		picked[k] = list[i]
	}
	return picked
}
