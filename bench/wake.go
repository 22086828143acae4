package main

import (
	"context"
	"errors"
	"time"
)

const (
	// ahead is how long before its instant an event is stored.
	ahead = 50 * time.Millisecond
	// farOff is how many events wait that are due in a year.
	farOff = 10_000
	// awaited is how long one of them is waited for.
	awaited = 15 * time.Second
)

// wake measures how late an event is that is stored shortly before its instant,
// while everything else that is stored is far away.
func (b *bench) wake(ctx context.Context) error {
	const section = "wake"
	systems, err := b.pick(ctx, section, almanacSystem(), almanacElsewhere(), riverSystem(), riverDefaults())
	if err != nil {
		return err
	}
	return b.together(ctx, section, systems, func(ctx context.Context, s system, db database) ([]reading, error) {
		return s.wake(ctx, db, b.Tries)
	})
}

func (s system) wake(ctx context.Context, db database, tries int) ([]reading, error) {
	if err := s.store(ctx, db, load{count: farOff, first: time.Now().AddDate(1, 0, 0), step: time.Minute}); err != nil {
		return nil, err
	}
	starts := newStarts(tries)
	received := make(chan struct{}, tries)
	r, err := s.start(ctx, db, ears{started: func(place uint64, due time.Time) {
		starts.note(place, due)
		received <- struct{}{}
	}})
	if err != nil {
		return nil, err
	}
	err = pause(ctx, lead) // until all who look have looked
	for n := 0; n < tries && err == nil; n++ {
		err = r.wakeOnce(ctx, received)
	}
	if err := errors.Join(err, r.stop()); err != nil {
		return nil, err
	}
	late := starts.seen()
	if len(late) == 0 {
		return nil, errNothing
	}
	return []reading{
		{"p50", "ms", quantile(late, 0.5)}, {"min", "ms", late[0]}, {"max", "ms", late[len(late)-1]}, {"started", "", float64(len(late))},
	}, nil
}

// wakeOnce plans one event for the next whole second, since a wall clock shows
// nothing finer, and waits for it.
func (r *running) wakeOnce(ctx context.Context, received <-chan struct{}) error {
	due := time.Now().Add(ahead).Truncate(time.Second).Add(time.Second)
	if err := pause(ctx, time.Until(due.Add(-ahead))); err != nil {
		return err
	}
	if err := r.plan(ctx, due); err != nil {
		return err
	}
	timer := time.NewTimer(awaited)
	defer timer.Stop()
	select {
	case <-received:
		return nil
	case <-timer.C:
		return nil // it counts as not started
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
