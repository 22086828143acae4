package almanac

import (
	"encoding/json"
	"fmt"
	"time"
)

// Recurring is the ready-made handler for whatever comes round by a rule: the
// weekly digest, the rent on the first, the pill every eight hours. Type and Rule
// are required.
//
//	almanac.Recurring{
//		Type: "DIGEST",
//		Rule: func(almanac.User) (almanac.Recurrence, error) {
//			return almanac.Weekly{On: []time.Weekday{time.Monday}, At: almanac.Clock{Hour: 8}}, nil
//		},
//	}
type Recurring struct {
	Execution
	// Type is the event type.
	Type string
	// Rule returns u's recurrence. It must depend on nothing but u. An error that
	// matches ErrNoOccurrence, or a nil Recurrence, says that u is owed none.
	Rule func(u User) (Recurrence, error)
	// Message returns the words. Nil means the empty message.
	Message func(u User, o Occurrence) string
	// Policies say how the calendar's open questions are answered.
	Policies Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// EventType returns r.Type.
func (r Recurring) EventType() string { return r.Type }

// Next returns the first occurrence of u's rule strictly after the given instant,
// in u's zone.
func (r Recurring) Next(u User, after time.Time) (Occurrence, error) {
	if r.Rule == nil {
		return Occurrence{}, invalidRecurrence(r.Type, []string{"the handler has no rule"})
	}
	rule, err := r.Rule(u)
	if err != nil {
		return Occurrence{}, err
	}
	if rule == nil {
		return Occurrence{}, fmt.Errorf("%w: user %s has no rule", ErrNoOccurrence, u.ID)
	}
	return Next(rule, u.Timezone, r.Policies, after)
}

// Payload returns {"message": …, "occurrence": …}, the latter being the key.
func (r Recurring) Payload(u User, o Occurrence) (json.RawMessage, error) {
	message := ""
	if r.Message != nil {
		message = r.Message(u, o)
	}
	return json.Marshal(struct {
		Message    string `json:"message"`
		Occurrence string `json:"occurrence"`
	}{message, o.Key})
}

// Channel returns r.Via, or [ChannelWebhook].
func (r Recurring) Channel(Event) Channel { return orElse(r.Via, ChannelWebhook) }
