package almanactest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// Repository is an [almanac.Repository] in memory. It is safe for concurrent use and starts
// no goroutine. Its contents end with the process.
type Repository struct {
	clock func() time.Time

	mu sync.Mutex
	state
}

// state is everything that a transaction can roll back.
type state struct {
	users  map[uuid.UUID]user
	events map[uuid.UUID]almanac.Event
	leases map[uuid.UUID]lease
	due    map[uuid.UUID]time.Time          // the instant of each event when it was created, which its idempotency key hashes
	used   map[series]almanac.UsedKeys      // of the events that have ended
	waits  map[series]almanac.StalledSeries // the stalled series
	shared map[string]almanac.Setting       // by name
	pruned time.Time                        // events due before it may have been pruned
	rules
	lanes
	index
	undo undo
}

// rules are what events follow. Each list is replaced as a whole, because it seldom changes.
type rules struct {
	zones     []almanac.ZoneRecord // by zone
	marks     []calendar.ZoneRules
	calendars []calendar.DayRules // by name
	held      []almanac.Quarantine
}

// undo puts back what a transaction has changed in the maps.
type undo []func()

func set[K comparable, V any](u *undo, in map[K]V, key K, value V) {
	keep(u, in, key)
	in[key] = value
}

func remove[K comparable, V any](u *undo, from map[K]V, key K) {
	keep(u, from, key)
	delete(from, key)
}

func removeFunc[K comparable, V any](u *undo, from map[K]V, match func(K, V) bool) {
	for key, value := range from {
		if match(key, value) {
			remove(u, from, key)
		}
	}
}

func keep[K comparable, V any](u *undo, in map[K]V, key K) {
	was, had := in[key]
	*u = append(*u, func() {
		if delete(in, key); had {
			in[key] = was
		}
	})
}

// rollBack returns to an earlier state of the same transaction.
func (s *state) rollBack(to state) {
	for _, undo := range slices.Backward(s.undo[len(to.undo):]) {
		undo()
	}
	index := s.index // its slices may have moved
	*s = to
	s.index = index
}

// series is one of the series of a user.
type series struct {
	user uuid.UUID
	almanac.Series
}

func seriesOf(e almanac.Event) series { return series{e.UserID, almanac.SeriesOf(e)} }

type user struct {
	almanac.User
	deleted bool // hidden, until none of the user's events is in flight
}

type lease struct {
	owner, program, zoneData string

	claimed, expires time.Time
	ahead            time.Time // from when events may be claimed ahead of their instant; zero when all were due
	ids              []uuid.UUID
	alone            uuid.UUID // the event that is tried alone
}

var (
	_ almanac.Repository = (*Repository)(nil)
	_ ops.Statistics     = (*Repository)(nil)
)

// NewRepository returns an empty repository. Its clock decides what is due; nil means time.Now.
func NewRepository(clock func() time.Time) *Repository {
	if clock == nil {
		clock = time.Now
	}
	return &Repository{clock: clock, state: state{
		users:  make(map[uuid.UUID]user),
		events: make(map[uuid.UUID]almanac.Event),
		leases: make(map[uuid.UUID]lease),
		due:    make(map[uuid.UUID]time.Time),
		used:   make(map[series]almanac.UsedKeys),
		waits:  make(map[series]almanac.StalledSeries),
		lanes:  lanes{broadcasts: make(map[string]broadcasted), pauses: make(map[string]almanac.Pause), limits: make(map[string]lane), passes: make(map[string]float64), breakers: make(map[string]almanac.Breaker)},
		shared: make(map[string]almanac.Setting),
		index:  newIndex(),
	}}
}

// now returns the clock's time, truncated to microseconds like a database's.
func (r *Repository) now() time.Time { return r.clock().UTC().Truncate(time.Microsecond) }

// Now returns the clock's time.
func (r *Repository) Now(context.Context) (time.Time, error) { return r.now(), nil }

// Listen returns at once: no other process can store anything.
func (r *Repository) Listen(context.Context, func()) error { return nil }

// Verify returns nil: there are no migrations.
func (r *Repository) Verify(context.Context) error { return nil }

// InTransaction returns false: no transaction of a host exists here.
func (r *Repository) InTransaction() bool { return false }

// transact runs an operation that takes effect completely or not at all.
func (r *Repository) transact(ctx context.Context, operation func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("almanactest: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undo = nil
	before, done := r.state, false
	defer func() {
		if !done { // an error, or a panic of the caller's function
			r.rollBack(before)
		}
	}()
	err := operation(r.now())
	done = err == nil
	return err
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
	return s.after(uuid.Nil, false, len(s.order), match)
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
