// Package jsonb knows which JSON texts PostgreSQL can keep as jsonb. All of them
// are JSON, but not all JSON is a jsonb: it has no U+0000 and no half characters,
// of the members of one name it keeps the last, its numbers end somewhere, and so
// does its stack (PostgreSQL manual, section 8.14).
package jsonb

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxDepth  = 32
	maxNumber = 64 // bytes
)

// Problem says what a valid JSON text contains that cannot be kept, or "".
func Problem(text []byte) string {
	if !utf8.Valid(text) || HalfCharacter(text) {
		return "characters that cannot be stored"
	}
	var within nesting
	for len(text) > 0 {
		token := text[:tokenLength(text)]
		text = text[len(token):]
		switch c := token[0]; {
		case c == '"':
			word := unquoted(token)
			if strings.ContainsRune(word, 0) {
				return "characters that cannot be stored"
			}
			if within.repeats(word) {
				return "a member more than once"
			}
		case c == '-' || '0' <= c && c <= '9':
			if !inRange(json.Number(token)) {
				return "a number that is out of range"
			}
		default:
			within.pass(c)
		}
		if len(within) > maxDepth {
			return "more than " + strconv.Itoa(maxDepth) + " levels of nesting"
		}
	}
	return ""
}

// tokenLength is how long the string or the number is with which the text begins,
// and 1 for anything else.
func tokenLength(text []byte) int {
	n := 1
	switch c := text[0]; {
	case c == '"':
		for ; text[n] != '"'; n++ {
			if text[n] == '\\' {
				n++
			}
		}
		return n + 1
	case c == '-' || '0' <= c && c <= '9':
		for n < len(text) && strings.IndexByte("0123456789.eE+-", text[n]) >= 0 {
			n++
		}
	}
	return n
}

// unquoted is what a string means.
func unquoted(token []byte) string {
	if bytes.IndexByte(token, '\\') < 0 {
		return string(token[1 : len(token)-1])
	}
	var meant string
	_ = json.Unmarshal(token, &meant) // a part of a text that is valid
	return meant
}

// nesting is the objects and lists that a token lies within, the innermost last.
type nesting []level

// level is an object or a list, and what was seen of it.
type level struct {
	object bool
	named  bool // of an object: what comes next is a value
	names  map[string]bool
}

// pass takes a token of one character.
func (n *nesting) pass(c byte) {
	switch c {
	case '{', '[':
		*n = append(*n, level{object: c == '{'})
	case '}', ']':
		*n = (*n)[:len(*n)-1]
	case ':', ',':
		(*n)[len(*n)-1].named = c == ':'
	}
}

// repeats takes a string, and reports whether it is the name of a member that its
// object has already.
func (n nesting) repeats(word string) bool {
	if len(n) == 0 || !n[len(n)-1].object || n[len(n)-1].named {
		return false
	}
	l := &n[len(n)-1]
	repeated := l.names[word]
	if l.names == nil {
		l.names = make(map[string]bool)
	}
	l.names[word] = true
	return repeated
}

// inRange reports whether n is short and a float64 comes near it.
func inRange(n json.Number) bool {
	f, err := n.Float64()
	mantissa, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	vanished := f == 0 && strings.ContainsAny(mantissa, "123456789")
	return err == nil && len(n) <= maxNumber && !vanished
}

// HalfCharacter reports whether a valid JSON text holds an escaped half of a
// UTF-16 pair without the other, which encoding/json would silently replace and
// PostgreSQL refuses.
func HalfCharacter(text []byte) bool {
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
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
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

// Merge returns target with a merge patch applied (RFC 7396): members of an object
// replace those of target, objects are merged into objects, and null removes. What
// does not change keeps its text. A patch that is no JSON is returned as it is, for
// the caller to refuse.
func Merge(target, patch json.RawMessage) json.RawMessage {
	var changes, members map[string]json.RawMessage
	if json.Unmarshal(patch, &changes) != nil || changes == nil {
		return patch
	}
	if json.Unmarshal(target, &members) != nil || members == nil {
		members = make(map[string]json.RawMessage)
	}
	for name, change := range changes {
		if string(change) == "null" {
			delete(members, name)
		} else {
			members[name] = Merge(members[name], change)
		}
	}
	var merged bytes.Buffer
	encoder := json.NewEncoder(&merged)
	encoder.SetEscapeHTML(false) // which would change, and lengthen, what nobody asked to change
	_ = encoder.Encode(members)  // texts that were JSON a moment ago
	return bytes.TrimSpace(merged.Bytes())
}
