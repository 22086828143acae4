package httpapi

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
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

// numberOf returns a parameter that is a number from 1 to 1,000, or zero if it is missing.
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
	spec, err := ops.FilterText{
		Status: given["status"], Type: given["type"], User: given["user"], Zone: given["zone"], Reason: given["reason"], From: given["from"], Until: given["until"],
	}.Parse()
	if invalid, ok := errors.AsType[*almanac.ValidationError](err); ok {
		for _, f := range invalid.Fields {
			bad.add(prefix+f.Field, "%s", f.Problem)
		}
	}
	return spec
}

func checkType(eventType, field string, bad *complaints) {
	if problem := ops.TypeProblem(eventType); problem != "" {
		bad.add(field, "%s", problem)
	}
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
