package almanac_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
)

// always is a Recurring handler of one rule for everybody.
func always(r almanac.Recurrence) almanac.Recurring {
	return almanac.Recurring{Type: "DIGEST", Rule: func(almanac.User) (almanac.Recurrence, error) { return r, nil }}
}

// feasts is a recurrence of the host's own: two days of 2026, at noon.
type feasts struct{}

func (feasts) After(w almanac.WallTime, _ almanac.Policies) (almanac.Slot, error) {
	for _, day := range []almanac.Date{{Year: 2026, Month: time.April, Day: 5}, {Year: 2026, Month: time.May, Day: 24}} {
		if noon := (almanac.WallTime{Date: day, Clock: almanac.Clock{Hour: 12}}); w.Before(noon) {
			return almanac.Slot{Key: day.String(), Wall: noon}, nil
		}
	}
	return almanac.Slot{}, almanac.ErrNoOccurrence
}

func TestRecurringFollowsEveryKindOfRule(t *testing.T) {
	t.Parallel()

	eight := almanac.Clock{Hour: 8}
	rrule, err := almanac.ParseRRule("FREQ=MONTHLY;BYDAY=-1FR;COUNT=2", wall(t, "2026-01-01T17:00:00"))
	if err != nil {
		t.Fatal(err)
	}
	cron, err := almanac.ParseCron("*/30 9 * * MON-FRI")
	if err != nil {
		t.Fatal(err)
	}
	daily := almanac.Daily{At: eight}

	tests := map[string]struct {
		rule almanac.Recurrence
		keys []string // of the first three in 2026, or of all
		due  string   // of the first
	}{
		"once":    {almanac.Once{At: wall(t, "2026-07-01T08:00:00")}, []string{"2026-07-01T08:00:00"}, "2026-07-01T07:00:00Z"},
		"yearly":  {almanac.Yearly{Month: time.July, Day: 1, At: eight}, []string{"2026", "2027", "2028"}, "2026-07-01T07:00:00Z"},
		"monthly": {almanac.Monthly{Day: 31, At: eight}, []string{"2026-01", "2026-02", "2026-03"}, "2026-01-31T08:00:00Z"},
		"weekly":  {almanac.Weekly{On: []time.Weekday{time.Monday}, At: eight}, []string{"2026-01-05", "2026-01-12", "2026-01-19"}, "2026-01-05T08:00:00Z"},
		"daily":   {daily, []string{"2026-01-01", "2026-01-02", "2026-01-03"}, "2026-01-01T08:00:00Z"},
		"an RRULE": {
			rrule, []string{"2026-01-30", "2026-02-27"}, "2026-01-30T17:00:00Z",
		},
		"a cron expression": {
			cron, []string{"2026-01-01T09:00:00", "2026-01-01T09:30:00", "2026-01-02T09:00:00"}, "2026-01-01T09:00:00Z",
		},
		"bounded": {
			almanac.Bounded{Rule: daily, Start: wall(t, "2026-06-01T00:00:00"), Count: 3, Except: []almanac.WallTime{wall(t, "2026-06-02T08:00:00")}},
			[]string{"2026-06-01", "2026-06-03"}, "2026-06-01T07:00:00Z",
		},
		"the host's own": {feasts{}, []string{"2026-04-05", "2026-05-24"}, "2026-04-05T11:00:00Z"},
		"by pointer":     {&daily, []string{"2026-01-01", "2026-01-02", "2026-01-03"}, "2026-01-01T08:00:00Z"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := ada(t)
			h := always(tt.rule)
			var keys []string
			var dues []time.Time
			for after := instant(t, "2026-01-01T00:00:00Z"); len(keys) < 3; after = dues[len(dues)-1] {
				o, err := h.Next(u, after)
				if errors.Is(err, almanac.ErrNoOccurrence) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				r, err := o.Zone.Resolve(o.Wall, o.Policies)
				if err != nil {
					t.Fatal(err)
				}
				keys, dues = append(keys, o.Key), append(dues, r.Instant)
			}

			if !slices.Equal(keys, tt.keys) || !dues[0].Equal(instant(t, tt.due)) {
				t.Errorf("keys %q from %v on, want %q from %s on", keys, dues, tt.keys, tt.due)
			}
		})
	}
}

func TestRecurringDependsOnTheUser(t *testing.T) {
	t.Parallel()

	h := almanac.Recurring{Type: "DIGEST", Rule: func(u almanac.User) (almanac.Recurrence, error) {
		if string(u.Attributes) == "{}" {
			return nil, nil
		}
		return almanac.Daily{At: almanac.Clock{Hour: len(u.FirstName)}}, nil
	}}
	after := instant(t, "2026-01-01T00:00:00Z")

	if o, err := h.Next(having(t, `{"digest": true}`), after); err != nil || o.Wall != wall(t, "2026-01-01T03:00:00") {
		t.Errorf("Next = %+v, %v; want three o'clock", o, err)
	}
	if o, err := h.Next(ada(t), after); !errors.Is(err, almanac.ErrNoOccurrence) {
		t.Errorf("with a nil recurrence: Next = %+v, %v; want ErrNoOccurrence", o, err)
	}
	enrolment, err := plan(t, h, `{}`, "2026-01-01T00:00:00Z")
	if err != nil || len(enrolment.Events) != 0 {
		t.Errorf("with a nil recurrence: owed %+v, %v; want nothing", enrolment.Events, err)
	}
}

func TestRecurringPassesErrorsOn(t *testing.T) {
	t.Parallel()

	cause := errors.New("no such plan")
	rule := func(r almanac.Recurrence, err error) func(almanac.User) (almanac.Recurrence, error) {
		return func(almanac.User) (almanac.Recurrence, error) { return r, err }
	}
	tests := map[string]struct {
		rule func(almanac.User) (almanac.Recurrence, error)
		want error
	}{
		"no rule at all":           {nil, almanac.ErrInvalidRecurrence},
		"the host's own":           {rule(nil, cause), cause},
		"even with a rule":         {rule(almanac.Daily{}, cause), cause},
		"owed none":                {rule(nil, almanac.ErrNoOccurrence), almanac.ErrNoOccurrence},
		"a rule that has ended":    {rule(almanac.Once{At: wall(t, "2025-01-01T00:00:00")}, nil), almanac.ErrNoOccurrence},
		"a rule that makes none":   {rule(almanac.Weekly{}, nil), almanac.ErrInvalidRecurrence},
		"a rule that nobody made":  {rule(almanac.RRule{}, nil), almanac.ErrInvalidRecurrence},
		"a schedule of nobody's":   {rule(almanac.Cron{}, nil), almanac.ErrInvalidRecurrence},
		"bounds of nothing at all": {rule(almanac.Bounded{}, nil), almanac.ErrInvalidRecurrence},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := almanac.Recurring{Type: "DIGEST", Rule: tt.rule}

			if o, err := h.Next(ada(t), instant(t, "2026-01-01T00:00:00Z")); !errors.Is(err, tt.want) {
				t.Errorf("Next = %+v, %v; want %v", o, err, tt.want)
			}
			enrolment, err := plan(t, h, `{}`, "2026-01-01T00:00:00Z")
			if none := errors.Is(tt.want, almanac.ErrNoOccurrence); none != (err == nil) || len(enrolment.Events) != 0 || !none && !errors.Is(err, tt.want) {
				t.Errorf("CreateUser = %+v, %v; want %v, or nothing owed", enrolment.Events, err, tt.want)
			}
		})
	}
}

func TestRecurringNamesItselfWhereItHasNoRule(t *testing.T) {
	t.Parallel()

	_, err := almanac.Recurring{Type: "DIGEST"}.Next(ada(t), instant(t, "2026-01-01T00:00:00Z"))
	if want := `almanac: invalid recurrence "DIGEST": the handler has no rule`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestRecurringObeysItsSettings(t *testing.T) {
	t.Parallel()

	u := ada(t)
	h := always(almanac.Monthly{Day: 31, At: almanac.Clock{Hour: 8}})
	after := instant(t, "2026-02-01T00:00:00Z")
	if h.EventType() != "DIGEST" || h.Channel(almanac.Event{}) != almanac.ChannelWebhook {
		t.Errorf("by default type %q, channel %q; want DIGEST by webhook", h.EventType(), h.Channel(almanac.Event{}))
	}
	o, err := h.Next(u, after)
	if want := (almanac.Date{Year: 2026, Month: 2, Day: 31}); err != nil || o.Key != "2026-02" || o.Named != want {
		t.Errorf("Next = %+v, %v; want the end of February instead of the 31st", o, err)
	}
	payload, err := h.Payload(u, o)
	if got, want := string(payload), `{"message":"","occurrence":"2026-02"}`; err != nil || got != want {
		t.Errorf("Payload = %s, %v; want %s", got, err, want)
	}

	h.Execution = almanac.Execution{AttemptTimeout: time.Second}
	h.Policies = almanac.Policies{MonthEnd: almanac.MonthEndSkip}
	h.Message = func(u almanac.User, o almanac.Occurrence) string { return u.FirstName + " on " + o.Wall.Date.String() }
	h.Via = "sms"
	if o, err = h.Next(u, after); err != nil || o.Key != "2026-03" || o.Policies != h.Policies {
		t.Errorf("Next = %+v, %v; want that of March, with its policies", o, err)
	}
	payload, err = h.Payload(u, o)
	if got, want := string(payload), `{"message":"Ada on 2026-03-31","occurrence":"2026-03"}`; err != nil || got != want {
		t.Errorf("Payload = %s, %v; want %s", got, err, want)
	}
	if h.Channel(almanac.Event{}) != "sms" || almanac.Timeouter(h).Timeout() != time.Second {
		t.Errorf("channel %q, timeout %v; want sms within a second", h.Channel(almanac.Event{}), h.Timeout())
	}
}

func TestRecurringWithoutATypeIsRefused(t *testing.T) {
	t.Parallel()

	if _, err := almanac.NewRegistry(almanac.Recurring{Rule: always(almanac.Daily{}).Rule}); err == nil {
		t.Error("a registry took a handler without a type")
	}
}
