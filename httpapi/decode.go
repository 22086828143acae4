package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/jsonb"
	"github.com/almanac-go/almanac/ops"
)

// maxBody is how many bytes a request body may have. Attributes of 64 KiB are longer in a body whose
// writer escapes what is not ASCII.
const maxBody = 256 << 10

// decodeProfile reads the fields of a profile from the request's body and adds complaints
// about them to bad. When the body as a whole is unusable, it adds that complaint and
// returns false. It ignores the Content-Type, because curl sends that of a form by default.
// The takers take members that a profile does not have.
func (a *api) decodeProfile(r *http.Request, bad *complaints, take takeAttributes, more takers) (c almanac.ProfileChange, ok bool) {
	body, complaint := readBody(r)
	if complaint != "" {
		bad.add("body", "%s", complaint)
		return c, false
	}
	return a.profileIn(body, bad, take, more), true
}

// profileIn reads the fields of a profile from a valid JSON object.
func (a *api) profileIn(object []byte, bad *complaints, take takeAttributes, more takers) (c almanac.ProfileChange) {
	texts := map[string]**string{}
	optional := map[string]**string{"calendar": &c.Calendar, "locale": &c.Locale, "email": &c.Email, "externalId": &c.ExternalID}
	personal, zone := texts, texts
	if a.optional {
		personal = optional
	}
	if a.zoneless {
		zone = optional
	}
	zone["timezone"] = &c.Timezone
	personal["firstName"], personal["lastName"], personal["dateOfBirth"] = &c.FirstName, &c.LastName, &c.DateOfBirth
	seen := make(map[string]bool)
	for _, m := range membersOf(object) {
		text, known := texts[m.name]
		removable, removes := optional[m.name]
		further, hasTaker := more[m.name]
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
		case hasTaker:
			further(m, bad)
		default:
			bad.add(clip(m.name), "is not a known field")
		}
		seen[m.name] = true
	}
	if seen["zoneSource"] && !seen["timezone"] {
		bad.add("zoneSource", "needs the timezone")
	}
	return c
}

// takeZoneSource takes where the zone of a user comes from, as answers say it.
func takeZoneSource(into *almanac.ZoneSource) taker {
	return func(m member, bad *complaints) {
		text := textOf(m, bad)
		if text == nil {
			return
		}
		switch *into = almanac.ZoneSource(*text); *into {
		case almanac.ZoneDeclared, almanac.ZoneGuessed, almanac.ZoneDefault:
		default:
			bad.add(m.name, "is not one of declared, guessed, default")
		}
	}
}

// takeAttributes puts attributes into a change. It returns false when they have the wrong form.
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

// readBody returns a body that is one JSON object. Otherwise complaint is a clause that says what is wrong.
func readBody(r *http.Request) (body []byte, complaint string) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, isTooLong
	}
	if err != nil {
		return nil, isCutShort
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, bodyIsEmpty
	}
	return body, complaintOfText(body)
}

const (
	bodyIsEmpty = "is empty"
	isTooLong   = "is larger than 256 KiB"
	isCutShort  = "could not be read to its end"
)

// complaintOfText returns what is wrong with a text that must be one JSON object, as a clause, or "".
func complaintOfText(text []byte) string {
	if !utf8.Valid(text) {
		return "is not valid UTF-8"
	}
	var value json.RawMessage
	if err := json.Unmarshal(text, &value); err != nil {
		return "is not one JSON value: " + err.Error()
	}
	if !isObject(value) {
		return "is not a JSON object"
	}
	if jsonb.HalfCharacter(text) {
		return "escapes half of a character"
	}
	return ""
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

// taker takes the value of a member, and complains about a value of the wrong form.
type taker func(m member, bad *complaints)

// takers are the takers of the known members of an object.
type takers map[string]taker

// object takes the members of a valid JSON object, and returns their names. It complains
// about unknown and repeated members. The names in complaints begin with the prefix.
func (t takers) object(object []byte, prefix string, bad *complaints) (seen map[string]bool) {
	seen = make(map[string]bool)
	for _, m := range membersOf(object) {
		take, known := t[m.name]
		repeated := seen[m.name]
		seen[m.name] = true
		m.name = prefix + m.name
		switch {
		case repeated:
			bad.add(clip(m.name), "is given more than once")
		case !known:
			bad.add(clip(m.name), "is not a known field")
		default:
			take(m, bad)
		}
	}
	return seen
}

// body takes the members of the request's body, and returns their names. A request without a
// body has no members.
func (t takers) body(r *http.Request, bad *complaints) (seen map[string]bool) {
	body, complaint := readBody(r)
	switch complaint {
	case "":
		return t.object(body, "", bad)
	case bodyIsEmpty:
	default:
		bad.add("body", "%s", complaint)
	}
	return nil
}

// takeNonEmpty takes a text, and complains about an empty one with the given clause.
func takeNonEmpty(complaint string, take func(text string)) taker {
	return func(m member, bad *complaints) {
		if text := textOf(m, bad); text != nil && *text == "" {
			bad.add(m.name, "%s", complaint)
		} else if text != nil {
			take(*text)
		}
	}
}

func takeText(into *string) taker {
	return func(m member, bad *complaints) {
		if text := textOf(m, bad); text != nil {
			*into = *text
		}
	}
}

func takeBool(into *bool) taker {
	return func(m member, bad *complaints) {
		var value *bool
		if err := json.Unmarshal(m.value, &value); err != nil || value == nil {
			bad.add(m.name, "must be true or false")
			return
		}
		*into = *value
	}
}

// takeNumber takes a whole number between 1 and most.
func takeNumber(into *int, most int) taker {
	return func(m member, bad *complaints) {
		var value *int
		if err := json.Unmarshal(m.value, &value); err != nil || value == nil || *value < 1 || *value > most {
			bad.add(m.name, "is not a whole number between 1 and %d", most)
			return
		}
		*into = *value
	}
}

func takeFloat(into *float64) taker {
	return func(m member, bad *complaints) {
		var value *float64
		if err := json.Unmarshal(m.value, &value); err != nil || value == nil || *value <= 0 {
			bad.add(m.name, "is not a number above zero")
			return
		}
		*into = *value
	}
}

func takeInstant(into *time.Time) taker {
	return func(m member, bad *complaints) {
		if text := textOf(m, bad); text != nil {
			at, err := ops.ParseInstant(*text, "")
			if *into = at; err != nil {
				bad.add(m.name, "is not an instant of RFC 3339 since 1900, such as 2026-03-15T14:00:00Z")
			}
		}
	}
}

func textOf(m member, bad *complaints) *string {
	var text *string
	if err := json.Unmarshal(m.value, &text); err != nil || text == nil {
		bad.add(m.name, "%s", notText(m.name, m.value))
	}
	return text
}

// notText says that the value of a member is not a string, and how to write an external id that is a number.
func notText(name string, value json.RawMessage) string {
	number := string(bytes.TrimSpace(value))
	if name == "externalId" && len(number) <= 40 && json.Unmarshal(value, new(float64)) == nil && number != "null" {
		return "must be a string: write \"" + number + "\""
	}
	return "must be a string"
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

// WithAttribute sets a rule for an attribute. The function problem is called with the JSON
// value whenever a request sets the attribute. It returns a clause that says what is wrong,
// such as "is not a time of day", or "" when the value is valid. With a clause the answer
// is 400 and names the field "attributes." and the name.
//
// A null, with which a merge patch removes an attribute, is not checked. The function must
// be safe for concurrent use. By default any value is valid.
func WithAttribute(name string, problem func(value json.RawMessage) string) Option {
	return func(a *api) {
		if a.attributes == nil {
			a.attributes = make(map[string]func(json.RawMessage) string)
		}
		a.attributes[name] = problem
	}
}

// validateAttributes adds a complaint for each invalid attribute that a request sets.
func (a *api) validateAttributes(c almanac.ProfileChange, bad *complaints) {
	for _, object := range []json.RawMessage{c.Attributes, c.Merge} {
		var given map[string]json.RawMessage
		if json.Unmarshal(object, &given) != nil {
			continue // no attributes, or not an object, which is reported elsewhere
		}
		for _, name := range slices.Sorted(maps.Keys(a.attributes)) {
			value, ok := given[name]
			if !ok || string(value) == "null" {
				continue
			}
			if problem := a.attributes[name](value); problem != "" {
				bad.add("attributes."+name, "%s", problem)
			}
		}
	}
}
