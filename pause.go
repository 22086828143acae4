package almanac

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Pauser stops and goes on with the delivery of a type of event, in all processes.
// What it says is stored: it holds until it is taken back, whoever starts meanwhile.
type Pauser interface {
	// Pause lets no process claim events of the type any more. What is claimed by then
	// goes on, and what was claimed ahead of its instant begins: that is over within
	// [WithLookAhead]. Planning goes on, and what comes due waits. Events of a type that
	// is paused stay paused; a second call changes nothing. The error is an
	// [*UnsupportedEventTypeError] where no handler is registered for the type.
	Pause(ctx context.Context, eventType string) error

	// Resume lets them be claimed again, oldest first. Processes that hear hints (see
	// [Listener]) begin at once, others within a [WithPoll]. The type needs no handler, and
	// nothing changes where it is not paused.
	Resume(ctx context.Context, eventType string) error

	// Paused returns the types that are paused, in alphabetical order.
	Paused(ctx context.Context) ([]Pause, error)
}

// Pause is a type of event that is not delivered for the time being.
type Pause struct {
	EventType string
	Since     time.Time // UTC
}

// PauseRepository is the ability of a repository to remember which types of events
// are paused. Its Claim and its Until leave those out.
type PauseRepository interface {
	// Pause notes that a type is paused, unless it is already.
	Pause(ctx context.Context, eventType string) error
	// Resume forgets that a type is paused, and tells those who listen.
	Resume(ctx context.Context, eventType string) error
	// Paused returns what is paused, in the order of types.
	Paused(ctx context.Context) ([]Pause, error)
}

func (s *scheduler) Pause(ctx context.Context, eventType string) error {
	p, err := s.pauses(eventType)
	if err != nil {
		return err
	}
	if _, err := s.registry.Handler(eventType); err != nil {
		return err
	}
	return p.Pause(ctx, eventType)
}

func (s *scheduler) Resume(ctx context.Context, eventType string) error {
	p, err := s.pauses(eventType)
	if err != nil {
		return err
	}
	if err := p.Resume(ctx, eventType); err != nil {
		return err
	}
	s.running.wake()
	return nil
}

func (s *scheduler) Paused(ctx context.Context) ([]Pause, error) {
	p, err := s.pauses("any")
	if err != nil {
		return nil, err
	}
	return p.Paused(ctx)
}

// pauses returns the repository's ability, for a type that can be stored. Without it the error matches [errors.ErrUnsupported].
func (s *scheduler) pauses(eventType string) (PauseRepository, error) {
	if problem := tokenProblem(eventType, maxEventType); problem != "" {
		return nil, &ValidationError{[]FieldError{{Field: "event type", Problem: problem}}}
	}
	p, able := s.repository.(PauseRepository)
	if !able {
		return nil, fmt.Errorf("almanac: the repository cannot pause: %w", errors.ErrUnsupported)
	}
	return p, nil
}

// pauseWatch is how a process that hears no hints finds out that a pause has ended: what
// waited for that may lie left of the mark, where polls do not look.
type pauseWatch struct {
	seen     []Pause     // when it looked last
	look     *time.Timer // rings when it is time for another look; nil before the first
	failures int         // in a row
}

// watchPauses wakes the engine when a type is not paused any more, until enough rings or
// ctx is done. It looks as often as the engine polls, and where it cannot, as often as
// listening is tried.
func (s *scheduler) watchPauses(ctx context.Context, w *pauseWatch, enough <-chan time.Time) {
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

// lookAtPauses returns how long to leave the database alone.
func (s *scheduler) lookAtPauses(ctx context.Context, w *pauseWatch) time.Duration {
	p, able := s.repository.(PauseRepository)
	if !able {
		return 0
	}
	paused, err := p.Paused(ctx)
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
