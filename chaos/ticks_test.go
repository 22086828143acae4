package chaos

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// TickType is the event type of [Ticks].
const TickType = "TICK"

// Plan is the occurrences of a user: a start, an interval and a count. It is stored in
// the attribute "plan".
type Plan struct {
	Start    string `json:"start"`    // the wall time of the first
	Interval int    `json:"interval"` // seconds
	Count    int    `json:"count"`
	Poison   Poison `json:"poison,omitempty"`
	To       string `json:"to,omitempty"`   // the name of the receiver, of those in the orders; empty is the first
	Lane     string `json:"lane,omitempty"` // of the events; empty is that of their type
}

// Poison is what the delivery of a user's events does to a worker.
type Poison string

// The poisons.
const (
	Panics  Poison = "panics"
	Exits   Poison = "exits"   // runtime.Goexit, which no recover sees
	Kills   Poison = "kills"   // os.Exit
	Plans   Poison = "plans"   // os.Exit, when the worker plans what comes next
	Ignores Poison = "ignores" // that it has to stop, until the event is taken from it
	Lingers Poison = "lingers" // twice takes longer than the attempt may, and heeds no context
)

// Keys returns the occurrence keys of the plan. It does not use the library.
func (o Plan) Keys() ([]string, error) {
	start, err := time.Parse("2006-01-02T15:04:05", o.Start)
	if err != nil {
		return nil, err
	}
	keys := make([]string, o.Count)
	for i := range keys {
		keys[i] = start.Add(time.Duration(i*o.Interval) * time.Second).Format("2006-01-02T15:04:05")
	}
	return keys, nil
}

// ticks is the handler. It delivers each occurrence, however late.
type ticks struct{ almanac.Recurring }

// Ticks returns the handler of each user's [Plan], with a limit for an attempt.
func Ticks(attempt time.Duration) almanac.EventHandler { return ticksBy(attempt, rule) }

// fatal returns Ticks that ends the process when it plans for a user with the poison [Plans].
func fatal(attempt time.Duration) almanac.EventHandler {
	return ticksBy(attempt, func(u almanac.User) (calendar.Recurrence, error) {
		if planOf(u).Poison == Plans {
			os.Exit(3)
		}
		return rule(u)
	})
}

// planless returns Ticks that delivers and never plans what comes next.
func planless(attempt time.Duration) almanac.EventHandler {
	return ticksBy(attempt, func(almanac.User) (calendar.Recurrence, error) { return nil, errors.New("no plan") })
}

// careful returns Ticks with a breaker, which tries each event twice.
func careful(attempt time.Duration) almanac.EventHandler {
	t := ticksBy(attempt, rule).(ticks)
	t.Execution.Breaker, t.Execution.RetryPolicy.Attempts = true, 2
	return t
}

func ticksBy(attempt time.Duration, rule func(almanac.User) (calendar.Recurrence, error)) almanac.EventHandler {
	return ticks{almanac.Recurring{
		Type: TickType,
		Execution: almanac.Execution{
			AttemptTimeout: attempt,
			RetryPolicy:    almanac.RetryPolicy{Attempts: 20, First: 50 * time.Millisecond, Factor: 1.5, Max: time.Second},
			CatchUpPolicy:  almanac.CatchUp{All: true},
		},
		Rule: rule,
		Message: func(u almanac.User, o almanac.Occurrence) string {
			plan := planOf(u)
			return strings.TrimSpace(u.ID.String() + " " + o.Key + " " + u.DateOfBirth.String() + " " + string(plan.Poison) + plan.To)
		},
	}}
}

// Channel is that of the receiver to whom the user's deliveries go.
func (ticks) Channel(e almanac.Event) almanac.Channel {
	switch m := mark(e); Poison(m) {
	case "", Panics, Exits, Kills, Plans, Ignores, Lingers:
		return almanac.ChannelWebhook
	default:
		return almanac.Channel(m)
	}
}

// Lane is that of the user's plan.
func (ticks) Lane(u almanac.User, _ almanac.Occurrence) string { return planOf(u).Lane }

// mark is what an event's message says besides the user, the occurrence and when
// they were born: a poison, or a receiver.
func mark(e almanac.Event) string {
	var payload struct{ Message string }
	_ = json.Unmarshal(e.Payload, &payload) // no mark, then
	if fields := strings.Fields(payload.Message); len(fields) == 4 {
		return fields[3]
	}
	return ""
}

func planOf(u almanac.User) Plan {
	var attributes struct{ Plan Plan }
	_ = json.Unmarshal(u.Attributes, &attributes) // without a start, which the rule refuses
	return attributes.Plan
}

func rule(u almanac.User) (calendar.Recurrence, error) {
	o := planOf(u)
	start, err := calendar.ParseWallTime(o.Start)
	if err != nil {
		return nil, err
	}
	return every{start, time.Duration(o.Interval) * time.Second, o.Count}, nil
}

// every is a recurrence by the second, for which no calendar is needed.
type every struct {
	start    calendar.WallTime
	interval time.Duration
	count    int
}

func (e every) After(w calendar.WallTime, _ calendar.Policies) (calendar.Slot, error) {
	n := 0
	if !w.Before(e.start) {
		n = int(w.Labelled().Sub(e.start.Labelled())/e.interval) + 1
	}
	if n >= e.count {
		return calendar.Slot{}, calendar.ErrNoOccurrence
	}
	wall := calendar.WallTimeOf(e.start.Labelled().Add(time.Duration(n) * e.interval))
	return calendar.Slot{Key: wall.String(), Wall: wall}, nil
}
