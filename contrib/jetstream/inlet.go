package almanacjetstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
)

// inlet is the repository of a worker's scheduler. It claims events from the stream. One
// worker accepts a message by exchanging its lease token for another. Then the message is
// acknowledged, and the event is held and settled like any other.
type inlet struct {
	almanac.Repository
	line *line

	mu   sync.Mutex
	turn int        // rotates the type with which a claim starts
	kept []*message // taken, but not accepted, because the database did not answer
}

type message struct {
	jetstream.Msg
	event almanac.Event
	user  almanac.User // zero if the message lacks it
}

func newInlet(s Settings) *inlet { return &inlet{Repository: s.Repository, line: newLine(s)} }

// PutSetting stores nothing. The quiet hours of the dispatcher count, which compares them
// before it publishes.
func (*inlet) PutSetting(context.Context, almanac.Setting) error { return errors.ErrUnsupported }

// Settings returns none, so a worker needs no quiet hours.
func (*inlet) Settings(context.Context) ([]almanac.Setting, error) { return nil, nil }

// Claim takes messages, and returns the events that are still held as published. The other
// messages are obsolete. Either another worker accepted the same message, or the lease
// expired; then a new claim publishes a new message.
func (i *inlet) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	taken, err := i.take(ctx, r)
	if len(taken) == 0 {
		if err != nil {
			err = notClaimed{err}
		}
		return almanac.ClaimResult{}, err
	}
	granted, err := i.accept(ctx, taken, r)
	if err != nil {
		i.keep(taken)
		return almanac.ClaimResult{}, notClaimed{err}
	}
	return granted, nil
}

// take takes messages of the request's types, kept messages first.
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

// decoded returns the messages that contain events, and drops the others.
func (i *inlet) decoded(eventType string, fetched []jetstream.Msg) []*message {
	var fit []*message
	for _, m := range fetched {
		e, u, err := decode(eventType, m.Headers(), m.Data())
		if err != nil {
			i.line.Log.Error("message dropped, it contains no claimed event", slog.String("subject", m.Subject()), slog.Any("error", err))
			i.let(m.TermWithReason("contains no claimed event"))
			continue
		}
		fit = append(fit, &message{m, e, u})
	}
	return fit
}

// accept returns the events whose tokens it could exchange, and acknowledges or terminates
// all messages. It gets the database time and missing users first, because nothing may fail
// after the exchange.
func (i *inlet) accept(ctx context.Context, taken []*message, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	now, err := i.Now(ctx)
	if err != nil {
		return almanac.ClaimResult{}, err
	}
	users, err := i.users(ctx, taken)
	if err != nil {
		return almanac.ClaimResult{}, err
	}
	events := make([]almanac.Event, len(taken))
	for n, m := range taken {
		events[n] = m.event
	}
	held, err := i.LeaseEach(ctx, events, r.Owner, r.Lease)
	if err != nil {
		return almanac.ClaimResult{}, err
	}
	ours := make(map[uuid.UUID]bool, len(held))
	for _, e := range held {
		ours[e.ID] = true
	}
	for _, m := range taken {
		if ours[m.event.ID] {
			i.let(m.Ack())
		} else {
			i.let(m.TermWithReason("the event is no longer held"))
		}
	}
	return almanac.ClaimResult{Events: held, Users: users, At: now}, nil
}

// users returns the users of messages. It looks up the users of messages that lack them. A user
// who was deleted meanwhile is left out.
func (i *inlet) users(ctx context.Context, messages []*message) (map[uuid.UUID]almanac.User, error) {
	users := make(map[uuid.UUID]almanac.User)
	for _, m := range messages {
		if known, ok := users[m.event.UserID]; m.user.ID != uuid.Nil && (!ok || known.Version < m.user.Version) {
			users[m.event.UserID] = m.user
		}
	}
	for _, m := range messages {
		id := m.event.UserID
		if _, ok := users[id]; ok {
			continue
		}
		u, err := i.User(ctx, id)
		if err == nil {
			users[id] = u
		} else if !errors.Is(err, almanac.ErrNotFound) {
			return nil, err
		}
	}
	return users, nil
}

// keep stores messages for the next claim of their types.
func (i *inlet) keep(messages []*message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kept = append(i.kept, messages...)
}

// unkeep removes and returns up to the requested number of kept messages.
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

// nextTurn makes each claim start with another type, so that no type waits for ever.
func (i *inlet) nextTurn() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.turn++
	return i.turn
}

// let logs an error of a reply to the stream. The message then comes again, and is found
// obsolete.
func (i *inlet) let(err error) {
	if err != nil {
		i.line.Log.Warn("reply to the stream failed", slog.Any("error", err))
	}
}
