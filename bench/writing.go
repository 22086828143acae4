package main

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/almanac-go/almanac"
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
		{"CreateUser", "a user and their first event", almanacSystem(), createUser},
		{"river Insert", "a job", riverSystem(), insertJob},
	}
}

func createUser(db database) (func(context.Context, int) error, error) {
	scheduler, err := newScheduler(db.pool, hooks{})
	return func(ctx context.Context, n int) error {
		_, err := scheduler.CreateUser(ctx, profile(n))
		return err
	}, err
}

func insertJob(db database) (func(context.Context, int) error, error) {
	client, err := river.NewClient(riverpgxv5.New(db.pool), &river.Config{})
	return func(ctx context.Context, n int) error {
		_, err := client.Insert(ctx, jobArgs{Num: n}, nil)
		return err
	}, err
}

// writing measures how fast single things are stored, by one connection and by
// eight, and many things at a time.
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
			entries = append(entries, entry{name: name, contract: w.contract, run: b.cluster.on(w.system.template, func(ctx context.Context, db database) ([]reading, error) {
				write, err := w.write(db)
				if err != nil {
					return nil, err
				}
				t, err := writeFor(ctx, 3*b.Window/10, connections, write)
				return []reading{{"rate", "transactions/s", t.rate()}}, err
			})})
		}
	}
	for _, w := range bulkWriters() {
		if !b.chosen(section, w.name) {
			continue
		}
		if err := b.template(ctx, w.template, w.fill(b.Events)); err != nil {
			return err
		}
		entries = append(entries, entry{name: w.name, contract: w.contract, run: b.cluster.on(w.template, func(ctx context.Context, db database) ([]reading, error) {
			t, err := w.write(ctx, db, b.Events)
			return []reading{{"rate", "users/s", t.rate()}}, err
		})})
	}
	return b.rounds(ctx, section, b.Rounds, entries)
}

// bulkWriter stores users and their events.
type bulkWriter struct {
	name     string
	contract string
	template string
	fill     func(users int) func(ctx context.Context, db database) error
	write    func(ctx context.Context, db database, users int) (tally, error)
}

func bulkWriters() []bulkWriter {
	none := func(int) func(context.Context, database) error { return migrateAlmanac }
	return []bulkWriter{
		{"CreateUsers", "users with their first event, 1,000 in a transaction, on two connections", almanacSystem().template, none, enrol},
		{
			"Backfill", "the first event of a type for users who are there, 1,000 in a transaction, on two connections",
			"almanac_users", storeEventless, backfill,
		},
	}
}

func enrol(ctx context.Context, db database, users int) (tally, error) {
	scheduler, err := newScheduler(db.pool, hooks{})
	if err != nil {
		return tally{}, err
	}
	began := time.Now()
	done, err := scheduler.CreateUsers(ctx, profiles(users), almanac.CreateUsersOptions{})
	if err == nil && done.Events != users {
		err = fmt.Errorf("%d of %d users have an event", done.Events, users)
	}
	return tally{done: done.Created, took: time.Since(began)}, err
}

// storeEventless stores users who have no event yet.
func storeEventless(users int) func(context.Context, database) error {
	return func(ctx context.Context, db database) error {
		if err := migrateAlmanac(ctx, db); err != nil {
			return err
		}
		idle, err := newSchedulerOf(db.pool, hooks{}, []almanac.EventHandler{appointment{}})
		if err != nil {
			return err
		}
		_, err = idle.CreateUsers(ctx, profiles(users), almanac.CreateUsersOptions{})
		return err
	}
}

func backfill(ctx context.Context, db database, users int) (tally, error) {
	scheduler, err := newScheduler(db.pool, hooks{})
	if err != nil {
		return tally{}, err
	}
	began := time.Now()
	done, err := scheduler.Backfill(ctx, almanac.TypeBirthday, almanac.BackfillOptions{})
	if err == nil && done.Events != users {
		err = fmt.Errorf("%d of %d users have an event", done.Events, users)
	}
	return tally{done: done.Users, took: time.Since(began)}, err
}

// profiles are users whose birthdays are far away.
func profiles(n int) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for i := range n {
			if !yield(profile(i), nil) {
				return
			}
		}
	}
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
	return m.tally(ctx)
}
