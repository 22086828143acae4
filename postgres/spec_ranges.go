package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

// few is the largest number of matching events for which a page is made by reading all of them and
// sorting them by id. If more events match, a scan in the order of ids finds a page soon enough.
// If few events match, that scan would read nearly all events, and the planner's statistics do not
// show where in the order of ids the events are. See docs/adr/0043-queries-by-time.md.
const few = 5000

// fewDue is few for ended events that are due in a span of time. They lie beside each other in the table,
// which has events in the order in which they ended, so a hundred are read with one block or a few.
const fewDue = 100_000

// fewNext is few for a page in the order in which events can be claimed. It is smaller, because
// a scan in that order can begin where the range begins, see earliest.
const fewNext = 500

// maxSpans bounds how many ranges of an index are counted for a specification.
const maxSpans = 8

// span is a range of an index that holds every event that a specification selects from a
// part. Fields are expressions; an empty field leaves that bound open.
type span struct {
	from, until string // of the instant
	available   string // the upper bound of when the event is available
	eventType   string
}

// few returns an expression that says whether all selected events lie in ranges of an index with few entries,
// r.most at most. The ranges are read no further than that. For ended events the expression is a boolean; for
// pending events it is the array of the ids in the ranges, or NULL.
func (r *renderer) few(spec almanac.Spec) string {
	spans, bounded := r.spans(spec)
	if r.part == ended && !slices.ContainsFunc(spans, func(s span) bool { return s.from+s.until == "" }) {
		r.most = max(r.most, fewDue)
	}
	answer, none := fmt.Sprintf("count(*) <= %d", r.most), "false"
	if r.part == pending {
		answer, none = fmt.Sprintf("CASE WHEN count(*) <= %d THEN coalesce(pg_catalog.array_agg(n.id), '{}') END", r.most), "NULL::uuid[]"
	}
	if !bounded || len(spans) == 0 || len(spans) > maxSpans {
		return none
	}
	var ranges []string
	for _, s := range spans {
		ranges = append(ranges, r.ranges(s)...)
	}
	return "(SELECT " + answer + " FROM (" + strings.Join(ranges, " UNION ALL ") + ") n)"
}

// spans returns spans that together hold every event that a specification selects from
// the part, and none if it selects nothing there. It reports false if no span is known.
func (r *renderer) spans(spec almanac.Spec) (spans []span, bounded bool) {
	switch spec := spec.(type) {
	case almanac.And:
		return r.spansOfAll(spec)
	case almanac.Or:
		for _, part := range spec {
			of, bounded := r.spans(part)
			if !bounded {
				return nil, false
			}
			spans = append(spans, of...)
		}
		return spans, true
	case almanac.OfType:
		return []span{{eventType: r.bind(string(spec)) + "::text"}}, r.part != processing
	case almanac.DueBetween:
		from, until := r.bounds(spec)
		return []span{{from: from, until: until}}, r.part != processing && from+until != ""
	case almanac.Overdue:
		if r.part == pending {
			return []span{{until: r.overdue(spec)}}, true
		}
		return nil, true
	case almanac.Ready:
		if r.part == pending {
			return []span{{available: "now()"}}, true
		}
		return nil, true
	case almanac.InStatus:
		return nil, r.status(almanac.Status(spec)) == "false"
	}
	return nil, false
}

// spansOfAll returns spans of the events that every part selects. These are the narrowest
// span that the parts with a single span have in common, or else the spans of some part.
func (r *renderer) spansOfAll(parts []almanac.Spec) (spans []span, bounded bool) {
	var common span
	for _, part := range parts {
		of, known := r.spans(part)
		switch {
		case !known:
		case len(of) == 0:
			return nil, true
		case len(of) == 1:
			common = common.and(of[0])
		default:
			spans, bounded = of, true
		}
	}
	if common != (span{}) {
		return []span{common}, true
	}
	return spans, bounded
}

// and returns a span that holds everything that two spans have in common. It may hold more.
func (s span) and(other span) span {
	both := func(function, a, b string) string {
		if a == "" || b == "" {
			return a + b
		}
		return function + "(" + a + ", " + b + ")"
	}
	s.eventType = cmp.Or(s.eventType, other.eventType)
	s.available = cmp.Or(s.available, other.available)
	s.from, s.until = both("greatest", s.from, other.from), both("least", s.until, other.until)
	return s
}

// ranges returns queries. Each query has one row for each entry of an index in a span, up
// to r.most + 1 rows, with the id if the index has it.
func (r *renderer) ranges(s span) []string {
	const (
		ofType = "(SELECT x.id FROM pg_catalog.unnest(%s) AS t (name)%s CROSS JOIN LATERAL (" +
			"SELECT %s AS id FROM %s x WHERE x.event_type = t.name%s ORDER BY x.%s LIMIT %d) x LIMIT %[7]d)"
		delayed = "(SELECT x.event_id AS id FROM %s x WHERE x.delayed_from IS NOT NULL AND %s ORDER BY x.delayed_from LIMIT %d)"
	)
	relation, types, column, id := r.queue, r.waitingTypes, "available_at", "x.event_id"
	lanes, condition := " CROSS JOIN LATERAL pg_catalog.unnest("+r.lanes+") AS of_type (lane)", " AND x.lane = of_type.lane"
	if r.part == ended {
		relation, types, column, id = r.ended, r.endedTypes, "target_timestamp_utc", "NULL::uuid"
		lanes, condition = "", ""
	}
	if s.eventType != "" {
		types = "ARRAY[" + s.eventType + "]"
	}
	if s.from+s.until != "" {
		condition += " AND " + within("x."+column, s.from, s.until)
	}
	if s.available != "" {
		condition += " AND x." + column + " <= " + s.available
	}
	ranges := []string{fmt.Sprintf(ofType, types, lanes, id, relation, condition, column, r.most+1)}
	if r.part == pending && s.from+s.until != "" {
		ranges = append(ranges, fmt.Sprintf(delayed, relation, within("x.delayed_from", s.from, s.until), r.most+1))
	}
	return ranges
}

// earliest returns an instant before which no pending event is available that a specification
// selects. It returns the zero time if it knows none.
func earliest(spec almanac.Spec) (at time.Time) {
	switch spec := spec.(type) {
	case almanac.DueBetween:
		return spec.From // no event is available before its instant
	case almanac.And:
		for _, part := range spec {
			if from := earliest(part); from.After(at) {
				at = from
			}
		}
	case almanac.Or:
		for i, part := range spec {
			if from := earliest(part); i == 0 || from.Before(at) {
				at = from
			}
		}
	}
	return at
}

// ofUsers reports whether a specification names the users whose events it selects.
func ofUsers(spec almanac.Spec) bool {
	switch spec := spec.(type) {
	case almanac.ForUser:
		return true
	case almanac.And:
		return slices.ContainsFunc(spec, ofUsers)
	case almanac.Or:
		return !slices.ContainsFunc(spec, func(part almanac.Spec) bool { return !ofUsers(part) })
	}
	return false
}

// typesIn returns types that have all events that a specification selects. It reports false if
// the specification does not name them.
func typesIn(spec almanac.Spec) (types []string, named bool) {
	switch spec := spec.(type) {
	case almanac.OfType:
		return []string{string(spec)}, true
	case almanac.And:
		for _, part := range spec {
			if types, named = typesIn(part); named {
				return types, true
			}
		}
	case almanac.Or:
		for _, part := range spec {
			of, named := typesIn(part)
			if !named {
				return nil, false
			}
			types = append(types, of...)
		}
		slices.Sort(types)
		return slices.Compact(types), true
	}
	return nil, false
}
