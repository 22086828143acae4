package almanac

import (
	"errors"
	"fmt"
	"time"
)

// Follower is the ability of a handler to have further events stored in the
// transaction that ends one of its own, such as a question of how the gift was, two
// days after the birthday.
type Follower interface {
	// Follow returns what u is owed besides the next occurrence, now that ended has: it
	// is COMPLETED or FAILED as it will be stored. It is asked inside a transaction and
	// can be asked again, so it must be quick and depend on nothing but its arguments.
	// After an error the outcome is stored all the same, and nothing follows.
	Follow(u User, ended Event) ([]FollowUp, error)
}

// FollowUp is an event that happens once, apart from the series of its type: nothing
// follows it unless its own handler is a [Follower] too, and when its person moves,
// it keeps its wall time.
type FollowUp struct {
	// Type is the event type. Its handler says what is delivered, and how.
	Type string
	// Occurrence says when. Its Key, at most 90 bytes without a slash, names it among
	// the person's follow-ups of that type for ever: one whose key was there before is
	// left out. Series must be empty.
	Occurrence Occurrence
}

const maxFollowUpKey = 90

// followUps plans what follows an event that has ended, besides its successor.
func (s *scheduler) followUps(f Follower, ended Event, u User, now time.Time) ([]Event, error) {
	list, err := guarded("planning what follows "+ended.Type, func() ([]FollowUp, error) { return f.Follow(u, ended) })
	if err != nil {
		return nil, err
	}
	var events []Event
	var errs []error
	for _, one := range list {
		e, err := guarded("planning "+one.Type, func() (Event, error) { return s.followUp(one, ended, u, now) })
		if err != nil {
			errs = append(errs, fmt.Errorf("almanac: follow-up %q of %s: %w", clip(one.Occurrence.Key, maxFollowUpKey), ended.Type, err))
			continue
		}
		events = append(events, e)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return events, nil
}

func (s *scheduler) followUp(f FollowUp, ended Event, u User, now time.Time) (Event, error) {
	h, err := s.registry.Handler(f.Type)
	if err != nil {
		return Event{}, err
	}
	problem := seriesProblem(f.Occurrence.Key, maxFollowUpKey)
	if f.Occurrence.Series != "" {
		problem = "has a series"
	}
	if problem != "" {
		return Event{}, &ValidationError{[]FieldError{{Field: "key", Problem: problem}}}
	}
	e, err := NewEvent(u, h, f.Occurrence)
	if err != nil {
		return Event{}, err
	}
	e.OccurrenceKey = followUpKey(f.Occurrence.Key)
	e.ID = successorID(e, ended, now)
	return e, nil
}

// followWith returns what a settlement of e by o asks for besides the successor; nil
// where the handler has nothing to say.
func (s *scheduler) followWith(h EventHandler, e Event, o Outcome) func(User, time.Time) ([]Event, error) {
	f, able := h.(Follower)
	if !able || !o.Status.Terminal() {
		return nil
	}
	return func(u User, now time.Time) ([]Event, error) {
		ended, err := o.Apply(e, now)
		if err != nil {
			return nil, err
		}
		events, err := s.followUps(f, ended, u, now)
		for i := range events {
			events[i] = s.stampHere(events[i], now)
		}
		return events, err
	}
}
