package httpapi

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Bounds of what attributes may hold. All is JSON, but not all JSON is a jsonb:
// PostgreSQL's numbers and its stack end somewhere.
const (
	maxDepth  = 32
	maxNumber = 64 // bytes
)

// objectOf returns a member that is an object which can be stored.
func objectOf(m member, bad *complaints) json.RawMessage {
	if !isObject(m.value) {
		bad.add(m.name, "must be an object")
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(m.value))
	d.UseNumber()
	depth := 0
	for {
		token, err := d.Token()
		if err != nil { // the end: the value is valid
			return m.value
		}
		switch token := token.(type) {
		case json.Delim:
			if depth++; token == '}' || token == ']' {
				depth -= 2
			}
		case json.Number:
			if !storable(token) {
				bad.add(m.name, "contain a number that is out of range")
			}
		}
		if depth > maxDepth {
			bad.add(m.name, "are nested deeper than %d levels", maxDepth)
			return nil
		}
	}
}

// storable reports whether n is short and a float64 comes near it.
func storable(n json.Number) bool {
	f, err := n.Float64()
	mantissa, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	vanished := f == 0 && strings.ContainsAny(mantissa, "123456789")
	return err == nil && len(n) <= maxNumber && !vanished
}

// halfCharacter reports whether a valid JSON text holds an escaped half of a
// UTF-16 pair without the other, which encoding/json would silently replace and
// PostgreSQL refuses.
func halfCharacter(text []byte) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		r, ok := escaped(text[i:])
		if !ok {
			i++ // another escape, perhaps of a backslash
			continue
		}
		i += 5
		if !utf16.IsSurrogate(r) {
			continue
		}
		low, ok := escaped(text[i+1:])
		if !ok || utf16.DecodeRune(r, low) == '�' {
			return true
		}
		i += 6
	}
	return false
}

// escaped returns the code unit of an escape such as \u00e9 at the beginning of text.
func escaped(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
