package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// writer stores one thing after the other, each in a transaction of its own.
type writer struct {
	name     string
	contract string
	system   system
	write    func(db database) (func(ctx context.Context, n int) error, error)
}

func writers() []writer {
	return []writer{
		{"CreateUser", "a person and their first event", almanacSystem(), createUser},
		{"river Insert", "a job", riverSystem(), insertJob},
	}
}

func createUser(db database) (func(context.Context, int) error, error) {
	scheduler, err := newScheduler(db.pool, ears{})
	return func(ctx context.Context, n int) error {
		_, err := scheduler.CreateUser(ctx, profile(n))
		return err
	}, err
}

func insertJob(db database) (func(context.Context, int) error, error) {
	client, err := river.NewClient(riverpgxv5.New(db.pool), &river.Config{})
	return func(ctx context.Context, n int) error {
		_, err := client.Insert(ctx, jobArgs{n}, nil)
		return err
	}, err
}

// writing measures how fast single things are stored, by one connection and by
// eight.
func (b *bench) writing(ctx context.Context) error {
	const section = "writing"
	var entries []entry
	for _, w := range writers() {
		for _, connections := range []int{1, 8} {
			name := fmt.Sprintf("%s, %d at once", w.name, connections)
			if !b.chosen(section, name) {
				continue
			}
			if err := b.template(ctx, w.system.template, w.system.migrate); err != nil {
				return err
			}
			entries = append(entries, entry{name, w.contract, func(ctx context.Context) (readings []reading, err error) {
				err = b.cluster.with(ctx, w.system.template, func(db database) error {
					write, err := w.write(db)
					if err != nil {
						return err
					}
					t, err := writeFor(ctx, b.Window/2, connections, write)
					readings = []reading{{"rate", "transactions/s", t.rate()}}
					return err
				})
				return readings, err
			}})
		}
	}
	return b.rounds(ctx, section, b.Rounds, entries)
}

// writeFor lets several write at once for a time.
func writeFor(ctx context.Context, d time.Duration, connections int, write func(context.Context, int) error) (tally, error) {
	m := newMeter(1 << 40)
	errs := make(chan error, connections)
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for time.Since(m.began) < d {
				if err := write(ctx, int(m.n.Load())); err != nil {
					errs <- err
					return
				}
				m.one()
			}
		})
	}
	group.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return tally{}, err
	}
	return m.tally()
}
