package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/jsonb"
)

// maxBody is how many bytes a request body may have.
const maxBody = 64 << 10

// decodeProfile reads the fields of a profile from the request's body and adds complaints
// about them to bad. When the body as a whole is unusable, it adds that complaint and
// returns false. It ignores the Content-Type, because curl sends that of a form by default.
func decodeProfile(r *http.Request, bad *complaints, take takeAttributes) (c almanac.ProfileChange, ok bool) {
	body, complaint := readBody(r)
	if complaint != "" {
		bad.add("body", "%s", complaint)
		return c, false
	}
	texts := map[string]**string{
		"firstName":   &c.FirstName,
		"lastName":    &c.LastName,
		"dateOfBirth": &c.DateOfBirth,
		"timezone":    &c.Timezone,
	}
	optional := map[string]**string{"locale": &c.Locale, "email": &c.Email, "externalId": &c.ExternalID}
	seen := make(map[string]bool)
	for _, m := range membersOf(body) {
		text, known := texts[m.name]
		removable, removes := optional[m.name]
		switch {
		case seen[m.name]:
			bad.add(clip(m.name), "is given more than once")
		case known:
			*text = textOf(m, bad)
		case removes && string(m.value) == "null":
			*removable = new(string)
		case removes:
			*removable = textOf(m, bad)
		case m.name == "attributes":
			if !take(&c, m.value) {
				bad.add(m.name, "must be an object")
			}
		default:
			bad.add(clip(m.name), "is not a known field")
		}
		seen[m.name] = true
	}
	return c, true
}

// takeAttributes puts attributes into a change. It returns false when they have the wrong
// form.
type takeAttributes func(c *almanac.ProfileChange, value json.RawMessage) bool

// replaceAttributes replaces all attributes.
func replaceAttributes(c *almanac.ProfileChange, value json.RawMessage) bool {
	c.Attributes = value
	return isObject(value)
}

// mergeAttributes treats the value as a merge patch (RFC 7396): it replaces the attributes
// that it names. A null removes an attribute, or here all of them.
func mergeAttributes(c *almanac.ProfileChange, value json.RawMessage) bool {
	if string(value) == "null" {
		c.Attributes = json.RawMessage("{}")
		return true
	}
	c.Merge = value
	return isObject(value)
}

// readBody returns a body that is one JSON object. Otherwise complaint is a clause that
// says what is wrong.
func readBody(r *http.Request) (body []byte, complaint string) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, "is larger than 64 KiB"
	}
	if err != nil {
		return nil, "could not be read to its end"
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, "is empty"
	}
	if !utf8.Valid(body) {
		return nil, "is not valid UTF-8"
	}
	var value json.RawMessage
	if err := json.Unmarshal(body, &value); err != nil {
		return nil, "is not one JSON value: " + err.Error()
	}
	if !isObject(value) {
		return nil, "is not a JSON object"
	}
	if jsonb.HalfCharacter(body) {
		return nil, "escapes half of a character"
	}
	return body, ""
}

// member is a name and a value of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of a valid JSON object in order. Unlike a map or a struct,
// the result includes duplicates.
func membersOf(object []byte) []member {
	var members []member
	d := json.NewDecoder(bytes.NewReader(object))
	_, err := d.Token() // the brace
	for err == nil && d.More() {
		name, _ := d.Token()
		m := member{}
		m.name, _ = name.(string)
		err = d.Decode(&m.value)
		members = append(members, m)
	}
	return members
}

func textOf(m member, bad *complaints) *string {
	var text *string
	if err := json.Unmarshal(m.value, &text); err != nil || text == nil {
		bad.add(m.name, "must be a string")
	}
	return text
}

func isObject(value json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(value), []byte("{"))
}

// clip bounds how much of a request's text an answer repeats.
func clip(s string) string {
	const most = 64
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
