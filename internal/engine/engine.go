package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrDraining is the cause of an item's context that was cancelled because
	// Run was asked to stop and Settings.Drain has passed since.
	ErrDraining = errors.New("engine: draining")

	// ErrLeaseLost is the cause of an item's context that was cancelled because
	// the item's lease is no longer held: somebody else may be doing the item.
	ErrLeaseLost = errors.New("engine: lease lost")

	// ErrRunning is what Run returns when the engine runs already.
	ErrRunning = errors.New("engine: running already")

	// ErrAbandoned is matched by what Run returns when items ignored their
	// cancellation, and their goroutines are left behind.
	ErrAbandoned = errors.New("engine: items abandoned")

	// ErrUnsettled is matched by what Run returns when results had to be given up
	// after Run was asked to stop.
	ErrUnsettled = errors.New("engine: results given up")

	// ErrNotAsked is matched by what Run returns under Settings.Once when the store did
	// not answer.
	ErrNotAsked = errors.New("engine: the store does not answer")
)

// Engine claims items of type T when they are due, does each in a goroutine of
// its own, and settles results of type R in batches. K names a lease. All
// fields but Ahead, Chores and Log are required, and none may change while Run runs.
// An Engine must not be copied once used.
type Engine[T, R any, K comparable] struct {
	// Claim takes at most free items that are due now, the most urgent first, and
	// leases them to this engine for Leases.TTL. Its context outlives Run's by up
	// to Settings.Drain, so that a claim on its way is not cut off: what it took
	// would be nobody's until its lease ran out. Items returned together with an
	// error are done all the same.
	Claim func(ctx context.Context, free int) ([]T, error)

	// Until says how long it is until the next item is due, zero or less when one
	// is due already, and false when none is known.
	Until func(ctx context.Context) (time.Duration, bool, error)

	// Ahead says how items are claimed before they are due. The zero Ahead claims
	// none.
	Ahead Ahead[T]

	// Do does one item. It is never called for more than Settings.Slots at once,
	// and must return soon after its context ends; [context.Cause] says why it did.
	// One that has not returned Settings.Abandon later is stuck: it keeps its slot,
	// but its lease only as long as others share it.
	Do func(ctx context.Context, item T) R

	// Limit says how long Do may take with an item. Then its context ends with
	// [context.DeadlineExceeded].
	Limit func(item T) time.Duration

	// Exited makes the result of an item whose Do did not return. The cause is
	// the recovered value of its panic, or nil when it ended its goroutine by
	// [runtime.Goexit]; stack is the goroutine's at that moment.
	Exited func(item T, cause any, stack []byte) R

	// Settle stores a batch. It returns the places of results that cannot be stored yet
	// because somebody else works on what they are about. These are tried again apart
	// from the others, and hold up neither them nor the claims. An error means that the
	// batch is to be tried again as it is,
	// after Settings.Backoff, while its leases last; with a single settler nothing
	// behind it is stored before. A result that the store will never take is therefore for
	// Settle to put aside, returning nil. So is one whose lease has passed to
	// somebody else: results arrive here also after their lease is lost. An error
	// may hide a success (a connection that broke during the commit), so storing
	// a result twice must be harmless. The slice is Settle's to keep.
	Settle func(ctx context.Context, results []R) (later []int, err error)

	// Leases says how claims are kept while their items are in hand.
	Leases Leases[T, K]

	// Chores are done from start to stop, each in a goroutine of its own.
	Chores []Chore

	// Settings are the numbers.
	Settings Settings

	// Log hears of failures: Warn when something will be tried again, Error when
	// something was given up. Nil discards.
	Log *slog.Logger

	live live[T, R, K]
}

// live is what an engine has besides its fields.
type live[T, R any, K comparable] struct {
	wake    hint
	current atomic.Pointer[run[T, R, K]] // nil unless it runs
}

// Leases says how claims are kept while their items are in hand. All fields are
// required.
type Leases[T any, K comparable] struct {
	// Key names the lease of an item. Items may share one: those of one claim
	// usually do.
	Key func(item T) K

	// Renew prolongs leases to a whole TTL from now and returns the ones it still
	// holds. One that it does not return is lost: the contexts of its items end
	// with [ErrLeaseLost]. When it fails, it is tried again after
	// Settings.Backoff, and a lease counts as lost once a whole TTL has passed
	// since its last success.
	Renew func(ctx context.Context, keys []K) (held []K, err error)

	// TTL is how long a lease lasts unless renewed, at least a millisecond.
	// Leases are renewed every third of it. The same third is the deadline of
	// each call of Claim, Until, Settle and Renew.
	TTL time.Duration
}

// Settings are the numbers of an [Engine]. Those not said to allow zero must be
// positive.
type Settings struct {
	// Slots is how many items may be in hand: claimed, and not yet settled.
	Slots int

	// MaxClaim is how many items one call of Claim, or of Ahead.Claim, is asked for at
	// most, however many slots are free: items wait for the last of their claim, and a
	// claim that takes longer than its deadline takes nothing. Zero means Slots.
	MaxClaim int

	// Batch is how many results one call of Settle gets at most.
	Batch int

	// Settlers is how many batches may be on their way to the store at once. Zero
	// means one.
	Settlers int

	// Linger is how long a result waits for others to fill its batch. Zero takes
	// only what is there.
	Linger time.Duration

	// Poll is the longest sleep between two looks at what is due, give or take a
	// fifth, for when no hint arrives. It is at least a millisecond.
	Poll time.Duration

	// Drain is how long the items in hand may go on after Run was asked to stop,
	// before their contexts end. Zero ends them at once.
	Drain time.Duration

	// Abandon is how long items may take to return once their contexts have ended.
	// Those that take longer are stuck, and when it stops, Run does not wait for
	// them. Zero does not wait.
	Abandon time.Duration

	// Backoff is how long to wait after a call has failed that many times in a
	// row, counted from 1. Answers below a millisecond count as one. It must be
	// safe for concurrent use.
	Backoff func(failures int) time.Duration

	// Once makes Run end by itself: when Until knows of nothing and nothing is in hand,
	// or when somebody else holds what is due. Claim or Until may fail five times in a
	// row; then Run ends with an error that matches ErrNotAsked. Results that were given
	// up at any time are an error of Run's. Ahead is not used.
	Once bool
}

// Run claims, does and settles until ctx is done, or until nothing is left to do
// under Settings.Once. From then on it claims nothing; the items in hand go on for up to Settings.Drain, have their
// contexts cancelled then, and what they result in is settled. Leases are
// renewed throughout. Storing the last results is given up when nothing could
// be stored for a whole Leases.TTL.
//
// Run returns nil when all that it claimed was settled, or given up and logged
// before ctx was done. It returns an error that matches [ErrAbandoned] and says
// how many when items ignored their cancellation for Settings.Abandon; their
// goroutines are the only ones that Run does not wait for, and their results
// are dropped. It returns one that matches [ErrUnsettled] when results were
// given up after ctx was done. It returns [ErrRunning] when the engine runs
// already, and all complaints at once when fields are missing or out of range.
// An engine that has returned may run again.
func (e *Engine[T, R, K]) Run(ctx context.Context) error {
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

	var actors sync.WaitGroup
	holder := newHolder(r)
	claimer := &claimer[T, R, K]{r: r, holder: holder}
	actors.Go(func() {
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
	settlers, turn := make([]settler[T, R, K], max(e.Settings.Settlers, 1)), make(chan struct{}, 1)
	var settling sync.WaitGroup
	for i := range settlers {
		settlers[i] = settler[T, R, K]{r: r, vigil: &r.settling[i], turn: turn}
		settling.Go(func() { settlers[i].run(outliving) })
	}
	settled := make(chan struct{}) // closed when no result is to be postponed any more
	actors.Go(func() {
		defer close(settled)
		settling.Wait()
	})
	actors.Go(func() {
		defer stopRenewing()
		r.postponer.run(outliving, settled)
	})
	actors.Go(func() { r.renew(renewing) })
	for i, c := range e.Chores {
		actors.Go(func() { r.every(ctx, c, &r.chores[i]) })
	}

	<-ctx.Done()
	err := r.drain(ctx, endWork)
	actors.Wait()
	for i := range settlers {
		err = errors.Join(err, settlers[i].err)
	}
	return errors.Join(err, r.postponer.settler.err, claimer.err)
}

// Wake hints that an item may be due earlier than the engine knows. It never
// blocks, hints that come together are merged, and one too many costs a call of
// Until. It is safe for concurrent use, before, during and after Run.
func (e *Engine[T, R, K]) Wake() { e.live.wake.give() }

// run is what the actors of one Run share.
type run[T, R any, K comparable] struct {
	*Engine[T, R, K]
	log     *slog.Logger
	slots   *slots
	ledger  *ledger[K]
	busy    *crowd             // the items being done, and the claimer, who adds to them
	results chan outcome[R, K] // room for every slot, so that an item never waits
	last    chan struct{}      // closed when no result is to come
	stopped <-chan struct{}    // closed when Run was asked to stop

	postponer *postponer[T, R, K]
	vigils
}

// vigils watch over what a run calls.
type vigils struct {
	claiming, renewing vigil
	settling, chores   []vigil // one for each settler and the postponer, and for each chore
}

func newRun[T, R any, K comparable](e *Engine[T, R, K], stopped <-chan struct{}) *run[T, R, K] {
	log := e.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	settlers := max(e.Settings.Settlers, 1)
	r := &run[T, R, K]{
		Engine:  e,
		log:     log,
		slots:   newSlots(e.Settings.Slots),
		ledger:  newLedger[K](e.Leases.TTL, e.Settings.Abandon),
		busy:    newCrowd(),
		results: make(chan outcome[R, K], e.Settings.Slots),
		last:    make(chan struct{}),
		stopped: stopped,

		vigils: vigils{settling: make([]vigil, settlers+1), chores: make([]vigil, len(e.Chores))},
	}
	r.postponer = &postponer[T, R, K]{settler: settler[T, R, K]{r: r, vigil: &r.settling[settlers]}}
	return r
}

// claimSize is how many of n items to claim at once.
func (r *run[T, R, K]) claimSize(n int) int {
	if r.Settings.MaxClaim == 0 {
		return n
	}
	return min(n, r.Settings.MaxClaim)
}

// call is the deadline of one call of Claim, Until, Settle, Renew, or of Ahead.
func (r *run[T, R, K]) call() time.Duration { return r.Leases.TTL / 3 }

// backoff is Settings.Backoff, kept from spinning.
func (r *run[T, R, K]) backoff(failures int) time.Duration {
	return max(r.Settings.Backoff(failures), time.Millisecond)
}
