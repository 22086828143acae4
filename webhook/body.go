package webhook

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/almanac-go/almanac"
)

// bodyOf returns the body that is posted for an event. It depends only on data that is
// frozen at the first claim, and its members are in a fixed order. Every attempt therefore
// sends the same bytes.
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

// writePayload adds the members of the payload, or the whole payload as the member
// "payload" when it is not an object. It skips payload members named eventId and eventType,
// in any case, because many receivers ignore the case of names.
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

// writeString writes s as a JSON string without the escapes that only HTML needs, so that
// apostrophes and ampersands stay readable.
func writeString(b *bytes.Buffer, s string) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string always encodes, and a buffer accepts every write
	b.Truncate(b.Len() - 1)
}
