package almanac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/engine"
)

// BatchDeliverer delivers several events in one call, such as in one request. See [Batched]. The contract is that
// of [Deliverer], for each event.
type BatchDeliverer interface {
	// DeliverBatch makes one attempt at each event and returns their errors, in the order of the batch: nil
	// for an event that the receiver accepted. It must return when ctx is done. The events are of one lane.
	// Any other number of errors fails all attempts.
	DeliverBatch(ctx context.Context, batch []Delivery) []error
}

// Batched returns a Deliverer that delivers up to most events of a lane in one call of d. A batch takes the events
// that start within a millisecond of its first one, which is the longest delay of an event. It begins earlier when it
// is full. most must be positive. A batch cannot be larger than the number of workers (see [WithWorkers]), since each
// event has one. Each event keeps its key, its attempts, its lease and its place in its lane, and has an outcome of
// its own.
//
// The context of the call ends when the first event times out, or when all events are cancelled. An event whose
// lease is lost meanwhile may still be delivered. If all events of a call fail, the call counts as one failure for
// the [Breaker] of the lane.
func Batched(d BatchDeliverer, most int) Deliverer {
	if most < 1 {
		panic(fmt.Sprintf("almanac: batches of at most %d events", most))
	}
	return &batches{deliverer: d, most: most, waiting: make(map[string]*batchCall)}
}

// batchLinger is how long a batch waits for events that start with its first one.
const batchLinger = time.Millisecond

// batches collects deliveries into batches.
type batches struct {
	deliverer BatchDeliverer
	most      int
	mu        sync.Mutex
	waiting   map[string]*batchCall // by lane: those that have not begun
	size      int                   // of the last batch
}

// batchCall is one call. Its fields are guarded by the mutex of its batches until it begins.
type batchCall struct {
	of    []Delivery
	under []context.Context
	ends  []batchEnd
	full  chan struct{} // closed when no further event can be added
	errs  []error
	ended chan struct{}
}

// batchEnd returns an event of Run to the engine. The zero batchEnd is that of an event whose goroutine waits.
type batchEnd struct {
	w     *worker
	j     *job
	later engine.Later[*job]
	begun *start
}

// Deliver adds an event to a batch, and waits for its end.
func (b *batches) Deliver(ctx context.Context, d Delivery) error {
	call, i := b.add(ctx, &d, batchEnd{})
	<-call.ended
	return call.errs[i]
}

// add adds an event to the batch of its lane, or begins one, and returns its place.
func (b *batches) add(ctx context.Context, d *Delivery, end batchEnd) (call *batchCall, i int) {
	lane := cmp.Or(d.Event.Lane, d.Event.Type)
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := b.waiting[lane]
	if mine == nil {
		mine = &batchCall{
			full: make(chan struct{}), ended: make(chan struct{}),
			of: make([]Delivery, 0, b.size), under: make([]context.Context, 0, b.size), ends: make([]batchEnd, 0, b.size),
		}
		b.waiting[lane] = mine
		go b.begin(lane, mine)
	}
	mine.of, mine.under, mine.ends = append(mine.of, *d), append(mine.under, ctx), append(mine.ends, end)
	if len(mine.of) == b.most {
		delete(b.waiting, lane) // the next event begins another one
		close(mine.full)
	}
	return mine, len(mine.of) - 1
}

// begin makes the call of a batch when it is full, or after its linger.
func (b *batches) begin(lane string, mine *batchCall) {
	defer mine.endFrom(0)
	defer close(mine.ended)
	defer func() {
		if cause := recover(); cause != nil {
			mine.fail(fmt.Errorf("almanac: the delivery of a batch panicked: %v", cause))
		} else if mine.errs == nil {
			mine.fail(errors.New("almanac: the delivery of a batch ended its goroutine"))
		}
		mine.together()
	}()
	linger := time.NewTimer(batchLinger)
	select {
	case <-linger.C:
	case <-mine.full:
		linger.Stop()
	}
	b.mu.Lock()
	if b.waiting[lane] == mine {
		delete(b.waiting, lane)
	}
	b.size = len(mine.of)
	b.mu.Unlock()
	ctx, cancel := mine.context()
	defer cancel()
	errs := b.deliverer.DeliverBatch(ctx, mine.of)
	if len(errs) != len(mine.of) {
		mine.fail(fmt.Errorf("almanac: %d outcomes of a batch of %d events", len(errs), len(mine.of)))
		return
	}
	mine.errs = slices.Clone(errs)
}

// endFrom returns the events of Run to the engine, from the i-th on. The host's errors have code, which can
// panic or end the goroutine. Then the others are returned by another one.
func (m *batchCall) endFrom(i int) {
	defer func() {
		if i < len(m.ends) {
			one := m.ends[i]
			one.later.Return(one.w.exited(one.j, recover(), debug.Stack()))
			go m.endFrom(i + 1)
		}
	}()
	for ; i < len(m.ends); i++ {
		if one := m.ends[i]; one.w != nil {
			one.w.noteLate(m.under[i], one.j, one.begun)
			one.j.outcome = one.w.outcomeAfter(m.under[i], one.j, m.errs[i])
			one.later.Return(one.j)
		}
	}
}

// context returns the context of a call: with the values of the first event, until the first deadline, or until
// all events are cancelled. It watches one event at a time, because the context of an event costs memory and a
// timer once something watches it.
func (m *batchCall) context() (context.Context, context.CancelFunc) {
	parent, forget := context.WithoutCancel(m.under[0]), context.CancelFunc(func() {})
	if first, any := m.deadline(); any {
		parent, forget = context.WithDeadline(parent, first)
	}
	parent = context.WithValue(parent, begunKey{}, m.begun())
	ctx, cancel := context.WithCancelCause(parent)
	watch := &batchWatch{under: m.under, cancel: cancel}
	watch.next()
	return ctx, func() {
		watch.end()
		cancel(nil)
		forget()
	}
}

// begun returns what the deliverer calls when the request has begun: the functions of all events, if there are any.
func (m *batchCall) begun() func() {
	var all []func()
	for _, one := range m.under {
		if begun := Begun(one); begun != nil {
			all = append(all, begun)
		}
	}
	if all == nil {
		return nil
	}
	return func() {
		for _, begun := range all {
			begun()
		}
	}
}

// deadline returns the first deadline of the events.
func (m *batchCall) deadline() (first time.Time, any bool) {
	for _, one := range m.under {
		if d, ok := one.Deadline(); ok && (!any || d.Before(first)) {
			first, any = d, true
		}
	}
	return first, any
}

// batchWatch ends a call when all its events are cancelled.
type batchWatch struct {
	cancel context.CancelCauseFunc
	mu     sync.Mutex
	under  []context.Context // the first is watched; those before it are cancelled
	stop   func() bool
	over   bool
}

// next watches the first event that is not cancelled.
func (w *batchWatch) next() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.under) > 1 && w.under[0].Err() != nil {
		w.under = w.under[1:]
	}
	if w.over {
		return
	}
	one, last := w.under[0], len(w.under) == 1
	w.stop = context.AfterFunc(one, func() {
		if last {
			w.cancel(context.Cause(one))
			return
		}
		w.next()
	})
}

func (w *batchWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.stop()
}

// fail gives all events an error.
func (m *batchCall) fail(err error) {
	m.errs = make([]error, len(m.under))
	for i := range m.errs {
		m.errs[i] = err
	}
}

// together marks the errors of a call of which all events failed.
func (m *batchCall) together() {
	for _, err := range m.errs {
		if err == nil {
			return
		}
	}
	id := m.of[0].Event.ID // a repeated attempt at one event is the same
	for i, err := range m.errs {
		m.errs[i] = &batchError{err, id}
	}
}

// batchError is the error of an event of a batch that failed as a whole.
type batchError struct {
	error
	batch uuid.UUID
}

func (e *batchError) Unwrap() error { return e.error }
