package almanactest

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// killable is the repository of a process that can be killed. After that, the process
// stores nothing and its calls return that it holds nothing, so that it ends at once.
type killable struct {
	*Repository

	mu     sync.Mutex
	stop   func() // ends the running process
	isDead bool
}

// revive starts a new process, which stop ends.
func (m *killable) revive(stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop, m.isDead = stop, false
}

// die kills the process. It returns false when none was started.
func (m *killable) die() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop == nil {
		return false
	}
	m.isDead = true
	m.stop()
	return true
}

func (m *killable) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isDead
}

// Claim claims events that are due.
func (m *killable) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if m.dead() {
		return almanac.ClaimResult{At: m.now()}, nil
	}
	return m.Repository.Claim(ctx, request)
}

// Confirm returns which of the events claimed ahead are still held.
func (m *killable) Confirm(ctx context.Context, events []almanac.Event) (almanac.ConfirmResult, error) {
	if m.dead() {
		return almanac.ConfirmResult{At: m.now()}, nil
	}
	return m.Repository.Confirm(ctx, events)
}

// Return releases events that were claimed ahead.
func (m *killable) Return(ctx context.Context, events []almanac.Event) ([]almanac.Event, error) {
	if m.dead() {
		return nil, nil
	}
	return m.Repository.Return(ctx, events)
}

// Renew prolongs leases by another term.
func (m *killable) Renew(ctx context.Context, tokens []uuid.UUID, term time.Duration) ([]uuid.UUID, error) {
	if m.dead() {
		return nil, nil
	}
	return m.Repository.Renew(ctx, tokens, term)
}

// Release releases the events that are still held under a token.
func (m *killable) Release(ctx context.Context, token uuid.UUID) ([]almanac.Event, error) {
	if m.dead() {
		return nil, nil
	}
	return m.Repository.Release(ctx, token)
}

// ReleaseExpired releases the events of expired leases.
func (m *killable) ReleaseExpired(ctx context.Context, limit, shared int) ([]almanac.Event, error) {
	if m.dead() {
		return nil, nil
	}
	return m.Repository.ReleaseExpired(ctx, limit, shared)
}

// TryAlone stores that an event is tried alone.
func (m *killable) TryAlone(ctx context.Context, e almanac.Event) error {
	if m.dead() {
		return nil
	}
	return m.Repository.TryAlone(ctx, e)
}

// Settle stores outcomes and successors.
func (m *killable) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.SettleResult, error) {
	if !m.dead() {
		return m.Repository.Settle(ctx, settlements)
	}
	settled := make([]almanac.SettleResult, len(settlements))
	for i := range settled {
		settled[i].Err = almanac.ErrLeaseLost
	}
	return settled, nil
}
