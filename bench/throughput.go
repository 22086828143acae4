package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// contestant is a row of the throughput section.
type contestant struct {
	name     string
	contract string
	lacks    string
	template string
	fill     func(ctx context.Context, db database) error
	run      func(ctx context.Context, db database, want int, limit time.Duration) (tally, error)
	check    func(ctx context.Context, db database, done int) error
	slow     bool // a rate over a third of the limit will do
	apart    bool // it runs in a program of its own, which is new for each run
}

// throughput measures how fast a backlog is worked off, and what an event of it costs.
func (b *bench) throughput(ctx context.Context) error {
	const section = "throughput"
	var entries []entry
	for _, c := range b.contestants() {
		if !b.chosen(section, c.name) {
			continue
		}
		if err := b.template(ctx, c.template, c.fill); err != nil {
			return err
		}
		if !c.slow && !c.apart {
			if _, err := b.race(ctx, c, b.Limit/8); err != nil && !errors.Is(err, errNothing) {
				return fmt.Errorf("%s/%s, warming up: %w", section, c.name, err)
			}
		}
		limit := b.Limit
		if c.slow {
			limit /= 3
		}
		entries = append(entries, entry{c.name, c.contract, c.lacks, func(ctx context.Context) ([]reading, error) {
			t, err := b.race(ctx, c, limit)
			if errors.Is(err, errNothing) { // on a busy machine a slow row may need longer for its first event
				t, err = b.race(ctx, c, 4*limit)
			}
			if err != nil {
				return nil, err
			}
			b.report.declare(costs, c.name, "processor time, log and allocations of an event of the throughput section").add(t.spent.readings(t.done))
			return []reading{{"rate", "events/s", t.rate()}}, nil
		}})
	}
	if err := b.rounds(ctx, section, b.Rounds, entries); err != nil {
		return err
	}
	for _, base := range []string{baseline, riverSuccessor, pgBossSuccessor} {
		b.report.compare(section, base)
	}
	return nil
}

// race runs a contestant once, on a copy of its database.
func (b *bench) race(ctx context.Context, c contestant, limit time.Duration) (t tally, err error) {
	err = b.cluster.with(ctx, c.template, func(db database) error {
		if t, err = c.run(ctx, db, b.Events, limit); err != nil {
			return err
		}
		return c.check(ctx, db, t.done)
	})
	return t, err
}

// contestants are the rows: first those that store a successor, then those that do not.
func (b *bench) contestants() []contestant {
	ours, tuned, theirs, succeeding := almanacSystem(), almanacGOGC(), riverSystem(), riverSuccessorSystem()
	list := []contestant{
		ours.contestant("nothing", b.Events, checkAlmanac),
		tuned.contestant("nothing", b.Events, checkAlmanac),
		{
			name: "almanac-loop", contract: "the store's claim and settle without the engine, 1,000 at a time: the library's own ceiling",
			lacks: "retries, renewed leases, limits, a stop in good order", template: ours.template + "_backlog", fill: ours.backlog(b.Events), run: runLoop, check: checkAlmanac,
		},
		succeeding.contestant("users, zones, keys for ever, a fence", b.Events, checkRiverSuccessor),
		{
			name: "seeds", contract: "the loop of the seeds on their tables; one transaction ends an event and inserts its unique successor",
			lacks: "recovery, a fence", template: "seeds_backlog", fill: fillSeeds(b.Events), run: runSeeds, check: checkSeeds, slow: true,
		},
	}
	list = append(list, b.nodeContestants(true)...)
	list = append(list, theirs.contestant("a successor; users, zones, keys for ever, a fence", b.Events, checkRiver))
	return append(list, b.nodeContestants(false)...)
}

// contestant makes a row of a system.
func (s system) contestant(lacks string, events int, check func(context.Context, database, int) error) contestant {
	return contestant{
		name: s.name, contract: s.contract, lacks: lacks, template: s.template + "_backlog", fill: s.backlog(events), run: s.workOff, check: check,
		slow: s.name == riverSuccessor,
	}
}

// backlog fills a database with events that are overdue.
func (s system) backlog(events int) func(context.Context, database) error {
	return func(ctx context.Context, db database) error {
		if err := s.migrate(ctx, db); err != nil {
			return err
		}
		return s.store(ctx, db, load{count: events})
	}
}

// workOff starts the system on a backlog and waits until it is worked off.
func (s system) workOff(ctx context.Context, db database, want int, limit time.Duration) (tally, error) {
	m, err := db.meter(ctx, want)
	if err != nil {
		return tally{}, err
	}
	r, err := s.start(ctx, db, ears{stored: m.one})
	if err != nil {
		return tally{}, err
	}
	t, err := m.wait(ctx, limit)
	return t, errors.Join(err, r.stop())
}
