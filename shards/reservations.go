package shards

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Reservations keep which user may have an external id, over all schemas. They live beside the schemas: see
// [NewPostgresReservations] and [NewMemoryReservations]. They are safe for concurrent use.
//
// A reservation is made before its user is stored with the external id. It does not prove that the user has the external
// id. If the user has not, another user takes the reservation over.
type Reservations interface {
	// Hold makes reservations, unless the external id is reserved for another user. The external ids of the list differ. The
	// results have the order of the list.
	Hold(ctx context.Context, wanted []Reservation) ([]Held, error)

	// End ends attempts whose outcome is known: their reservations are busy no longer. It leaves out reservations with
	// another attempt.
	End(ctx context.Context, attempts []Reservation) error

	// Take replaces a reservation if it still has that user and that attempt, and is not busy. It reports whether it did so. If there
	// is no reservation any more, Take makes it.
	Take(ctx context.Context, from Held, to Reservation) (bool, error)

	// Free deletes a reservation if it still has that user and that attempt, and is not busy.
	Free(ctx context.Context, externalID string, is Held) error
}

// Reservation reserves an external id for a user.
type Reservation struct {
	ExternalID string
	User       uuid.UUID
	// Attempt is a random id of an attempt to create the user.
	Attempt uuid.UUID
	// For is how long the reservation is busy: it can neither be taken over nor deleted, because the user may still be
	// created. Zero means not at all.
	For time.Duration
}

// Held is the state of a reservation.
type Held struct {
	User    uuid.UUID // whose it is
	Attempt uuid.UUID // the last attempt to create the user
	Busy    bool      // whether it was busy before the call
}

// NewMemoryReservations returns reservations in memory, for tests. They end with the process.
func NewMemoryReservations() Reservations {
	return &memoryReservations{rows: make(map[string]reserved)}
}

type memoryReservations struct {
	mu   sync.Mutex
	rows map[string]reserved // by external id
}

type reserved struct {
	user, attempt uuid.UUID
	ended         <-chan struct{} // closed when the reservation is busy no longer; nil if it is not busy
}

func (r reserved) busy() bool {
	select {
	case <-r.ended:
		return false
	default:
		return r.ended != nil
	}
}

// still reports whether a reservation is as it was, and not busy.
func (r reserved) still(was Held) bool {
	return r.user == was.User && r.attempt == was.Attempt && !r.busy()
}

// busyFor returns a channel that is closed after a time, or nil.
func busyFor(d time.Duration) <-chan struct{} {
	if d <= 0 {
		return nil
	}
	ended := make(chan struct{})
	time.AfterFunc(d, func() { close(ended) })
	return ended
}

func (m *memoryReservations) Hold(_ context.Context, wanted []Reservation) ([]Held, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make([]Held, len(wanted))
	for i, w := range wanted {
		row, is := m.rows[w.ExternalID]
		busy := row.busy()
		if !is || row.user == w.User && w.For > 0 {
			row = reserved{w.User, w.Attempt, busyFor(w.For)}
			m.rows[w.ExternalID] = row
		}
		held[i] = Held{row.user, row.attempt, busy}
	}
	return held, nil
}

func (m *memoryReservations) End(_ context.Context, attempts []Reservation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range attempts {
		if row := m.rows[a.ExternalID]; row.user == a.User && row.attempt == a.Attempt {
			row.ended = nil
			m.rows[a.ExternalID] = row
		}
	}
	return nil
}

func (m *memoryReservations) Take(_ context.Context, from Held, to Reservation) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, is := m.rows[to.ExternalID]
	if is && !row.still(from) {
		return false, nil
	}
	m.rows[to.ExternalID] = reserved{to.User, to.Attempt, busyFor(to.For)}
	return true, nil
}

func (m *memoryReservations) Free(_ context.Context, externalID string, is Held) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows[externalID].still(is) {
		delete(m.rows, externalID)
	}
	return nil
}
