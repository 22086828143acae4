package ops

import (
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// FilterText is a filter of events as an operator types it. An empty field selects all events.
type FilterText struct {
	Status string // one of the statuses, such as "FAILED"
	Type   string // the type of event
	User   string // the id of the user, a UUID
	Zone   string // the IANA name, as events have it
	Reason string // how the reason of a failure or a cancellation begins

	From, Until string // bounds of the due instant; From is included, and Until is not

	// Days is the zone in which From and Until may also be dates and wall times (see
	// [ParseInstant]). With "" they must be instants.
	Days string
}

// Parse returns what events must match, in the order of the fields. The error is an
// [*almanac.ValidationError]. It names every field that is wrong, in lower case.
func (t FilterText) Parse() (almanac.And, error) {
	p := filterParser{days: t.Days}
	user, errUser := uuid.Parse(t.User)
	isID := errUser == nil && len(t.User) == len(user.String())
	isReason := len(t.Reason) <= 1000 && utf8.ValidString(t.Reason) && !strings.ContainsRune(t.Reason, 0)
	p.take("status", t.Status, statusProblem(t.Status), almanac.InStatus(t.Status))
	p.take("type", t.Type, TypeProblem(t.Type), almanac.OfType(t.Type))
	p.take("user", t.User, unless(isID, "is not a UUID"), almanac.ForUser(user))
	p.take("zone", t.Zone, unless(isLabel(t.Zone, 100), "is not the name of a time zone: 1 to 100 bytes without control characters"), almanac.InZone{t.Zone})
	p.take("reason", t.Reason, unless(isReason, "is not the beginning of a reason: 1 to 1,000 bytes of text"), almanac.ForReason(t.Reason))
	due := almanac.DueBetween{From: p.bound("from", t.From), Until: p.bound("until", t.Until)}
	if !due.From.IsZero() && !due.Until.IsZero() && !due.From.Before(due.Until) {
		p.refuse("until", "is not after from")
	}
	if due != (almanac.DueBetween{}) {
		p.spec = append(p.spec, due)
	}
	if len(p.wrong) > 0 {
		return nil, &almanac.ValidationError{Fields: p.wrong}
	}
	return p.spec, nil
}

// filterParser collects what the fields of a filter mean, and what is wrong with them.
type filterParser struct {
	days  string
	spec  almanac.And
	wrong []almanac.FieldError
}

func (p *filterParser) refuse(field, problem string) {
	p.wrong = append(p.wrong, almanac.FieldError{Field: field, Problem: problem})
}

// take adds a part for a field, unless the field is empty or has a problem.
func (p *filterParser) take(field, text, problem string, part almanac.Spec) {
	switch {
	case text == "":
	case problem != "":
		p.refuse(field, problem)
	default:
		p.spec = append(p.spec, part)
	}
}

// bound returns the instant of a bound, or zero if there is none or the text is wrong.
func (p *filterParser) bound(field, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	at, err := ParseInstant(text, p.days)
	if wrong, ok := errors.AsType[*calendar.FormatError](err); ok {
		p.refuse(field, wrong.Problem)
	}
	return at
}

func unless(right bool, problem string) string {
	if right {
		return ""
	}
	return problem
}

func statusProblem(text string) string {
	switch almanac.Status(text) {
	case almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, almanac.Cancelled:
		return ""
	}
	return "is not one of PENDING, PROCESSING, COMPLETED, FAILED, CANCELLED"
}

// TypeProblem says as a clause why a text is no type of event, or returns "".
func TypeProblem(text string) string {
	return unless(isLabel(text, 50), "is not an event type: 1 to 50 bytes without control characters")
}

// LaneProblem says as a clause why a text is no name of a lane, which can be an event type, or returns "".
func LaneProblem(text string) string {
	_, err := almanac.Lane{Name: text}.Checked()
	if bad, ok := errors.AsType[*almanac.ValidationError](err); ok {
		return bad.Fields[0].Problem
	}
	return ""
}

// isLabel reports whether text has 1 to most bytes and no control characters.
func isLabel(text string, most int) bool {
	return text != "" && len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// ParseInstant returns the instant of a text, in UTC. The text is an instant of RFC 3339. If days is not
// "", it can also be a date, or a wall time such as 2026-03-15T14:00, in the zone days. A date means its
// first instant, also where clocks skip midnight. Of a wall time that clocks show twice it is the first
// instant. The years are 1900 to 9999. The error is a [*calendar.FormatError].
func ParseInstant(text, days string) (time.Time, error) {
	refuse := func(problem string) (time.Time, error) {
		short := strings.ToValidUTF8(text[:min(len(text), 64)], "")
		return time.Time{}, &calendar.FormatError{Text: short, Problem: problem}
	}
	usual := func(at time.Time) bool { return at.Year() >= 1900 && at.Year() <= 9999 }
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil && usual(at) {
			return at.UTC(), nil
		}
	}
	if days == "" {
		return refuse("is not an instant of RFC 3339 since 1900, such as 2026-03-15T14:00:00Z")
	}
	day, clock, timed := strings.Cut(strings.Replace(text, " ", "T", 1), "T")
	wall, errClock := calendar.WallTime{}, error(nil)
	date, err := calendar.ParseDate(day)
	if wall.Date = date; timed {
		wall.Clock, errClock = calendar.ParseClock(clock)
	}
	if errors.Join(err, errClock) != nil {
		return refuse("is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15")
	}
	if !usual(wall.Labelled()) {
		return refuse("is not in the years 1900 to 9999")
	}
	found, err := calendar.StoredTimezone(days).Resolve(wall, calendar.Policies{Gap: calendar.GapBoundary})
	if err != nil {
		return refuse("is a day in a zone that this program does not know; give an instant such as 2026-03-15T14:00:00Z")
	}
	return found.Instant, nil
}
