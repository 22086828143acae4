package almanacjetstream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
)

// inlet is the repository as a worker's scheduler sees it: what it claims comes from
// the stream, and a message is let go when the outcome of its event is stored.
type inlet struct {
	almanac.Repository
	line *line

	mu      sync.Mutex
	turn    int                // the type that a claim begins with, in turn
	inHand  map[claim]*message // claimed and not settled
	kept    []*message         // taken, and the database could not be asked about them
	orphans map[claim]*message // that were another's, who did not finish
}

// claim names a message: one event is published once by each claim.
type claim struct{ event, lease uuid.UUID }

type message struct {
	jetstream.Msg
	event  almanac.Event
	missed int // renewals in a row that did not name it
}

func claimOf(e almanac.Event) claim { return claim{e.ID, e.LeaseToken} }

func newInlet(s Settings) *inlet {
	return &inlet{Repository: s.Repository, line: newLine(s), inHand: make(map[claim]*message), orphans: make(map[claim]*message)}
}

// Claim takes messages, and of these the ones whose events are still held as they were
// claimed. The others are over: their event was settled, or taken back when its lease
// ran out, and has a message of its own if it was claimed again.
func (i *inlet) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.Claim, error) {
	taken, err := i.take(ctx, r)
	if len(taken) == 0 {
		if err != nil {
			err = notClaimed{err}
		}
		return almanac.Claim{}, err
	}
	granted, err := i.confirm(ctx, taken, r)
	if err != nil {
		i.keep(taken)
		return almanac.Claim{}, notClaimed{err}
	}
	return granted, nil
}

// take takes messages of the request's types: first those that are here already.
func (i *inlet) take(ctx context.Context, r almanac.ClaimRequest) ([]*message, error) {
	taken := i.unkeep(r)
	turn := i.nextTurn()
	for n := range r.Types {
		free := r.Limit - len(taken)
		if free <= 0 {
			break
		}
		eventType := r.Types[(turn+n)%len(r.Types)]
		fetched, err := i.line.fetch(ctx, eventType, free)
		taken = append(taken, i.sort(eventType, fetched)...)
		if err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// sort returns which of the messages may be delivered. One that was delivered before
// was another's, who died or was taken for dead: what it did nobody knows, so its event
// is given back, which counts the death and ends the claim.
func (i *inlet) sort(eventType string, fetched []jetstream.Msg) []*message {
	var fit []*message
	for _, m := range fetched {
		e, err := decode(eventType, m.Headers(), m.Data())
		meta, wrong := m.Metadata()
		switch {
		case err != nil || wrong != nil:
			i.line.Log.Error("message dropped, it holds no claimed event", slog.String("subject", m.Subject()), slog.Any("error", err))
			i.let(m.TermWithReason("holds no claimed event"))
		case meta.NumDelivered > 1:
			i.orphan(&message{Msg: m, event: e})
		default:
			fit = append(fit, &message{Msg: m, event: e})
		}
	}
	return fit
}

// confirm grants those of the messages whose events are held, and lets go of the others.
func (i *inlet) confirm(ctx context.Context, taken []*message, r almanac.ClaimRequest) (almanac.Claim, error) {
	held, err := i.renewed(ctx, taken, r)
	if err != nil {
		return almanac.Claim{}, err
	}
	granted, err := i.unchanged(ctx, held)
	if err != nil {
		return almanac.Claim{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range taken {
		if !slices.ContainsFunc(granted.Events, func(e almanac.Event) bool { return claimOf(e) == claimOf(m.event) }) {
			i.let(m.TermWithReason("the event is not held any more"))
			continue
		}
		i.inHand[claimOf(m.event)] = m
	}
	return granted, nil
}

// renewed returns the events whose lease tokens are not lost: their leases are whole
// ones from now. A lease that ran out and was not taken back yet goes on.
func (i *inlet) renewed(ctx context.Context, taken []*message, r almanac.ClaimRequest) ([]almanac.Event, error) {
	tokens := make(map[uuid.UUID]bool)
	for _, m := range taken {
		tokens[m.event.LeaseToken] = true
	}
	held, err := i.Repository.Renew(ctx, slices.Collect(maps.Keys(tokens)), r.Lease)
	if err != nil {
		return nil, err
	}
	var events []almanac.Event
	for _, m := range taken {
		if slices.Contains(held, m.event.LeaseToken) {
			events = append(events, m.event)
		}
	}
	return events, nil
}

// unchanged grants those of the events that are still as they were claimed, for their
// token may hold others only. Without a Confirmer nobody can tell before Settle does. One
// that is busy is held as far as anybody knows.
func (i *inlet) unchanged(ctx context.Context, events []almanac.Event) (almanac.Claim, error) {
	c, able := i.Repository.(almanac.Confirmer)
	if !able || len(events) == 0 {
		now, err := i.Now(ctx)
		return almanac.Claim{Events: events, At: now}, err
	}
	confirmed, err := c.Confirm(ctx, events)
	if err != nil {
		return almanac.Claim{}, err
	}
	latest := make(map[uuid.UUID]int) // an answer names the event, and means its latest claim
	for _, e := range events {
		latest[e.ID] = max(latest[e.ID], e.Version)
	}
	named := slices.Concat(confirmed.Held, confirmed.Busy)
	granted := almanac.Claim{At: confirmed.At}
	for _, e := range events {
		if e.Version == latest[e.ID] && slices.Contains(named, e.ID) {
			granted.Events = append(granted.Events, e)
		}
	}
	return granted, nil
}

// Renew extends leases, and with them the time that messages may be in hand, which
// matters most while the database cannot be reached. A message that no renewal names
// any more is one that the scheduler has given up, and is left to the stream.
func (i *inlet) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	i.mu.Lock()
	for c, m := range i.inHand {
		switch {
		case slices.Contains(tokens, c.lease):
			m.missed = 0
			i.let(m.InProgress())
		case m.missed > 0: // and not just about to be begun
			delete(i.inHand, c)
		default:
			m.missed++
		}
	}
	i.mu.Unlock()
	return i.Repository.Renew(ctx, tokens, lease)
}

// finish lets go of the message of an event.
func (i *inlet) finish(e almanac.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if m, ok := i.inHand[claimOf(e)]; ok {
		delete(i.inHand, claimOf(e))
		i.let(m.Ack())
	}
}

// keep keeps messages for the next claim of their types.
func (i *inlet) keep(messages []*message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kept = append(i.kept, messages...)
}

// unkeep returns messages that were kept, as many as are asked for.
func (i *inlet) unkeep(r almanac.ClaimRequest) []*message {
	i.mu.Lock()
	defer i.mu.Unlock()
	var taken []*message
	i.kept = slices.DeleteFunc(i.kept, func(m *message) bool {
		i.let(m.InProgress())
		if len(taken) == r.Limit || !slices.Contains(r.Types, m.event.Type) {
			return false
		}
		taken = append(taken, m)
		return true
	})
	return taken
}

// nextTurn lets each claim begin with another type, so that none waits for ever.
func (i *inlet) nextTurn() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.turn++
	return i.turn
}

func (i *inlet) orphan(messages ...*message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range messages {
		i.orphans[claimOf(m.event)] = m
	}
}

// orphaned takes up to limit of the orphans.
func (i *inlet) orphaned(limit int) []*message {
	i.mu.Lock()
	defer i.mu.Unlock()
	var taken []*message
	for c, m := range i.orphans {
		if len(taken) == limit {
			break
		}
		delete(i.orphans, c)
		taken = append(taken, m)
	}
	return taken
}
