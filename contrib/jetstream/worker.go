package almanacjetstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/almanac-go/almanac"
)

// Worker takes published events, delivers them and stores their outcomes. Any number of
// workers may run, on any machine. A Worker is safe for concurrent use.
type Worker struct{ scheduler almanac.Scheduler }

// NewWorker returns a worker. Its options are those of a scheduler, except that
// [almanac.WithLookAhead] has no effect. [almanac.WithPoll] bounds how late a message is
// taken that was released, or whose hint was lost. The error names everything that is wrong
// with the settings.
func NewWorker(s Settings, options ...almanac.Option) (*Worker, error) {
	s, err := s.checked()
	var repository almanac.Repository
	if s.Repository != nil {
		repository = newInlet(s)
	}
	options = slices.Concat(options, []almanac.Option{almanac.WithLease(s.Lease), almanac.WithLogger(s.Log), almanac.WithLookAhead(0)})
	scheduler, wrong := almanac.NewScheduler(repository, s.Registry, options...)
	if err := errors.Join(err, wrong); err != nil {
		return nil, err
	}
	return &Worker{scheduler}, nil
}

// Run takes and delivers events until ctx is done; see [almanac.Runner]. It takes no more
// messages than it can start to deliver at once.
func (w *Worker) Run(ctx context.Context) error { return w.scheduler.Run(ctx) }

// Health returns the present state of Run. A failure of the stream appears as a failure of
// claims.
func (w *Worker) Health() almanac.Health { return w.scheduler.Health() }

// Listen calls wake when an event was published.
func (i *inlet) Listen(ctx context.Context, wake func()) error {
	hints := make(chan *nats.Msg, 1) // when it is full, another hint adds nothing
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

// Until returns zero, because a message may arrive at any time. Claims that get nothing
// become rarer, down to one per poll, until a hint comes.
func (i *inlet) Until(context.Context, []string, time.Time) (time.Duration, bool, error) {
	return 0, true, nil
}

// notClaimed is an error after which nothing was claimed, so that the scheduler does not
// release the claim.
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
