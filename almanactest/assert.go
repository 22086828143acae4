package almanactest

import (
	"testing"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// PendingEvent returns the one pending event of a type that a user is owed. It
// fails t at once if there is none, or more than one.
func PendingEvent(t testing.TB, r almanac.Repository, userID uuid.UUID, eventType string) almanac.Event {
	t.Helper()
	spec := almanac.And{almanac.ForUser(userID), almanac.OfType(eventType), almanac.InStatus(almanac.Pending)}
	found, err := r.Find(t.Context(), spec, almanac.Page{Limit: 2})
	if err != nil {
		t.Fatalf("pending %s of user %s: %v", eventType, userID, err)
	}
	if n := len(found.Events); n != 1 {
		t.Fatalf("user %s has %d pending %s events, or more; want 1", userID, n, eventType)
	}
	return found.Events[0]
}
