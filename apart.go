package almanac

import "strings"

// An event apart stands by itself: nobody plans it again and nothing follows it. It
// is the one of a series whose name no handler can give.
const (
	apart        = "~"
	requeuedName = apart + "again-" // and the id of the event that failed
	followUpName = apart + "after-" // and the key that the handler gave
	onlyTurn     = "/1"             // of the one occurrence
)

// isApart reports whether a stored key is that of an event apart.
func isApart(key string) bool { return strings.HasPrefix(key, apart) }

// requeuedKey returns the key under which an event begins again. There is but one, so
// it begins again once.
func requeuedKey(e Event) string { return requeuedName + e.ID.String() + onlyTurn }

// followUpKey returns the key under which what a handler names so is stored.
func followUpKey(name string) string { return followUpName + name + onlyTurn }

// followUpNamed returns what the handler named the event that is stored under a key.
func followUpNamed(key string) string {
	return strings.TrimSuffix(strings.TrimPrefix(key, followUpName), onlyTurn)
}
