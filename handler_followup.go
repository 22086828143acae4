package almanac

import (
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
)

// Follower is the ability of a handler to store further events in the transaction that ends
// one of its events. An example is a question about the gift, two days after the birthday.
type Follower interface {
	// Follow returns the follow-ups of the event that has ended, besides its successor.
	// The event is COMPLETED or FAILED, as it will be stored; nothing follows a CANCELLED
	// event. Follow is called inside a transaction and can be called again. It must be quick
	// and depend only on its arguments. After an error, the outcome and the successor are
	// stored, and the follow-ups are lost: observers are notified with [FollowUpsLost], and
	// can store them with ScheduleAt. A follow-up of a type that u has opted out of is left out.
	Follow(u User, ended Event) ([]FollowUp, error)
}

// FollowUp is a single event that is detached from the series of its type. No event succeeds it, unless
// its handler is a [Follower] too. When the user moves, it is due at the same wall time in the new zone. A new
// release of a calendar does not move it.
type FollowUp struct {
	// Type is the event type. The handler of this type makes the payload and chooses the channel.
	Type string
	// Occurrence has the wall time and the key. The key has 1 to 90 bytes, and identifies
	// the follow-up permanently among the user's follow-ups of that type. A follow-up
	// whose key was used before is left out.
	Occurrence calendar.Occurrence
}

// followUps plans the follow-ups of an event that has ended.
func (s *scheduler) followUps(h EventHandler, ended Event, u User, now time.Time) ([]Event, error) {
	var list []FollowUp
	if f, able := h.(Follower); able {
		var err error
		if list, err = f.Follow(u, ended); err != nil {
			return nil, err
		}
	}
	if to := givenExecution(h).Fallback; to != "" && ended.Status == Failed {
		list = append(list, FollowUp{to, calendar.Occurrence{Key: fallbackKey(ended), Wall: u.Timezone.WallTime(now)}})
	}
	var events []Event
	var errs []error
	for _, one := range list {
		if h, err := s.registry.Handler(one.Type); err == nil && unwanted(h, u, "") {
			continue
		}
		e, err := s.followUp(one, ended, u, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("almanac: follow-up %q of %s: %w", excerpt.Of(one.Occurrence.Key, maxDetachedKey), ended.Type, err))
			continue
		}
		if h, err := s.registry.Handler(one.Type); err == nil && unwantedThen(h, u, e, now) {
			continue
		}
		events = append(events, e)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return events, nil
}

// fallbackKey returns the key of the event that follows a failed one: see [Execution].Fallback.
func fallbackKey(ended Event) string {
	key := ended.OccurrenceKey
	if by := ended.KeyUnit.System(); by != "" { // keys of two calendars can be the same text
		key = by + ":" + key
	}
	if ended.Series != "" {
		key = ended.Series + "/" + key
	}
	if key = ended.Type + "/" + key; len(key) > maxDetachedKey {
		return ended.IdempotencyKey.String()
	}
	return key
}

func (s *scheduler) followUp(f FollowUp, ended Event, u User, now time.Time) (Event, error) {
	h, err := s.registry.Handler(f.Type)
	if err != nil {
		return Event{}, err
	}
	if problem := tokenProblem(f.Occurrence.Key, maxDetachedKey); problem != "" {
		return Event{}, &ValidationError{[]FieldError{{Field: "key", Problem: problem}}}
	}
	e, err := NewEvent(u, h, Occurrence{Occurrence: f.Occurrence})
	if err != nil {
		return Event{}, err
	}
	e.Consulted = calendar.Consulted{} // no rule plans it again after a new release
	e.Origin = Origin{Kind: OriginFollowUp, From: ended.ID}
	successorID(&e, &ended, now)
	return e, nil
}

// follows reports whether the handler of an event with this outcome may plan follow-ups. It plans none if
// the event has not ended, or is called off, or if the handler is no Follower and has no fallback for it.
func follows(h EventHandler, o *Outcome) bool {
	switch o.Status {
	case Failed:
		if givenExecution(h).Fallback != "" {
			return true
		}
	case Completed:
	default:
		return false
	}
	_, able := h.(Follower)
	return able
}
