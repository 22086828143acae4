package almanactest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// FindEvents returns the events that spec matches, in order of creation. Unless there are
// exactly n, it fails t at once and lists the events that there are.
func FindEvents(t testing.TB, r almanac.Repository, spec almanac.Spec, n int) []almanac.Event {
	t.Helper()
	found := findAll(t, r, spec)
	switch {
	case len(found) == n:
	case len(found) > 0:
		t.Fatalf("want %d %s, found %d:%s", n, describe(spec), len(found), list(found))
	default:
		near := nearby(spec)
		t.Fatalf("want %d %s, found none; there are these %s:%s", n, describe(spec), describe(near), list(findAll(t, r, near)))
	}
	return found
}

// PendingEvent returns the one pending event of a type for a user. If there is none, or
// more than one, it fails t at once and lists the events that there are.
func PendingEvent(t testing.TB, r almanac.Repository, userID uuid.UUID, eventType string) almanac.Event {
	t.Helper()
	spec := almanac.And{almanac.ForUser(userID), almanac.OfType(eventType), almanac.InStatus(almanac.Pending)}
	return FindEvents(t, r, spec, 1)[0]
}

// PendingAt is like [PendingEvent]. It also fails t at once unless the event is for the wall time and
// the zone in want, such as "2027-03-15T09:00 Europe/London". Seconds may be omitted when they are zero.
func PendingAt(t testing.TB, r almanac.Repository, userID uuid.UUID, eventType, want string) almanac.Event {
	t.Helper()
	wall, zone, _ := strings.Cut(want, " ")
	if len(wall) == len("2006-01-02T15:04") {
		wall += ":00"
	}
	at, err := calendar.ParseWallTime(wall)
	if err != nil || zone == "" {
		t.Fatalf("almanactest: %q is no wall time and zone such as %q", want, "2027-03-15T09:00 Europe/London")
	}
	e := PendingEvent(t, r, userID, eventType)
	if e.Wall != at || e.Zone != zone {
		t.Fatalf("want %s %s at %s %s, found:%s", eventType, almanac.Pending, at, zone, list([]almanac.Event{e}))
	}
	return e
}

func findAll(t testing.TB, r almanac.Repository, spec almanac.Spec) (all []almanac.Event) {
	t.Helper()
	page := almanac.Page{Limit: 1000}
	for {
		found, err := r.Find(t.Context(), spec, page)
		if err != nil {
			t.Fatalf("find %s: %v", describe(spec), err)
		}
		all = append(all, found.Items...)
		if found.Next == "" {
			return all
		}
		page.After = found.Next
	}
}

// nearby returns what to list when nothing was found: the events of the user, or all.
func nearby(spec almanac.Spec) almanac.Spec {
	parts, _ := spec.(almanac.And)
	for _, part := range append(parts, spec) {
		if user, ok := part.(almanac.ForUser); ok {
			return user
		}
	}
	return nil
}

// list writes one line for each event, up to a limit.
func list(events []almanac.Event) string {
	const most = 20
	if len(events) == 0 {
		return "\n\tnothing"
	}
	var text strings.Builder
	for _, e := range events[:min(most, len(events))] {
		text.WriteString("\n\t" + line(e))
	}
	if left := len(events) - most; left > 0 {
		fmt.Fprintf(&text, "\n\tand %d more", left)
	}
	return text.String()
}

// occurrence describes the occurrence of an event: the type, the series if it has a name, and the key.
func occurrence(e almanac.Event) string {
	if e.Series == "" {
		return e.Type + " " + e.OccurrenceKey
	}
	return e.Type + " " + e.Series + " " + e.OccurrenceKey
}

func line(e almanac.Event) string {
	text := fmt.Sprintf("%s %s at %s %s (%s)", occurrence(e), e.Status, e.Wall, e.Zone, e.Due.UTC().Format("2006-01-02T15:04:05Z"))
	if e.RetryCount > 0 {
		text += fmt.Sprintf(", %d failed attempts", e.RetryCount)
	}
	if e.CrashCount > 0 {
		text += fmt.Sprintf(", %d crashes", e.CrashCount)
	}
	switch e.Status {
	case almanac.Completed:
		text += fmt.Sprintf(", %v late", e.Lateness())
	case almanac.Failed, almanac.Cancelled:
		text += fmt.Sprintf(", %q", e.FailureReason)
	default:
		if e.LastError != "" {
			text += fmt.Sprintf(", %q", e.LastError)
		}
	}
	return text + fmt.Sprintf(", event %s of user %s", e.ID, e.UserID)
}

// describe returns in words which events a specification matches, for failure messages.
func describe(spec almanac.Spec) string {
	if spec == nil {
		return "events"
	}
	return "events (" + part(spec) + ")"
}

func part(spec almanac.Spec) string {
	switch spec := spec.(type) {
	case nil:
		return "any"
	case almanac.And:
		return join(spec, " and ", "any")
	case almanac.Or:
		return join(spec, " or ", "none")
	case almanac.Not:
		return "not " + part(spec.Spec)
	case almanac.ForUser:
		return "of user " + uuid.UUID(spec).String()
	case almanac.OfType:
		return "of type " + string(spec)
	case almanac.InStatus:
		return string(spec)
	case almanac.InZone:
		return "in zone " + strings.Join(spec, " or ")
	case almanac.DueBetween:
		return "due" + bound(" from ", spec.From) + bound(" until ", spec.Until)
	case almanac.Ready:
		return "ready"
	case almanac.Overdue:
		return fmt.Sprintf("overdue by more than %v", spec.By)
	}
	return fmt.Sprintf("%T", spec)
}

func bound(which string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return which + at.UTC().Format(time.RFC3339)
}

func join(parts []almanac.Spec, operator, none string) string {
	switch len(parts) {
	case 0:
		return none
	case 1:
		return part(parts[0])
	}
	described := make([]string, len(parts))
	for i, p := range parts {
		described[i] = part(p)
		if nested, ok := p.(almanac.Or); ok && len(nested) > 1 {
			described[i] = "(" + described[i] + ")"
		}
	}
	return strings.Join(described, operator)
}
