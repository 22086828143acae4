package almanac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// OptOut is a refusal of events by their user: those of one type, of one channel, of one
// type by one channel, or all. An empty field means all, so the zero OptOut refuses
// everything. Values are comparable with ==.
//
// An event is owed if no opt-out of its user refuses it. So the order of opt-outs does not
// matter, and an OptIn of one type has no effect while the user refuses everything. A
// handler can override opt-outs (see [Execution]).
type OptOut struct {
	// Type is the event type, at most 50 bytes. It need not have a handler.
	Type string `json:"type,omitempty"`
	// Channel is the channel, at most 50 bytes. The handler chooses the channel of an event
	// when it is delivered (see [EventHandler].Channel). So an opt-out with a Channel has an
	// effect only then, and none on the events of an [Executor].
	Channel Channel `json:"channel,omitempty"`
}

// ReasonOptedOut is the FailureReason of an event that was CANCELLED because its user had
// opted out of it.
const ReasonOptedOut = "opted out"

const (
	maxOptOuts = 100 // of a user, besides the one that refuses everything
	maxChannel = 50
)

// refuses reports whether u has opted out of events of a type by a channel. With the
// channel "", it reports whether u has opted out of them by all channels.
func (u User) refuses(eventType string, by Channel) bool {
	return slices.ContainsFunc(u.OptOuts, func(o OptOut) bool {
		return (o.Type == "" || o.Type == eventType) && (o.Channel == "" || o.Channel == by)
	})
}

// unwanted reports whether u has opted out of the events of h by a channel. With the
// channel "", it reports whether u has opted out of them by all channels.
func unwanted(h EventHandler, u User, by Channel) bool {
	if len(u.OptOuts) == 0 || !u.refuses(h.EventType(), by) {
		return false
	}
	return !givenExecution(h).OverrideOptOuts
}

// refusedBy reports whether u has opted out of a type by all channels. A type without a
// handler in this program counts as one whose handler does not override that.
func (s *scheduler) refusedBy(u User, eventType string) bool {
	if h, err := s.registry.Handler(eventType); err == nil {
		return unwanted(h, u, "")
	}
	return u.refuses(eventType, "")
}

// calledOff returns the events that wait for another attempt and are not owed any more, as
// CANCELLED. An event without a handler is left to a program that has it.
func (s *scheduler) calledOff(p replanning) ([]Event, error) {
	var events []Event
	for _, e := range p.InFlight {
		h, err := s.registry.Handler(e.Type)
		if err != nil || e.Status != Pending || e.Origin.Forced || !unwanted(h, p.is, "") {
			continue
		}
		done, err := e.Cancel(ReasonOptedOut)
		if err != nil {
			return nil, err
		}
		events = append(events, done)
	}
	return events, nil
}

func (s *scheduler) OptOut(ctx context.Context, id uuid.UUID, what OptOut) (UpdateUserResult, error) {
	return s.UpdateUser(ctx, id, ProfileChange{OptOut: []OptOut{what}})
}

func (s *scheduler) OptIn(ctx context.Context, id uuid.UUID, what OptOut) (UpdateUserResult, error) {
	return s.UpdateUser(ctx, id, ProfileChange{OptIn: []OptOut{what}})
}

// optedOut returns the error for an event that is not stored because u has opted out of its type.
func optedOut(u User, eventType string) error {
	return fmt.Errorf("%w: user %s, of %s", ErrOptedOut, u.ID, eventType)
}

// optOuts returns the opt-outs of u after the change, sorted, without repetition, and nil for none.
func (c ProfileChange) optOuts(u User) []OptOut {
	all := slices.DeleteFunc(slices.Clone(u.OptOuts), func(o OptOut) bool { return slices.Contains(c.OptIn, o) })
	all = append(all, c.OptOut...)
	slices.SortFunc(all, func(a, b OptOut) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(string(a.Channel), string(b.Channel)))
	})
	if all = slices.Compact(all); len(all) == 0 {
		return nil
	}
	return all
}

// errNothingToDo says that a change of opt-outs changes nothing. The events then stay as they
// are: a mail program may send the same opt-out again and again.
var errNothingToDo = errors.New("almanac: nothing to do")

// needed returns the change without opt-outs and opt-ins, if they would change nothing.
func (c ProfileChange) needed(u User) ProfileChange {
	if slices.Equal(c.optOuts(u), u.OptOuts) {
		return c.withoutOptOuts()
	}
	return c
}

func (c ProfileChange) withoutOptOuts() ProfileChange {
	c.OptOut, c.OptIn = nil, nil
	return c
}

// isEmpty reports whether c changes no field. The version does not count.
func (c ProfileChange) isEmpty() bool {
	return c.FirstName == nil && c.LastName == nil && c.DateOfBirth == nil && c.Timezone == nil && c.Attributes == nil && c.Merge == nil &&
		c.Locale == nil && c.Email == nil && c.ExternalID == nil && len(c.OptIn)+len(c.OptOut) == 0
}

// optOutsProblem returns what is wrong with the opt-outs of a user, or "".
func optOutsProblem(all []OptOut) string {
	n := len(all)
	if slices.Contains(all, OptOut{}) {
		n-- // a user can refuse everything, whatever else is stored
	}
	if n > maxOptOuts {
		return fmt.Sprintf("has %d opt-outs, more than %d", n, maxOptOuts)
	}
	for _, o := range all {
		if problem := tokenProblem(o.Type, maxEventType); o.Type != "" && problem != "" {
			return "has a type that " + problem
		}
		if problem := tokenProblem(string(o.Channel), maxChannel); o.Channel != "" && problem != "" {
			return "has a channel that " + problem
		}
	}
	return ""
}

// quietUntil returns when the user of a late event may be disturbed again, if that is later than
// now. The event is late if an attempt has failed. It is also late if it became ready longer ago than the
// grace, unless it may have waited for its lane. An event that has waited for its lane, or becomes ready after
// its instant, for example because its type is spread, counts as late unless its instant is in the same
// quiet hours as now. See docs/adr/0056-quiet-hours.md.
func (s *scheduler) quietUntil(j *job, now time.Time) (time.Time, bool) {
	late := j.event.RetryCount > 0 || j.of.asked.IsZero() && now.Sub(later(j.event.Due, j.event.ReadyAt)) > s.grace
	if s.quiet == nil || !late && j.of.asked.IsZero() && j.event.ReadyAt.IsZero() || j.event.Origin.Forced || givenExecution(j.route.handler).OverrideOptOuts {
		return time.Time{}, false
	}
	quiet := s.quiet(j.user)
	if !late {
		same, asked := quiet.End(j.user.Timezone, j.event.Due)
		late = !asked || !same.After(now)
	}
	if end, is := quiet.End(j.user.Timezone, now); is && late {
		return end, true
	}
	return time.Time{}, false
}
