package almanacjetstream

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
)

// inlet is the repository as a worker's scheduler sees it: what it claims comes from
// the stream. A message is an invitation that one worker can accept, by exchanging its
// lease token for another; then the message is acknowledged, and the event is held and
// settled like any other.
type inlet struct {
	almanac.Repository
	line *line

	mu   sync.Mutex
	turn int        // the type that a claim begins with, in turn
	kept []*message // taken, and the database could not be asked about them
}

type message struct {
	jetstream.Msg
	event almanac.Event
}

func newInlet(s Settings) *inlet { return &inlet{Repository: s.Repository, line: newLine(s)} }

// Claim takes messages, and of these the ones whose events are still held as they were
// published. The others are over: another worker accepted the same message, or the lease
// ran out, and the event has a message of its own if it was claimed again.
func (i *inlet) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.Claim, error) {
	taken, err := i.take(ctx, r)
	if len(taken) == 0 {
		if err != nil {
			err = notClaimed{err}
		}
		return almanac.Claim{}, err
	}
	granted, err := i.accept(ctx, taken, r)
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
		taken = append(taken, i.decoded(eventType, fetched)...)
		if err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// decoded returns the messages that hold events, and drops the others.
func (i *inlet) decoded(eventType string, fetched []jetstream.Msg) []*message {
	var fit []*message
	for _, m := range fetched {
		e, err := decode(eventType, m.Headers(), m.Data())
		if err != nil {
			i.line.Log.Error("message dropped, it holds no claimed event", slog.String("subject", m.Subject()), slog.Any("error", err))
			i.let(m.TermWithReason("holds no claimed event"))
			continue
		}
		fit = append(fit, &message{m, e})
	}
	return fit
}

// accept grants those of the messages whose tokens it could exchange, and lets go of all.
// The clock is read first: when the tokens are exchanged, nothing may fail any more.
func (i *inlet) accept(ctx context.Context, taken []*message, r almanac.ClaimRequest) (almanac.Claim, error) {
	now, err := i.Now(ctx)
	if err != nil {
		return almanac.Claim{}, err
	}
	events := make([]almanac.Event, len(taken))
	for n, m := range taken {
		events[n] = m.event
	}
	held, err := i.LeaseEach(ctx, events, r.Owner, r.Lease)
	if err != nil {
		return almanac.Claim{}, err
	}
	ours := make(map[uuid.UUID]bool, len(held))
	for _, e := range held {
		ours[e.ID] = true
	}
	for _, m := range taken {
		if ours[m.event.ID] {
			i.let(m.Ack())
		} else {
			i.let(m.TermWithReason("the event is not held any more"))
		}
	}
	return almanac.Claim{Events: held, At: now}, nil
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

// let notes that an answer to the stream could not be sent. Then the message comes
// again, and shows to be over.
func (i *inlet) let(err error) {
	if err != nil {
		i.line.Log.Warn("the stream could not be told of a message", slog.Any("error", err))
	}
}
