package almanac

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Pauser pauses and resumes the delivery of a type of event, in all processes. A pause is
// stored in the database, so it also holds for processes that start later, until Resume.
type Pauser interface {
	// Pause stops all processes from claiming events of the type. Deliveries that are
	// under way continue. Events that were claimed ahead of their instant still start,
	// for at most [WithLookAhead]. Planning continues, and due events wait. Pausing a
	// paused type changes nothing. The error is an [*UnsupportedEventTypeError] if the
	// type has no handler.
	Pause(ctx context.Context, eventType string) error

	// Resume lets processes claim events of the type again, oldest first. Processes that
	// receive hints (see [Listener]) start at once, the others within one poll (see
	// [WithPoll]). The type needs no handler. Resuming a type that is not paused changes
	// nothing.
	Resume(ctx context.Context, eventType string) error

	// Paused returns the paused types, in alphabetical order.
	Paused(ctx context.Context) ([]Pause, error)
}

// Pause is a type of event whose delivery is paused.
type Pause struct {
	EventType string
	Since     time.Time // UTC
}

// PauseRepository stores which types of events are paused. Claim and Until of the
// repository leave out events of these types. A repository that cannot pause returns an
// error that matches [errors.ErrUnsupported] from Pause and Resume, and no types from
// Paused.
type PauseRepository interface {
	// Pause stores that a type is paused, unless it is paused already.
	Pause(ctx context.Context, eventType string) error
	// Resume deletes the pause of a type, and sends a hint to listeners.
	Resume(ctx context.Context, eventType string) error
	// Paused returns the pauses, in alphabetical order of types.
	Paused(ctx context.Context) ([]Pause, error)
}

func (s *scheduler) Pause(ctx context.Context, eventType string) error {
	if err := checkEventType(eventType); err != nil {
		return err
	}
	if _, err := s.registry.Handler(eventType); err != nil {
		return err
	}
	return s.repository.Pause(ctx, eventType)
}

func (s *scheduler) Resume(ctx context.Context, eventType string) error {
	if err := checkEventType(eventType); err != nil {
		return err
	}
	if err := s.repository.Resume(ctx, eventType); err != nil {
		return err
	}
	s.running.wake()
	return nil
}

func (s *scheduler) Paused(ctx context.Context) ([]Pause, error) {
	return s.repository.Paused(ctx)
}

// checkEventType returns a [*ValidationError] for a type that cannot be stored.
func checkEventType(eventType string) error {
	if problem := tokenProblem(eventType, maxEventType); problem != "" {
		return &ValidationError{[]FieldError{{Field: "event type", Problem: problem}}}
	}
	return nil
}

// pausePoll lets a process that receives no hints notice the end of a pause. Events that
// waited for that end may be older than the mark, where polls do not look.
type pausePoll struct {
	seen     []Pause     // the pauses at the last query
	look     *time.Timer // fires when the next query is due; nil before the first query
	failures int         // in a row
}

// pollPauses wakes the engine when a pause ends, until enough fires or ctx is done. It
// queries the pauses as often as the engine polls. After a failure it waits as long as
// the next attempt to listen.
func (s *scheduler) pollPauses(ctx context.Context, w *pausePoll, enough <-chan time.Time) {
	if ctx.Err() != nil {
		return
	}
	if w.look == nil {
		w.look = time.NewTimer(max(s.poll, s.lookAtPauses(ctx, w)))
	}
	for {
		select {
		case <-w.look.C:
			w.look.Reset(max(s.poll, s.lookAtPauses(ctx, w)))
		case <-enough:
			return
		case <-ctx.Done():
			return
		}
	}
}

// lookAtPauses queries the pauses, and returns the least time until the next query.
func (s *scheduler) lookAtPauses(ctx context.Context, w *pausePoll) time.Duration {
	paused, err := s.repository.Paused(ctx)
	if err != nil {
		w.failures++
		return listenAgain.Delay(w.failures, rand.Float64())
	}
	if slices.ContainsFunc(w.seen, func(was Pause) bool { return !slices.Contains(paused, was) }) {
		s.running.wake()
	}
	w.seen, w.failures = paused, 0
	return 0
}
