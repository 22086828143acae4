package almanac

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/almanac-go/almanac/internal/backoff"
)

// Listener is the ability of a repository to hear that another process has stored
// something which can be claimed soon. Run, where its repository has it, looks then
// instead of at the next poll (see [WithPoll]). What is heard is a hint and no more:
// one too many costs a look, and one that is missed is made up for by the poll.
type Listener interface {
	// Listen calls wake for each hint until ctx is done, and once before, when it has
	// begun to hear, for the sake of what was stored until then. It calls wake from one
	// goroutine at a time, and not after it has returned; wake does not block.
	//
	// It returns nil when ctx is done, or at once when hints are not to be had here at
	// all. An error means that nothing is heard any more; Run calls again then, after
	// a while that grows from a tenth of a second to a minute.
	Listen(ctx context.Context, wake func()) error
}

// listenAgain is how long to wait after listening has failed. Where it fails for
// good, as behind some poolers, trying has to cost next to nothing.
var listenAgain = backoff.Exponential{First: 100 * time.Millisecond, Max: time.Minute, Factor: 2, Jitter: 0.2}

// listen wakes the engine whenever the repository hears of something, until ctx is
// done. It logs the beginning and the end of an outage, not each failure within, and
// looks after the pauses for as long as nothing is heard.
func (s *scheduler) listen(ctx context.Context) {
	pauses := new(pauseWatch)
	l, able := s.repository.(Listener)
	for failures := 0; able && ctx.Err() == nil; {
		err := l.Listen(ctx, func() {
			if failures > 0 {
				s.log.InfoContext(ctx, "hints of other processes are heard again")
			}
			failures = 0
			s.running.wake()
		})
		if err == nil || ctx.Err() != nil {
			break
		}
		failures++
		if failures == 1 {
			s.log.WarnContext(ctx, "hints of other processes are not heard, their events wait for the next poll", slog.Any("error", err))
		}
		s.watchPauses(ctx, pauses, time.After(listenAgain.Delay(failures, rand.Float64())))
	}
	s.watchPauses(ctx, pauses, nil)
}
