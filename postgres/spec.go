package postgres

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// where fills a specification into a statement. Values are always bound; only the
// shape becomes text. now() is the moment for which a specification is read.
func (s *Store) where(statement string, spec almanac.Spec) (string, pgx.StrictNamedArgs) {
	r := renderer{schema: quoted(s.schema), args: pgx.StrictNamedArgs{}}
	return strings.Replace(s.statements[statement], ":where", r.render(spec), 1), r.args
}

type renderer struct {
	schema string
	args   pgx.StrictNamedArgs
}

// render writes a specification as a condition that is true or false for every
// row and never NULL, for NOT of NULL would match neither way. Where a column that
// is filled exactly in one status says the same as the status, it is named
// instead, because the indexes are made on it.
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
		return "(e.available_at IS NOT NULL AND e.available_at <= now())"
	case almanac.Overdue:
		return "(e.available_at IS NOT NULL AND e.target_timestamp_utc < now() - " + r.bind(spec.By) + "::interval)"
	}
	panic(fmt.Sprintf("postgres: specification %T is not one of package almanac", spec))
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
		return "(e.available_at IS NOT NULL)"
	case almanac.Processing:
		return "(e.status = 'PROCESSING' AND e.id = ANY (ARRAY (SELECT unnest(l.event_ids) FROM " + r.schema + ".leases l)))"
	case almanac.Failed:
		return "(e.failure_reason IS NOT NULL)"
	default:
		return "e.status = " + r.bind(string(s))
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
