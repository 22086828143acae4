package almanacjetstream

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/almanac-go/almanac"
)

// The headers of a message. Its data is the payload as it is delivered, byte by byte:
// inside other JSON it would come out in another spelling.
const (
	headerKey   = "Almanac-Idempotency-Key"
	headerToken = "Almanac-Lease-Token"
	headerEvent = "Almanac-Event" // JSON, without the payload
)

// messageID names one claim of an event: what is published twice by one claim is kept
// once, and what is claimed again is published again. A version would not do, since
// after a failover that loses the tail of the log versions are issued again.
func messageID(e almanac.Event) string {
	return e.IdempotencyKey.String() + "/" + e.LeaseToken.String()
}

func encode(subject string, e almanac.Event) (*nats.Msg, error) {
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
	return m, nil
}

// decode reads what encode wrote, and refuses what is no claimed event of the type.
func decode(eventType string, header nats.Header, data []byte) (almanac.Event, error) {
	var e almanac.Event
	if err := json.Unmarshal([]byte(header.Get(headerEvent)), &e); err != nil {
		return e, fmt.Errorf("almanacjetstream: message has no event: %w", err)
	}
	if e.Type != eventType || e.Status != almanac.Processing || e.LeaseToken == uuid.Nil || !json.Valid(data) {
		return e, fmt.Errorf("almanacjetstream: message holds no claimed event of type %q", eventType)
	}
	e.Payload = data
	return e, nil
}
