package almanacjetstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
)

// inlet is the repository of a worker's scheduler. It claims events from the stream. One
// worker accepts a message by exchanging its lease token for another. Then the message is
// acknowledged, and the event is held and settled like any other.
type inlet struct {
	almanac.Repository
	line *line

	turn atomic.Int64 // rotates the type with which a claim starts, so that no type waits for ever

	mu   sync.Mutex
	kept []*message // taken, but not accepted, because the database did not answer

	pauses pauses
}

type message struct {
	jetstream.Msg
	event   almanac.Event
	limited bool // whether a lane with limits has admitted the event
}

func newInlet(s Settings) *inlet { return &inlet{Repository: s.Repository, line: newLine(s)} }

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
	turn := int(i.turn.Add(1))
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
		e, err := decode(eventType, m.Headers(), m.Data())
		if err != nil {
			i.line.Log.Error("message dropped, it contains no claimed event", slog.String("subject", m.Subject()), slog.Any("error", err))
			i.let(m.TermWithReason("contains no claimed event"))
			continue
		}
		fit = append(fit, &message{m, e, m.Headers().Get(headerLane) != ""})
	}
	return fit
}

// accept returns the events whose tokens it could exchange, and acknowledges or terminates all messages.
func (i *inlet) accept(ctx context.Context, taken []*message, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	events := make([]almanac.Event, len(taken))
	for n, m := range taken {
		events[n] = m.event
	}
	held, err := i.LeaseEach(ctx, events, r.Owner, r.Lease)
	if err != nil {
		return almanac.ClaimResult{}, err
	}
	admitted := time.Now() // the dispatcher has admitted the event within its time; here it may begin
	held.Failing = true    // unknown here: the dispatcher has claimed them
	ours := make(map[uuid.UUID]bool, len(held.Events))
	for _, e := range held.Events {
		ours[e.ID] = true
		if first := e.FirstAvailable(); held.At.Before(first) { // the clock was set back since the dispatcher's claim
			held.At = first
		}
	}
	held.Limited = make(map[uuid.UUID]time.Time)
	for _, m := range taken {
		if ours[m.event.ID] {
			if m.limited {
				held.Limited[m.event.ID] = admitted
			}
			i.let(m.Ack())
		} else {
			i.let(m.TermWithReason("the event is no longer held"))
		}
	}
	return held, nil
}

// pauses is the last answer about paused types.
type pauses struct {
	mu    sync.Mutex
	types []almanac.Pause
	asked time.Time
}

// pausesAge is for how long an answer about paused types is used.
const pausesAge = time.Second

// unlessPaused delays an event whose type or lane was paused after the event was published. The event
// then waits in the database for the end of the pause, and takes no space in the stream.
func (i *inlet) unlessPaused(next almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		upper, _, _ := strings.Cut(d.Event.Lane, "/")
		if i.paused(ctx, d.Event.Type, d.Event.Lane, upper) || ctx.Err() != nil { // nothing was sent, so no attempt is used up
			return almanac.Snooze(pausesAge, "the type or its lane is paused")
		}
		return next.Deliver(ctx, d)
	})
}

// paused reports whether one of the lanes is paused. If the database does not answer within a second, the last answer
// is used.
func (i *inlet) paused(ctx context.Context, lanes ...string) bool {
	i.pauses.mu.Lock()
	defer i.pauses.mu.Unlock()
	if time.Since(i.pauses.asked) >= pausesAge {
		short, cancel := context.WithTimeout(ctx, pausesAge)
		types, err := i.Paused(short)
		if cancel(); err == nil {
			i.pauses.types = types
		} else {
			i.line.Log.WarnContext(ctx, "the paused types cannot be read", slog.Any("error", err))
		}
		i.pauses.asked = time.Now()
	}
	return slices.ContainsFunc(i.pauses.types, func(p almanac.Pause) bool { return slices.Contains(lanes, p.Lane) })
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

// let logs an error of a reply to the stream. The message is then delivered again, and discarded.
func (i *inlet) let(err error) {
	if err != nil {
		i.line.Log.Warn("reply to the stream failed", slog.Any("error", err))
	}
}

// Worker takes published events, delivers them and stores their outcomes. Any number of
// workers may run, on any machine. A Worker is safe for concurrent use.
type Worker struct{ scheduler almanac.Scheduler }

// NewWorker returns a worker. Its options are those of a scheduler, except that
// [almanac.WithLookAhead] has no effect. [almanac.WithPoll] bounds how late a message is taken that
// was released, or whose hint was lost. The error names everything that is wrong with the settings.
func NewWorker(s Settings, options ...almanac.Option) (*Worker, error) {
	s, err := s.checked()
	i := newInlet(s)
	var repository almanac.Repository
	if s.Repository != nil {
		repository = i
	}
	options = slices.Concat([]almanac.Option{almanac.WithMiddleware(i.unlessPaused)}, options,
		[]almanac.Option{almanac.WithLease(s.Lease), almanac.WithLogger(s.Log), almanac.WithLookAhead(0)})
	scheduler, wrong := almanac.NewScheduler(repository, s.Registry, options...)
	if err := errors.Join(err, wrong); err != nil {
		return nil, err
	}
	return &Worker{scheduler}, nil
}

// Run takes and delivers events until ctx is done; see [almanac.Runner]. It takes no more
// messages than it can start to deliver at once.
func (w *Worker) Run(ctx context.Context) error { return w.scheduler.Run(ctx) }

// Health returns the present state of Run. A failure of the stream appears as a failure of claims.
func (w *Worker) Health() almanac.Health { return w.scheduler.Health() }

// Listen calls wake when an event was published.
func (i *inlet) Listen(ctx context.Context, wake func()) error {
	hints := make(chan *nats.Msg, 1) // when it is full, another hint adds nothing
	subscription, err := i.line.JetStream.Conn().ChanSubscribe(i.line.hint(), hints)
	if err != nil {
		return err
	}
	defer func() { _ = subscription.Unsubscribe() }() // the connection may be closed
	// The first claim must not precede the subscription, or the hint of an event between them is lost.
	short, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := i.line.JetStream.Conn().FlushWithContext(short); err != nil {
		return err
	}
	for wake(); ; wake() {
		select {
		case <-hints:
		case <-ctx.Done():
			return nil
		}
	}
}

// Until returns zero, because a message may arrive at any time. Claims that get nothing
// become rarer, down to one per poll, until a hint comes.
func (i *inlet) Until(context.Context, []string, time.Time) (time.Duration, bool, error) {
	return 0, true, nil
}

// notClaimed is an error after which nothing was claimed, so that the scheduler does not release the claim.
type notClaimed struct{ error }

// SafeToRetry returns true.
func (notClaimed) SafeToRetry() bool { return true }

// Unwrap returns the cause.
func (e notClaimed) Unwrap() error { return e.error }

// claimedAll is an error after which something was claimed, whatever the error itself says.
// The scheduler then releases what the token of the claim holds.
type claimedAll struct{ error }

// SafeToRetry returns false.
func (claimedAll) SafeToRetry() bool { return false }

// Unwrap returns the cause.
func (e claimedAll) Unwrap() error { return e.error }
