package webhook

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/almanac-go/almanac"
)

// bodyOf writes what is posted for an event. It depends on nothing but what the
// first claim has frozen, and its members are in a fixed order, so every attempt
// writes the same bytes.
func bodyOf(e almanac.Event) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"eventId":`)
	writeString(&b, e.ID.String())
	b.WriteString(`,"eventType":`)
	writeString(&b, e.Type)
	if err := writePayload(&b, e.Payload); err != nil {
		return nil, err
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// writePayload adds the payload's own members, or the payload as one when it is
// no object. The envelope's names are not the payload's to give, in whatever case:
// many a receiver reads names without regard to it.
func writePayload(b *bytes.Buffer, payload json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil || members == nil {
		members = map[string]json.RawMessage{"payload": payload}
	}
	names := make([]string, 0, len(members))
	for name := range members {
		if !strings.EqualFold(name, "eventId") && !strings.EqualFold(name, "eventType") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		b.WriteByte(',')
		writeString(b, name)
		b.WriteByte(':')
		if err := json.Compact(b, members[name]); err != nil {
			return err
		}
	}
	return nil
}

// writeString quotes s without the escapes that only HTML needs: an apostrophe and
// an ampersand arrive as they are.
func writeString(b *bytes.Buffer, s string) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string always encodes, and a buffer always takes it
	b.Truncate(b.Len() - 1)
}
