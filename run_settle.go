package almanac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/almanac-go/almanac/internal/isolate"
)

// settle stores a batch of outcomes and notifies observers. It returns the indexes of
// settlements whose events are locked.
func (w *worker) settle(ctx context.Context, jobs []*job) (later []int, err error) {
	w.report(ctx, jobs)
	memory := w.takeMemory()
	batch := w.settlements(jobs, memory)
	settled, err := w.repository.Settle(ctx, batch)
	if err != nil {
		w.mark.reset() // some of it may be available again
		return nil, err
	}
	w.measureOutcomes(ctx, settled)
	freed := false // whether a lane may have a free place
	for i := range settled {
		r := &settled[i]
		if errors.Is(r.Err, ErrLocked) {
			later = append(later, i)
			continue
		}
		w.running.alone.CompareAndSwap(jobs[i].alone, 0)
		freed = freed || jobs[i].of.placed
		w.logOutcome(ctx, &batch[i], r)
		if next := r.next(); r.Err == nil && w.soon(next, r.Event.UpdatedAt) {
			w.running.wakeFor(*next)
		}
		if len(r.Followed) > 0 {
			w.running.wakeFor(r.Followed...)
		}
	}
	if freed {
		w.engine.Wake()
	}
	w.notifySettled(ctx, batch, settled)
	w.putMemory(memory) // not after an error: a repository of the host's may still read it
	w.putJobs(jobs, later)
	return later, nil
}

// next returns the event of a result that may be PENDING.
func (r *SettleResult) next() *Event {
	if r.Successor != nil {
		return r.Successor
	}
	return &r.Event
}

// soon reports whether an event may be due before the next poll. An event that is due
// later is not before the mark either.
func (w *worker) soon(e *Event, now time.Time) bool {
	return !e.AvailableAt.IsZero() && e.AvailableAt.Sub(now) < 2*w.poll
}

// workerMemory is memory that is used again. Without it, a fifth of the time of an event would be spent on allocating
// and collecting.
type workerMemory struct {
	batches chan *batchMemory
	jobs    jobPool
	claim   *ClaimResult // of the last claim; only the claimer uses it
}

// batchMemory is the memory of a batch, for the batches that follow. Nothing refers to it after a call of settle,
// because a repository does not keep settlements, and a call of the host's code that was given up writes no result.
type batchMemory struct {
	settlements []Settlement
	next        []made[Event]
}

func (w *worker) takeMemory() *batchMemory {
	select {
	case m := <-w.memory.batches:
		return m
	default:
		return new(batchMemory)
	}
}

// putMemory keeps the memory of a batch that is settled, without what it refers to.
func (w *worker) putMemory(m *batchMemory) {
	clear(m.settlements)
	clear(m.next)
	select {
	case w.memory.batches <- m:
	default:
	}
}

// jobPool has jobs whose outcomes are stored, for the events that follow. It is safe for concurrent use.
type jobPool struct {
	mu   sync.Mutex
	free []*job
}

// take returns n empty jobs. A few new ones share one piece of memory, which takes less time than a piece for
// each. An event that is delivered slowly keeps the memory of its neighbours.
func (p *jobPool) take(n int) []*job {
	const together = 7 // fill a size class of the allocator
	jobs := make([]*job, n)
	p.mu.Lock()
	i := copy(jobs, p.free[max(0, len(p.free)-n):])
	p.free = p.free[:len(p.free)-i]
	p.mu.Unlock()
	for i < n {
		few := make([]job, min(together, n-i))
		for k := range few {
			jobs[i] = &few[k]
			i++
		}
	}
	return jobs
}

// put takes jobs back to which nothing refers any more. It keeps those of two claims at most.
func (p *jobPool) put(jobs []*job) {
	for _, j := range jobs {
		*j = job{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, jobs[:min(len(jobs), max(0, 2*maxClaim-len(p.free)))]...)
}

// putJobs keeps the jobs of a batch without those that are settled later. A call of the host's code that was given
// up may still read its job.
func (w *worker) putJobs(jobs []*job, later []int) {
	if w.running.host.Blocked() > 0 {
		return
	}
	stored := jobs
	if len(later) > 0 {
		stored = make([]*job, 0, len(jobs))
		for i, j := range jobs {
			if !slices.Contains(later, i) {
				stored = append(stored, j)
			}
		}
	}
	w.memory.jobs.put(stored)
}

// settlements returns the settlements of a batch. What follows the events is planned for the whole
// batch when the repository first asks for it, in one goroutine besides that of the transaction.
func (w *worker) settlements(jobs []*job, memory *batchMemory) []Settlement {
	next := &plans[Event]{worker: w, jobs: jobs, what: "planning the successor of", plan: w.planNext, lost: func(j *job) *error { return &j.nextLost }, memory: &memory.next}
	follow := &plans[[]Event]{worker: w, jobs: jobs, what: "planning what follows", plan: w.planFollowing, lost: func(j *job) *error { return &j.followLost }}
	memory.settlements = slices.Grow(memory.settlements[:0], len(jobs))[:len(jobs)]
	batch := memory.settlements
	for i, j := range jobs {
		batch[i].Event, batch[i].User, batch[i].Outcome = j.event, j.user, j.outcome
		if j.outcome.Status == Pending {
			continue
		}
		if j.event.CrashCount > w.crashes { // a worker died while it stored this outcome; the planning code may be the cause
			err := fmt.Errorf("almanac: next event not planned: worker died %d times", j.event.CrashCount)
			batch[i].Next = func(User, time.Time) (Event, error) { return Event{}, err }
			continue
		}
		batch[i].Next = func(u User, now time.Time) (Event, error) { return next.of(i, u, now) }
		if follows(j.route.handler, &j.outcome) {
			batch[i].Follow = func(u User, now time.Time) ([]Event, error) { return follow.of(i, u, now) }
		}
	}
	return batch
}

func (w *worker) planNext(j *job, u User, now time.Time) (Event, error) {
	if j.outcome.Status == Pending {
		return Event{}, nil
	}
	e, err := successor(j.route.handler, &j.event, &u, now)
	if zones := w.zones.Load(); err == nil && zones.refuses() {
		err = zones.permits(e)
	}
	w.stampHere(&e, now)
	return e, err
}

func (w *worker) planFollowing(j *job, u User, now time.Time) ([]Event, error) {
	if !follows(j.route.handler, &j.outcome) {
		return nil, nil
	}
	ended, err := j.outcome.Apply(j.event, now)
	if err != nil {
		return nil, err
	}
	events, err := w.followUps(j.route.handler, ended, u, now)
	for i := range events {
		w.stampHere(&events[i], now)
	}
	return events, err
}

// plans has what the host's code plans for the events of a batch.
type plans[T any] struct {
	*worker
	jobs []*job
	what string // what the code is for
	plan func(j *job, u User, now time.Time) (T, error)
	// lost returns where a job keeps why its plan was given up. The code is not called again
	// when the settlement is repeated.
	lost   func(j *job) *error
	memory *[]made[T] // for the plans of the whole batch; nil if new memory is used

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
		var into []made[T]
		if p.memory != nil {
			*p.memory = slices.Grow((*p.memory)[:0], len(p.jobs))[:len(p.jobs)]
			into = *p.memory
		}
		p.at, p.made = now, p.make(p.jobs, into, now, func(j *job) *User { return &j.user })
	}
	one, was := &p.made[i], &p.jobs[i].user
	if u.ID != was.ID || u.Version != was.Version || !u.CreatedAt.Equal(was.CreatedAt) || !now.Equal(p.at) {
		is := u // a copy, so that no other user is on the heap
		one = &p.make(p.jobs[i:i+1], nil, now, func(*job) *User { return &is })[0]
	}
	return one.plan, one.err
}

// make plans for jobs, each for its user.
func (p *plans[T]) make(jobs []*job, into []made[T], now time.Time, user func(*job) *User) []made[T] {
	before := make([]error, len(jobs)) // read here, because a blocked call goes on beside Lost
	for i, j := range jobs {
		before[i] = *p.lost(j)
	}
	return isolate.Run(p.running.host, isolate.Calls[made[T]]{
		N:    len(jobs),
		Into: into,
		Name: func(i int) isolate.Name { return isolate.Name{Type: jobs[i].event.Type, User: jobs[i].event.UserID} },
		Call: func(i int) (m made[T]) {
			if m.err = before[i]; m.err == nil {
				m.plan, m.err = p.plan(jobs[i], *user(jobs[i]), now)
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
