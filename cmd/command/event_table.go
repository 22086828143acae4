package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// listedEvent is an entry of a list of events.
type listedEvent struct {
	almanac.Event
	name     string // of the user, if it was asked for
	change   string // what an edit did to the event, if the list is about an edit
	requeued bool   // whether another event repeats it, if the list is about failures
}

// next returns when a pending event is tried again, and "" if no attempt was put off.
func (e listedEvent) next() string {
	if e.Status != almanac.Pending || !e.AvailableAt.After(e.FirstAvailable()) {
		return ""
	}
	return instantText(e.AvailableAt)
}

// available returns when a pending event can be claimed, and "" for any other event.
func (e listedEvent) available() string {
	if e.AvailableAt.IsZero() {
		return ""
	}
	return instantText(e.AvailableAt)
}

// reason returns why an event failed or was cancelled, or why a pending one waits for another attempt.
func (e listedEvent) reason() string {
	if e.Status == almanac.Pending {
		return e.LastError
	}
	return e.FailureReason
}

// again says whether another event repeats it.
func (e listedEvent) again() string {
	if e.requeued {
		return "yes"
	}
	return ""
}

// eventView says which columns a list of events has.
type eventView struct {
	terminal bool // also columns that only people read
	names    bool // the names of users
	reasons  bool // why events failed or were cancelled, before their status
	requeues bool // whether other events repeat them
	waiting  bool // when pending events are tried next
	oneUser  bool // the list is about one user
	changes  bool // what an edit did
	byOther  bool // the day by another calendar, by which an event's key counts
	now      time.Time
}

// eventList returns a list of events as the output takes it.
func eventList(env *environment, f form, v eventView) list[listedEvent] {
	v.terminal, v.now = env.terminal.width > 0, env.now
	return list[listedEvent]{
		form: f, none: "no events", columns: v.columns(), fields: v.fields(),
		line: func(e listedEvent) any {
			return struct {
				eventReport
				UserName string `json:"userName,omitempty"`
				Requeued bool   `json:"requeued,omitempty"`
			}{eventReportOf(e.Event), e.name, e.requeued}
		},
	}
}

// columns returns the columns of a table. WHEN is for terminals only, because programs cannot
// use it. REASON comes last, so that the other columns have the same place in every list. The id comes first among all users, since commands take it.
// For one user the times do. What was asked for comes before what was not.
func (v eventView) columns() []column[listedEvent] {
	status, when, wall, id, due := 1, 3, 7, 4, 10
	if v.names {
		when = 5
	}
	if v.oneUser {
		wall, id, due = 2, 6, 5
	}
	if v.reasons {
		status = 5
	}
	all := []struct {
		shown bool
		column[listedEvent]
	}{
		{v.changes, column[listedEvent]{"CHANGE", func(e listedEvent) string { return e.change }, span{}, nil}},
		{true, column[listedEvent]{"ID", func(e listedEvent) string { return e.ID.String() }, span{rank: id, passed: true}, nil}},
		{true, column[listedEvent]{"STATUS", func(e listedEvent) string { return string(e.Status) }, span{rank: status}, v.colour}},
		{v.terminal, column[listedEvent]{"WHEN", func(e listedEvent) string { return whenText(e.Due, v.now) }, span{rank: when}, nil}},
		{true, column[listedEvent]{"DUE", func(e listedEvent) string { return instantText(e.Due) }, span{rank: due}, nil}},
		{v.waiting, column[listedEvent]{"NEXT", listedEvent.next, span{rank: 8}, nil}},
		{true, column[listedEvent]{"WALL TIME", func(e listedEvent) string { return e.Wall.String() }, span{rank: wall}, nil}},
		{v.byOther, column[listedEvent]{"CALENDAR DATE", func(e listedEvent) string { return eventDayOf(e.Occurrence().Occurrence).text }, span{rank: 10, least: 16}, nil}},
		{true, column[listedEvent]{"ZONE", func(e listedEvent) string { return e.Zone }, span{rank: 9, least: 16}, nil}},
		{true, column[listedEvent]{"TYPE", func(e listedEvent) string { return e.Type }, span{rank: 2, least: 12}, nil}},
		{true, column[listedEvent]{"SERIES", func(e listedEvent) string { return e.Series }, span{rank: 12, least: 12}, nil}},
		{true, column[listedEvent]{"KEY", func(e listedEvent) string { return e.OccurrenceKey }, span{rank: 13, least: 12}, nil}},
		{true, column[listedEvent]{"FAILED ATTEMPTS", func(e listedEvent) string { return strconv.Itoa(e.RetryCount) }, span{rank: 14}, nil}},
		{!v.oneUser, column[listedEvent]{"USER", func(e listedEvent) string { return e.UserID.String() }, span{rank: 11}, nil}},
		{v.names, column[listedEvent]{"NAME", func(e listedEvent) string { return e.name }, span{rank: 3, least: 16}, nil}},
		{v.requeues, column[listedEvent]{"REQUEUED", listedEvent.again, span{rank: 6}, nil}},
		{true, column[listedEvent]{"REASON", listedEvent.reason, span{rank: 4, least: 16}, nil}},
	}
	var columns []column[listedEvent]
	for _, c := range all {
		if c.shown {
			columns = append(columns, c.column)
		}
	}
	return columns
}

// fields returns the columns of CSV, which have the names of the members in JSON.
func (v eventView) fields() []field[listedEvent] {
	fields := []field[listedEvent]{
		{"id", func(e listedEvent) string { return e.ID.String() }},
		{"status", func(e listedEvent) string { return string(e.Status) }},
		{"due", func(e listedEvent) string { return instantText(e.Due) }},
		{"wall", func(e listedEvent) string { return e.Wall.String() }},
		{"zone", func(e listedEvent) string { return e.Zone }},
		{"type", func(e listedEvent) string { return e.Type }},
		{"series", func(e listedEvent) string { return e.Series }},
		{"occurrenceKey", func(e listedEvent) string { return e.OccurrenceKey }},
		{"retryCount", func(e listedEvent) string { return strconv.Itoa(e.RetryCount) }},
		{"userId", func(e listedEvent) string { return e.UserID.String() }},
		{"failureReason", func(e listedEvent) string { return e.FailureReason }},
		{"availableAt", func(e listedEvent) string { return e.available() }},
		{"lastError", func(e listedEvent) string { return e.LastError }},
	}
	if v.requeues {
		fields = append(fields, field[listedEvent]{"requeued", listedEvent.again})
	}
	if v.names {
		fields = append(fields, field[listedEvent]{"userName", func(e listedEvent) string { return e.name }})
	}
	return fields
}

// colour returns the colour of an event's status: that of a PENDING event only if it is late.
func (v eventView) colour(e listedEvent) string {
	const red, green, yellow, dim = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[2m"
	switch {
	case e.Status == almanac.Failed:
		return red
	case e.Status == almanac.Completed:
		return green
	case e.Status == almanac.Cancelled:
		return dim
	case e.Status == almanac.Processing, e.Due.Before(v.now):
		return yellow
	}
	return ""
}

// listedEvents returns events as entries of a list without names.
func listedEvents(events []almanac.Event) []listedEvent {
	entries := make([]listedEvent, len(events))
	for i, e := range events {
		entries[i].Event = e
	}
	return entries
}

// markRequeued marks the entries that were requeued.
func markRequeued(ctx context.Context, store *postgres.Store, entries []listedEvent) error {
	events := make([]almanac.Event, len(entries))
	for i, e := range entries {
		events[i] = e.Event
	}
	ids, err := store.Requeued(ctx, events)
	for i, e := range entries {
		entries[i].requeued = slices.Contains(ids, e.ID)
	}
	return err
}

// userNames looks up the names of users, each once.
type userNames struct {
	store *postgres.Store
	known map[uuid.UUID]string
}

// fill adds the names of the users to entries. A deleted user has none.
func (n userNames) fill(ctx context.Context, entries []listedEvent) error {
	for i, e := range entries {
		if _, known := n.known[e.UserID]; !known {
			u, err := n.store.User(ctx, e.UserID)
			if err != nil && !errors.Is(err, almanac.ErrNotFound) {
				return err
			}
			n.known[e.UserID] = u.Name()
		}
		entries[i].name = n.known[e.UserID]
	}
	return nil
}

// whenText says how far an instant is from now, in two units: "in 3d 4h", "5m 10s ago". A
// year counts 365 days.
func whenText(at, now time.Time) string {
	const day = 24 * time.Hour
	distance := at.Sub(now).Abs()
	text := "0s"
	units := []struct {
		unit time.Duration
		name string
	}{{365 * day, "y"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		if distance < u.unit {
			continue
		}
		text = fmt.Sprint(int64(distance/u.unit)) + u.name
		if i+1 < len(units) {
			if rest := distance % u.unit / units[i+1].unit; rest > 0 {
				text += fmt.Sprintf(" %d%s", rest, units[i+1].name)
			}
		}
		break
	}
	if at.Before(now) {
		return text + " ago"
	}
	return "in " + text
}
