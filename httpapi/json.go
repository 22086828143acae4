package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// encode returns v as one line of JSON. It does not escape < and &, because answers are
// never part of an HTML page.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// instant is encoded according to RFC 3339, in UTC, with exactly milliseconds.
type instant time.Time

func (t instant) MarshalText() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format("2006-01-02T15:04:05.000Z")), nil
}

type user struct {
	ID          uuid.UUID `json:"id"`
	FirstName   string    `json:"firstName,omitempty"`
	LastName    string    `json:"lastName,omitempty"`
	DateOfBirth string    `json:"dateOfBirth,omitempty"`
	Calendar    string    `json:"calendar,omitempty"` // of dateOfBirth; empty for the Gregorian one
	zone
	Attributes json.RawMessage `json:"attributes,omitempty"`
	Locale     string          `json:"locale,omitempty"`
	Email      string          `json:"email,omitempty"`
	ExternalID string          `json:"externalId,omitempty"`
	OptOuts    []optOut        `json:"optOuts,omitempty"`
	stamps
}

// optOut is what a user refuses.
type optOut struct {
	Type    string          `json:"type,omitempty"`
	Channel almanac.Channel `json:"channel,omitempty"`
	Until   string          `json:"until,omitempty"` // a date
	Reason  string          `json:"reason,omitempty"`
	Author  string          `json:"author,omitempty"`
	Since   *instant        `json:"since,omitempty"` // absent in rows of earlier programs
}

func optOutsOf(all []almanac.OptOut) (list []optOut) {
	for _, o := range all {
		one := optOut{Type: o.Type, Channel: o.Channel, Reason: o.Reason, Author: o.Author}
		if o.Until != (calendar.Date{}) {
			one.Until = o.Until.String()
		}
		if !o.Since.IsZero() {
			one.Since = (*instant)(&o.Since)
		}
		list = append(list, one)
	}
	return list
}

// zone is the time zone of a user, and where it comes from.
type zone struct {
	Timezone   string             `json:"timezone"`
	ZoneSource almanac.ZoneSource `json:"zoneSource"`
}

// stamps say when and how often a row was changed.
type stamps struct {
	Version   int     `json:"version"`
	CreatedAt instant `json:"createdAt"`
	UpdatedAt instant `json:"updatedAt"`
}

func userOf(u almanac.User) user {
	attributes := u.Attributes
	if string(attributes) == "{}" {
		attributes = nil
	}
	return user{
		ID:          u.ID,
		FirstName:   u.FirstName,
		LastName:    u.LastName,
		DateOfBirth: u.DateOfBirth.String(),
		Calendar:    u.DateOfBirth.Calendar(),
		zone:        zone{u.Timezone.String(), u.ZoneSource},
		Attributes:  attributes,
		Locale:      u.Locale,
		Email:       u.Email,
		ExternalID:  u.ExternalID,
		OptOuts:     optOutsOf(u.OptOuts),
		stamps:      stamps{u.Version, instant(u.CreatedAt), instant(u.UpdatedAt)},
	}
}

type event struct {
	ID        uuid.UUID `json:"id"`
	UserID    uuid.UUID `json:"userId"`
	EventType string    `json:"eventType"`
	occurrence
	Status string `json:"status"`
	target
	execution
	Version         int             `json:"version"`
	IdempotencyKey  string          `json:"idempotencyKey"`
	DeliveryPayload json.RawMessage `json:"deliveryPayload"`
	CreatedAt       instant         `json:"createdAt"`
	UpdatedAt       instant         `json:"updatedAt"`
}

// occurrence describes which occurrence an event delivers.
type occurrence struct {
	Series        string             `json:"series,omitempty"` // the name of the series, if the handler runs several
	OccurrenceKey string             `json:"occurrenceKey"`
	Origin        almanac.OriginKind `json:"origin,omitempty"`      // empty for a planned event
	OriginEvent   *uuid.UUID         `json:"originEvent,omitempty"` // the event that it follows or repeats
	Forced        bool               `json:"forced,omitempty"`      // delivered whatever its user refuses
	Consulted     *consulted         `json:"consulted,omitempty"`   // the calendars that its rule looked up
}

// target is the time of an event.
type target struct {
	UTC      instant `json:"targetTimestampUTC"`
	Local    string  `json:"targetTimestampLocal"` // a wall time: no offset
	Timezone string  `json:"targetTimezone"`
	// The local day by the calendar that the key counts by, and the name of that calendar. Empty for the Gregorian one.
	CalendarDate string `json:"calendarDate,omitempty"`
	Calendar     string `json:"calendar,omitempty"`
}

func targetOf(o calendar.Occurrence, due time.Time, zone string) target {
	t := target{UTC: instant(due), Local: o.Wall.String(), Timezone: zone}
	if s, day, ok := o.SystemDay(); ok {
		t.CalendarDate, t.Calendar = day.String(), s.Info().Name
	}
	return t
}

// consulted says which calendars the rule of an event looked up.
type consulted struct {
	Calendars   []calendarRelease `json:"calendars"`
	From        string            `json:"from"` // dates
	Until       string            `json:"until"`
	Provisional bool              `json:"provisional"`
}

type calendarRelease struct {
	Name    string `json:"name"`
	Release string `json:"release"`
}

// consultedOf returns nil if no calendar was looked up.
func consultedOf(c calendar.Consulted) *consulted {
	if c.Calendars == "" {
		return nil
	}
	looked := consulted{From: c.From.String(), Until: c.Until.String(), Provisional: c.Provisional}
	for name, release := range c.Releases() {
		looked.Calendars = append(looked.Calendars, calendarRelease{name, release})
	}
	return &looked
}

// execution is the state of an event's execution so far.
type execution struct {
	ExecutedAt    *instant `json:"executedAt"`
	FailureReason *string  `json:"failureReason"`
	RetryCount    int      `json:"retryCount"`
}

func eventOf(e almanac.Event) event {
	var from *uuid.UUID
	if e.Origin.From != uuid.Nil {
		from = &e.Origin.From
	}
	return event{
		ID:              e.ID,
		UserID:          e.UserID,
		EventType:       e.Type,
		occurrence:      occurrence{e.Series, e.OccurrenceKey, e.Origin.Kind, from, e.Origin.Forced, consultedOf(e.Consulted)},
		Status:          string(e.Status),
		target:          targetOf(e.Occurrence().Occurrence, e.Due, e.Zone),
		execution:       executionOf(e),
		Version:         e.Version,
		IdempotencyKey:  e.IdempotencyKey.String(),
		DeliveryPayload: e.Payload,
		CreatedAt:       instant(e.CreatedAt),
		UpdatedAt:       instant(e.UpdatedAt),
	}
}

func executionOf(e almanac.Event) execution {
	o := execution{RetryCount: e.RetryCount}
	if !e.ExecutedAt.IsZero() {
		at := instant(e.ExecutedAt)
		o.ExecutedAt = &at
	}
	if e.FailureReason != "" {
		o.FailureReason = &e.FailureReason
	}
	return o
}

type userAnswer struct {
	User user `json:"user"`
}

type eventAnswer struct {
	Event event `json:"event"`
}

type createdAnswer struct {
	User              user   `json:"user"`
	NextBirthdayEvent *event `json:"nextBirthdayEvent"`
}

func createdOf(created almanac.UserWithEvents) createdAnswer {
	answer := createdAnswer{User: userOf(created.User)}
	i := slices.IndexFunc(created.Events, func(e almanac.Event) bool { return e.Type == almanac.TypeBirthday })
	if i >= 0 {
		e := eventOf(created.Events[i])
		answer.NextBirthdayEvent = &e
	}
	return answer
}

type updatedAnswer struct {
	User       user       `json:"user"`
	Reschedule reschedule `json:"reschedule"`
}

// reschedule counts what a change of a user did to the user's events.
type reschedule struct {
	Rescheduled     int         `json:"rescheduled"` // have a new instant
	Added           int         `json:"added"`       // are owed now
	Removed         int         `json:"removed"`     // were never claimed, and are owed no longer
	Cancelled       int         `json:"cancelled"`   // waited for another attempt, and are refused now
	Skipped         int         `json:"skipped"`     // were claimed before the change, and stay as they are
	SkippedEventIDs []uuid.UUID `json:"skippedEventIds"`
	LeftOut         []leftOut   `json:"leftOut"`
}

// leftOut is an occurrence that is not delivered, because it counts as used after the change.
type leftOut struct {
	EventType     string `json:"eventType"`
	Series        string `json:"series,omitempty"`
	OccurrenceKey string `json:"occurrenceKey"`
	target
}

func updatedOf(result almanac.UpdateUserResult) updatedAnswer {
	skipped, left := append([]uuid.UUID{}, result.Skipped...), []leftOut{} // [] rather than null
	for one, o := range result.LeftOut {
		left = append(left, leftOut{one.Type, one.Name, o.Key, targetOf(o.Occurrence, o.Resolution.Instant, o.Zone.String())})
	}
	slices.SortFunc(left, func(a, b leftOut) int {
		return cmp.Or(strings.Compare(a.EventType, b.EventType), strings.Compare(a.Series, b.Series))
	})
	return updatedAnswer{userOf(result.User), reschedule{
		len(result.Moved), len(result.Added), len(result.Removed), len(result.Cancelled), len(skipped), skipped, left,
	}}
}

type listAnswer struct {
	Events     []event         `json:"events"`
	NextCursor *almanac.Cursor `json:"nextCursor"`
}

func listOf(found almanac.List[almanac.Event]) listAnswer {
	answer := listAnswer{Events: make([]event, 0, len(found.Items))}
	for _, e := range found.Items {
		answer.Events = append(answer.Events, eventOf(e))
	}
	if found.Next != "" {
		answer.NextCursor = &found.Next
	}
	return answer
}
