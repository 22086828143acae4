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

	"github.com/almanac-go/almanac/calendar"
)

// OptOut is a refusal of events by their user: those of one type, of one channel, of one
// type by one channel, or all. An empty Type or Channel means all, so the zero OptOut refuses
// everything. A user has one opt-out of a Type and Channel: a new one replaces it.
//
// An event is owed if no opt-out of its user refuses it. So the order of opt-outs does not
// matter, and an OptIn of one type has no effect while the user refuses everything. A
// handler can override opt-outs (see [Execution]). See docs/adr/0076-opt-outs-until.md.
type OptOut struct {
	// Type is the event type, at most 50 bytes. It need not have a handler.
	Type string `json:"type,omitempty"`
	// Channel is the channel, at most 50 bytes. The handler chooses the channel of an event
	// when it is delivered (see [EventHandler].Channel). So an opt-out with a Channel has an
	// effect only then, and none on the events of an [Executor].
	Channel Channel `json:"channel,omitempty"`
	// Until is the first day, in the user's zone, on which the events are owed again. The first event on
	// or after it is planned at once. What would happen before it is never delivered, also not later.
	// The zero Date means that the opt-out lasts until OptIn.
	Until calendar.Date `json:"until,omitzero"`
	// Reason is why, at most 200 bytes. The default is "", no reason.
	Reason string `json:"reason,omitempty"`
	// Author is who asked for it, at most 200 bytes. The default is the principal (see [WithPrincipal]),
	// or "" if there is none.
	Author string `json:"author,omitempty"`
	// Since is when it was stored, UTC, to the second. The default is now, and so is a time in the future.
	Since time.Time `json:"since,omitzero"`
}

// ReasonOptedOut is the FailureReason of an event that was CANCELLED because its user had
// opted out of it.
const ReasonOptedOut = "opted out"

const (
	maxOptOuts = 100 // of a user, besides the one that refuses everything
	maxChannel = 50

	maxOptOutText = 200 // of a reason, and of an author
)

// never is after every day: the end of an opt-out without an end.
var never = calendar.Date{Year: 10000}

// concerns reports whether o is about events of a type by a channel. With the channel "", it
// reports whether o is about them by all channels.
func (o OptOut) concerns(eventType string, by Channel) bool {
	return (o.Type == "" || o.Type == eventType) && (o.Channel == "" || o.Channel == by)
}

// isOf reports whether o and another opt-out are of the same type and channel.
func (o OptOut) isOf(other OptOut) bool { return o.Type == other.Type && o.Channel == other.Channel }

// covers reports whether a day of the user's calendar lies between the beginning and the end of o.
func (o OptOut) covers(day calendar.Date, z calendar.Timezone) bool {
	return o.Until == (calendar.Date{}) || day.Before(o.Until) && !day.Before(z.WallTime(o.Since).Date)
}

// OwedFrom returns the first day, in u's zone, on which u is owed events of a type by all channels,
// as far as opt-outs say. The zero Date means that no opt-out refuses them. It reports false if an
// opt-out without an end does.
func (u User) OwedFrom(eventType string) (day calendar.Date, owed bool) {
	if day = u.owedFrom(eventType, ""); day == never {
		return calendar.Date{}, false
	}
	return day, true
}

// owedFrom returns the first day on which u is owed events of a type by a channel, or never. With the
// channel "", only opt-outs of all channels count.
func (u User) owedFrom(eventType string, by Channel) (day calendar.Date) {
	for _, o := range u.OptOuts {
		switch {
		case !o.concerns(eventType, by):
		case o.Until == calendar.Date{}:
			return never
		case day.Before(o.Until):
			day = o.Until
		}
	}
	return day
}

// owedFrom returns the first day on which u is owed events of h by a channel, or never.
func owedFrom(h EventHandler, u User, by Channel) calendar.Date {
	if len(u.OptOuts) == 0 {
		return calendar.Date{}
	}
	day := u.owedFrom(h.EventType(), by)
	if day == (calendar.Date{}) || givenExecution(h).OverrideOptOuts {
		return calendar.Date{}
	}
	return day
}

// unwanted reports whether u has opted out of the events of h by a channel, without an end.
func unwanted(h EventHandler, u User, by Channel) bool { return owedFrom(h, u, by) == never }

// unwantedThen reports whether u refuses an event of h by all channels.
func unwantedThen(h EventHandler, u User, e Event, now time.Time) bool {
	return u.refuses(e, "", now) && !givenExecution(h).OverrideOptOuts
}

// refuses reports whether u has opted out of an event by a channel on the day of the event. If the event
// is due, today counts too. With the channel "", it reports that of all channels.
func (u User) refuses(e Event, by Channel, now time.Time) bool {
	day := u.dayOf(e)
	return slices.ContainsFunc(u.OptOuts, func(o OptOut) bool {
		return o.concerns(e.Type, by) && (o.covers(day, u.Timezone) ||
			day.Before(o.Until) && !e.Due.After(now) && o.covers(u.Timezone.WallTime(now).Date, u.Timezone))
	})
}

// dayOf returns the day that opt-outs of u compare for an event: the day in the event's zone or in the
// user's zone, whichever is later. Planning compares the latter, and must not plan what is refused then. The
// former is that of an event that was claimed before the user moved.
func (u User) dayOf(e Event) calendar.Date {
	day := e.Wall.Date
	if e.Zone == u.Timezone.String() {
		return day
	}
	if r, err := calendar.StoredTimezone(e.Zone).Resolve(e.Wall, e.Policies); err == nil {
		if here := u.Timezone.WallTime(r.Instant).Date; day.Before(here) {
			return here
		}
	}
	return day
}

// owedUntil returns the last end of u's opt-outs of h, if each has an end. The zero Date means that no
// opt-out refuses events of h, or that one without an end does.
func owedUntil(h EventHandler, u *User) calendar.Date {
	if len(u.OptOuts) == 0 {
		return calendar.Date{}
	}
	if day := owedFrom(h, *u, ""); day != never {
		return day
	}
	return calendar.Date{}
}

// nextOf returns the first occurrence of a handler, or of one series, after an instant, that no opt-out refuses.
func nextOf(h EventHandler, u *User, after time.Time) (o Occurrence, err error) {
	day := owedUntil(h, u)
	if day == (calendar.Date{}) {
		return anyNextOf(h, u, after)
	}
	after = later(after, beforeDay(day, u.Timezone))
	for range maxSteps {
		if o, err = anyNextOf(h, u, after); err != nil || !u.dayOf(Event{Wall: o.Wall, Zone: o.Zone.String(), Policies: o.Policies}).Before(day) {
			return o, err
		}
		if after, err = pass(o, after); err != nil {
			break
		}
	}
	return o, nil // it is refused before its attempt
}

// beforeDay returns an instant before every event of a day. Where clocks skip midnight, [calendar.GapBackward]
// moves an event of the day to the evening before.
func beforeDay(day calendar.Date, z calendar.Timezone) time.Time {
	begins, err := z.Resolve(calendar.WallTime{Date: day}, calendar.Policies{Gap: calendar.GapBackward})
	if err != nil {
		return time.Time{} // the handler cannot resolve a time in the zone either
	}
	return begins.Instant.Add(-time.Second)
}

// refusedFrom is owedFrom for a type. A type without a handler in this program counts as one
// whose handler does not override opt-outs.
func (s *scheduler) refusedFrom(u User, eventType string) calendar.Date {
	if h, err := s.registry.Handler(eventType); err == nil {
		return owedFrom(h, u, "")
	}
	return u.owedFrom(eventType, "")
}

// refuses is unwantedThen for a stored event, by all channels.
func (s *scheduler) refuses(u User, e Event, now time.Time) bool {
	if h, err := s.registry.Handler(e.Type); err == nil {
		return unwantedThen(h, u, e, now)
	}
	return u.refuses(e, "", now)
}

// calledOff returns the events that wait for another attempt and are not owed any more, as
// CANCELLED. An event without a handler is left to a program that has it. One of a type that is not
// replanned is left to the next claim, which plans its successor.
func (s *scheduler) calledOff(p replanning) ([]Event, error) {
	var events []Event
	for _, e := range p.InFlight {
		h, err := s.registry.Handler(e.Type)
		if err != nil || e.Status != Pending || e.Origin.Forced || !slices.Contains(p.types, e.Type) || !unwantedThen(h, p.is, e, p.Now) {
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
	all := slices.Clone(u.OptOuts)
	remove := func(gone OptOut) { all = slices.DeleteFunc(all, gone.isOf) }
	for _, o := range c.OptIn {
		remove(o)
	}
	for _, o := range c.OptOut {
		if slices.ContainsFunc(all, o.isStoredAs) {
			continue
		}
		remove(o)
		if o.Since = o.Since.UTC().Truncate(time.Second); o.Since.Year() < 2 || o.Since.After(u.UpdatedAt) {
			o.Since = u.UpdatedAt.UTC().Truncate(time.Second)
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b OptOut) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(string(a.Channel), string(b.Channel)))
	})
	if len(all) == 0 {
		return nil
	}
	return all
}

// isStoredAs reports whether a user has o already: a mail program may send the same opt-out again and again.
func (o OptOut) isStoredAs(stored OptOut) bool {
	return o.isOf(stored) && o.Until == stored.Until && (o.Reason == "" || o.Reason == stored.Reason)
}

// by returns the change with the principal of a context as the author of opt-outs without one.
func (c ProfileChange) by(ctx context.Context) ProfileChange {
	c.OptOut = authored(ctx, c.OptOut)
	return c
}

// authored returns opt-outs with the principal of a context as the author of those without one.
func authored(ctx context.Context, all []OptOut) []OptOut {
	name := Principal(ctx)
	if name == "" || len(all) == 0 {
		return all
	}
	all = slices.Clone(all)
	for i := range all {
		all[i].Author = cmp.Or(all[i].Author, name)
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
	return c.FirstName == nil && c.LastName == nil && c.DateOfBirth == nil && c.Calendar == nil && c.Timezone == nil && c.Attributes == nil && c.Merge == nil &&
		c.Locale == nil && c.Email == nil && c.ExternalID == nil && len(c.OptIn)+len(c.OptOut) == 0
}

// optOutsProblem returns what is wrong with the opt-outs of a user, or "". It does not check those that were
// stored before: another program may have stored what would be refused today.
func (u User) optOutsProblem(stored []OptOut) string {
	all := u.OptOuts
	n := len(all)
	if slices.ContainsFunc(all, OptOut{}.isOf) {
		n-- // a user can refuse everything, whatever else is stored
	}
	if n > maxOptOuts {
		return fmt.Sprintf("has %d opt-outs, more than %d", n, maxOptOuts)
	}
	for _, o := range all {
		if slices.Contains(stored, o) {
			continue
		}
		if problem := tokenProblem(o.Type, maxEventType); o.Type != "" && problem != "" {
			return "has a type that " + problem
		}
		if problem := tokenProblem(string(o.Channel), maxChannel); o.Channel != "" && problem != "" {
			return "has a channel that " + problem
		}
		if o.Until != (calendar.Date{}) && !o.Until.Valid() {
			return "has an end that is no date"
		}
		if o.Until != (calendar.Date{}) && o.Until.Before(u.Timezone.WallTime(o.Since).Date) {
			return "has an end that has passed"
		}
		if problem := tokenProblem(o.Reason, maxOptOutText); o.Reason != "" && problem != "" {
			return "has a reason that " + problem
		}
		if problem := tokenProblem(o.Author, maxOptOutText); o.Author != "" && problem != "" {
			return "has an author that " + problem
		}
	}
	return ""
}
