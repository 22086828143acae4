package chaos

import (
	"context"
	"errors"
	"time"

	"github.com/almanac-go/almanac"
)

// Well is the health of a worker that has nothing to complain of.
const Well = "well"

// watch reports the worker's health whenever it changes, until ctx is done.
func (w *worker) watch(ctx context.Context, s almanac.Runner) {
	type state struct{ well, stuck bool }
	was := state{}
	for pause(ctx, 20*time.Millisecond) == nil {
		err := s.Health().Err()
		is := state{err == nil, errors.Is(err, almanac.ErrStuck)}
		switch {
		case is == was:
		case is.well:
			w.say(Report{Health: Well})
		default:
			w.say(Report{Health: err.Error()})
		}
		was = is
	}
}

// Turns waits until the worker's health is such as matches, at some moment after the
// report before.
func (p *Process) Turns(ctx context.Context, after Report, matches func(health string) bool) (Report, error) {
	return p.Await(ctx, func(r Report) bool { return r.Health != "" && r.At.After(after.At) && matches(r.Health) })
}
