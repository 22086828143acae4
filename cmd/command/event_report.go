package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// eventReport is what there is to say about an event.
type eventReport struct {
	eventTarget
	eventDay
	eventExecution
	eventLane
	eventRecord
	Trail []trailStep `json:"trail,omitempty"` // if one was kept and asked for
}

// eventTarget says what happens to whom, and when.
type eventTarget struct {
	ID            uuid.UUID      `json:"id"`
	UserID        uuid.UUID      `json:"userId"`
	Type          string         `json:"type"`
	Series        string         `json:"series,omitempty"` // the name of the series, if the handler runs several
	OccurrenceKey string         `json:"occurrenceKey"`
	Status        almanac.Status `json:"status"`
	Due           time.Time      `json:"due"`  // UTC
	Wall          string         `json:"wall"` // when it is due, as the user's clock shows it
	Zone          string         `json:"zone"`
	Policies      eventPolicies  `json:"policies"`

	Origin      almanac.OriginKind `json:"origin,omitempty"`      // none for a planned event
	OriginEvent *uuid.UUID         `json:"originEvent,omitempty"` // the event that it follows or repeats
}

// eventDay is the local day by the calendar that the key counts by. It is empty for the Gregorian calendar.
type eventDay struct {
	CalendarDate string `json:"calendarDate,omitempty"`
	Calendar     string `json:"calendar,omitempty"`
	text         string // in English
}

func eventDayOf(o calendar.Occurrence) eventDay {
	s, day, ok := o.SystemDay()
	if !ok {
		return eventDay{}
	}
	return eventDay{day.String(), s.Info().Name, day.In(s)}
}

type eventPolicies struct {
	Gap      calendar.GapPolicy      `json:"gap"`
	Fold     calendar.FoldPolicy     `json:"fold"`
	LeapDay  calendar.LeapDayPolicy  `json:"leapDay"`
	MonthEnd calendar.MonthEndPolicy `json:"monthEnd"`

	MissingMonth calendar.MissingPolicy `json:"missingMonth,omitempty"` // both are empty unless the rule is by another calendar
	MissingDay   calendar.MissingPolicy `json:"missingDay,omitempty"`
}

// eventExecution says what has become of it so far.
type eventExecution struct {
	AvailableAt   *time.Time `json:"availableAt,omitempty"` // while it waits: not claimed before
	ExecutedAt    *time.Time `json:"executedAt,omitempty"`
	Lateness      *float64   `json:"latenessSeconds,omitempty"` // once it was delivered
	FailureReason string     `json:"failureReason,omitempty"`   // why it was given up, or cancelled
	LastError     string     `json:"lastError,omitempty"`       // why the last attempt came to nothing
	RetryCount    int        `json:"retryCount"`                // attempts that failed
	ClaimCount    int        `json:"claimCount"`                // how often it was claimed
	CrashCount    int        `json:"crashCount"`                // how often its worker died
	LeaseToken    *uuid.UUID `json:"leaseToken,omitempty"`      // of the claim that holds it, or that ended it
}

// eventRecord is how it is stored.
type eventRecord struct {
	IdempotencyKey almanac.IdempotencyKey `json:"idempotencyKey"`
	UserVersion    int                    `json:"userVersion"` // the version of the user that it was planned from
	Version        int                    `json:"version"`
	CreatedAt      time.Time              `json:"createdAt"`
	UpdatedAt      time.Time              `json:"updatedAt"`
	Payload        json.RawMessage        `json:"payload,omitempty"` // if it was asked for
}

// eventReportOf returns a report without the payload.
func eventReportOf(e almanac.Event) eventReport {
	p := e.Policies.WithDefaults()
	r := eventReport{
		eventTarget: eventTarget{e.ID, e.UserID, e.Type, e.Series, e.OccurrenceKey, e.Status, e.Due, e.Wall.String(), e.Zone, eventPolicies{p.Gap, p.Fold, p.LeapDay, p.MonthEnd, p.Missing.Month, p.Missing.Day}, e.Origin.Kind, unlessZero(e.Origin.From)},
		eventDay:    eventDayOf(e.Occurrence().Occurrence),
		eventExecution: eventExecution{
			AvailableAt: unlessZero(e.AvailableAt), ExecutedAt: unlessZero(e.ExecutedAt), FailureReason: e.FailureReason, LastError: e.LastError,
			RetryCount: e.RetryCount, ClaimCount: e.ClaimCount, CrashCount: e.CrashCount, LeaseToken: unlessZero(e.LeaseToken),
		},
		eventRecord: eventRecord{IdempotencyKey: e.IdempotencyKey, UserVersion: e.UserVersion, Version: e.Version, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt},
	}
	if r.ExecutedAt != nil {
		late := e.Lateness().Seconds()
		r.Lateness = &late
	}
	return r
}

// unlessZero returns a pointer to what is not zero.
func unlessZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func (r eventReport) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("event", "%s", r.ID)
	row("user", "%s, planned from version %d", r.UserID, r.UserVersion)
	row("type", "%s", printable(r.Type))
	if r.Series != "" {
		row("series", "%s", printable(r.Series))
	}
	row("occurrence", "%s", printable(r.OccurrenceKey))
	if r.Origin != almanac.OriginPlanned {
		row("origin", "%s", r.Origin)
	}
	if r.OriginEvent != nil {
		row("of event", "%s", *r.OriginEvent)
	}
	row("status", "%s", r.Status)
	row("due", "%s", instantText(r.Due))
	row("wall time", "%s in %s", r.Wall, r.Zone)
	if r.Calendar != "" {
		row("by its calendar", "%s, %s", r.text, r.Calendar)
	}
	policies := fmt.Sprintf("gap %s, fold %s, leap day %s, month end %s", r.Policies.Gap, r.Policies.Fold, r.Policies.LeapDay, r.Policies.MonthEnd)
	if r.Policies.MissingMonth != "" {
		policies += fmt.Sprintf(", missing month %s, missing day %s", r.Policies.MissingMonth, r.Policies.MissingDay)
	}
	row("policies", "%s", policies)
	if r.AvailableAt != nil {
		row("available", "%s", instantText(*r.AvailableAt))
	}
	if r.ExecutedAt != nil {
		row("executed", "%s, %.3f s late", instantText(*r.ExecutedAt), *r.Lateness)
	}
	for _, line := range r.eventLane.lines() {
		row(line[0], "%s", line[1])
	}
	row("attempts", "%s, %d failed, %d crashed", counted(r.ClaimCount, "claim"), r.RetryCount, r.CrashCount)
	if r.FailureReason != "" {
		name := "given up"
		if r.Status == almanac.Cancelled {
			name = "cancelled"
		}
		row(name, "%s", printable(r.FailureReason))
	}
	if r.LastError != "" {
		row("last error", "%s", printable(r.LastError))
	}
	if r.LeaseToken != nil {
		row("lease", "%s", *r.LeaseToken)
	}
	row("key", "%s", r.IdempotencyKey)
	row("version", "%d, created %s, updated %s", r.Version, instantText(r.CreatedAt), instantText(r.UpdatedAt))
	if r.Payload != nil {
		row("payload", "%s", printable(string(r.Payload)))
	}
	for i, step := range r.Trail {
		name := "trail"
		if i > 0 {
			name = ""
		}
		row(name, "%s", step)
	}
	return table.Flush()
}

// printable writes in one line what others have written, and keeps what could steer
// a terminal away from it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, text)
}
