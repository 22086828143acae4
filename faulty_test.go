package almanac_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// answer is what becomes of a call of the repository.
type answer string

const (
	fails     answer = "fails"     // nothing takes effect
	loses     answer = "loses"     // it takes effect, and the answer is lost
	hangs     answer = "hangs"     // nothing takes effect, and no answer comes
	dies      answer = "dies"      // so does the process, before anything takes effect
	diesAfter answer = "diesAfter" // and here after it
)

// fault is what goes wrong with the calls of one kind, from a moment on. With a
// zero For it is only the first call from then on.
type fault struct {
	Call      string
	Answer    answer
	From, For time.Duration
}

var (
	errLost = errors.New("connection lost")
	errDead = errors.New("the process is dead")
)

// faulty is a repository as one process sees it, with faults. When the process is
// dead, nothing that it asks for takes effect any more.
type faulty struct {
	almanac.Repository
	start time.Time
	dead  chan struct{}
	death sync.Once

	mu     sync.Mutex
	faults []fault
	bit    map[fault]int // how often each has met a call
}

func newFaulty(r almanac.Repository, start time.Time, faults ...fault) *faulty {
	return &faulty{Repository: r, start: start, dead: make(chan struct{}), faults: faults, bit: make(map[fault]int)}
}

func (f *faulty) isDead() bool {
	select {
	case <-f.dead:
		return true
	default:
		return false
	}
}

// next is the answer to a call, "" when all is well.
func (f *faulty) next(call string) answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Since(f.start)
	for _, one := range f.faults {
		over := now >= one.From+one.For
		if one.For == 0 {
			over = f.bit[one] > 0
		}
		if one.Call == call && now >= one.From && !over {
			f.bit[one]++
			return one.Answer
		}
	}
	return ""
}

// call makes a call take effect, or not.
func (f *faulty) call(ctx context.Context, call string, operation func() error) error {
	if f.isDead() {
		return errDead
	}
	fate := f.next(call)
	switch fate {
	case fails:
		return errLost
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case dies:
		f.die()
		return errDead
	}
	err := operation()
	switch fate {
	case loses:
		return errLost
	case diesAfter:
		f.die()
		return errDead
	}
	return err
}

func (f *faulty) die() { f.death.Do(func() { close(f.dead) }) }

// answered is what a call returns beside its error.
func answered[V any](v V, err error) (V, error) {
	if err != nil {
		return *new(V), err
	}
	return v, nil
}

func (f *faulty) Claim(ctx context.Context, r almanac.ClaimRequest) (claim almanac.Claim, err error) {
	err = f.call(ctx, "claim", func() (err error) {
		claim, err = f.Repository.Claim(ctx, r)
		return err
	})
	return answered(claim, err)
}

func (f *faulty) Settle(ctx context.Context, batch []almanac.Settlement) (settled []almanac.Settled, err error) {
	err = f.call(ctx, "settle", func() (err error) {
		settled, err = f.Repository.Settle(ctx, batch)
		return err
	})
	return answered(settled, err)
}

func (f *faulty) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) (held []uuid.UUID, err error) {
	err = f.call(ctx, "renew", func() (err error) {
		held, err = f.Repository.Renew(ctx, tokens, lease)
		return err
	})
	return answered(held, err)
}

func (f *faulty) Release(ctx context.Context, token uuid.UUID) (released []almanac.Event, err error) {
	err = f.call(ctx, "release", func() (err error) {
		released, err = f.Repository.Release(ctx, token)
		return err
	})
	return answered(released, err)
}

func (f *faulty) ReleaseExpired(ctx context.Context, limit int) (released []almanac.Event, err error) {
	err = f.call(ctx, "sweep", func() (err error) {
		released, err = f.Repository.ReleaseExpired(ctx, limit)
		return err
	})
	return answered(released, err)
}

func (f *faulty) Until(ctx context.Context, types []string, mark time.Time) (wait time.Duration, known bool, err error) {
	err = f.call(ctx, "until", func() (err error) {
		wait, known, err = f.Repository.Until(ctx, types, mark)
		return err
	})
	return wait, known, err
}
