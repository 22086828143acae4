package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// editLimit is how long a change waits for changes of the same user before it.
const editLimit = 5 * time.Second

// editing lets one change of a user after the other through to the planner. Each
// would lock the user, so others of the same user would only wait, each with a
// connection that requests about other users need. The zero editing is ready for use.
type editing struct {
	mu sync.Mutex
	of map[uuid.UUID]*queue
}

// queue is the changes of one user: one is made and the others wait.
type queue struct {
	place chan struct{} // of the change that is made
	size  int
}

// enter waits until no other change of the user is made. leave must follow, unless
// there is an error, which says that the user is locked.
func (e *editing) enter(ctx context.Context, user uuid.UUID) error {
	e.mu.Lock()
	if e.of == nil {
		e.of = make(map[uuid.UUID]*queue)
	}
	q, ok := e.of[user]
	if !ok {
		q = &queue{place: make(chan struct{}, 1)}
		e.of[user] = q
	}
	q.size++
	e.mu.Unlock()

	wait := time.NewTimer(editLimit)
	defer wait.Stop()
	select {
	case q.place <- struct{}{}:
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
	<-q.place
	e.forget(user, q)
}

func (e *editing) forget(user uuid.UUID, q *queue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.size--; q.size == 0 {
		delete(e.of, user)
	}
}
