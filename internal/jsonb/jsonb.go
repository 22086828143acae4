// Package jsonb says which JSON texts PostgreSQL can store as jsonb, and how long they are when it
// writes them. Not every JSON text qualifies: jsonb has no U+0000 and no half surrogate pairs, keeps
// the last of repeated members, and bounds numbers and nesting (PostgreSQL manual, section 8.14).
package jsonb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxDepth = 32
	// maxNumber is the most bytes of a number, in the text and as PostgreSQL writes it: enough for
	// the smallest float64 and the greatest one with all their digits. So a number that was
	// accepted and stored is accepted again as it comes back.
	maxNumber = 400
)

// Problem describes what jsonb cannot store in a valid JSON text, or returns "".
func Problem(text []byte) string {
	_, problem := Check(text)
	return problem
}

// Check returns the length in bytes that a valid JSON text has when PostgreSQL writes it as jsonb
// (octet_length(value::text)), and describes what jsonb cannot store, or returns "". With a problem
// the length is 0.
//
// The length can be shorter than the text, which may have white space and escapes, and much longer:
// PostgreSQL writes 1e308 with 309 digits, and a space after each comma and colon.
func Check(text []byte) (length int, problem string) {
	if !utf8.Valid(text) || HalfCharacter(text) {
		return 0, "characters that cannot be stored"
	}
	within := make(nesting, 0, 4) // enough for most, so that it stays on the stack
	for len(text) > 0 {
		token := text[:tokenLength(text)]
		text = text[len(token):]
		switch c := token[0]; {
		case c == '"':
			word := unquoted(token)
			if bytes.IndexByte(word, 0) >= 0 {
				return 0, "characters that cannot be stored"
			}
			if within.repeats(word) {
				return 0, "a member more than once"
			}
			length += quotedLength(word)
		case c == '-' || '0' <= c && c <= '9':
			n, ok := numberLength(token)
			if !ok {
				return 0, "a number that is out of range"
			}
			length += n
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == ',' || c == ':':
			length += len(", ")
			within = within.pass(c)
		default:
			length++
			within = within.pass(c)
		}
		if len(within) > maxDepth {
			return 0, "more than " + strconv.Itoa(maxDepth) + " levels of nesting"
		}
	}
	return length, ""
}

// quotedLength returns the length of a string as PostgreSQL writes it.
func quotedLength(word []byte) int {
	n := len(word) + len(`""`)
	for _, c := range word {
		switch {
		case c == '"' || c == '\\' || '\b' <= c && c <= '\r' && c != '\v':
			n++ // \n
		case c < ' ':
			n += len(`\u0001`) - 1
		}
	}
	return n
}

// numberLength returns the length of a number as PostgreSQL writes it: with all digits of its
// integer part, and with the fractional digits that the text has once the exponent has moved its
// point. It reports false if a number is longer than maxNumber, or not near a float64.
func numberLength(token []byte) (length int, ok bool) {
	text := string(token)
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	significant := strings.TrimLeft(whole+fraction, "0")
	exponent, err := strconv.Atoi(cmp.Or(power, "0"))
	value, overflow := strconv.ParseFloat(text, 64)
	vanished := value == 0 && significant != ""
	digits := max(exponent, -exponent)
	if significant == "" && 0 < exponent && exponent < 1e6 {
		digits = 0 // PostgreSQL writes 0e999 as 0
	}
	if err != nil || overflow != nil || vanished || max(len(text), digits) > maxNumber {
		return 0, false
	}
	length = 1
	if significant != "" { // zero has one digit, and no sign
		length = max(len(significant)-len(fraction)+exponent, 1) + strings.Count(mantissa, "-")
	}
	if places := len(fraction) - exponent; places > 0 {
		length += len(".") + places
	}
	return length, length <= maxNumber
}

// tokenLength returns the length of the string or number at the start of text, and 1 for anything else.
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

// pass returns n after a token of one character.
func (n nesting) pass(c byte) nesting {
	switch c {
	case '{', '[':
		return append(n, level{object: c == '{'})
	case '}', ']':
		return n[:len(n)-1]
	case ':', ',':
		n[len(n)-1].named = c == ':'
	}
	return n
}

// repeats processes a string. It reports whether the string is a member name that its object has already.
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

// Respelled reports whether stored is how PostgreSQL writes a compact text: with one space after each comma
// and colon outside of strings, and with no other difference. It is a fast test for texts whose members are
// in the order of PostgreSQL. If stored is JSON, a respelled text is JSON of the same value.
func Respelled(compact, stored []byte) bool {
	within := false // a string
	k := 0
	for i := 0; i < len(compact); i++ {
		c := compact[i]
		if k == len(stored) || stored[k] != c {
			return false
		}
		k++
		switch {
		case c == '"':
			within = !within
		case within && c == '\\':
			if i++; i == len(compact) || k == len(stored) || stored[k] != compact[i] {
				return false
			}
			k++
		case !within && (c == ',' || c == ':'):
			if k == len(stored) || stored[k] != ' ' {
				return false
			}
			k++
		}
	}
	return k == len(stored)
}

// Equal reports whether two texts are equal as jsonb. It ignores white space, the order of
// members, escapes and the notation of numbers. A text with a [Problem] is equal to no text.
func Equal(a, b []byte) bool {
	if otherText(a, b) {
		return false
	}
	x, ok := valueOf(a)
	if !ok {
		return false
	}
	y, ok := valueOf(b)
	return ok && reflect.DeepEqual(x, y)
}

// otherText reports whether two texts are the same, but for white space, until a member that has two different strings.
// It is a fast test, because a payload often differs by its message alone. Its answer is false if it is not sure, as
// after an escape.
func otherText(a, b []byte) bool {
	var last byte // the last character outside of strings that is not white space
	for {
		a, b = bytes.TrimLeft(a, blanks), bytes.TrimLeft(b, blanks)
		if len(a) == 0 || len(b) == 0 || a[0] != b[0] {
			return false
		}
		c := a[0]
		a, b = a[1:], b[1:]
		if c != '"' {
			last = c
			continue
		}
		for k := 0; ; k++ {
			if k == len(a) || k == len(b) || a[k] == '\\' || b[k] == '\\' {
				return false
			}
			if a[k] != b[k] {
				return last == ':'
			}
			if a[k] == '"' {
				a, b = a[k+1:], b[k+1:]
				break
			}
		}
		last = '"'
	}
}

// blanks are the characters that JSON ignores between tokens.
const blanks = " \t\r\n"

func valueOf(text []byte) (value any, ok bool) {
	if !json.Valid(text) || Problem(text) != "" {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err := d.Decode(&value)
	return plain(value), err == nil
}

// number is a number in one notation for all its texts, such as "100" for 1e2.
type number string

// plain replaces the numbers within a value.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String()) // Problem bounds the length
		if !ok {
			return v
		}
		return number(r.String())
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	}
	return value
}

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
