package almanacjetstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/almanac-go/almanac"
)

// Worker takes published events, delivers them and stores their outcomes. Any number
// of them may run, anywhere. It is safe for concurrent use.
type Worker struct{ scheduler almanac.Scheduler }

// NewWorker returns a worker. Options are those of a scheduler and mean the same, but
// for [almanac.WithLookAhead], which does nothing here. [almanac.WithPoll] is how long a
// message waits at most that was given back, or whose hint was lost. Everything that is
// wrong with the settings is reported at once.
func NewWorker(s Settings, options ...almanac.Option) (*Worker, error) {
	s, err := s.checked()
	var repository almanac.Repository
	if s.Repository != nil {
		repository = newInlet(s)
	}
	options = slices.Concat(options, []almanac.Option{almanac.WithLease(s.Lease), almanac.WithLogger(s.Log)})
	scheduler, wrong := almanac.NewScheduler(repository, s.Registry, options...)
	if err := errors.Join(err, wrong); err != nil {
		return nil, err
	}
	return &Worker{scheduler}, nil
}

// Run takes and delivers events until ctx is done, as [almanac.Runner] says. It takes no
// more messages than it can begin to deliver at once.
func (w *Worker) Run(ctx context.Context) error { return w.scheduler.Run(ctx) }

// Health returns how Run does at the moment. Trouble with the stream is trouble with
// claiming.
func (w *Worker) Health() almanac.Health { return w.scheduler.Health() }

// Verify asks the repository, if it can tell.
func (i *inlet) Verify(ctx context.Context) error { return verify(ctx, i.Repository) }

// Listen hears that something was published.
func (i *inlet) Listen(ctx context.Context, wake func()) error {
	hints := make(chan *nats.Msg, 1) // one that finds no room says nothing new
	subscription, err := i.line.JetStream.Conn().ChanSubscribe(i.line.hint(), hints)
	if err != nil {
		return err
	}
	defer func() { _ = subscription.Unsubscribe() }() // the connection may be closed
	for wake(); ; wake() {
		select {
		case <-hints:
		case <-ctx.Done():
			return nil
		}
	}
}

// Until says that there may be something at any time. Claims that get nothing become
// rarer then, down to one in a poll, until a hint comes.
func (i *inlet) Until(context.Context, []string, time.Time) (time.Duration, bool, error) {
	return 0, true, nil
}

// verify asks a repository whether this program can work on it, if it can tell.
func verify(ctx context.Context, r almanac.Repository) error {
	v, able := r.(almanac.Verifier)
	if !able {
		return nil
	}
	return v.Verify(ctx)
}

// notClaimed is an error after which nothing was claimed, so that nobody asks the
// database to give it back.
type notClaimed struct{ error }

// SafeToRetry returns true.
func (notClaimed) SafeToRetry() bool { return true }

// Unwrap returns what happened.
func (e notClaimed) Unwrap() error { return e.error }

// claimedAll is an error after which something was claimed, whatever the error itself says:
// the scheduler releases what the token of the claim holds.
type claimedAll struct{ error }

// SafeToRetry returns false.
func (claimedAll) SafeToRetry() bool { return false }

// Unwrap returns what happened.
func (e claimedAll) Unwrap() error { return e.error }
