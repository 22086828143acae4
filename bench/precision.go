package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// lead is how long before the first event is due the systems start: time to
	// elect a leader and to find out what comes.
	lead = 3 * time.Second
	// patience is how long after the last event was due a system is given up.
	patience = 15 * time.Second
)

// pick returns the systems that are asked for in a section, with their tables prepared.
func (b *bench) pick(ctx context.Context, section string, all ...system) ([]system, error) {
	chosen := slices.DeleteFunc(all, func(s system) bool { return !b.chosen(section, s.name) })
	for _, s := range chosen {
		if err := b.template(ctx, s.template, s.migrate); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// together runs systems at the same time, each on a database of its own: for those
// who wait most of the time.
func (b *bench) together(ctx context.Context, section string, systems []system, measure func(context.Context, system, database) ([]reading, error)) error {
	var databases []database
	var entries []entry
	for _, s := range systems {
		db, err := b.cluster.copy(ctx, s.template)
		if err != nil {
			return err
		}
		databases = append(databases, db)
		entries = append(entries, entry{name: s.name, contract: s.contract, run: func(ctx context.Context) ([]reading, error) { return measure(ctx, s, db) }})
	}
	err := b.abreast(ctx, section, entries)
	for _, db := range databases {
		err = errors.Join(err, b.cluster.discard(ctx, db))
	}
	return err
}

// lateness measures how late handlers start when little is due at once.
func (b *bench) lateness(ctx context.Context) error {
	const section = "lateness"
	systems, err := b.pick(ctx, section, almanacSystem(), riverSystem(), riverDefaults())
	if err != nil {
		return err
	}
	return b.together(ctx, section, systems, func(ctx context.Context, s system, db database) ([]reading, error) {
		o := load{count: b.Spread, first: time.Now().Add(lead), step: b.Over / time.Duration(b.Spread)}
		p, err := s.keepTime(ctx, db, o, patience)
		if err != nil {
			return nil, err
		}
		return p.spread(), nil
	})
}

// burst measures how a crowd is served that is due at one instant.
func (b *bench) burst(ctx context.Context) error {
	const section = "burst"
	systems, err := b.pick(ctx, section, almanacSystem(), riverSystem())
	if err != nil {
		return err
	}
	var entries []entry
	for _, s := range systems {
		entries = append(entries, entry{name: s.name, contract: s.contract, run: func(ctx context.Context) ([]reading, error) {
			// Storing so many takes a while itself.
			return b.crowded(ctx, s, lead+time.Duration(b.sizes.Burst)*60*time.Microsecond)
		}})
	}
	return b.rounds(ctx, section, 1, entries)
}

// crowded measures a crowd that has some time to be stored. If a busy machine needs longer, it
// begins anew with twice the time.
func (b *bench) crowded(ctx context.Context, s system, storing time.Duration) (readings []reading, err error) {
	for ; ; storing *= 2 {
		err = b.cluster.with(ctx, s.template, func(db database) error {
			p, err := s.keepTime(ctx, db, load{count: b.sizes.Burst, first: time.Now().Add(storing)}, patience)
			if err == nil {
				readings = p.crowd()
			}
			return err
		})
		if !errors.Is(err, errTooSoon) || storing > time.Minute {
			return readings, err
		}
	}
}

var errTooSoon = errors.New("when they were stored, the first of them was nearly due")

// punctuality is how a system kept to a timetable.
type punctuality struct {
	starts *starts
	tally  tally // of what was stored, from the first instant on
}

// keepTime stores events and lets the system run until they are done, or until
// they should have been for longer than a limit.
func (s system) keepTime(ctx context.Context, db database, o load, limit time.Duration) (punctuality, error) {
	if err := s.store(ctx, db, o); err != nil {
		return punctuality{}, err
	}
	if _, err := db.pool.Exec(ctx, "ANALYZE"); err != nil {
		return punctuality{}, err
	}
	if left := time.Until(o.first); left < lead/2 {
		return punctuality{}, fmt.Errorf("%d events: %w, within %v", o.count, errTooSoon, left)
	}
	p := punctuality{starts: newStarts(o.count)}
	m := newMeter(o.count)
	m.began = o.first
	r, err := s.start(ctx, db, hooks{started: p.starts.note, stored: m.one})
	if err != nil {
		return p, err
	}
	last := o.first.Add(time.Duration(o.count) * o.step)
	p.tally, err = m.wait(ctx, time.Until(last)+limit)
	return p, errors.Join(err, r.stop())
}

// spread tells of events that were due one after the other.
func (p punctuality) spread() []reading {
	late := p.starts.seen()
	if len(late) == 0 {
		return nil
	}
	early, _ := slices.BinarySearch(late, 0)
	return []reading{
		{"p50", "ms", quantile(late, 0.50)}, {"p95", "ms", quantile(late, 0.95)}, {"p99", "ms", quantile(late, 0.99)},
		{"max", "ms", late[len(late)-1]}, {"early", "", float64(early)}, {"started", "", float64(len(late))},
	}
}

// crowd tells of events that were due at one instant.
func (p punctuality) crowd() []reading {
	late := p.starts.seen()
	if len(late) == 0 {
		return nil
	}
	early, _ := slices.BinarySearch(late, 0)
	return []reading{
		{"first start", "ms", late[0]}, {"rate", "events/s", p.tally.rate()}, {"early", "", float64(early)},
		{"most ahead of its turn", "places", float64(p.starts.displacement())}, {"done", "", float64(p.tally.done)},
	}
}

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
	r, err := s.start(ctx, db, hooks{started: func(place uint64, due time.Time) {
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
