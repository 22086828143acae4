package shards

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	shortestAbsence = time.Second            // and twice as long each time
	longestAbsence  = 15 * time.Second       //
	askedFor        = 250 * time.Millisecond // how long a schema that was left out may take to answer what the time is
)

// absence says whether a schema is left out of calls over all schemas, because it was too slow to answer a call of Run.
type absence struct {
	mu    sync.Mutex
	until time.Time // zero if it is not left out
	times int       // how often it was too slow since it has answered
}

// errAbsent is matched by the error of a schema that is left out.
var errAbsent = errors.New("it did not answer in time, and is left out for some seconds")

// leave leaves a schema out.
func (a *absence) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = time.Now().Add(min(shortestAbsence<<min(a.times, 10), longestAbsence))
	a.times++
}

// came notes that a schema has answered.
func (a *absence) came() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until, a.times = time.Time{}, 0
}

// asks reports whether a schema is left out, and whether the caller is the one to ask if it answers again.
func (a *absence) asks() (out, ask bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.until.IsZero() || now.Before(a.until) {
		return !a.until.IsZero(), false
	}
	a.until = now.Add(2 * askedFor) // others do not ask meanwhile
	return true, true
}

// present returns nil if a call over all schemas may use a schema. When the time of an absence is over, it asks the schema for the
// time, and waits a quarter of a second at most.
func (s *Store) present(ctx context.Context, schema int) error {
	if s.bound >= 0 || len(s.names) == 1 {
		return nil
	}
	a := &s.absences[schema]
	out, ask := a.asks()
	switch {
	case !out:
		return nil
	case !ask:
		return fmt.Errorf("shards: schema %s: %w", s.names[schema], errAbsent)
	}
	within, cancel := context.WithTimeout(ctx, askedFor)
	defer cancel()
	if _, err := s.schemas[schema].Repository.Now(within); err != nil {
		a.leave()
		return fmt.Errorf("shards: schema %s: %w: %w", s.names[schema], errAbsent, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = time.Time{} // the number of times stays until a call of Run has succeeded
	return nil
}

// limit returns how long to wait for one schema: some quarters of the patience, or of the time that the caller has.
func (s *Store) limit(ctx context.Context, quarters int) time.Duration {
	limit := s.patience
	if at, has := ctx.Deadline(); has {
		limit = min(limit, time.Until(at))
	}
	return limit * time.Duration(quarters) / 4
}

const (
	soon    = 1 // quarters for calls that delay claims
	patient = 3 // quarters for others, so that something is left of the caller's time
)

// quickly calls a method of one schema for Run. If the schema takes longer than some quarters of the patience, it is left out of later
// calls over all schemas.
func (s *Store) quickly(ctx context.Context, schema, quarters int, call func(context.Context) error) error {
	if s.bound >= 0 || len(s.names) == 1 {
		return call(ctx)
	}
	if err := s.present(ctx, schema); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, s.limit(ctx, quarters))
	defer cancel()
	err := call(within)
	switch {
	case err == nil:
		s.absences[schema].came()
	case within.Err() != nil && ctx.Err() == nil:
		s.absences[schema].leave()
	}
	return err
}

// quicklyIn is quickly for a method that returns a result.
func quicklyIn[T any](ctx context.Context, s *Store, schema, quarters int, call func(context.Context) (T, error)) (result T, err error) {
	err = s.quickly(ctx, schema, quarters, func(ctx context.Context) (err error) {
		result, err = call(ctx)
		return err
	})
	return result, err
}
