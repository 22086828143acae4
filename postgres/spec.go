package postgres

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// where fills a specification into a statement, once for each part of the events.
// Values are always bound; only the shape becomes text. now() is the moment for
// which a specification is read.
func (s *Store) where(statement string, spec almanac.Spec) (string, pgx.StrictNamedArgs) {
	args := pgx.StrictNamedArgs{}
	sql := s.statements[statement]
	for _, p := range []part{pending, processing, ended} {
		r := renderer{part: p, args: args, waitingTypes: strings.ReplaceAll(waitingTypes, `:"schema"`, quoted(s.schema))}
		sql = strings.Replace(sql, string(p), r.render(spec), 1)
	}
	return sql, args
}

// part is a part of the events, by what stands for its condition in a statement.
type part string

const (
	pending    part = ":pending"
	processing part = ":processing"
	ended      part = ":ended"
)

// renderer writes a specification as a condition on one part of the events.
type renderer struct {
	part         part
	args         pgx.StrictNamedArgs
	waitingTypes string
}

// waitingTypes is an array: every type in the queue. It takes one step along the index
// for each, however many events there are, and lets what is due of each be found.
const waitingTypes = `ARRAY (
	WITH RECURSIVE types (name) AS (
		SELECT min(q.event_type::text) FROM :"schema".queue q
		UNION ALL
		SELECT (SELECT min(q.event_type::text) FROM :"schema".queue q WHERE q.event_type > types.name) FROM types WHERE types.name IS NOT NULL
	)
	SELECT types.name FROM types WHERE types.name IS NOT NULL
)`

// render writes a specification as a condition that is true or false for every
// row and never NULL, for NOT of NULL would match neither way.
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
		return "e.user_id = " + r.bind(uuid.UUID(spec))
	case almanac.InStatus:
		return r.status(almanac.Status(spec))
	case almanac.DueBetween:
		return r.due(spec)
	case almanac.InZone:
		return "e.target_timezone = ANY (" + r.bind([]string(spec)) + "::text[])"
	case almanac.Ready:
		return r.only(pending, "(e.available_at <= now() AND e.event_type = ANY ("+r.waitingTypes+"))")
	case almanac.Overdue:
		if r.part != pending {
			return "false"
		}
		return "e.target_timestamp_utc < now() - " + r.bind(spec.By) + "::interval"
	}
	panic(fmt.Sprintf("postgres: specification %T is not one of package almanac", spec))
}

// only returns a condition that no other part of the events meets.
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

func (r *renderer) status(s almanac.Status) string {
	switch s {
	case almanac.Pending:
		return r.only(pending, "true")
	case almanac.Processing:
		return r.only(processing, "true")
	case almanac.Completed:
		return r.only(ended, "e.failure_reason IS NULL")
	case almanac.Failed, almanac.Cancelled:
		// The first half finds the index of what was not delivered.
		return r.only(ended, "(e.failure_reason IS NOT NULL AND e.status = '"+string(s)+"')")
	default:
		return "false"
	}
}

func (r *renderer) due(spec almanac.DueBetween) string {
	condition := "true"
	if !spec.From.IsZero() {
		condition += " AND e.target_timestamp_utc >= " + r.bind(spec.From)
	}
	if !spec.Until.IsZero() {
		condition += " AND e.target_timestamp_utc < " + r.bind(spec.Until)
	}
	return "(" + condition + ")"
}

// bind passes a value and returns the parameter's name.
func (r *renderer) bind(value any) string {
	name := fmt.Sprintf("p%d", len(r.args))
	r.args[name] = value
	return "@" + name
}
