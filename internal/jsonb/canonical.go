package jsonb

import "encoding/json"

// Canonical returns one text for all texts that are [Equal], to be hashed. It is
// empty for a text of which [Problem] complains.
func Canonical(text []byte) []byte {
	value, ok := valueOf(text)
	if !ok {
		return nil
	}
	canonical, err := json.Marshal(value) // members come in the order of their names
	if err != nil {
		return nil
	}
	return canonical
}

// MarshalJSON writes n as a list that begins with U+0000, which no string of a jsonb
// holds: otherwise the number 1 and the string "1" would be the same.
func (n number) MarshalJSON() ([]byte, error) {
	return json.Marshal([]string{"\x00", string(n)})
}
