package almanac

import (
	"encoding/json"
	"fmt"
	"time"
)

// TypeBirthday is the event type of [Birthday].
const TypeBirthday = "BIRTHDAY"

// Birthday is the ready-made handler that greets each user on their birthday, in
// their own zone. The zero Birthday greets at 09:00, by webhook, with the words
// "Hey, {first name} {last name} it's your birthday".
//
// The occurrence key is the year. Who was born on 29 February is greeted on the
// 28th in common years, unless the policies say otherwise.
type Birthday struct {
	Execution
	// At returns the time of day at which u is greeted. Nil means 09:00.
	At func(u User) Clock
	// Message returns the words. Nil means those above.
	Message func(u User) string
	// Policies say how the calendar's open questions are answered.
	Policies Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// BirthdayMessage returns the greeting that [Birthday] uses by default.
func BirthdayMessage(u User) string {
	return fmt.Sprintf("Hey, %s it's your birthday", u.Name())
}

// EventType returns [TypeBirthday].
func (b Birthday) EventType() string { return TypeBirthday }

// Next returns the user's first birthday strictly after the given instant. The day
// of birth itself counts.
func (b Birthday) Next(u User, after time.Time) (Occurrence, error) {
	born := u.DateOfBirth.Date()
	return Next(Yearly{Month: born.Month, Day: born.Day, At: nineOr(b.At, u)}, u.Timezone, b.Policies, after)
}

// Payload returns {"message": …}.
func (b Birthday) Payload(u User, _ Occurrence) (json.RawMessage, error) {
	message := BirthdayMessage
	if b.Message != nil {
		message = b.Message
	}
	return json.Marshal(struct {
		Message string `json:"message"`
	}{message(u)})
}

// Channel returns b.Via, or [ChannelWebhook].
func (b Birthday) Channel(Event) Channel { return orElse(b.Via, ChannelWebhook) }
