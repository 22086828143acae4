package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
	"github.com/almanac-go/almanac/httpapi"
)

// greeter is the handler of birthdays or of anniversaries. Its deliveries say which user they are for.
type greeter struct {
	almanac.EventHandler
	almanac.Execution
	attributes []string // the attributes in the payload
}

// mailer is a greeter by mail.
type mailer struct{ greeter }

// handlers returns the handlers of every channel that is used.
func (c config) handlers() []almanac.EventHandler {
	var all []almanac.EventHandler
	suffix := ""
	if c.byWebhook() {
		retry := almanac.RetryPolicy{Attempts: c.greeting.attempts, First: c.greeting.retryFirst}
		if c.greeting.patient {
			retry = almanac.PatientRetry()
		}
		for _, g := range c.greeters(almanac.ChannelWebhook, "") {
			g.Execution, g.attributes = almanac.Execution{RetryPolicy: retry}, c.hook.names()
			all = append(all, g)
		}
		suffix = mailSuffix
	}
	if c.mail.server != "" {
		for _, g := range c.greeters(almanacmail.Channel, suffix) {
			g.Execution = almanacmail.Execution()
			g.CatchUpPolicy.SkipOlder = tooLate
			all = append(all, mailer{g})
		}
	}
	return all
}

// tooLate is how late a greeting by mail may be.
const tooLate = 24 * time.Hour

// greeters returns the greeters of a channel, whose event types end with the suffix.
func (c config) greeters(via almanac.Channel, suffix string) []greeter {
	at := almanac.AtAttribute(deliverAt, c.greeting.at)
	all := []greeter{{EventHandler: almanac.Birthday{Type: almanac.TypeBirthday + suffix, At: at, Window: c.window, Via: via}}}
	if c.greeting.anniversary != "" {
		all = append(all, greeter{EventHandler: almanac.Anniversary{
			Type: almanac.TypeAnniversary + suffix, Attribute: c.greeting.anniversary, At: at, Window: c.window, Via: via}})
	}
	return all
}

// window returns the window of every user.
func (c config) window(almanac.User) calendar.Window {
	return cmp.Or(c.greeting.hours, c.greeting.quiet)
}

// zoneGuess returns the rule for users without a zone. The API creates none, but an import may have.
func (c config) zoneGuess() []almanac.Option {
	if c.greeting.zone == "" {
		return nil
	}
	return []almanac.Option{almanac.WithZoneGuess(c.greeting.zone, byCountry)}
}

// byCountry returns the zone of a user whose attribute country names a country of one zone.
func byCountry(u almanac.User) string {
	var facts struct {
		Country string `json:"country"`
	}
	if err := json.Unmarshal(u.Attributes, &facts); err != nil {
		return ""
	}
	zones, err := calendar.ZonesOf(facts.Country)
	if err != nil || len(zones) > 1 {
		return ""
	}
	return zones[0].String()
}

// Payload returns what the ready-made handler does, the user's id, and the named attributes
// that the user has.
func (g greeter) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	return g.payload(u, o, map[string]any{"userId": u.ID})
}

// payload adds members to the payload of the ready-made handler.
func (g greeter) payload(u almanac.User, o almanac.Occurrence, members map[string]any) (json.RawMessage, error) {
	made, err := g.EventHandler.Payload(u, o)
	if err != nil {
		return nil, err
	}
	payload := make(map[string]any)
	if err := json.Unmarshal(made, &payload); err != nil {
		return nil, err
	}
	for name, value := range members {
		payload[name] = value
	}
	if len(g.attributes) > 0 {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(u.Attributes, &all); err != nil {
			return nil, fmt.Errorf("attributes of user %s: %w", u.ID, err)
		}
		named := make(map[string]json.RawMessage, len(g.attributes))
		for _, name := range g.attributes {
			if value, ok := all[name]; ok && len(value) <= maxAttribute {
				named[name] = value
			}
		}
		payload["attributes"] = named
	}
	return json.Marshal(payload)
}

// Next returns the next occurrence of a user with an address.
func (m mailer) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	if u.Email == "" {
		return calendar.Occurrence{}, fmt.Errorf("%w: user %s has no address", calendar.ErrNoOccurrence, u.ID)
	}
	return m.greeter.Next(u, after)
}

// Payload adds the user's age in years of the user's calendar, or null if the year of birth is not known.
func (m mailer) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	members := map[string]any{"userId": u.ID, "age": nil}
	if years, known := u.DateOfBirth.Age(o.Occurrence); known {
		members["age"] = years
	}
	return m.payload(u, o, members)
}

// This many attributes of this size fit into a payload of 64 KiB.
const (
	maxAttributes = 10
	maxAttribute  = 4 << 10 // bytes
)

// attributes makes the API refuse attributes that the greetings cannot use.
func (c *config) attributes() []httpapi.Option {
	rules := map[string]func(json.RawMessage) string{deliverAt: deliverAtProblem}
	if c.greeting.anniversary != "" {
		rules[c.greeting.anniversary] = dateProblem
	}
	for _, name := range c.hook.names() {
		own := rules[name]
		rules[name] = func(value json.RawMessage) string {
			if len(value) > maxAttribute {
				return fmt.Sprintf("is longer than %d bytes, too long for a webhook", maxAttribute)
			}
			if own != nil {
				return own(value)
			}
			return ""
		}
	}
	var options []httpapi.Option
	for name, rule := range rules {
		options = append(options, httpapi.WithAttribute(name, rule))
	}
	return options
}

// dateProblem returns what is wrong with a value of the attribute of anniversaries, or "".
func dateProblem(value json.RawMessage) string {
	var text string
	if err := json.Unmarshal(value, &text); err == nil {
		if _, err := calendar.ParseDate(text); err == nil {
			return ""
		}
	}
	return "is not a date of the form YYYY-MM-DD"
}

// deliverAt is the attribute with the time of day of a user's greeting, as in {"deliverAt": "18:30"}.
const deliverAt = "deliverAt"

// deliverAtProblem returns what is wrong with a value of deliverAt, or "".
func deliverAtProblem(value json.RawMessage) string {
	var text string
	err := json.Unmarshal(value, &text)
	if _, bad := calendar.ParseClock(text); err != nil || bad != nil {
		return "is not a time of day of the form \"HH:MM\" or \"HH:MM:SS\""
	}
	return ""
}
