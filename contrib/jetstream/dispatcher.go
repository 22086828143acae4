package almanacjetstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Dispatcher claims what is due and publishes it, for workers to deliver. Any number
// of them may run on one database; one is enough, and a second takes over at once what
// the first leaves undone. It is safe for concurrent use.
type Dispatcher struct {
	scheduler almanac.Scheduler
	outlet    *outlet
}

// NewDispatcher returns a dispatcher. Options are those of a scheduler:
// [almanac.WithWorkers] is how many messages are published at once. Checks are made
// before an event is published, and again before it is delivered. Deliverers, middleware
// and limits are for workers, and do nothing here. Everything that is wrong with the
// settings is reported at once.
func NewDispatcher(s Settings, options ...almanac.Option) (*Dispatcher, error) {
	s, err := s.checked()
	o := &outlet{Repository: s.Repository, line: newLine(s)}
	var repository almanac.Repository
	switch c, able := s.Repository.(almanac.Confirmer); {
	case able:
		repository = confirming{o, c}
	case s.Repository != nil:
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

// Run claims and publishes until ctx is done, as [almanac.Runner] says of events and
// their delivery. It also renews the leases of everything that is in the stream, whoever
// published it. While the stream cannot be reached, nothing is claimed.
func (d *Dispatcher) Run(ctx context.Context) error {
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	defer keeper.Wait()
	defer stop()
	keeper.Go(func() { d.outlet.keep(keeping) })
	return d.scheduler.Run(ctx)
}

// Health returns how Run does at the moment. Trouble with the stream is trouble with
// claiming; what is published is no longer in hand.
func (d *Dispatcher) Health() almanac.Health { return d.scheduler.Health() }

const (
	roomWait  = 500 * time.Millisecond // how long a claim waits for the stream to have room
	roomLook  = 20 * time.Millisecond
	postponed = 5 * time.Second // how long an event rests that could not be published
)

// outlet is the repository as a dispatcher's scheduler sees it: claims are bounded by
// the room in the stream, and what was published is not settled, for its outcome is a
// worker's to store.
type outlet struct {
	almanac.Repository
	line    *line
	waiting waiting
}

// confirming is an outlet of a repository that can look ahead.
type confirming struct {
	*outlet
	almanac.Confirmer
}

// Verify asks the repository, if it can tell.
func (o *outlet) Verify(ctx context.Context) error { return verify(ctx, o.Repository) }

// Listen listens as the repository does, if it can.
func (o *outlet) Listen(ctx context.Context, wake func()) error {
	l, able := o.Repository.(almanac.Listener)
	if !able {
		return nil
	}
	return l.Listen(ctx, wake)
}

// Claim claims what the stream has room for.
func (o *outlet) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.Claim, error) {
	room, err := o.room(ctx)
	if err != nil {
		return almanac.Claim{}, notClaimed{err}
	}
	if room <= 0 {
		now, err := o.Now(ctx)
		if err != nil {
			err = notClaimed{err}
		}
		return almanac.Claim{At: now}, err
	}
	r.Limit = min(r.Limit, room)
	claim, err := o.Repository.Claim(ctx, r)
	if err != nil {
		return claim, err
	}
	// A message keeps its own event, and nothing else, from coming back: what was claimed
	// beside it may never be published.
	claim.Events, err = o.LeaseEach(ctx, claim.Events, r.Owner, r.Lease)
	if err != nil {
		return almanac.Claim{}, claimedAll{err}
	}
	return claim, nil
}

// room waits for a while until there is some.
func (o *outlet) room(ctx context.Context) (int, error) {
	late := time.After(roomWait)
	for {
		room, err := o.line.room(ctx)
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

// publishing takes the place of all delivery. What cannot be published is put off, which
// counts as no attempt: it is not the event's fault.
func (o *outlet) publishing(almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		err := o.line.publish(ctx, d.Event)
		if err != nil {
			o.line.Log.WarnContext(ctx, "event could not be published", slog.String("event_id", d.Event.ID.String()),
				slog.String("idempotency_key", d.Event.IdempotencyKey.String()), slog.Any("error", err))
			return almanac.Snooze(postponed, "could not be published: "+err.Error())
		}
		o.waiting.add(d.Event.LeaseToken)
		return nil
	})
}

// Settle stores the outcomes of what was not published: refused, put off or given
// back. To deliver is to publish here, so what was delivered was handed on.
func (o *outlet) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	answers := make([]almanac.Settled, len(settlements))
	var ours []almanac.Settlement
	var places []int
	for i, s := range settlements {
		if s.Outcome.Status == almanac.Completed {
			answers[i] = almanac.Settled{Event: s.Event, Err: almanac.ErrHandedOn}
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
		// A hint that is lost costs what it costs a poll to find the message.
		_ = o.line.JetStream.Conn().Publish(o.line.hint(), nil)
	}
	return answers, nil
}

// keep renews the leases of what is in the stream, three times in a lease, until ctx is
// done; at once for the first time, for the sake of what another has left.
func (o *outlet) keep(ctx context.Context) {
	interval := o.line.Lease / 3
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		one, cancel := context.WithTimeout(ctx, interval)
		if err := o.renewWaiting(one); err != nil && ctx.Err() == nil {
			o.line.Log.WarnContext(ctx, "leases of what is in the stream could not all be renewed", slog.Any("error", err))
		}
		cancel()
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// renewWaiting renews what is in the stream, or, where the stream cannot be looked at,
// what was there: that nobody can deliver is no death of a worker. What was lost from the
// stream is renewed no more, and comes back when its lease has run out.
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
	_, renewing := o.Renew(context.WithoutCancel(ctx), tokens, o.line.Lease)
	return errors.Join(err, renewing)
}

// waiting are the lease tokens of what was published and may be in the stream yet.
type waiting struct {
	mu    sync.Mutex
	seen  map[uuid.UUID]bool // in the stream when it was last looked at, or published until then
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

// begin begins a look at the stream, which shows what was published before.
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

func (w *waiting) found(leases map[uuid.UUID]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = leases
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
