package almanac

import (
	"strings"

	"github.com/google/uuid"
)

// A detached event belongs to no series of a handler: nothing follows it. It is a
// requeued event, or a follow-up, whose key begins with a tilde, as no handler's does.
const (
	apart        = "~"
	followUpName = apart + "after-" // and the key that the handler gave
	onlyTurn     = "/1"             // of the one occurrence
)

// isApart reports whether a stored key is that of a follow-up.
func isApart(key string) bool { return strings.HasPrefix(key, apart) }

// detached reports whether e belongs to no series of a handler.
func (e Event) detached() bool { return e.RequeuedFrom != uuid.Nil || isApart(e.OccurrenceKey) }

// followUpKey returns the key under which what a handler names so is stored.
func followUpKey(name string) string { return followUpName + name + onlyTurn }

// followUpNamed returns what the handler named the event that is stored under a key.
func followUpNamed(key string) string {
	return strings.TrimSuffix(strings.TrimPrefix(key, followUpName), onlyTurn)
}
