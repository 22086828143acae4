package broadcast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/jsonb"
)

// Broadcast is one event for each of many users.
type Broadcast struct {
	// Name names the broadcast and is the occurrence key of its events. It has 1 to 90 bytes and no slash, and
	// with the type at most 99 bytes.
	Name string
	// Type is the type of the events. Its handler must not be an [almanac.LaneNamer].
	Type string
	// Payload is the JSON value to deliver, at most 64 KiB. Nil means the payload that the handler makes for each user.
	Payload json.RawMessage
	// At is the wall time in the zone of each user. Where clocks skip it, the event is later by what they skip. Where
	// they show it twice, it is at the first time. An event follows its user to another zone until it is claimed.
	At calendar.WallTime
	// Instant is the time of all events, cut to a whole second. Set exactly one of At and Instant.
	Instant time.Time
	// Passed says what happens where the time has passed when the broadcast is created. It is required.
	Passed Passed
	// Audience says who the users are. The zero Audience means all users.
	Audience Audience
	// Newcomers includes users who are created later: until the time has come in their zone. The default is
	// false: only users who exist when the broadcast is created.
	Newcomers bool
}

// Passed says what happens in a zone where the time of a broadcast has passed already, by the clock of the database when
// the broadcast is created. Nothing that happens later changes that.
type Passed string

// What can happen.
const (
	Now     Passed = "now"      // the event is due at once
	Skip    Passed = "skip"     // users of the zone get no event
	NextDay Passed = "next-day" // the event is at the same time of day, on the first day on which it has not passed; not for an Instant
)

// Audience selects users. A user must match each field that is set.
type Audience struct {
	// Attributes is a JSON object, such as {"plan": "gold"}. It selects the users who have these attributes with
	// these values. The values are texts, numbers, true, false or null. It has at most 8 KiB.
	Attributes json.RawMessage
	// Locale selects the users with this locale, and with a more special one: "de" also selects "de-AT".
	Locale string
	// Zones selects the users of these time zones, as they are stored.
	Zones []string
	// Listed selects the users whom [Sender.AddUsers] adds. The broadcast is [Collecting] until [Sender.Complete].
	Listed bool
}

// Lane returns the name of the lane of the events: "TYPE/NAME".
func (b Broadcast) Lane() string { return b.Type + "/" + b.Name }

const (
	maxName       = 90
	maxZones      = 1000
	maxAttributes = 8 << 10
	maxPayload    = 64 << 10
)

const notText = "contains characters that cannot be stored"

// isText reports whether PostgreSQL can store a text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// jsonProblem returns what is wrong with a JSON text that is given, or "".
func jsonProblem(text json.RawMessage, most int) string {
	switch {
	case text == nil:
		return ""
	case len(text) > 4*most:
		return fmt.Sprintf("has %d bytes, more than %d", len(text), 4*most)
	case !json.Valid(text):
		return "is not JSON"
	}
	length, problem := jsonb.Check(text)
	switch {
	case problem != "":
		return "contains " + problem
	case length > most:
		return fmt.Sprintf("has %d bytes as PostgreSQL writes it, more than %d", length, most)
	}
	return ""
}

// Check returns an [*almanac.ValidationError] that names each invalid field, or nil.
func (b Broadcast) Check() error {
	var bad []almanac.FieldError
	refuse := func(wrong bool, field, problem string) {
		if wrong {
			bad = append(bad, almanac.FieldError{Field: field, Problem: problem})
		}
	}
	refuse(len(b.Name) == 0 || len(b.Name) > maxName, "name", fmt.Sprintf("has %d bytes, not 1 to %d", len(b.Name), maxName))
	refuse(strings.Contains(b.Name, "/"), "name", "has a slash")
	refuse(!isText(b.Name), "name", notText)
	refuse(b.Type == "", "type", "is empty")
	refuse(!isText(b.Type), "type", notText)
	if _, err := (almanac.Lane{Name: b.Lane()}).Checked(); err != nil && len(bad) == 0 {
		refuse(true, "name", fmt.Sprintf("makes no name of a lane: %q has %d bytes, not at most 100, or two slashes", b.Lane(), len(b.Lane())))
	}
	if problem := jsonProblem(b.Payload, maxPayload); problem != "" {
		refuse(true, "payload", problem)
	}
	hasWall := b.At != calendar.WallTime{}
	refuse(hasWall == !b.Instant.IsZero(), "at", "is required, or an instant instead, and not both")
	refuse(hasWall && !b.At.Valid(), "at", "is no time that a calendar holds")
	refuse(!b.Instant.IsZero() && (b.Instant.UTC().Year() < 1 || b.Instant.UTC().Year() > 9999), "instant", "is not in the years 1 to 9999")
	refuse(!slices.Contains([]Passed{Now, Skip, NextDay}, b.Passed), "passed", "is none of now, skip and next-day")
	refuse(b.Passed == NextDay && !hasWall, "passed", "is next-day, which an instant does not have")
	switch problem := jsonProblem(b.Audience.Attributes, maxAttributes); {
	case problem != "":
		refuse(true, "attributes", problem)
	case b.Audience.Attributes != nil && !areScalars(b.Audience.Attributes):
		refuse(true, "attributes", "are not a JSON object of texts, numbers, booleans and null")
	}
	refuse(len(b.Audience.Locale) > 100, "locale", "has more than 100 bytes")
	refuse(!isText(b.Audience.Locale), "locale", notText)
	refuse(len(b.Audience.Zones) > maxZones, "zones", fmt.Sprintf("are more than %d", maxZones))
	refuse(slices.ContainsFunc(b.Audience.Zones, func(zone string) bool { return len(zone) > 100 || !isText(zone) }), "zones",
		"has a name of more than 100 bytes, or one that "+notText)
	if len(bad) > 0 {
		return &almanac.ValidationError{Fields: bad}
	}
	return nil
}

// areScalars reports whether a text is a JSON object whose values are neither objects nor lists.
func areScalars(object json.RawMessage) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil || members == nil {
		return false
	}
	for _, value := range members {
		if value = bytes.TrimSpace(value); value[0] == '{' || value[0] == '[' {
			return false
		}
	}
	return true
}

// normal returns the broadcast as it is stored. Wall times have whole seconds, so instants have, too.
func (b Broadcast) normal() Broadcast {
	b.Instant = b.Instant.UTC().Truncate(time.Second)
	b.Audience.Zones = slices.Compact(slices.Sorted(slices.Values(b.Audience.Zones)))
	return b
}

// Differences returns the names of the fields in which two broadcasts differ, such as "at". Both are as a [Store] has them.
func (b Broadcast) Differences(o Broadcast) (names []string) {
	for _, field := range []struct {
		name   string
		differ bool
	}{
		{"type", b.Type != o.Type},
		{"payload", !sameJSON(b.Payload, o.Payload)},
		{"at", b.At != o.At},
		{"instant", !b.Instant.Equal(o.Instant)},
		{"passed", b.Passed != o.Passed},
		{"attributes", !sameJSON(b.Audience.Attributes, o.Audience.Attributes)},
		{"locale", b.Audience.Locale != o.Audience.Locale},
		{"zones", !slices.Equal(b.Audience.Zones, o.Audience.Zones)},
		{"listed", b.Audience.Listed != o.Audience.Listed},
		{"newcomers", b.Newcomers != o.Newcomers},
	} {
		if field.differ {
			names = append(names, field.name)
		}
	}
	return names
}

func sameJSON(a, b json.RawMessage) bool {
	return (a == nil) == (b == nil) && (bytes.Equal(a, b) || jsonb.Equal(a, b))
}

// Matches reports whether an audience selects a user, whose place in a list is not known. Stores in memory use it.
func (a Audience) Matches(u almanac.User) bool {
	if a.Locale != "" && u.Locale != a.Locale && !strings.HasPrefix(u.Locale, a.Locale+"-") {
		return false
	}
	if len(a.Zones) > 0 && !slices.Contains(a.Zones, u.Timezone.String()) {
		return false
	}
	var wanted, has map[string]json.RawMessage
	if json.Unmarshal(a.Attributes, &wanted) != nil {
		return true
	}
	_ = json.Unmarshal(u.Attributes, &has) // an object, or nothing
	for name, value := range wanted {
		if is, ok := has[name]; !ok || !sameJSON(value, is) {
			return false
		}
	}
	return true
}

// ConflictError says that a broadcast with the name exists, with another content. It matches [almanac.ErrExists].
type ConflictError struct {
	Name   string
	Fields []string // the fields that differ, such as "at"
}

// Error names the fields.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("broadcast: %q exists, with another %s", e.Name, strings.Join(e.Fields, ", "))
}

// Unwrap returns [almanac.ErrExists].
func (e *ConflictError) Unwrap() error { return almanac.ErrExists }
