package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// eventInstant explains how the instant of an event was found.
type eventInstant struct {
	Problem   string            // why this program cannot explain it; "" if it can
	Nominal   string            // the wall time of the occurrence before it was moved; "" if it was not
	Scheduled bool              // the occurrence is the host's own, not of a rule
	Move      string            // why the rule gives the day and the time; "" if it is not known, or they are as the rule names them
	Asked     calendar.WallTime // the wall time that the event asks for
	Chosen    calendar.WallTime // the wall time that clocks show at the instant
	Reason    string            // in words
	Reading   calendar.Reading  // how often clocks show the wall time
	Differs   time.Time         // the instant by the rules of this program, if it is another one
	Policies  []eventPolicy     // what each policy would give
	Drawing   *clockDrawing     // nil in an unknown zone
}

// eventPolicy is what one policy would give.
type eventPolicy struct {
	Kind, Name, Meaning string
	At                  time.Time // zero if there is no instant
	Without             string    // what happens without an instant
	Used                bool      // it is the policy of the event
}

// policyMeanings are what each policy does to a wall time that clocks skip, or show twice.
var policyMeanings = []struct {
	gap     calendar.GapPolicy
	fold    calendar.FoldPolicy
	meaning string
}{
	{gap: calendar.GapForward, meaning: "later by the width of the gap"},
	{gap: calendar.GapBackward, meaning: "earlier by the width of the gap"},
	{gap: calendar.GapBoundary, meaning: "the first instant after the gap"},
	{gap: calendar.GapSkip, meaning: "leave it out"},
	{gap: calendar.GapReject, meaning: "refuse it"},
	{fold: calendar.FoldFirst, meaning: "the earlier instant"},
	{fold: calendar.FoldSecond, meaning: "the later instant"},
	{fold: calendar.FoldReject, meaning: "refuse it"},
}

// explain explains the instant of an event by the rules of this program.
func explain(e almanac.Event) eventInstant {
	z := calendar.StoredTimezone(e.Zone)
	chose := e.Policies.WithDefaults()
	x := eventInstant{Asked: e.Wall, Scheduled: e.Origin.Kind == almanac.OriginScheduled}
	if e.Nominal != (calendar.WallTime{}) {
		x.Nominal = e.Nominal.String()
	}
	var unknown *calendar.InvalidTimezoneError
	r, err := z.Resolve(e.Wall, e.Policies)
	if errors.As(err, &unknown) {
		x.Problem = "This program does not know the zone, so it cannot explain the instant. Renew its zone data."
		return x
	}
	x.Chosen = z.WallTime(e.Due)
	drawing := drawClocks(z, e.Wall, e.Due.Truncate(time.Second), []namedInstant{{e.Due, "chosen"}})
	x.Drawing = &drawing
	if err != nil {
		x.Problem = "By the rules of this program the policies of the event give no instant: " + resolveProblem(err) + "."
	} else {
		x.Reason, x.Reading = r.Reason(), r.Reading
		if !r.Instant.Equal(e.Due) {
			x.Differs = r.Instant
		}
	}
	for _, one := range policyMeanings {
		p, kind := chose, "gap"
		if one.fold != "" {
			kind = "fold"
		}
		p.Gap, p.Fold = cmp.Or(one.gap, p.Gap), cmp.Or(one.fold, p.Fold)
		row := eventPolicy{Kind: kind, Name: cmp.Or(string(one.gap), string(one.fold)), Meaning: one.meaning, Used: p == chose}
		x.Policies = append(x.Policies, policyOf(z, e.Wall, p, row))
	}
	return x
}

// explainMove adds why the rule gives the day and the time of an event, by its occurrence in a preview. The page says
// elsewhere how clocks show the wall time, and whether it is provisional.
func (x *eventInstant) explainMove(o *almanac.Occurrence) {
	if o == nil || o.Move == (calendar.Move{}) && o.DayReason == "" && o.Named == (calendar.Date{}) && o.Announces == (calendar.WallTime{}) {
		return
	}
	move := o.Occurrence
	move.Resolution, move.Consulted = calendar.Resolution{Reading: calendar.ShownOnce}, calendar.Consulted{}
	x.Move = move.Reason()
}

// storedReason returns the reason in the payload of a ready-made handler: why the rule chose the day and the time. For
// any other payload it returns "", because the "reason" of a host's own payload can mean something else. A payload is
// that of a ready-made handler if it has a message, and if one of these is true: the event was moved, its key is by
// another calendar, or the payload has the occurrence key of the event.
func storedReason(e almanac.Event) string {
	var members map[string]any // not a struct, because decoding into a struct ignores the case of names
	if json.Unmarshal(e.Payload, &members) != nil {
		return ""
	}
	_, ready := members["message"].(string)
	if !ready || e.Nominal == (calendar.WallTime{}) && e.KeyUnit.System() == "" && members["occurrence"] != e.OccurrenceKey {
		return ""
	}
	reason, _ := members["reason"].(string)
	return listCut(reason, moveShown)
}

// consultedText says which calendars decided on the day of an event.
func consultedText(c calendar.Consulted) string {
	if c.Calendars == "" {
		return ""
	}
	var names []string
	for name, release := range c.Releases() {
		names = append(names, strings.TrimSuffix(name+", release "+release, ", release "))
	}
	text := fmt.Sprintf("%s: from %s to %s", strings.Join(names, "; "), c.From, c.Until)
	if c.Provisional {
		text += "; provisional, because not all days of the calendar are known yet"
	}
	return text
}

// policyOf completes the row of a policy.
func policyOf(z calendar.Timezone, wall calendar.WallTime, p calendar.Policies, row eventPolicy) eventPolicy {
	r, err := z.Resolve(wall, p)
	if row.At = r.Instant; err != nil {
		row.Without = resolveProblem(err)
	}
	return row
}

// resolveProblem says as a clause why a wall time has no instant.
func resolveProblem(err error) string {
	var refusedBy *calendar.WallTimeError
	switch {
	case errors.As(err, &refusedBy) && refusedBy.Rejected:
		return "refused, because " + refusedBy.Change.String()
	case errors.As(err, &refusedBy):
		return "left out, because " + refusedBy.Change.String()
	}
	return "the wall time or a policy is invalid"
}

const (
	// previewed is how many occurrences a preview has.
	previewed = 12
	// payloadShown is how many bytes of a payload a page shows.
	payloadShown = 16 << 10
	// moveShown is how many bytes of a reason a page shows.
	moveShown = 1000
	// payloadDepth is up to which depth a payload is indented. Each level makes each line
	// longer, so a deep payload would get very large.
	payloadDepth = 32
)

// eventSeries has the occurrences before and after an event in its series.
type eventSeries struct {
	Alone        bool                // the event has a series of its own
	This         *almanac.Occurrence // of the event itself, if the rule still gives it
	Previous     *almanac.Event
	PreviousNote string // why there is none
	Next         *almanac.Occurrence
	NextNote     string // why there is none
}

// around finds the neighbours of an event. Words says whether texts of errors are shown.
func (d *dashboard) around(r *request, e almanac.Event, deleted, words bool) (s eventSeries, err error) {
	if s.Alone = e.Origin.Kind != almanac.OriginPlanned; s.Alone {
		return s, nil
	}
	ended := almanac.Or{almanac.InStatus(almanac.Completed), almanac.InStatus(almanac.Failed), almanac.InStatus(almanac.Cancelled)}
	found, err := d.reader.Find(r.Context(), almanac.And{almanac.ForUser(e.UserID), almanac.OfType(e.Type), ended},
		almanac.Page{Limit: listRows, Order: almanac.NewestFirst})
	if err != nil {
		return s, err
	}
	s.PreviousNote = "This is the first event of its series, or older ones were deleted."
	if found.Next != "" {
		s.PreviousNote = "It is not among the newest 50 ended events of the user and type."
	}
	for _, other := range found.Items {
		if almanac.SeriesOf(other) == almanac.SeriesOf(e) && bytes.Compare(other.ID[:], e.ID[:]) < 0 {
			other.Payload = nil
			s.Previous, s.PreviousNote = &other, ""
			break
		}
	}
	if deleted {
		s.NextNote = "The user is deleted, so nothing follows."
		return s, nil
	}
	ahead, err := d.scheduler.Preview(r.Context(), e.UserID, e.Type, previewed)
	this := almanac.UsedKeys{e.Uses(almanac.User{Timezone: calendar.StoredTimezone(e.Zone)}, e.Due)}
	for _, o := range ahead.Ahead {
		if o.Series != e.Series {
			continue
		}
		if !this.Has(o.Occurrence) {
			s.Next = &o
			return s, nil
		}
		if e.Status == almanac.Pending && o.Key == e.OccurrenceKey && o.Unit == e.KeyUnit && o.Wall == e.Wall && o.Zone.String() == e.Zone {
			s.This = &o
		}
	}
	if s.NextNote = "No occurrence follows: the series ends, or the user has opted out."; err != nil {
		s.NextNote = previewProblem(err, words)
	}
	return s, nil
}

// previewProblem says why a preview ends. Texts of other errors are shown only to viewers
// who may see them, because the program's handlers make them.
func previewProblem(err error, words bool) string {
	var refusedBy *calendar.WallTimeError
	switch {
	case errors.Is(err, almanac.ErrUnsupportedEventType):
		return "The program that shows this page has no handler for the type, so it cannot preview the next occurrence."
	case errors.As(err, &refusedBy):
		return fmt.Sprintf("The policy reject refuses %s, which clocks in %s show %s: %s. Nothing is planned beyond it.",
			refusedBy.Wall, refusedBy.Zone, refusedBy.Reading, refusedBy.Change)
	case errors.Is(err, calendar.ErrInvalidTimezone):
		return "This program does not know the zone of the user. Renew its zone data."
	case errors.Is(err, calendar.ErrUnknownSystem):
		return "This program does not know the calendar of the user's date of birth. Register it, or look at another program."
	case words:
		return "The preview failed: " + err.Error()
	}
	return "The preview failed. You may not see the text of the error."
}

// prettyJSON returns JSON for people to read, and whether it was cut.
func prettyJSON(raw json.RawMessage) (text string, cut bool) {
	text = string(raw)
	var indented bytes.Buffer
	if depthOf(raw) <= payloadDepth && json.Indent(&indented, raw, "", "  ") == nil {
		text = indented.String()
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	return listCut(text, payloadShown), len(text) > payloadShown
}

// depthOf returns how deep arrays and objects are nested.
func depthOf(raw []byte) int {
	depth, most, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
			most = max(most, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return most
}
