package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// failover measures what a killed worker and a restarted stream cost.
func (b *bench) failover(ctx context.Context) error {
	const section = "failover"
	crash := fmt.Sprintf("one of two processes is killed with its events in flight; leases of %v, receivers of %v", crashLease, crashTakes)
	killed := func(stream bool) func(context.Context, database) ([]reading, error) {
		return func(ctx context.Context, db database) ([]reading, error) { return b.killWorker(ctx, db, stream) }
	}
	var entries []entry
	for _, e := range []entry{
		b.onEmpty("a killed worker, no stream", crash, killed(false)),
		b.onEmpty("a killed worker, stream", crash, killed(true)),
		b.onEmpty("a restarted stream", fmt.Sprintf("the JetStream server is gone for %v, with two workers behind it", away), b.restartStream),
	} {
		if b.chosen(section, e.name) {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	if err := b.template(ctx, almanacSystem().template, migrateAlmanac); err != nil {
		return err
	}
	return b.abreast(ctx, section, entries)
}

// onEmpty prepares an entry that runs on a copy of the empty tables.
func (b *bench) onEmpty(name, contract string, run func(ctx context.Context, db database) ([]reading, error)) entry {
	return entry{name: name, contract: contract, run: b.cluster.on(almanacSystem().template, run)}
}

// halfway starts two workers on a backlog, and returns when a part of it is stored.
func (b *bench) halfway(ctx context.Context, db database, stream bool) (*team, error) {
	if err := storeUsers(ctx, db, load{count: b.Crash}); err != nil {
		return nil, err
	}
	t, err := assemble(fan{stream, 2, crashTakes, crashWorker}, orders{URL: db.url, Workers: crashWorker, Lease: crashLease})
	if err != nil {
		return nil, err
	}
	if err := t.until(ctx, t.beyond(b.Crash/4), crashLimit); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

// killWorker kills one of two workers, and measures when its events are stored by the other.
func (b *bench) killWorker(ctx context.Context, db database, stream bool) (readings []reading, err error) {
	t, err := b.halfway(ctx, db, stream)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	victim, err := freezeBusy(ctx, db, t.processes)
	if err != nil {
		return nil, err
	}
	killed := time.Now()
	t.processes = slices.DeleteFunc(t.processes, func(p *process) bool { return p == victim })
	if err := victim.kill(); err != nil {
		return nil, err
	}
	if err := b.allEnded(ctx, db); err != nil {
		return nil, err
	}
	var orphans int
	var last time.Time
	err = db.pool.QueryRow(ctx, "SELECT count(*), coalesce(max(executed_at), now()) FROM almanac.history WHERE crash_count > 0").Scan(&orphans, &last)
	if err == nil && orphans == 0 {
		err = errors.New("the killed worker had no events in flight")
	}
	return []reading{{"events of the dead", "", float64(orphans)}, {"recovered within", "s", last.Sub(killed).Seconds()}}, err
}

// freezeBusy freezes a process that has events in flight, and returns it. A process that is not
// frozen may have settled its events before it is killed, on a busy machine also those of a busy process.
func freezeBusy(ctx context.Context, db database, processes []*process) (*process, error) {
	const busy = `SELECT EXISTS (SELECT FROM almanac.processing_events e JOIN almanac.leases l ON l.token = e.lease_token
		WHERE l.owner LIKE '%/' || $1 || '/%')` // an owner is a host, a process id and a random number
	for began := time.Now(); time.Since(began) < crashLimit; {
		for _, p := range processes {
			frozen, has := p.command.Process, false
			if err := frozen.Signal(syscall.SIGSTOP); err != nil {
				return nil, err
			}
			err := db.pool.QueryRow(ctx, busy, strconv.Itoa(frozen.Pid)).Scan(&has)
			if has && err == nil {
				return p, nil
			}
			if err := errors.Join(err, frozen.Signal(syscall.SIGCONT), pause(ctx, crashGrain)); err != nil {
				return nil, err
			}
		}
	}
	return nil, errors.New("no process had events in flight")
}

// restartStream restarts the stream, and measures how long nothing was stored.
func (b *bench) restartStream(ctx context.Context, db database) (readings []reading, err error) {
	t, err := b.halfway(ctx, db, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	t.stream.halt()
	err = pause(ctx, away)
	_, before, _ := t.stored()
	back := time.Now()
	if err := errors.Join(err, t.stream.start()); err != nil {
		return nil, err
	}
	if err := t.until(ctx, t.beyond(before+1), crashLimit); err != nil {
		return nil, err
	}
	again := time.Since(back)
	if err := b.allEnded(ctx, db); err != nil {
		return nil, err
	}
	var crashes int
	err = db.pool.QueryRow(ctx, "SELECT count(*) FROM almanac.history WHERE crash_count > 0").Scan(&crashes)
	return []reading{{"events of the dead", "", float64(crashes)}, {"stored again within", "s", again.Seconds()}}, err
}

// allEnded waits until the whole backlog is COMPLETED.
func (b *bench) allEnded(ctx context.Context, db database) error {
	for began := time.Now(); ; {
		var ended int
		err := db.pool.QueryRow(ctx, "SELECT count(*) FROM almanac.history WHERE status = 'COMPLETED'").Scan(&ended)
		if err == nil && ended < b.Crash && time.Since(began) > crashLimit {
			err = fmt.Errorf("%d of %d events ended within %v", ended, b.Crash, crashLimit)
		}
		if err != nil || ended >= b.Crash {
			return err
		}
		if err := pause(ctx, 10*crashGrain); err != nil {
			return err
		}
	}
}
