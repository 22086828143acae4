package jsonb

import "encoding/json"

// Canonical returns the same text for all texts that are [Equal], for hashing. It returns
// an empty text when [Problem] reports one.
func Canonical(text []byte) []byte {
	value, ok := valueOf(text)
	if !ok {
		return nil
	}
	canonical, err := json.Marshal(value) // members are sorted by name
	if err != nil {
		return nil
	}
	return canonical
}

// MarshalJSON writes n as a list that begins with U+0000, which cannot be in a jsonb
// string. Otherwise the number 1 and the string "1" would be the same.
func (n number) MarshalJSON() ([]byte, error) {
	return json.Marshal([]string{"\x00", string(n)})
}
