package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

var (
	// ErrDraining is the cause of an item's context that was cancelled because Run was
	// asked to stop and Settings.Drain has passed since.
	ErrDraining = errors.New("engine: draining")

	// ErrLeaseLost is the cause of an item's context that was cancelled because the engine
	// no longer holds the item's lease. Another process may be doing the item.
	ErrLeaseLost = errors.New("engine: lease lost")

	// ErrRunning is returned by Run when the engine is running already.
	ErrRunning = errors.New("engine: running already")

	// ErrAbandoned is matched by the error of Run when items ignored the end of their
	// contexts. Their goroutines are left running.
	ErrAbandoned = errors.New("engine: items abandoned")

	// ErrUnsettled is matched by the error of Run when results were discarded after Run was
	// asked to stop. Under Settings.Once it is matched when results were discarded at any time.
	ErrUnsettled = errors.New("engine: results given up")

	// ErrUnavailable is matched by the error of Run under Settings.Once when the store did not answer.
	ErrUnavailable = errors.New("engine: the store does not answer")
)

// Engine claims items when they are due, does them side by side, and settles them in batches
// with their results. All fields but Ahead, Tasks and Log are required. None may change while
// Run runs. An Engine must not be copied once used.
type Engine[T any] struct {
	// Claim takes at most free items that are due now, the most urgent first, and leases them to
	// this engine for Leases.TTL. Items returned together with an error are done all the same.
	//
	// The context of Claim outlives Run's by up to Settings.Drain, so that a claim that has begun
	// can finish. The items of an interrupted claim would stay claimed until their lease ended.
	Claim func(ctx context.Context, free int) ([]T, error)

	// Until returns how long it is until the next item is due: zero or less when an item is
	// due already, and false when no item is known.
	Until func(ctx context.Context) (time.Duration, bool, error)

	// Ahead sets how items are claimed before they are due. The zero Ahead claims none early.
	Ahead Ahead[T]

	// Do does one item, and returns it with its result and true. At most Settings.Slots items are
	// done at once. Do must return soon after its context ends; [context.Cause] returns the reason.
	// An item that has not returned Settings.Abandon later is stuck. A stuck item keeps its
	// slot. It keeps its lease only while items that are not stuck share the lease.
	//
	// If Do returns false, the item goes on without this goroutine, and returns when later.Return is called.
	Do func(ctx context.Context, item T, later Later[T]) (result T, returned bool)

	// Limit returns how long Do may take with an item. After that, the item's context ends
	// with [context.DeadlineExceeded].
	Limit func(item T) time.Duration

	// Exited returns an item with its result if Do did not return. The cause is the recovered
	// value of a panic, or nil when Do ended its goroutine by [runtime.Goexit]. The stack is
	// the goroutine's at that moment.
	Exited func(item T, cause any, stack []byte) T

	// Settle stores a batch. It returns the indexes of results that cannot be stored yet
	// because another transaction has locked their rows. The engine retries these
	// separately, so they delay neither the other results nor the claims.
	//
	// An error means that the engine retries the results of the batch after Settings.Backoff, while
	// their leases last: fewer in a call, and the others first. A result that fails alone while others
	// can be stored is retried separately, too. Even so, Settle must put aside a result that the store
	// will never take, and return nil for it. The same holds for a result whose lease has passed to
	// another process: results reach Settle also after their lease is lost. An error may hide a success
	// (a connection that broke during the commit), so storing a result twice must be harmless.
	//
	// Settle may keep the slice.
	Settle func(ctx context.Context, results []T) (later []int, err error)

	// Leases sets how leases are renewed until the results of their items are settled.
	Leases Leases[T]

	// Tasks are the maintenance tasks. Each runs in a goroutine of its own while Run runs.
	Tasks []Task

	// Settings are the numbers.
	Settings Settings

	// Log receives failures: Warn when the engine will try again, Error when it has given
	// up an item, a result or a lease. Nil discards them.
	Log *slog.Logger

	live live[T]
}

// Later returns an item that Do has left to another goroutine.
type Later[T any] struct {
	r     *run[T]
	share *share
}

// Return returns the item with its result, as Do would. It must be called once, and may be called before Do
// returns false. It does not block.
func (l Later[T]) Return(result T) { l.r.returned(result, l.share) }

// live is the state of an engine besides its fields.
type live[T any] struct {
	wake    hint
	current atomic.Pointer[run[T]] // nil unless it runs
}

// Key identifies a lease, as a UUID does.
type Key [16]byte

// Leases sets how leases are renewed until the results of their items are settled. All fields are required.
type Leases[T any] struct {
	// Key returns the lease of an item. Items may share a lease; those of one claim usually do.
	Key func(item T) Key

	// Renew prolongs leases to a whole TTL from now and returns the leases that the engine
	// still holds. A lease that Renew does not return is lost: the contexts of its items end
	// with [ErrLeaseLost]. When Renew fails, the engine calls it again after Settings.Backoff. Leases that
	// it returns beside an error are held, and of the others nothing is known.
	// A lease is also lost once a whole TTL has passed since its last renewal.
	Renew func(ctx context.Context, keys []Key) (held []Key, err error)

	// TTL is how long a lease lasts unless renewed, at least a millisecond. Leases are renewed every
	// third of it. A third of it is also the deadline of each call of Claim, Until, Settle and Renew.
	TTL time.Duration
}

// Settings are the numbers of an [Engine]. Each must be positive unless its comment allows zero.
type Settings struct {
	// Slots is how many items may be claimed and not yet settled.
	Slots int

	// MaxClaim is how many items one call of Claim or Ahead.Claim asks for at most, however many
	// slots are free. Zero means Slots. A smaller claim returns sooner, and its items start only
	// when it returns. A claim that exceeds its deadline takes nothing. After a failed claim the
	// next one asks for half as many items, and after quick ones for more again.
	MaxClaim int

	// Batch is how many results one call of Settle gets at most.
	Batch int

	// Settlers is how many batches may be stored at once. Zero means one.
	Settlers int

	// Linger is how long the engine waits for more results to fill a batch. Zero takes only
	// the results that are ready.
	Linger time.Duration

	// Poll is the longest sleep between two calls of Until when no hint arrives, give or
	// take a fifth. It is at least a millisecond.
	Poll time.Duration

	// Drain is how long running items may go on after Run was asked to stop, before their
	// contexts end. Zero ends them at once.
	Drain time.Duration

	// Abandon is how long items may take to return once their contexts have ended. Items that take
	// longer are stuck; a Run that was asked to stop does not wait for them. Zero does not wait.
	Abandon time.Duration

	// Backoff returns how long to wait after a call has failed the given number of times in
	// a row, counted from 1. Results below a millisecond count as one millisecond. Backoff
	// must be safe for concurrent use.
	Backoff func(failures int) time.Duration

	// Once makes Run end by itself in two cases: Until reports no item and every claimed
	// item is settled, or others hold the items that are due. Ahead is not used.
	//
	// When Claim or Until fails five times in a row, Run ends with an error that matches ErrUnavailable.
	// When results were discarded at any time, the error of Run matches ErrUnsettled.
	Once bool
}

// Run claims, does and settles items until ctx is done, or under Settings.Once until nothing is
// left to do. From then on it claims nothing. Running items go on for up to Settings.Drain; then
// their contexts are cancelled. Run settles their results and renews their leases throughout. It
// stops trying to store the last results when nothing could be stored for a whole Leases.TTL.
//
// Run returns nil when everything that it claimed was settled, or was discarded and logged
// before ctx was done. An engine whose Run has returned may run again.
//
// It returns an error that matches [ErrAbandoned], with the number of items, when items
// ignored the end of their contexts for Settings.Abandon. Run does not wait for their
// goroutines, and drops their results. It returns an error that matches [ErrUnsettled] when
// results were discarded after ctx was done. It returns [ErrRunning] when the engine is
// running already. When fields are missing or out of range, it returns all complaints at once.
func (e *Engine[T]) Run(ctx context.Context) error {
	if err := e.check(); err != nil {
		return err
	}
	ctx, finish := context.WithCancel(ctx)
	defer finish()
	r := newRun(e, ctx.Done())
	if !e.live.current.CompareAndSwap(nil, r) {
		return ErrRunning
	}
	defer e.live.current.Store(nil)

	outliving := context.WithoutCancel(ctx) // bounded by drain, and by a deadline for each call
	work, endWork := context.WithCancelCause(outliving)
	defer endWork(nil)
	renewing, stopRenewing := context.WithCancel(outliving)
	defer stopRenewing()

	var actors actorGroup
	holder := &holder[T]{r: r, incoming: make(chan []held[T])}
	claimer := &claimer[T]{r: r, holder: holder}
	actors.all.Go(func() { // when Claim ends the goroutine, the holder releases what it holds
		defer r.busy.leave()
		defer close(holder.incoming)
		if e.Settings.Once {
			defer finish()
			claimer.once(ctx, work)
			return
		}
		claimer.run(ctx, work)
	})
	actors.Go(func() { holder.run(ctx, outliving) })
	settlers, gathering := make([]settler[T], max(e.Settings.Settlers, 1)), make(chan struct{}, 1)
	var settling actorGroup
	for i := range settlers {
		settlers[i] = settler[T]{r: r, tracker: &r.settling[i], gathering: gathering, works: e.Settings.Once}
		settling.Go(func() { settlers[i].run(outliving) })
	}
	settled := make(chan struct{}) // closed when no result can be postponed any more
	actors.Go(func() {
		defer close(settled)
		settling.Wait()
	})
	actors.Go(func() {
		defer stopRenewing()
		r.postponer.run(outliving, settled)
	})
	actors.Go(func() { r.renew(renewing) })
	for i, c := range e.Tasks {
		actors.Go(func() { r.every(ctx, c, &r.tasks[i]) })
	}

	<-ctx.Done()
	err := r.drain(ctx, endWork)
	actors.Wait()
	for i := range settlers {
		err = errors.Join(err, settlers[i].err)
	}
	return errors.Join(err, r.postponer.settler.err, claimer.err)
}

// Wake hints that an item may be due earlier than the engine knows. It never blocks. Hints
// that arrive together are merged, and a superfluous hint costs one call of Until. Wake is
// safe for concurrent use before, during and after Run.
func (e *Engine[T]) Wake() { e.live.wake.give() }

// run is the state that the goroutines of one Run share.
type run[T any] struct {
	*Engine[T]
	log     *slog.Logger
	slots   *slots
	ledger  *ledger
	busy    *group           // the running and held items, and the claimer that adds them
	results chan finished[T] // has space for every slot, so that an item never blocks
	runners *runners[T]
	last    chan struct{}   // closed when no more results come
	stopped <-chan struct{} // closed when Run was asked to stop

	postponer *postponer[T]
	trackers
}

// trackers record the failures of the calls of a run.
type trackers struct {
	claiming, renewing tracker
	settling, tasks    []tracker // one for each settler and the postponer, and one for each task
}

func newRun[T any](e *Engine[T], stopped <-chan struct{}) *run[T] {
	log := e.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	settlers := max(e.Settings.Settlers, 1)
	r := &run[T]{
		Engine:  e,
		log:     log,
		slots:   &slots{size: e.Settings.Slots},
		ledger:  &ledger{ttl: e.Leases.TTL, grace: e.Settings.Abandon, byKey: make(map[Key]*lease), running: shares{place: inLedger}},
		busy:    newGroup(),
		results: make(chan finished[T], e.Settings.Slots),
		last:    make(chan struct{}),
		stopped: stopped,

		trackers: trackers{settling: make([]tracker, settlers+1), tasks: make([]tracker, len(e.Tasks))},
	}
	r.runners = &runners[T]{r: r}
	r.postponer = &postponer[T]{settler: settler[T]{r: r, tracker: &r.settling[settlers]}}
	return r
}

// call returns the timeout of one call of Claim, Until or Settle, or of a function of Ahead.
func (r *run[T]) call() time.Duration { return r.Leases.TTL / 3 }

// backoff is Settings.Backoff, but at least a millisecond, so that the engine never spins.
func (r *run[T]) backoff(failures int) time.Duration {
	return max(r.Settings.Backoff(failures), time.Millisecond)
}
