package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonRows reads users from lines of JSON, an object each, as the HTTP API takes them.
type jsonRows struct {
	reader *bufio.Reader
	who    identity
	needs  []string // the members that null cannot stand for
	line   int
}

func (r *jsonRows) next() (row, error) {
	for {
		text, err := r.readLine()
		r.line++
		switch {
		case errors.Is(err, errEndless):
			bad := row{line: r.line}
			bad.complain("", "is longer than %d bytes", maxRow)
			return bad, nil
		case err != nil && !errors.Is(err, io.EOF):
			return row{}, err
		case len(bytes.TrimSpace(text)) > 0:
			return r.rowOf(text), nil
		case err != nil:
			return row{}, io.EOF
		}
	}
}

// readLine reads to the end of a line, of which it keeps no more than a row may have.
func (r *jsonRows) readLine() ([]byte, error) {
	var line []byte
	endless := false
	for {
		part, err := r.reader.ReadSlice('\n')
		if endless = endless || len(line)+len(part) > maxRow; !endless {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil && endless, errors.Is(err, io.EOF) && endless:
			return nil, errEndless
		default:
			return line, err
		}
	}
}

func (r *jsonRows) rowOf(text []byte) row {
	read := row{line: r.line}
	if problem := unreadable(text); problem != "" {
		read.complain("", "%s", problem)
		return read
	}
	fields := read.fields()
	fields["id"] = new(string)
	seen := make(map[string]bool)
	source := ""
	var own json.RawMessage // what the column for ids holds, if it holds nothing else
	for name, value := range members(text) {
		field, known := fields[name]
		switch {
		case seen[name]:
			read.complain(clipped(name), "is given more than once")
		case known && name != "id" && !slices.Contains(r.needs, name) && string(value) == "null": // none
		case known:
			if json.Unmarshal(value, field) != nil || string(value) == "null" {
				read.complain(name, "%s", notText(name, value))
			}
		case name == "attributes":
			read.profile.Attributes = value
		case name != r.who.from:
			read.complain(clipped(name), "is not a known field")
		}
		if name == r.who.from {
			source = scalar(value)
			if r.who.ownColumn() && string(value) != "null" {
				own = value
			}
		}
		seen[name] = true
	}
	if own != nil {
		read.keep(r.who.from, own)
	}
	if attribute, ok := strings.CutPrefix(r.who.from, attributePrefix); ok && bytes.HasPrefix(read.profile.Attributes, []byte("{")) {
		for name, value := range members(read.profile.Attributes) {
			if name == attribute {
				source = scalar(value)
			}
		}
	}
	if !slices.ContainsFunc(read.problems, func(p problem) bool { return p.Field == "id" }) {
		read.identify(r.who, *fields["id"], source)
	}
	return read
}

// notText says that the value of a member is not a string, and how to write an external id that is a number.
func notText(name string, value json.RawMessage) string {
	number := string(bytes.TrimSpace(value))
	if name == "externalId" && len(number) <= 40 && json.Unmarshal(value, new(float64)) == nil && number != "null" {
		return "must be a string: write \"" + number + "\""
	}
	return "must be a string"
}

// unreadable says why a text is no JSON object, or "".
func unreadable(text []byte) string {
	var value json.RawMessage
	if !utf8.Valid(text) {
		return "is not valid UTF-8"
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return "is not one JSON value: " + err.Error()
	}
	if !bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
		return "is not a JSON object"
	}
	if halfCharacter(text) {
		return "escapes half of a character"
	}
	return ""
}

// Escapes in a valid JSON text: all that are no half of a UTF-16 pair by themselves, save
// those of single code units, and those that are.
var (
	wholeEscapes = regexp.MustCompile(`(?i)\\[^u]|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)
	halfEscape   = regexp.MustCompile(`(?i)\\ud[89a-f][0-9a-f]{2}`)
)

// halfCharacter reports whether a valid JSON text escapes half of a UTF-16 pair without
// the other, which encoding/json would silently replace.
func halfCharacter(text []byte) bool {
	return bytes.Contains(text, []byte(`\u`)) && halfEscape.Match(wholeEscapes.ReplaceAll(text, nil))
}

// members yields the members of a valid JSON object, in order, doublets included.
func members(object []byte) func(yield func(string, json.RawMessage) bool) {
	return func(yield func(string, json.RawMessage) bool) {
		d := json.NewDecoder(bytes.NewReader(object))
		_, err := d.Token() // the brace
		for err == nil && d.More() {
			name, _ := d.Token()
			var value json.RawMessage
			err = d.Decode(&value)
			if text, ok := name.(string); !ok || !yield(text, value) {
				return
			}
		}
	}
}

// scalar is a text, or a number as it is written; "" for anything else.
func scalar(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil {
		return number.String()
	}
	return ""
}

// clipped bounds what a message repeats of a file.
func clipped(name string) string {
	const most = 64
	if utf8.RuneCountInString(name) > most {
		name = string([]rune(name)[:most]) + "…"
	}
	return fmt.Sprintf("%q", name)
}
