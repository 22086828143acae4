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
	tells           = time.Second            // how long a call must have for its end to say that the schema does not answer
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
	return s.presentFor(ctx, schema, &s.absences[schema].calls)
}

func (s *Store) presentFor(ctx context.Context, schema int, a *absence) error {
	if a == nil || s.bound >= 0 || len(s.names) == 1 {
		return nil
	}
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

// limit returns how long to wait for one schema: some quarters of the patience, or of the time that the caller has. It is long enough to say whether the
// schema answers, if that leaves something of the caller's time.
func (s *Store) limit(ctx context.Context, quarters int) time.Duration {
	limit := s.patience * time.Duration(quarters) / 4
	if at, has := ctx.Deadline(); has {
		left := time.Until(at)
		limit = min(limit, max(left*time.Duration(quarters)/4, min(tells, left*patient/4)))
	}
	return limit
}

const (
	soon    = 1 // quarters for calls that delay claims
	patient = 3 // quarters for others, so that something is left of the caller's time
)

// absences are those of one schema.
type absences struct {
	calls    absence // of all calls, but for those about events that are held
	outcomes absence // of Settle and Confirm, which one of these has caused: a schema whose claims are slow may store outcomes
}

// manner is how a method of one schema is called for Run.
type manner struct {
	quarters int
	obeys    func(*absences) *absence // which absence leaves the schema out, and ends with an answer; nil if the result is nil
}

var (
	claiming   = manner{soon, func(a *absences) *absence { return &a.calls }}
	tending    = manner{patient, claiming.obeys}
	confirming = manner{soon, func(a *absences) *absence { return &a.outcomes }}
	settling   = manner{patient, confirming.obeys}
	renewing   = manner{patient, func(*absences) *absence { return nil }} // the leases of a schema that is tried too late end
)

// quickly calls a method of one schema for Run. If the schema takes longer than some quarters of the patience, it is left out of later
// calls over all schemas. A call that had less time than that, and less than a second, says nothing about the schema.
func (s *Store) quickly(ctx context.Context, schema int, how manner, call func(context.Context) error) error {
	if s.bound >= 0 || len(s.names) == 1 {
		return call(ctx)
	}
	all := &s.absences[schema]
	own := how.obeys(all)
	if err := s.presentFor(ctx, schema, own); err != nil {
		return err
	}
	limit := s.limit(ctx, how.quarters)
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(within)
	switch {
	case err == nil && own != nil:
		own.came()
	case err != nil && within.Err() != nil && ctx.Err() == nil && limit >= min(tells, s.patience*time.Duration(how.quarters)/4):
		if all.calls.leave(); own == &all.outcomes {
			own.leave()
		}
	}
	return err
}

// quicklyIn is quickly for a method that returns a result.
func quicklyIn[T any](ctx context.Context, s *Store, schema int, how manner, call func(context.Context) (T, error)) (result T, err error) {
	err = s.quickly(ctx, schema, how, func(ctx context.Context) (err error) {
		result, err = call(ctx)
		return err
	})
	return result, err
}
