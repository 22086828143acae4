package almanactest

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// mortal is a repository as a process sees it that can die. The dead store nothing
// any more and are told that they hold nothing, so that they go away at once.
type mortal struct {
	*Repository

	mu     sync.Mutex
	stop   func() // ends the process that runs
	isDead bool
}

var (
	_ almanac.BulkRepository = (*mortal)(nil)
	_ almanac.Confirmer      = (*mortal)(nil)
)

// revive begins the life of a process.
func (m *mortal) revive(stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop, m.isDead = stop, false
}

// die ends it, and reports whether there was one.
func (m *mortal) die() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop == nil {
		return false
	}
	m.isDead = true
	m.stop()
	return true
}

func (m *mortal) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isDead
}

// Claim takes events that are due.
func (m *mortal) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.Claim, error) {
	if m.dead() {
		return almanac.Claim{At: m.now()}, nil
	}
	return m.Repository.Claim(ctx, request)
}

// Confirm says which events that were claimed ahead are still held.
func (m *mortal) Confirm(ctx context.Context, events []almanac.Event) (almanac.Confirmed, error) {
	if m.dead() {
		return almanac.Confirmed{At: m.now()}, nil
	}
	return m.Repository.Confirm(ctx, events)
}

// Return gives back events that were claimed ahead.
func (m *mortal) Return(ctx context.Context, events []almanac.Event) ([]almanac.Event, error) {
	if m.dead() {
		return nil, nil
	}
	return m.Repository.Return(ctx, events)
}

// Renew lets leases run for another term.
func (m *mortal) Renew(ctx context.Context, tokens []uuid.UUID, term time.Duration) ([]uuid.UUID, error) {
	if m.dead() {
		return nil, nil
	}
	return m.Repository.Renew(ctx, tokens, term)
}

// Release gives back what is still held under a token.
func (m *mortal) Release(ctx context.Context, token uuid.UUID) ([]almanac.Event, error) {
	if m.dead() {
		return nil, nil
	}
	return m.Repository.Release(ctx, token)
}

// ReleaseExpired gives back the events of leases that ran out.
func (m *mortal) ReleaseExpired(ctx context.Context, limit int) ([]almanac.Event, error) {
	if m.dead() {
		return nil, nil
	}
	return m.Repository.ReleaseExpired(ctx, limit)
}

// Settle stores outcomes and successors.
func (m *mortal) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	if !m.dead() {
		return m.Repository.Settle(ctx, settlements)
	}
	settled := make([]almanac.Settled, len(settlements))
	for i := range settled {
		settled[i].Err = almanac.ErrLeaseLost
	}
	return settled, nil
}
