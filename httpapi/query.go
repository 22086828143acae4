package httpapi

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// queryOf returns the parameters of the request's query. It complains about unknown,
// repeated and empty parameters: ignoring a misspelt parameter would widen a search.
func queryOf(r *http.Request, bad *complaints, known ...string) map[string]string {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		bad.add("query", "cannot be read")
		return nil
	}
	query := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		given := values[name]
		switch {
		case name == "":
			bad.add("query", "has a parameter without a name")
		case !slices.Contains(known, name):
			bad.add(clip(strings.ToValidUTF8(name, "�")), "is not a known parameter")
		case len(given) > 1:
			bad.add(name, "is given more than once")
		case given[0] == "":
			bad.add(name, "is empty")
		default:
			query[name] = given[0]
		}
	}
	slices.SortFunc(bad.list, func(a, b fieldProblem) int { return strings.Compare(a.Field, b.Field) })
	return query
}

// search is the search for events that a query describes.
type search struct {
	spec almanac.And
	page almanac.Page
}

func statuses() []string {
	return []string{string(almanac.Pending), string(almanac.Processing), string(almanac.Completed), string(almanac.Failed), string(almanac.Cancelled)}
}

func searchOf(r *http.Request, bad *complaints) search {
	query := queryOf(r, bad, "status", "type", "limit", "cursor")
	s := search{filterOf(query, "", bad), pageOf(query, bad)}
	_, _, err := s.page.Bounds()
	bad.addAll(err)
	return s
}

// pageOf returns the page that a query asks for. The caller checks the cursor.
func pageOf(query map[string]string, bad *complaints) almanac.Page {
	return almanac.Page{Limit: numberOf(query, "limit", bad), After: almanac.Cursor(query["cursor"])}
}

// numberOf returns a parameter that is a number of at most 1,000 things, and zero if it is
// missing.
func numberOf(query map[string]string, name string, bad *complaints) int {
	text, ok := query[name]
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		bad.add(name, "is not a whole number between 1 and 1000")
		return 0
	}
	return n
}

// filterOf returns the spec for the given texts, which are parameters of a query or members
// of a filter. The names in complaints begin with the prefix.
func filterOf(given map[string]string, prefix string, bad *complaints) almanac.And {
	var spec almanac.And
	if status, ok := given["status"]; ok {
		if !slices.Contains(statuses(), status) {
			bad.add(prefix+"status", "is not one of %s", strings.Join(statuses(), ", "))
		}
		spec = append(spec, almanac.InStatus(status))
	}
	if eventType, ok := given["type"]; ok {
		checkType(eventType, prefix+"type", bad)
		spec = append(spec, almanac.OfType(eventType))
	}
	if text, ok := given["user"]; ok {
		id, ok := parseID(text)
		if !ok {
			bad.add(prefix+"user", "is not a UUID")
		}
		spec = append(spec, almanac.ForUser(id))
	}
	if zone, ok := given["zone"]; ok {
		if !isLabel(zone, 100) {
			bad.add(prefix+"zone", "is not the name of a time zone: 1 to 100 bytes without control characters")
		}
		spec = append(spec, almanac.InZone{zone})
	}
	if reason, ok := given["reason"]; ok {
		if len(reason) > 1000 || !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) {
			bad.add(prefix+"reason", "is not the beginning of a reason: 1 to 1,000 bytes of text")
		}
		spec = append(spec, almanac.ForReason(reason))
	}
	if due := dueOf(given, prefix, bad); due != (almanac.DueBetween{}) {
		spec = append(spec, due)
	}
	return spec
}

// dueOf returns the bounds from and until of due instants.
func dueOf(given map[string]string, prefix string, bad *complaints) almanac.DueBetween {
	at := func(name string) time.Time {
		text, ok := given[name]
		if !ok {
			return time.Time{}
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil || t.Year() < 1900 || t.Year() > 9999 {
			bad.add(prefix+name, "is not an instant of RFC 3339 since 1900, such as 2026-03-15T14:00:00Z")
		}
		return t.UTC()
	}
	due := almanac.DueBetween{From: at("from"), Until: at("until")}
	if !due.From.IsZero() && !due.Until.IsZero() && !due.From.Before(due.Until) {
		bad.add(prefix+"until", "is not after from")
	}
	return due
}

func checkType(eventType, field string, bad *complaints) {
	if !isLabel(eventType, 50) {
		bad.add(field, "is not an event type: 1 to 50 bytes without control characters")
	}
}

// isLabel reports whether text has 1 to most bytes and no control characters.
func isLabel(text string, most int) bool {
	return text != "" && len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// idOf returns the id in the request's path. It accepts only the form that the API writes.
func idOf(r *http.Request, bad *complaints) uuid.UUID {
	id, ok := parseID(r.PathValue("id"))
	if !ok {
		bad.add("id", "is not a UUID")
	}
	return id
}

func parseID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return uuid.Nil, false
	}
	return id, true
}
