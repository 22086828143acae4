package almanacjetstream

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/almanac-go/almanac"
)

// The headers of a message. Its data is the payload exactly as it is delivered. Inside
// other JSON the payload could be encoded differently.
const (
	headerKey   = "Almanac-Idempotency-Key"
	headerToken = "Almanac-Lease-Token"
	headerEvent = "Almanac-Event"   // JSON, without the payload
	headerLane  = "Almanac-Limited" // present if a lane with limits has admitted the event
)

// messageID identifies one claim of an event. The stream keeps one message when a claim is
// published twice, and a new claim is published again. The version cannot identify a claim:
// after a failover that loses the end of the log, versions repeat.
func messageID(e almanac.Event) string {
	return e.IdempotencyKey.String() + "/" + e.LeaseToken.String()
}

func encode(subject string, e almanac.Event, limited bool) (*nats.Msg, error) {
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
	if limited {
		m.Header.Set(headerLane, "yes")
	}
	return m, nil
}

// decode reads a message written by encode. It refuses anything but a claimed event of the type.
func decode(eventType string, header nats.Header, data []byte) (e almanac.Event, err error) {
	if err := json.Unmarshal([]byte(header.Get(headerEvent)), &e); err != nil {
		return e, fmt.Errorf("almanacjetstream: message has no event: %w", err)
	}
	if e.Type != eventType || e.Status != almanac.Processing || e.LeaseToken == uuid.Nil || !json.Valid(data) {
		return e, fmt.Errorf("almanacjetstream: message contains no claimed event of type %q", eventType)
	}
	e.Payload = data
	return e, nil
}
