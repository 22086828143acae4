package postgres

import (
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// where fills a specification into a statement, once for each part of the events. Values are always
// bound; only the structure becomes text. A specification is evaluated for the time now(). If it
// selects at most so many events of an index range, the statement reads these.
func (s *Store) where(sql string, spec almanac.Spec, most int) (string, pgx.StrictNamedArgs) {
	args := pgx.StrictNamedArgs{}
	for _, p := range []part{pending, processing, ended} {
		r := s.renderer(p, args)
		r.most = most
		condition := r.render(spec)
		if few := strings.Replace(string(p), ":", ":few_", 1); strings.Contains(sql, few) {
			sql = strings.ReplaceAll(sql, few, r.few(spec))
		}
		sql = strings.ReplaceAll(sql, string(p), condition)
	}
	if strings.Contains(sql, ":waiting_types") {
		r := s.renderer(pending, args)
		types := r.waitingTypes
		if named, ok := typesIn(spec); ok {
			types = r.bind(named) + "::text[]"
		}
		sql = strings.ReplaceAll(sql, ":waiting_types", types)
	}
	// Values that were bound for a range that is not counted do not occur in the statement.
	maps.DeleteFunc(args, func(name string, _ any) bool { return !strings.Contains(sql, "@"+name) })
	return sql, args
}

// part is a part of the events. Its value is the placeholder of its condition in a statement.
type part string

const (
	pending    part = ":pending"
	processing part = ":processing"
	ended      part = ":ended"
)

// renderer writes a specification as a condition on one part of the events.
type renderer struct {
	part          part
	args          pgx.StrictNamedArgs
	queue, series string // tables
	ended         string // a view
	waitingTypes  string
	lanes         string // of the pending events of type t.name
	endedTypes    string
	most          int // see few
}

func (s *Store) renderer(p part, args pgx.StrictNamedArgs) *renderer {
	r := &renderer{part: p, args: args}
	r.queue, r.series = pgx.Identifier{s.schema, "queue"}.Sanitize(), pgx.Identifier{s.schema, "series"}.Sanitize()
	r.ended = pgx.Identifier{s.schema, "ended_events"}.Sanitize()
	r.waitingTypes, r.endedTypes = typesOf(r.queue), typesOf(r.ended)
	r.lanes = strings.ReplaceAll(lanesOf, `:"schema".queue`, r.queue)
	return r
}

// typesOf returns an SQL array of every event type in a table or view. The array takes one step in
// the index for each type, however many events there are. With it, the due events of each type can be
// found in an index that begins with the type.
func typesOf(relation string) string {
	const array = `ARRAY (
	WITH RECURSIVE types (name) AS (
		SELECT min(t.event_type::text) FROM :relation t
		UNION ALL
		SELECT (SELECT min(t.event_type::text) FROM :relation t WHERE t.event_type > types.name) FROM types WHERE types.name IS NOT NULL
	)
	SELECT types.name FROM types WHERE types.name IS NOT NULL
)`
	return strings.ReplaceAll(array, ":relation", relation)
}

// lanesOf is an SQL array of the lanes of the pending events of type t.name. It takes one step in the index for
// each lane. With it, the due events of each lane can be found in an index that has the lane after the type.
const lanesOf = `ARRAY (
	WITH RECURSIVE lanes (name) AS (
		SELECT min(q.lane) FROM :"schema".queue q WHERE q.event_type = t.name
		UNION ALL
		SELECT (SELECT min(q.lane) FROM :"schema".queue q WHERE q.event_type = t.name AND q.lane > lanes.name) FROM lanes WHERE lanes.name IS NOT NULL
	)
	SELECT lanes.name FROM lanes WHERE lanes.name IS NOT NULL
)`

// render returns a specification as a condition. The condition is true or false for every row and
// never NULL, because NOT of NULL is NULL.
func (r *renderer) render(spec almanac.Spec) string {
	switch spec := spec.(type) {
	case nil:
		return "true"
	case almanac.And:
		return r.join(spec, " AND ", "true")
	case almanac.Or:
		return r.join(spec, " OR ", "false")
	case almanac.Not:
		return "NOT " + r.render(spec.Spec)
	case almanac.OfType:
		return "e.event_type = " + r.bind(string(spec))
	case almanac.ForUser:
		return r.user(uuid.UUID(spec))
	case almanac.InStatus:
		return r.status(almanac.Status(spec))
	case almanac.DueBetween:
		return r.due(spec)
	case almanac.InZone:
		return "e.target_timezone = ANY (" + r.bind([]string(spec)) + "::text[])"
	case almanac.Ready:
		return r.only(pending, "(e.available_at <= now() AND "+r.inRanges()+")")
	case almanac.ForReason:
		// The first half makes the planner use the index of failures and cancellations.
		return r.only(ended, "(e.failure_reason IS NOT NULL AND starts_with(e.failure_reason, "+r.bind(string(spec))+"))")
	case almanac.Overdue:
		if r.part != pending {
			return "false"
		}
		return r.targets("", r.overdue(spec))
	}
	panic(fmt.Sprintf("postgres: specification %T is not one of package almanac", spec))
}

// only returns the condition if the renderer is for part p, and false otherwise.
func (r *renderer) only(p part, condition string) string {
	if r.part != p {
		return "false"
	}
	return condition
}

func (r *renderer) join(parts []almanac.Spec, operator, none string) string {
	if len(parts) == 0 {
		return none
	}
	rendered := make([]string, len(parts))
	for i, part := range parts {
		rendered[i] = r.render(part)
	}
	return "(" + strings.Join(rendered, operator) + ")"
}

// user returns the condition that an event is for a user. A pending event is found through the open series of
// its user. Without their event ids, the planner reads the whole queue once that is large.
func (r *renderer) user(id uuid.UUID) string {
	name := r.bind(id)
	if r.part != pending {
		return "e.user_id = " + name
	}
	return "(e.user_id = " + name + " AND e.id = ANY (ARRAY (SELECT x.event_id FROM " + r.series + " x WHERE x.open_user_id = " + name + ")))"
}

func (r *renderer) status(s almanac.Status) string {
	switch s {
	case almanac.Pending:
		return r.only(pending, "true")
	case almanac.Processing:
		return r.only(processing, "true")
	case almanac.Completed:
		return r.only(ended, "e.failure_reason IS NULL")
	case almanac.Failed, almanac.Cancelled:
		// The first half makes the planner use the index of failures and cancellations.
		return r.only(ended, "(e.failure_reason IS NOT NULL AND e.status = '"+string(s)+"')")
	default:
		return "false"
	}
}

func (r *renderer) due(spec almanac.DueBetween) string {
	return r.targets(r.bounds(spec))
}

// bounds binds the bounds of a range, and returns their expressions. The expression of an open bound
// is empty.
func (r *renderer) bounds(spec almanac.DueBetween) (from, until string) {
	if !spec.From.IsZero() {
		from = r.bind(spec.From) + "::timestamptz"
	}
	if !spec.Until.IsZero() {
		until = r.bind(spec.Until) + "::timestamptz"
	}
	return from, until
}

// overdue returns an expression for the instant before which an event is overdue.
func (r *renderer) overdue(spec almanac.Overdue) string {
	return "now() - " + r.bind(spec.By) + "::interval"
}

// targets returns the condition that the instant lies between two expressions. An empty expression
// leaves that bound open. The condition repeats itself on the columns of an index. In the queue the
// index has the time when an event is available. That is its instant, unless the event was delayed.
func (r *renderer) targets(from, until string) string {
	if from == "" && until == "" {
		return "true"
	}
	target := within("e.target_timestamp_utc", from, until)
	switch r.part {
	case pending:
		return "(" + target + " AND (" + within("e.available_at", from, until) + " AND " + r.inRanges() +
			" OR " + within("e.delayed_from", from, until) + "))"
	case ended:
		return "(" + target + " AND e.event_type = ANY (" + r.endedTypes + "))"
	default:
		return "(" + target + ")"
	}
}

// inRanges returns a condition that is true of all pending events. With it, the planner can use the index that has
// type and lane before the time.
func (r *renderer) inRanges() string {
	return "e.event_type = ANY (" + r.waitingTypes + ") AND e.lane = ANY (ARRAY (SELECT DISTINCT l.name FROM pg_catalog.unnest(" + r.waitingTypes +
		") AS t (name) CROSS JOIN LATERAL pg_catalog.unnest(" + r.lanes + ") AS l (name)))"
}

// within returns the condition that a column is at least from and less than until. An empty bound is open.
func within(column, from, until string) string {
	switch {
	case from == "":
		return column + " < " + until
	case until == "":
		return column + " >= " + from
	}
	return column + " >= " + from + " AND " + column + " < " + until
}

// bind adds an argument and returns the name of its parameter. No name is a prefix of another.
func (r *renderer) bind(value any) string {
	name := fmt.Sprintf("p%d_", len(r.args))
	r.args[name] = value
	return "@" + name
}
