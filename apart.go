package almanac

import (
	"strings"

	"github.com/google/uuid"
)

// A detached event belongs to no series of a handler: nothing follows it. It is a
// requeued event, or a follow-up or a one-off event, whose key begins with a tilde, as no
// handler's does.
const (
	apart        = "~"
	followUpName = apart + "after-" // and the key that the handler gave
	oneOffName   = apart + "at-"    // and the key that the host gave
	onlyTurn     = "/1"             // of the one occurrence; of a one-off event, the marks follow
	followsMark  = "f"              // it follows its user to other zones
	madeMark     = "p"              // the handler makes its payload
)

// isApart reports whether a stored key is that of a follow-up or a one-off event.
func isApart(key string) bool { return strings.HasPrefix(key, apart) }

// detached reports whether e belongs to no series of a handler.
func (e Event) detached() bool { return e.RequeuedFrom != uuid.Nil || isApart(e.OccurrenceKey) }

// followUpKey returns the key under which what a handler names so is stored.
func followUpKey(name string) string { return followUpName + name + onlyTurn }

// followUpNamed returns what the handler named the event that is stored under a key.
func followUpNamed(key string) string {
	return strings.TrimSuffix(strings.TrimPrefix(key, followUpName), onlyTurn)
}

// isOneOff reports whether a stored key is that of a one-off event.
func isOneOff(key string) bool { return strings.HasPrefix(key, oneOffName) }

// oneOff is what the key of a one-off event says. Its name alone is the name of a series:
// no other event of the type can have it, whatever its marks are.
type oneOff struct {
	name          string
	follows, made bool
}

func (o oneOff) key() string {
	key := oneOffName + o.name + onlyTurn
	if o.follows {
		key += followsMark
	}
	if o.made {
		key += madeMark
	}
	return key
}

func oneOffOf(key string) oneOff {
	name, turn, _ := strings.Cut(strings.TrimPrefix(key, oneOffName), "/")
	return oneOff{name, strings.Contains(turn, followsMark), strings.Contains(turn, madeMark)}
}
