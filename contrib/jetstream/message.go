package almanacjetstream

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// The headers of a message. Its data is the payload exactly as it is delivered. Inside
// other JSON the payload could be encoded differently.
const (
	headerKey   = "Almanac-Idempotency-Key"
	headerToken = "Almanac-Lease-Token"
	headerEvent = "Almanac-Event" // JSON, without the payload
	headerUser  = "Almanac-User"  // JSON; left out if it is longer than maxUser
)

// maxUser is the most bytes of a user in a message. JetStream refuses headers of more than 64 KiB in
// total, and the other headers have less than 12 KiB.
const maxUser = 48 << 10

// messageID identifies one claim of an event. The stream keeps one message when a claim is
// published twice, and a new claim is published again. The version cannot identify a claim:
// after a failover that loses the end of the log, versions repeat.
func messageID(e almanac.Event) string {
	return e.IdempotencyKey.String() + "/" + e.LeaseToken.String()
}

// userText is a user in a message. Its own fields replace those of the same name. The attributes
// are a text, because inside other JSON they could be encoded differently.
type userText struct {
	almanac.User
	DateOfBirth string
	Timezone    string
	Attributes  string
}

// encodeUser returns the JSON of a user in one line. It escapes neither < nor &, which would be
// longer.
func encodeUser(u almanac.User) (string, error) {
	var text strings.Builder
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	err := to.Encode(userText{u, u.DateOfBirth.String(), u.Timezone.String(), string(u.Attributes)})
	return strings.TrimSuffix(text.String(), "\n"), err
}

// decodeUser reads a user written by encodeUser. It returns the zero User for a text that this
// release cannot read.
func decodeUser(text string) almanac.User {
	var read userText
	if json.Unmarshal([]byte(text), &read) != nil {
		return almanac.User{}
	}
	var born almanac.DateOfBirth
	var err error
	if read.DateOfBirth != "" {
		born, err = almanac.ParseDateOfBirth(read.DateOfBirth)
	}
	if err != nil || !json.Valid([]byte(read.Attributes)) {
		return almanac.User{}
	}
	u := read.User
	u.DateOfBirth, u.Timezone, u.Attributes = born, calendar.StoredTimezone(read.Timezone), json.RawMessage(read.Attributes)
	return u
}

func encode(subject string, e almanac.Event, u almanac.User) (*nats.Msg, error) {
	payload := e.Payload
	e.Payload = nil
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("almanacjetstream: event %s: %w", e.ID, err)
	}
	m := nats.NewMsg(subject)
	m.Data = payload
	m.Header.Set(headerKey, e.IdempotencyKey.String())
	m.Header.Set(headerToken, e.LeaseToken.String())
	m.Header.Set(headerEvent, string(text))
	if u.ID == uuid.Nil {
		return m, nil
	}
	user, err := encodeUser(u)
	if err != nil {
		return nil, fmt.Errorf("almanacjetstream: user %s: %w", u.ID, err)
	}
	if len(user) <= maxUser {
		m.Header.Set(headerUser, user)
	}
	return m, nil
}

// decode reads a message written by encode. It refuses anything but a claimed event of the
// type. It returns the zero User for a message without the event's user.
func decode(eventType string, header nats.Header, data []byte) (e almanac.Event, u almanac.User, err error) {
	if err := json.Unmarshal([]byte(header.Get(headerEvent)), &e); err != nil {
		return e, u, fmt.Errorf("almanacjetstream: message has no event: %w", err)
	}
	if e.Type != eventType || e.Status != almanac.Processing || e.LeaseToken == uuid.Nil || !json.Valid(data) {
		return e, u, fmt.Errorf("almanacjetstream: message contains no claimed event of type %q", eventType)
	}
	e.Payload = data
	if u = decodeUser(header.Get(headerUser)); u.ID != e.UserID {
		u = almanac.User{}
	}
	return e, u, nil
}
