package postgres

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
)

// The columns of a row, in the order in which it is scanned. JSON is read as text:
// poolers and old protocols have opinions on its binary form.
const (
	eventColumns = "e.id, e.user_id, e.event_type, e.occurrence_key, e.status, e.target_timestamp_utc, e.target_timestamp_local, " +
		"e.target_timezone, e.policies, e.idempotency_key, e.delivery_payload::text, e.user_version, e.available_at, e.lease_token, " +
		"e.executed_at, e.failure_reason, e.last_error, e.retry_count, e.claim_count, e.crash_count, e.version, e.created_at, e.updated_at, e.requeued_from"
	// Of a series whose event is being claimed: what the claim makes of it is known.
	claimedColumns = "s.event_id, s.event_type, s.occurrence_key, s.target_timestamp_utc, s.target_timestamp_local, s.target_timezone, " +
		"s.policies, s.idempotency_key, s.delivery_payload::text, s.user_version, s.last_error, s.retry_count, s.claim_count, s.crash_count, " +
		"s.version, s.created_at, s.requeued_from"
	userColumns = "u.id, u.first_name, u.last_name, u.date_of_birth, u.timezone, u.attributes::text, u.creation_digest, u.version, u.created_at, u.updated_at"
)

// eventRow receives the columns that are no plain fields of an event.
type eventRow struct {
	event               almanac.Event
	status, policies    string
	key, payload        string
	wall                time.Time
	available, executed *time.Time
	token, requeued     *uuid.UUID
	failure, lastError  *string
}

func (r *eventRow) targets() []any {
	e := &r.event
	return []any{
		&e.ID, &e.UserID, &e.Type, &e.OccurrenceKey, &r.status, &e.Due, &r.wall,
		&e.Zone, &r.policies, &r.key, &r.payload, &e.UserVersion, &r.available, &r.token,
		&r.executed, &r.failure, &r.lastError, &e.RetryCount, &e.ClaimCount, &e.CrashCount, &e.Version, &e.CreatedAt, &e.UpdatedAt,
		&r.requeued,
	}
}

// value returns the event that was scanned. Instants come back in the process's
// own zone, so they are put into UTC here and nowhere else.
func (r *eventRow) value() almanac.Event {
	e := r.event
	e.Status = almanac.Status(r.status)
	e.Due, e.CreatedAt, e.UpdatedAt = e.Due.UTC(), e.CreatedAt.UTC(), e.UpdatedAt.UTC()
	e.Wall = almanac.WallTimeOf(r.wall)
	e.Policies = parsePolicies(r.policies)
	e.IdempotencyKey = almanac.IdempotencyKey(r.key)
	e.Payload = json.RawMessage(r.payload)
	if r.available != nil {
		e.AvailableAt = r.available.UTC()
	}
	if r.executed != nil {
		e.ExecutedAt = r.executed.UTC()
	}
	if r.token != nil {
		e.LeaseToken = *r.token
	}
	if r.requeued != nil {
		e.RequeuedFrom = *r.requeued
	}
	if r.failure != nil {
		e.FailureReason = *r.failure
	}
	if r.lastError != nil {
		e.LastError = *r.lastError
	}
	return e
}

func scanEvent(row pgx.CollectableRow) (almanac.Event, error) {
	var r eventRow
	if err := row.Scan(r.targets()...); err != nil {
		return almanac.Event{}, err
	}
	return r.value(), nil
}

// claimedRow receives an event that is being claimed, with its user.
type claimedRow struct {
	at      time.Time
	reached time.Time
	event   eventRow
	user    userRow
}

func (r *claimedRow) targets() []any {
	e := &r.event.event
	return append([]any{
		&r.at, &r.reached, &e.ID, &e.Type, &e.OccurrenceKey, &e.Due, &r.event.wall, &e.Zone,
		&r.event.policies, &r.event.key, &r.event.payload, &e.UserVersion, &r.event.lastError, &e.RetryCount, &e.ClaimCount, &e.CrashCount,
		&e.Version, &e.CreatedAt, &r.event.requeued,
	}, r.user.targets()...)
}

// value returns the event as its claim made it.
func (r *claimedRow) value(token uuid.UUID) almanac.Event {
	r.event.status = string(almanac.Processing)
	e := r.event.value()
	e.UserID, e.LeaseToken, e.UpdatedAt = r.user.user.ID, token, r.at.UTC()
	e.ClaimCount++
	e.Version++
	return e
}

// userRow receives the columns that are no plain fields of a user.
type userRow struct {
	user             almanac.User
	born             time.Time
	zone, attributes string
	digest           *string
}

func (r *userRow) targets() []any {
	u := &r.user
	return []any{&u.ID, &u.FirstName, &u.LastName, &r.born, &r.zone, &r.attributes, &r.digest, &u.Version, &u.CreatedAt, &u.UpdatedAt}
}

func (r *userRow) value() (almanac.User, error) {
	u := r.user
	var err error
	if u.DateOfBirth, err = almanac.ParseDateOfBirth(r.born.Format(time.DateOnly)); err != nil {
		return almanac.User{}, err
	}
	u.Timezone = almanac.StoredTimezone(r.zone)
	u.Attributes = json.RawMessage(r.attributes)
	if r.digest != nil {
		u.CreationDigest = *r.digest
	}
	u.CreatedAt, u.UpdatedAt = u.CreatedAt.UTC(), u.UpdatedAt.UTC()
	return u, nil
}

func scanUser(row pgx.CollectableRow) (almanac.User, error) {
	var r userRow
	if err := row.Scan(r.targets()...); err != nil {
		return almanac.User{}, err
	}
	return r.value()
}

// made is what the database made of a new row.
type made struct {
	id   uuid.UUID
	json string // in the form in which it keeps it
	at   time.Time
}

func scanMade(row pgx.CollectableRow) (m made, err error) {
	err = row.Scan(&m.id, &m.json, &m.at)
	m.at = m.at.UTC()
	return m, err
}

func scanTime(row pgx.CollectableRow) (time.Time, error) {
	var t time.Time
	err := row.Scan(&t)
	return t.UTC(), err
}

func scanID(row pgx.CollectableRow) (uuid.UUID, error) {
	var id uuid.UUID
	err := row.Scan(&id)
	return id, err
}

// formatPolicies writes policies as the column keeps them.
func formatPolicies(p almanac.Policies) string {
	p = p.WithDefaults()
	return strings.Join([]string{string(p.Gap), string(p.Fold), string(p.LeapDay), string(p.MonthEnd)}, ",")
}

// parsePolicies reads the column. One that an older program wrote is shorter, and
// what it leaves out is the default.
func parsePolicies(s string) almanac.Policies {
	var parts [4]string
	copy(parts[:], strings.Split(s, ","))
	return almanac.Policies{
		Gap: almanac.GapPolicy(parts[0]), Fold: almanac.FoldPolicy(parts[1]),
		LeapDay: almanac.LeapDayPolicy(parts[2]), MonthEnd: almanac.MonthEndPolicy(parts[3]),
	}.WithDefaults()
}

// textOrNull is a text that may be NULL, which is what "" is.
func textOrNull(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }

// timeOrNull is an instant that may be NULL, which is what the zero time is.
func timeOrNull(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

// text and int4 are values among which others may be NULL.
func text(s string) pgtype.Text { return pgtype.Text{String: s, Valid: true} }
func int4(n int) pgtype.Int4    { return pgtype.Int4{Int32: int32(n), Valid: true} }

// column makes one parallel array of many rows, for unnest. pgx sends a FlatArray
// without reflection, whatever it is an array of.
func column[T, V any](rows []T, value func(T) V) pgtype.FlatArray[V] {
	values := make(pgtype.FlatArray[V], len(rows))
	for i, row := range rows {
		values[i] = value(row)
	}
	return values
}

// dateArg is a date as pgx takes it.
func dateArg(d almanac.Date) time.Time { return almanac.WallTime{Date: d}.Labelled() }

// uuids is a list of ids as every mode of pgx can send it. A []uuid.UUID it can
// send only when the server has told the type of the parameter.
func uuids(ids []uuid.UUID) pgtype.FlatArray[pgtype.UUID] {
	return column(ids, func(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} })
}
