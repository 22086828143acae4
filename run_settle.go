package almanac

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac/internal/isolate"
)

// settlements returns the settlements of a batch. What follows the events is planned for the whole
// batch when the repository first asks for it, in one goroutine besides that of the transaction.
func (w *worker) settlements(jobs []*job) []Settlement {
	next := &plans[Event]{worker: w, jobs: jobs, what: "planning the successor of", plan: w.planNext, lost: func(j *job) *error { return &j.nextLost }}
	follow := &plans[[]Event]{worker: w, jobs: jobs, what: "planning what follows", plan: w.planFollowing, lost: func(j *job) *error { return &j.followLost }}
	batch := make([]Settlement, len(jobs))
	for i, j := range jobs {
		batch[i] = Settlement{Event: j.event, User: j.user, Outcome: j.outcome}
		if j.outcome.Status == Pending {
			continue
		}
		if j.event.CrashCount > w.crashes { // a worker died while it stored this outcome; the planning code may be the cause
			err := fmt.Errorf("almanac: next event not planned: worker died %d times", j.event.CrashCount)
			batch[i].Next = func(User, time.Time) (Event, error) { return Event{}, err }
			continue
		}
		batch[i].Next = func(u User, now time.Time) (Event, error) { return next.of(i, u, now) }
		if w.followWith(j.route.handler, j.event, j.outcome) != nil {
			batch[i].Follow = func(u User, now time.Time) ([]Event, error) { return follow.of(i, u, now) }
		}
	}
	return batch
}

func (w *worker) planNext(j *job, u User, now time.Time) (Event, error) {
	if j.outcome.Status == Pending {
		return Event{}, nil
	}
	e, err := successor(j.route.handler, j.event, u, now)
	return w.stampHere(e, now), err
}

func (w *worker) planFollowing(j *job, u User, now time.Time) ([]Event, error) {
	if follow := w.followWith(j.route.handler, j.event, j.outcome); follow != nil {
		return follow(u, now)
	}
	return nil, nil
}

// plans has what the host's code plans for the events of a batch.
type plans[T any] struct {
	*worker
	jobs []*job
	what string // what the code is for
	plan func(j *job, u User, now time.Time) (T, error)
	// lost returns where a job keeps why its plan was given up. The code is not called again
	// when the settlement is repeated.
	lost func(j *job) *error

	at   time.Time // of the transaction that asked first
	made []made[T] // then, from the users as they were claimed; nil before
}

type made[T any] struct {
	plan T
	err  error
}

// of returns the plan of the i-th job for its user at the time of the transaction.
func (p *plans[T]) of(i int, u User, now time.Time) (T, error) {
	if p.made == nil {
		p.at, p.made = now, p.make(p.jobs, func(j *job) User { return j.user }, now)
	}
	one, was := &p.made[i], &p.jobs[i].user
	if u.ID != was.ID || u.Version != was.Version || !u.CreatedAt.Equal(was.CreatedAt) || !now.Equal(p.at) {
		is := u // a copy, so that no other user is on the heap
		one = &p.make(p.jobs[i:i+1], func(*job) User { return is }, now)[0]
	}
	return one.plan, one.err
}

func (p *plans[T]) make(jobs []*job, user func(*job) User, now time.Time) []made[T] {
	before := make([]error, len(jobs)) // read here, because a blocked call goes on beside Lost
	for i, j := range jobs {
		before[i] = *p.lost(j)
	}
	return isolate.Run(p.running.host, isolate.Calls[made[T]]{
		N:    len(jobs),
		Name: func(i int) isolate.Name { return isolate.Name{Type: jobs[i].event.Type, User: jobs[i].event.UserID} },
		Call: func(i int) (m made[T]) {
			if m.err = before[i]; m.err == nil {
				m.plan, m.err = p.plan(jobs[i], user(jobs[i]), now)
			}
			return m
		},
		Lost: func(i int, err error) made[T] {
			err = fmt.Errorf("almanac: %s %s %w", p.what, jobs[i].event.Type, err)
			*p.lost(jobs[i]) = err
			return made[T]{err: err}
		},
	})
}
