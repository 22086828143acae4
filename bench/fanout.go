package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	fanWorkers  = 200 // workers of a process, and messages that the dispatcher publishes at once
	fanSpread   = 200 // events whose lateness is measured
	fanStep     = 5 * time.Millisecond
	crashLease  = 6 * time.Second
	crashTakes  = 200 * time.Millisecond
	crashWorker = 100              // workers of a process of which one is killed
	away        = time.Second      // how long the stream is gone
	crashLimit  = 40 * time.Second // until everything is stored after a crash
	crashGrain  = 5 * time.Millisecond
)

// fan is one way to deliver with several processes.
type fan struct {
	stream  bool // one more process claims and publishes; the workers take events from the stream
	workers int
	takes   time.Duration
}

func (f fan) String() string {
	way := "no stream"
	if f.stream {
		way = "stream"
	}
	return fmt.Sprintf("receiver takes %v, %s, %d", f.takes, way, f.workers)
}

// fanout measures delivery by processes that claim for themselves, and by processes that take
// events from a stream to which a dispatcher publishes them.
func (b *bench) fanout(ctx context.Context) error {
	const section = "fanout"
	var entries []entry
	for _, takes := range b.Takes {
		for _, stream := range []bool{false, true} {
			for _, workers := range b.Fans {
				f := fan{stream, workers, takes}
				contract := fmt.Sprintf("processes of %d workers that claim for themselves", fanWorkers)
				if stream {
					contract = fmt.Sprintf("processes of %d workers behind a dispatcher and a JetStream server", fanWorkers)
				}
				entries = append(entries, b.on(f.String(), contract, func(ctx context.Context, db database) ([]reading, error) { return b.fanOut(ctx, db, f) }))
			}
		}
	}
	return b.growing(ctx, section, 1, entries)
}

// team is the processes of a fan.
type team struct {
	*crew      // the workers
	dispatcher *crew
	stream     *streamServer
}

// assemble starts the processes of a fan, which behave as they are told.
func assemble(f fan, o orders) (t *team, err error) {
	t = &team{crew: &crew{}, dispatcher: &crew{told: make(chan struct{}, 1)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.stop())
		}
	}()
	o.Takes = f.takes
	if f.stream {
		if t.stream, err = startStream(); err != nil {
			return t, err
		}
		o.Stream, o.Part = t.stream.ClientURL(), dispatching
		if t.dispatcher, err = muster(o, 1); err != nil {
			return t, err
		}
		o.Part = delivering
	}
	if t.crew, err = muster(o, f.workers); err != nil {
		return t, err
	}
	return t, errors.Join(t.dispatcher.begin(), t.crew.begin())
}

func (t *team) stop() error {
	errs := []error{t.dispatcher.stop(), t.crew.stop()}
	if t.stream != nil {
		errs = append(errs, t.stream.close())
	}
	return errors.Join(errs...)
}

// until waits until the workers have stored so many events, or until a limit.
func (t *team) until(ctx context.Context, count int, limit time.Duration) error {
	for began := time.Now(); ; {
		_, total, _ := t.stored()
		if total >= count {
			return nil
		}
		if time.Since(began) > limit {
			return fmt.Errorf("%d of %d events were stored within %v", total, count, limit)
		}
		if err := pause(ctx, crashGrain); err != nil {
			return err
		}
	}
}

// fanOut measures how late events are while there are few, and then how many are stored a
// second while there are more than enough.
func (b *bench) fanOut(ctx context.Context, db database, f fan) (readings []reading, err error) {
	t, err := assemble(f, orders{URL: db.url, Workers: fanWorkers})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	spread := min(fanSpread, b.Events)
	if err := storeUsers(ctx, db, load{count: spread, first: time.Now().Add(lead / 2), step: fanStep}); err != nil {
		return nil, err
	}
	if err := t.until(ctx, spread, lead+3*b.Limit); err != nil {
		return nil, err
	}
	var late []float64
	for _, p := range t.processes {
		late = append(late, p.late.take()...)
	}
	slices.Sort(late)
	rate, share, spent, err := b.saturate(ctx, db, t)
	if err != nil {
		return nil, err
	}
	readings = []reading{{"rate", "events/s", rate}}
	if f.takes > 0 {
		possible := float64(f.workers*fanWorkers) / f.takes.Seconds()
		readings = append(readings, reading{"of what is possible", "%", 100 * rate / possible})
	}
	return append(readings,
		reading{"late p50", "ms", quantile(late, 0.5)}, reading{"late p99", "ms", quantile(late, 0.99)},
		reading{"least share", "%", share}, reading{"server", "µs/event", spent},
	), nil
}

// saturate stores a backlog and takes the rate between two moments: when some of it is stored,
// and a window later, or the end. If all of it is stored between two reports, the first moment is
// when the backlog was there.
func (b *bench) saturate(ctx context.Context, db database, t *team) (rate, share, spent float64, err error) {
	before, base, _ := t.stored()
	if err := storeUsers(ctx, db, load{count: b.Events}); err != nil {
		return 0, 0, 0, err
	}
	there := time.Now()
	from, err := db.gauge.read(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	if err := t.until(ctx, base+max(1, b.Events/50), 3*b.Limit); err != nil {
		return 0, 0, 0, err
	}
	_, warm, began := t.stored()
	whole, cancel := context.WithTimeout(ctx, b.Window/2)
	defer cancel()
	if err := t.until(whole, base+b.Events, 3*b.Limit); err != nil && whole.Err() == nil {
		return 0, 0, 0, err
	}
	after, total, ended := t.stored()
	to, err := db.gauge.read(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	if total == warm {
		warm, began = base, there
	}
	share = 100
	for i := range after {
		share = min(share, 100*(after[i]-before[i])/float64(total-base))
	}
	spent = float64(to.since(from).server.Microseconds()) / float64(total-base)
	return float64(total-warm) / ended.Sub(began).Seconds(), share, spent, nil
}
