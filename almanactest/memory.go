package almanactest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Repository is an [almanac.Repository] in memory. It is safe for concurrent use,
// keeps nothing after the process, and starts no goroutine.
type Repository struct {
	clock func() time.Time

	mu sync.Mutex
	state
}

// state is everything that a transaction could undo.
type state struct {
	users  map[uuid.UUID]user
	events map[uuid.UUID]almanac.Event
	leases map[uuid.UUID]lease
	used   map[series]string            // the greatest key of an event that has ended
	waits  map[series]string            // that key, of series whose successor is left to a program with the handler
	zones  map[string]almanac.ZoneRules // replaced as a whole: it is large, and seldom changes
	marks  []almanac.ZoneRules          // replaced as a whole too
	pauses map[string]time.Time         // since when, by event type
	pruned time.Time                    // events of instants before it may have been pruned
}

// series is what a user's events of a type belong to whose keys have the same name.
type series struct {
	user            uuid.UUID
	eventType, name string
}

// seriesOf returns the series of an event. A requeued event is in one of its own, so that
// it is requeued once.
func seriesOf(e almanac.Event) series {
	if e.RequeuedFrom != uuid.Nil {
		return series{e.UserID, e.Type, "~again-" + e.RequeuedFrom.String() + "/"}
	}
	return series{e.UserID, e.Type, seriesName(e.OccurrenceKey)}
}

// seriesName is the part of a key that names its series, with the slash, or "".
func seriesName(key string) string { return key[:strings.IndexByte(key, '/')+1] }

type user struct {
	almanac.User
	deleted bool // hidden, until nothing of theirs is in flight
}

type lease struct {
	claimed, expires time.Time
	ahead            time.Time // since when events may be ahead of their instant; zero when all were due
	ids              []uuid.UUID
}

var (
	_ almanac.Repository     = (*Repository)(nil)
	_ almanac.BulkRepository = (*Repository)(nil)
	_ almanac.Confirmer      = (*Repository)(nil)

	_ almanac.PauseRepository = (*Repository)(nil)
)

// NewRepository returns an empty repository. Its clock decides what is due; nil
// means time.Now.
func NewRepository(clock func() time.Time) *Repository {
	if clock == nil {
		clock = time.Now
	}
	return &Repository{clock: clock, state: state{
		users:  make(map[uuid.UUID]user),
		events: make(map[uuid.UUID]almanac.Event),
		leases: make(map[uuid.UUID]lease),
		used:   make(map[series]string),
		waits:  make(map[series]string),
		zones:  make(map[string]almanac.ZoneRules),
		pauses: make(map[string]time.Time),
	}}
}

// now is the clock, as exact as a database's.
func (r *Repository) now() time.Time { return r.clock().UTC().Truncate(time.Microsecond) }

// Now returns the clock's time.
func (r *Repository) Now(context.Context) (time.Time, error) { return r.now(), nil }

// transact runs an operation that takes effect as a whole or not at all.
func (r *Repository) transact(ctx context.Context, operation func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("almanactest: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before, done := r.state.cloned(), false
	defer func() {
		if !done { // an error, or a panic of the caller's code
			r.state = before
		}
	}()
	err := operation(r.now())
	done = err == nil
	return err
}

// cloned returns a copy that shares nothing that is changed in place.
func (s state) cloned() state {
	s.users, s.events, s.leases = maps.Clone(s.users), maps.Clone(s.events), maps.Clone(s.leases)
	s.used, s.waits, s.pauses = maps.Clone(s.used), maps.Clone(s.waits), maps.Clone(s.pauses)
	return s
}

// read runs an operation that changes nothing.
func (r *Repository) read(ctx context.Context, operation func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("almanactest: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return operation(r.now())
}

// matching returns the events that match, in order of creation.
func (s *state) matching(match func(almanac.Event) bool) []almanac.Event {
	var events []almanac.Event
	for _, e := range s.events {
		if match(e) {
			events = append(events, copied(e))
		}
	}
	slices.SortFunc(events, func(a, b almanac.Event) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return events
}

// visible returns a user who is not deleted.
func (s *state) visible(id uuid.UUID) (almanac.User, error) {
	u, ok := s.users[id]
	if !ok || u.deleted {
		return almanac.User{}, &almanac.NotFoundError{Kind: "user", ID: id}
	}
	u.Attributes = bytes.Clone(u.Attributes)
	return u.User, nil
}
