package almanacjetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Dispatcher claims due events and publishes them for workers. Any number of dispatchers
// may run on one database. One is enough; a second continues at once when the first stops.
// A Dispatcher is safe for concurrent use.
type Dispatcher struct {
	scheduler almanac.Scheduler
	outlet    *outlet
}

// NewDispatcher returns a dispatcher. Its options are those of a scheduler. [almanac.WithWorkers] sets
// how many messages are published at once. Checks, opt-outs and quiet hours apply before an event is
// published, and again before it is delivered. Deliverers and middleware have no effect here; give them
// to workers. The limits of lanes hold for what is published. An event keeps its place until its outcome is stored. If
// the workers of a type are slow, limit the places of its lane. Without that limit, its messages fill
// Settings.MaxWaiting and delay the other types. The error names everything that is wrong with the settings.
func NewDispatcher(s Settings, options ...almanac.Option) (*Dispatcher, error) {
	s, err := s.checked()
	o := &outlet{Repository: s.Repository, line: newLine(s)}
	var repository almanac.Repository
	if s.Repository != nil {
		repository = o
	}
	options = slices.Concat([]almanac.Option{almanac.WithMiddleware(o.publishing)}, options,
		[]almanac.Option{almanac.WithLease(s.Lease), almanac.WithLogger(s.Log)})
	scheduler, wrong := almanac.NewScheduler(repository, s.Registry, options...)
	if err := errors.Join(err, wrong); err != nil {
		return nil, err
	}
	return &Dispatcher{scheduler, o}, nil
}

// Run claims and publishes events until ctx is done; see [almanac.Runner]. It also renews
// the leases of all events in the stream, including those of other dispatchers. While the
// stream cannot be reached, it claims nothing.
func (d *Dispatcher) Run(ctx context.Context) error {
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	defer keeper.Wait()
	defer stop()
	keeper.Go(func() { d.outlet.keep(keeping) })
	return d.scheduler.Run(ctx)
}

// Health returns the present state of Run. A failure of the stream appears as a failure of
// claims. Published events no longer count as held.
func (d *Dispatcher) Health() almanac.Health { return d.scheduler.Health() }

const (
	roomWait  = 500 * time.Millisecond // how long a claim waits for space in the stream
	roomLook  = 20 * time.Millisecond
	postponed = 5 * time.Second // how long an event is delayed that could not be published
)

// outlet is the repository of a dispatcher's scheduler. It bounds claims by the space in
// the stream. It does not settle published events, because workers store their outcomes.
type outlet struct {
	almanac.Repository
	line    *line
	waiting waiting
	limited limited
}

// limited has the lease tokens of the claimed events that lanes with limits have admitted, until they are published or
// have an outcome.
type limited struct {
	mu     sync.Mutex
	tokens map[uuid.UUID]bool
}

// mostLimited is how many tokens are kept. When there are more, all are forgotten: their leases were lost.
const mostLimited = 100_000

func (l *limited) add(lease uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens == nil || len(l.tokens) >= mostLimited {
		l.tokens = make(map[uuid.UUID]bool)
	}
	l.tokens[lease] = true
}

// take reports whether a lane has admitted the event, and forgets it.
func (l *limited) take(lease uuid.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.tokens[lease]
	delete(l.tokens, lease)
	return is
}

// Report stores nothing: that an event was published says nothing about its receiver.
func (o *outlet) Report(context.Context, string, func(almanac.Breaker, time.Time) almanac.Breaker) (almanac.Breaker, error) {
	return almanac.Breaker{}, errors.ErrUnsupported
}

// Claim claims at most as many events as the stream has space for.
func (o *outlet) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	room, err := o.space(ctx)
	if err != nil {
		return almanac.ClaimResult{}, notClaimed{err}
	}
	if room <= 0 {
		return almanac.ClaimResult{}, nil // the scheduler searches again
	}
	r.Limit = min(r.Limit, room)
	claim, err := o.Repository.Claim(ctx, r)
	if err != nil {
		return claim, err
	}
	// A message renews only the lease of its own event. Events of the same claim may never
	// be published, so each event gets its own lease.
	leased, err := o.LeaseEach(ctx, claim.Events, r.Owner, r.Lease)
	if err != nil {
		for _, e := range claim.Events { // the caller releases those under its own token
			if e.LeaseToken != r.Token {
				_, failed := o.Release(ctx, e.LeaseToken)
				err = errors.Join(err, failed)
			}
		}
		return almanac.ClaimResult{}, claimedAll{err}
	}
	claim.Events, claim.Users = leased.Events, leased.Users
	for _, e := range claim.Events {
		if _, is := claim.Limited[e.ID]; is {
			o.limited.add(e.LeaseToken)
		}
	}
	return claim, nil
}

// space returns the space in the stream. It waits up to roomWait until there is some.
func (o *outlet) space(ctx context.Context) (int, error) {
	late := time.After(roomWait)
	for {
		room, err := o.line.space(ctx)
		if err != nil || room > 0 {
			return room, err
		}
		select {
		case <-time.After(roomLook):
		case <-late:
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// publishing replaces all deliverers. An event that cannot be published now is snoozed, which counts no
// attempt, because it is not the event's fault. An event that can never be published fails.
func (o *outlet) publishing(almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		err := o.line.publish(ctx, d.Event, o.limited.take(d.Event.LeaseToken))
		if err != nil {
			o.line.Log.WarnContext(ctx, "event could not be published", slog.String("event_id", d.Event.ID.String()),
				slog.String("idempotency_key", d.Event.IdempotencyKey.String()), slog.Any("error", err))
			if unpublishable(err) {
				return almanac.Permanent(fmt.Errorf("almanacjetstream: event cannot be published: %w", err))
			}
			return almanac.Snooze(postponed, "could not be published: "+err.Error())
		}
		o.waiting.add(d.Event.LeaseToken)
		return nil
	})
}

// Settle stores the outcomes of events that were not published: refused, snoozed or released.
// For a scheduler, a published event is delivered, so Settle returns ErrHandedOn for it.
func (o *outlet) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.SettleResult, error) {
	answers := make([]almanac.SettleResult, len(settlements))
	var ours []almanac.Settlement
	var places []int
	for i, s := range settlements {
		o.limited.take(s.Event.LeaseToken)
		if s.Outcome.Status == almanac.Completed {
			answers[i] = almanac.SettleResult{Event: s.Event, Err: almanac.ErrHandedOn}
			continue
		}
		ours, places = append(ours, s), append(places, i)
	}
	if len(ours) > 0 {
		stored, err := o.Repository.Settle(ctx, ours)
		if err != nil {
			return nil, err
		}
		for i, one := range stored {
			answers[places[i]] = one
		}
	}
	if len(ours) < len(settlements) {
		// Without the hint, a worker finds the message at its next poll.
		_ = o.line.JetStream.Conn().Publish(o.line.hint(), nil)
	}
	return answers, nil
}

// keep renews the leases of the events in the stream, three times per lease, until ctx is
// done. The first time is at once, for events that another dispatcher has published.
func (o *outlet) keep(ctx context.Context) {
	interval := o.line.Lease / 3
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		one, cancel := context.WithTimeout(ctx, interval)
		if err := o.renewWaiting(one); err != nil && ctx.Err() == nil {
			o.line.Log.WarnContext(ctx, "some leases of events in the stream could not be renewed", slog.Any("error", err))
		}
		cancel()
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// renewWaiting renews the leases of the events in the stream. If the stream cannot be read,
// it renews those that were there before, because no worker has died. Leases of messages
// that the stream has lost are no longer renewed and expire.
func (o *outlet) renewWaiting(ctx context.Context) error {
	o.waiting.begin()
	found, err := o.line.tokens(ctx)
	if err == nil {
		o.waiting.found(found)
	}
	tokens := o.waiting.list()
	if len(tokens) == 0 {
		return err
	}
	held, renewing := o.Renew(context.WithoutCancel(ctx), tokens, o.line.Lease)
	if renewing == nil { // events that workers have taken are not listed again, even if every look is cut short
		o.waiting.found(held)
	}
	return errors.Join(err, renewing)
}

// waiting is the lease tokens of published events that may still be in the stream.
type waiting struct {
	mu    sync.Mutex
	seen  map[uuid.UUID]bool // held at the last renewal, or published before the present look
	fresh map[uuid.UUID]bool // published since that look began
}

func (w *waiting) add(lease uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fresh == nil {
		w.fresh = make(map[uuid.UUID]bool)
	}
	w.fresh[lease] = true
}

// begin starts a look at the stream, which contains everything published before.
func (w *waiting) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = make(map[uuid.UUID]bool)
	}
	for lease := range w.fresh {
		w.seen[lease] = true
	}
	w.fresh = nil
}

// found replaces what was seen.
func (w *waiting) found(leases []uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = make(map[uuid.UUID]bool, len(leases))
	for _, lease := range leases {
		w.seen[lease] = true
	}
}

func (w *waiting) list() []uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var leases []uuid.UUID
	for lease := range w.seen {
		leases = append(leases, lease)
	}
	for lease := range w.fresh {
		if !w.seen[lease] {
			leases = append(leases, lease)
		}
	}
	return leases
}
