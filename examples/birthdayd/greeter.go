package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/httpapi"
)

// greeter is the handler of birthdays. Its webhooks say which user they are for.
type greeter struct {
	almanac.Birthday
	attributes []string // the attributes in the payload
}

func newGreeter(c config) greeter {
	retry := almanac.RetryPolicy{Attempts: c.greeting.attempts, First: c.greeting.retryFirst}
	if c.greeting.patient {
		retry = almanac.PatientRetry()
	}
	return greeter{
		Birthday:   almanac.Birthday{At: timeOfDay(c.greeting.at), Execution: almanac.Execution{RetryPolicy: retry}},
		attributes: c.hook.names(),
	}
}

// Payload returns the message, the user's id, and the named attributes that the user has.
func (g greeter) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	payload := map[string]any{"message": almanac.BirthdayMessage(u), "userId": u.ID}
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

// This many attributes of this size fit into a payload of 64 KiB.
const (
	maxAttributes = 10
	maxAttribute  = 4 << 10 // bytes
)

// names returns the attributes in the webhooks.
func (h hookConfig) names() []string {
	if h.attributes == "" {
		return nil
	}
	return strings.Split(h.attributes, ",")
}

// attributes makes the API refuse attributes that the greeting cannot use.
func (c *config) attributes() []httpapi.Option {
	options := []httpapi.Option{httpapi.WithAttribute(deliverAt, deliverAtProblem)}
	for _, name := range c.hook.names() {
		options = append(options, httpapi.WithAttribute(name, func(value json.RawMessage) string {
			if len(value) > maxAttribute {
				return fmt.Sprintf("is longer than %d bytes, too long for a webhook", maxAttribute)
			}
			if name == deliverAt {
				return deliverAtProblem(value)
			}
			return ""
		}))
	}
	return options
}
