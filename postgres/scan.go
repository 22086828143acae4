package postgres

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// cell is a column that a query reads, with the destination of its value.
type cell struct {
	name string
	into any
}

func (c cell) column() string { return c.name }
func (c cell) target() any    { return c.into }

// rawID returns the destination for an id that is not NULL. As a [uuid.UUID], which is a sql.Scanner, pgx
// would pass the id as a text.
func rawID(id *uuid.UUID) *[16]byte { return (*[16]byte)(id) }

// rawIDs is the destination of an array of ids, each as for rawID.
type rawIDs struct{ *pgtype.FlatArray[uuid.UUID] }

// ScanIndex is called by pgx.
func (a rawIDs) ScanIndex(i int) any { return rawID(&(*a.FlatArray)[i]) }

// repeated has texts that occur often in a result, such as zones, so that each is allocated once. It
// is limited, because a column may have other texts in every row. The zero value is ready for use.
type repeated struct{ seen map[string]string }

// into returns the destination for a text that is not NULL.
func (r *repeated) into(text *string) repeatedText { return repeatedText{r, text} }

// of returns the text with the given bytes.
func (r *repeated) of(text []byte) string {
	const most = 1000
	if known, ok := r.seen[string(text)]; ok {
		return known
	}
	if r.seen == nil || len(r.seen) == most {
		r.seen = make(map[string]string)
	}
	one := string(text)
	r.seen[one] = one
	return one
}

// repeatedText is the destination of a text that occurs often.
type repeatedText struct {
	*repeated
	text *string
}

var _ pgtype.BytesScanner = repeatedText{}

// ScanBytes is called by pgx.
func (t repeatedText) ScanBytes(text []byte) error {
	if text == nil {
		return errors.New("postgres: a column that cannot be NULL is NULL")
	}
	*t.text = t.of(text)
	return nil
}

// targets returns the destinations of cells, for Scan.
func targets(cells []cell) []any {
	return column(cells, cell.target)
}

// originRow receives the origin of an event. All columns are NULL for a planned event.
type originRow struct {
	kind          *string
	from          *uuid.UUID
	follows, made *bool
	forced        *bool
}

func (r originRow) value() almanac.Origin {
	return almanac.Origin{
		Kind: almanac.OriginKind(orZero(r.kind)), From: orZero(r.from),
		FollowsUser: orZero(r.follows), PayloadMade: orZero(r.made), Forced: orZero(r.forced),
	}
}

// wallRow receives the wall times of an event.
type wallRow struct {
	at      time.Time
	nominal *time.Time // NULL if it is the other one
}

// optionalTimes receives the times that an event may lack.
type optionalTimes struct{ ready, available, executed *time.Time }

// eventRow receives an event. Its own fields receive the columns that must be converted.
type eventRow struct {
	event              almanac.Event
	status, policies   string
	key                string
	payload            []byte
	wall               wallRow
	times              optionalTimes
	token              *uuid.UUID
	origin             originRow
	failure, lastError *string
	consulted          *string
}

// eventSource is where the columns of an event come from.
type eventSource int

const (
	ofView    eventSource = iota // row e of a view of events
	ofClaimed                    // row s of the table series, without the columns that the claim decides
	ofPending                    // row s of the table series and row q of the table queue
)

// cells returns the columns of an event. JSON is read as text, because not every pooler and protocol version
// supports its binary form.
func (r *eventRow) cells(source eventSource) []cell {
	e, texts := &r.event, new(repeated)
	cells := make([]cell, 0, 34)
	for _, c := range [...]struct {
		view, claimed, pending string // pending is "" if it is the same as claimed
		into                   any
	}{
		{"e.id", "s.event_id", "", rawID(&e.ID)},
		{"e.user_id", "", "s.user_id", rawID(&e.UserID)},
		{"e.event_type", "s.event_type", "", texts.into(&e.Type)},
		{"e.series_name", "s.name", "", &e.Series},
		{"e.lane", "s.lane", "", texts.into(&e.Lane)},
		{"e.occurrence_key", "s.occurrence_key", "", texts.into(&e.OccurrenceKey)},
		{"e.key_unit", "s.key_unit", "", texts.into((*string)(&e.KeyUnit))},
		{"e.origin", "s.origin", "", &r.origin.kind},
		{"e.origin_event", "s.origin_event", "", &r.origin.from},
		{"e.follows_user", "s.follows_user", "", &r.origin.follows},
		{"e.payload_made", "s.payload_made", "", &r.origin.made},
		{"e.forced", "s.forced", "", &r.origin.forced},
		{"e.status", "", "'PENDING'::text", &r.status},
		{"e.target_timestamp_utc", "s.target_timestamp_utc", "", &e.Due},
		{"e.target_timestamp_local", "s.target_timestamp_local", "", &r.wall.at},
		{"e.nominal_local", "s.nominal_local", "", &r.wall.nominal},
		{"e.target_timezone", "s.target_timezone", "", texts.into(&e.Zone)},
		{"e.policies", "s.policies", "", texts.into(&r.policies)},
		{"e.idempotency_key", "s.idempotency_key", "", &r.key},
		{"e.delivery_payload::text", "s.delivery_payload::text", "", &r.payload},
		{"e.user_version", "s.user_version", "", &e.UserVersion},
		{"e.ready_at", "s.ready_at", "", &r.times.ready},
		{"e.available_at", "", "q.available_at", &r.times.available},
		{"e.lease_token", "", "NULL::uuid", &r.token},
		{"e.executed_at", "", "NULL::timestamptz", &r.times.executed},
		{"e.failure_reason", "", "NULL::text", &r.failure},
		{"e.last_error", "s.last_error", "", &r.lastError},
		{"e.retry_count", "s.retry_count", "", &e.RetryCount},
		{"e.claim_count", "s.claim_count", "", &e.ClaimCount},
		{"e.crash_count", "s.crash_count", "", &e.CrashCount},
		{"e.version", "s.version", "", &e.Version},
		{"e.created_at", "s.created_at", "", &e.CreatedAt},
		{"e.updated_at", "", "s.updated_at", &e.UpdatedAt},
		{"e.consulted", "", "q.consulted", &r.consulted},
	} {
		name := [...]string{c.view, c.claimed, cmp.Or(c.pending, c.claimed)}[source]
		if name != "" {
			cells = append(cells, cell{name, c.into})
		}
	}
	return cells
}

// value returns the scanned event. pgx returns instants in the local zone of the process, so
// value converts them to UTC.
func (r *eventRow) value() almanac.Event {
	e := r.event
	e.Status = almanac.Status(r.status)
	e.Due, e.CreatedAt, e.UpdatedAt = e.Due.UTC(), e.CreatedAt.UTC(), e.UpdatedAt.UTC()
	e.Origin = r.origin.value()
	e.Wall = calendar.WallTimeOf(r.wall.at)
	if r.wall.nominal != nil {
		e.Nominal = calendar.WallTimeOf(*r.wall.nominal)
	}
	e.Policies = parsePolicies(r.policies)
	e.IdempotencyKey = almanac.IdempotencyKey(r.key)
	e.Payload = r.payload
	e.ReadyAt, e.AvailableAt, e.ExecutedAt = orZero(r.times.ready).UTC(), orZero(r.times.available).UTC(), orZero(r.times.executed).UTC()
	e.LeaseToken = orZero(r.token)
	e.FailureReason, e.LastError = orZero(r.failure), orZero(r.lastError)
	if r.consulted != nil {
		e.Consulted, _ = calendar.ParseConsulted(*r.consulted) // another program's text: the event is not planned again
	}
	return e
}

// scanEvents returns a function that scans the events of one result.
func scanEvents() pgx.RowToFunc[almanac.Event] {
	var r eventRow
	into := targets(r.cells(ofView))
	return func(row pgx.CollectableRow) (almanac.Event, error) {
		if err := row.Scan(into...); err != nil {
			return almanac.Event{}, err
		}
		return r.value(), nil
	}
}

// claimedRow receives an event that is being claimed, with its user.
type claimedRow struct {
	at      time.Time  // of the claim
	reached *time.Time // when the last removed row of the queue became available; nil if none was removed
	live    []string   // the types that had something to claim, if the claim had fewer events than types; otherwise nil
	limits  bool       // whether a lane of the types has limits
	failing bool       // whether a lane of the types has a breaker
	event   eventRow
	user    userRow
	used    *string
}

// claimedID is the place of the event's id in a row of a claim.
const claimedID = 5

func (r *claimedRow) targets() []any {
	return slices.Concat([]any{&r.at, &r.reached, &r.live, &r.limits, &r.failing}, targets(r.event.cells(ofClaimed)), targets(r.user.cells()), []any{&r.used})
}

// value returns the event as it is after its claim.
func (r *claimedRow) value(token uuid.UUID) almanac.Event {
	r.event.status = string(almanac.Processing)
	e := r.event.value()
	e.UserID, e.LeaseToken, e.UpdatedAt = r.user.user.ID, token, r.at.UTC()
	e.ClaimCount++
	e.Version++
	return e
}

// userRow receives a user. Its own fields receive the columns that must be converted.
type userRow struct {
	user             almanac.User
	born             pgtype.Date
	bornBy, bornDay  *string // NULL for a Gregorian date
	zone, source     string
	attributes       []byte
	locale, email    *string
	external, digest *string
	optOuts          *string
}

func (r *userRow) cells() []cell {
	u, texts := &r.user, new(repeated)
	return []cell{
		{"u.id", rawID(&u.ID)},
		{"u.first_name", &u.FirstName},
		{"u.last_name", &u.LastName},
		{"u.date_of_birth", &r.born},
		{"u.birth_calendar", &r.bornBy},
		{"u.birth_day", &r.bornDay},
		{"u.timezone", texts.into(&r.zone)},
		{"u.zone_source", texts.into(&r.source)},
		{"u.attributes::text", &r.attributes},
		{"u.locale", &r.locale},
		{"u.email", &r.email},
		{"u.external_id", &r.external},
		{"u.opt_outs::text", &r.optOuts},
		{"u.creation_digest", &r.digest},
		{"u.version", &u.Version},
		{"u.created_at", &u.CreatedAt},
		{"u.updated_at", &u.UpdatedAt},
	}
}

func (r *userRow) value() (almanac.User, error) {
	if r.user.Timezone.String() != r.zone { // often that of the row before
		r.user.Timezone = calendar.StoredTimezone(r.zone)
	}
	u := r.user
	u.ZoneSource = almanac.ZoneSource(r.source)
	var err error
	if r.bornDay != nil {
		u.DateOfBirth, err = birthBy(orZero(r.bornBy), *r.bornDay)
	} else {
		u.DateOfBirth, err = birthOf(r.born)
	}
	if err != nil {
		return almanac.User{}, err
	}
	u.Attributes = r.attributes
	u.Locale, u.Email, u.ExternalID, u.CreationDigest = orZero(r.locale), orZero(r.email), orZero(r.external), orZero(r.digest)
	u.CreatedAt, u.UpdatedAt = u.CreatedAt.UTC(), u.UpdatedAt.UTC()
	if r.optOuts != nil {
		u.OptOuts, err = parseOptOuts(*r.optOuts)
	}
	return u, err
}

// scanUsers returns a function that scans the users of one result.
func scanUsers() pgx.RowToFunc[almanac.User] {
	var r userRow
	into := targets(r.cells())
	return func(row pgx.CollectableRow) (almanac.User, error) {
		if err := row.Scan(into...); err != nil {
			return almanac.User{}, err
		}
		return r.value()
	}
}

// made has the values of a new row that the database has set.
type made struct {
	id   uuid.UUID
	json string // as the database stores it
	at   time.Time
}

func scanMade(row pgx.CollectableRow) (m made, err error) {
	err = row.Scan(rawID(&m.id), &m.json, &m.at)
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
	err := row.Scan(rawID(&id))
	return id, err
}

// formatPolicies returns policies in the form of the column.
func formatPolicies(p calendar.Policies) string {
	p = p.WithDefaults()
	parts := []string{string(p.Gap), string(p.Fold), string(p.LeapDay), string(p.MonthEnd), string(p.Missing.Month), string(p.Missing.Day)}
	if p.Missing == (calendar.Missing{}) {
		parts = parts[:4]
	}
	return strings.Join(parts, ",")
}

// parseOptOuts reads the opt-outs of a user. Another program can have stored texts that are no dates. They
// must not make the user unreadable: an opt-out with such an end has none, because the user said no.
func parseOptOuts(text string) ([]almanac.OptOut, error) {
	var stored []struct {
		Type, Channel, Until, Reason, Author, Since string
	}
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, err
	}
	all := make([]almanac.OptOut, len(stored))
	for i, o := range stored {
		all[i] = almanac.OptOut{Type: o.Type, Channel: almanac.Channel(o.Channel), Reason: o.Reason, Author: o.Author}
		all[i].Until, _ = calendar.ParseDate(o.Until)
		all[i].Since, _ = time.Parse(time.RFC3339, o.Since)
		if all[i].Since = all[i].Since.UTC(); all[i].Since.Year() < 1 || all[i].Since.Year() > 9999 {
			all[i].Since = time.Time{} // formatOptOuts could not write it back
		}
	}
	return all, nil
}

// formatOptOuts returns opt-outs in the form of the column, or "" for none.
func formatOptOuts(all []almanac.OptOut) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// parsePolicies parses the value of the column.
func parsePolicies(s string) calendar.Policies {
	var parts [6]string
	for i := range parts {
		parts[i], s, _ = strings.Cut(s, ",")
	}
	return calendar.Policies{
		Gap: calendar.GapPolicy(parts[0]), Fold: calendar.FoldPolicy(parts[1]),
		LeapDay: calendar.LeapDayPolicy(parts[2]), MonthEnd: calendar.MonthEndPolicy(parts[3]),
		Missing: calendar.Missing{Month: calendar.MissingPolicy(parts[4]), Day: calendar.MissingPolicy(parts[5])},
	}
}

// orZero returns the value of a column that may be NULL, and the zero value for NULL.
func orZero[T any](value *T) (v T) {
	if value != nil {
		v = *value
	}
	return v
}
