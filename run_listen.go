package almanac

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/almanac-go/almanac/internal/backoff"
)

// Listener receives hints that another process stored an event which can be claimed soon.
// Run then searches for events at once, instead of at the next poll (see [WithPoll]).
// Hints need not be reliable: an unnecessary hint costs one query, and the next poll
// makes up for a missing one.
type Listener interface {
	// Listen calls wake for each hint until ctx is done. It also calls wake once when it
	// starts to receive hints, for the events that were stored before. It calls wake from
	// one goroutine at a time, and not after it has returned. The function wake does not
	// block.
	//
	// Listen returns nil when ctx is done. A repository without hints returns nil at
	// once, and Run polls. An error means that no more hints are received. Run then calls
	// Listen again, after a wait that grows from a tenth of a second to a minute.
	Listen(ctx context.Context, wake func()) error
}

// listenAgain has the waits after Listen has failed. Behind some poolers Listen always
// fails, so the attempts must become rare.
var listenAgain = backoff.Exponential{First: 100 * time.Millisecond, Max: time.Minute, Factor: 2, Jitter: 0.2}

// listen wakes the engines for each hint of the repository, until ctx is done. It logs
// the start and the end of an outage, not each failure. Without hints, it polls the
// pauses.
func (s *scheduler) listen(ctx context.Context) {
	pauses := new(pausePoll)
	for failures := 0; ctx.Err() == nil; {
		err := s.repository.Listen(ctx, func() {
			if failures > 0 {
				s.log.InfoContext(ctx, "hints of other processes are received again")
			}
			failures = 0
			s.running.wake()
		})
		if err == nil || ctx.Err() != nil {
			break
		}
		failures++
		if failures == 1 {
			s.log.WarnContext(ctx, "hints of other processes are not received, their events wait for the next poll", slog.Any("error", err))
		}
		s.pollPauses(ctx, pauses, time.After(listenAgain.Delay(failures, rand.Float64())))
	}
	s.pollPauses(ctx, pauses, nil)
}
