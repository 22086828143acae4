package httpapi

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	var s search
	if status, ok := query["status"]; ok {
		if !slices.Contains(statuses(), status) {
			bad.add("status", "is not one of %s", strings.Join(statuses(), ", "))
		}
		s.spec = append(s.spec, almanac.InStatus(status))
	}
	if eventType, ok := query["type"]; ok {
		if len(eventType) > 50 || !utf8.ValidString(eventType) || strings.ContainsFunc(eventType, unicode.IsControl) {
			bad.add("type", "is not an event type: 1 to 50 bytes without control characters")
		}
		s.spec = append(s.spec, almanac.OfType(eventType))
	}
	if limit, ok := query["limit"]; ok {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 {
			bad.add("limit", "is not a whole number between 1 and 1000")
		}
		s.page.Limit = n
	}
	s.page.After = almanac.Cursor(query["cursor"])
	_, _, err := s.page.Bounds()
	bad.addAll(err)
	return s
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
