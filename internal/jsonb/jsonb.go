// Package jsonb checks which JSON texts PostgreSQL can store as jsonb. Not every JSON text
// qualifies: jsonb has no U+0000 and no half surrogate pairs, keeps the last of repeated
// members, and bounds numbers and nesting (PostgreSQL manual, section 8.14).
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

// Problem describes what jsonb cannot store in a valid JSON text, or returns "".
func Problem(text []byte) string {
	if !utf8.Valid(text) || HalfCharacter(text) {
		return "characters that cannot be stored"
	}
	within := make(nesting, 0, 4) // enough for most, so that it stays on the stack
	for len(text) > 0 {
		token := text[:tokenLength(text)]
		text = text[len(token):]
		switch c := token[0]; {
		case c == '"':
			word := unquoted(token)
			if bytes.IndexByte(word, 0) >= 0 {
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

// tokenLength returns the length of the string or number at the start of text, and 1 for
// anything else.
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

// unquoted returns the value of a JSON string.
func unquoted(token []byte) []byte {
	if bytes.IndexByte(token, '\\') < 0 {
		return token[1 : len(token)-1]
	}
	var meant string
	_ = json.Unmarshal(token, &meant) // a part of a valid text
	return []byte(meant)
}

// nesting is the objects and lists around a token, the innermost last.
type nesting []level

// level is an object or a list, and its state.
type level struct {
	object bool
	named  bool            // of an object: the next token is a value
	first  []byte          // of an object: its first name; most objects are small
	names  map[string]bool // of an object with more names: all of them
}

// pass processes a token of one character.
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

// repeats processes a string. It reports whether the string is a member name that its
// object has already.
func (n nesting) repeats(word []byte) bool {
	if len(n) == 0 || !n[len(n)-1].object || n[len(n)-1].named {
		return false
	}
	l := &n[len(n)-1]
	if l.first == nil {
		l.first = word
		return false
	}
	if l.names == nil {
		l.names = map[string]bool{string(l.first): true}
	}
	repeated := l.names[string(word)]
	l.names[string(word)] = true
	return repeated
}

// inRange reports whether n is short enough and near a float64.
func inRange(n json.Number) bool {
	f, err := n.Float64()
	mantissa, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	vanished := f == 0 && strings.ContainsAny(mantissa, "123456789")
	return err == nil && len(n) <= maxNumber && !vanished
}

// HalfCharacter reports whether a valid JSON text contains an escaped surrogate without its
// pair. encoding/json silently replaces it, and PostgreSQL refuses it.
func HalfCharacter(text []byte) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		r, ok := escaped(text[i:])
		if !ok {
			i++ // another escape, possibly of a backslash
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

// escaped returns the code unit of an escape such as \u00e9 at the start of text.
func escaped(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}

// Merge returns target with a merge patch applied (RFC 7396). Members of the patch replace
// those of target, objects are merged, and null removes a member. Unchanged parts keep
// their text. A patch that is not JSON is returned unchanged, for the caller to refuse.
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
	encoder.SetEscapeHTML(false) // escapes would change and lengthen unchanged text
	_ = encoder.Encode(members)  // the members come from valid JSON
	return bytes.TrimSpace(merged.Bytes())
}
