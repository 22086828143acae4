package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// editLimit is how long a change waits for changes of the same user before it.
const editLimit = 5 * time.Second

// editing passes on to the planner one change of each user at a time. A change locks the
// user, so further changes of the same user would only wait, each on a connection that
// other requests need. The zero editing is ready for use.
type editing struct {
	mu sync.Mutex
	of map[uuid.UUID]*queue
}

// queue is the changes of one user: one runs and the others wait.
type queue struct {
	running chan struct{} // full while a change runs
	size    int
}

// enter waits until no other change of the user runs. It returns the problem "locked" after
// editLimit or when ctx ends. Otherwise the caller must call leave.
func (e *editing) enter(ctx context.Context, user uuid.UUID) error {
	e.mu.Lock()
	if e.of == nil {
		e.of = make(map[uuid.UUID]*queue)
	}
	q, ok := e.of[user]
	if !ok {
		q = &queue{running: make(chan struct{}, 1)}
		e.of[user] = q
	}
	q.size++
	e.mu.Unlock()

	wait := time.NewTimer(editLimit)
	defer wait.Stop()
	select {
	case q.running <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-wait.C:
	}
	e.forget(user, q)
	return locked()
}

func (e *editing) leave(user uuid.UUID) {
	e.mu.Lock()
	q := e.of[user]
	e.mu.Unlock()
	<-q.running
	e.forget(user, q)
}

func (e *editing) forget(user uuid.UUID, q *queue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.size--; q.size == 0 {
		delete(e.of, user)
	}
}
