package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// newsType is the type of the events of a broadcast.
const newsType = "NEWS"

// broadcasts measures how fast a broadcast is stored: alone, and beside a scheduler whose handlers start as events become
// due one after the other. The scheduler is measured alone, too, in the same rounds.
func (b *bench) broadcasts(ctx context.Context) error {
	const section = "broadcast"
	var entries []entry
	for _, kind := range []struct {
		name, contract    string
		stores, schedules bool
	}{
		{"stored", "events of a broadcast to all users of eight zones, 1,000 in a transaction; nothing beside it", true, false},
		{alone, "how late handlers start when an event is due every 5 ms; no broadcast", false, true},
		{"stored beside a scheduler", "both at once, in one process", true, true},
	} {
		if !b.chosen(section, kind.name) {
			continue
		}
		if err := b.template(ctx, "almanac_citizens", storeCitizens(b.Events)); err != nil {
			return err
		}
		entries = append(entries, entry{name: kind.name, contract: kind.contract, run: b.cluster.on("almanac_citizens", func(ctx context.Context, db database) ([]reading, error) {
			return b.broadcastBeside(ctx, db, kind.stores, kind.schedules)
		})})
	}
	return b.rounds(ctx, section, b.Rounds, entries)
}

// storeCitizens stores users of eight zones who have no event.
func storeCitizens(users int) func(context.Context, database) error {
	zones := []string{"UTC", "Asia/Tokyo", "Europe/Berlin", "America/Lima", "Asia/Kolkata", "Pacific/Auckland", "America/New_York", "Africa/Lagos"}
	return func(ctx context.Context, db database) error {
		if err := migrateAlmanac(ctx, db); err != nil {
			return err
		}
		idle, err := newSchedulerOf(db.pool, hooks{}, []almanac.EventHandler{appointment{}})
		if err != nil {
			return err
		}
		_, err = idle.CreateUsers(ctx, func(yield func(almanac.Profile, error) bool) {
			for n := range users {
				one := profile(n)
				one.Timezone = zones[n%len(zones)]
				if !yield(one, nil) {
					return
				}
			}
		}, almanac.CreateUsersOptions{})
		return err
	}
}

// broadcastBeside stores a broadcast, runs a scheduler, or does both. Without a broadcast, the scheduler runs for the window.
func (b *bench) broadcastBeside(ctx context.Context, db database, stores, schedules bool) (readings []reading, err error) {
	expected := min(b.Window, max(2*time.Second, time.Duration(b.Events)*time.Second/15_000))
	o := load{count: int(expected / besideStep), first: time.Now().Add(lead), step: besideStep}
	starts := newStarts(o.count)
	m := newMeter(o.count)
	if schedules {
		if err := storeUsers(ctx, db, o); err != nil {
			return nil, err
		}
		if _, err := db.pool.Exec(ctx, "ANALYZE"); err != nil {
			return nil, err
		}
		r, failed := startHandlers(ctx, db, hooks{started: starts.note, stored: m.one})
		if failed != nil {
			return nil, failed
		}
		defer func() { err = errors.Join(err, r.stop()) }()
		if err := pause(ctx, time.Until(o.first)); err != nil {
			return nil, err
		}
	}
	if stores {
		t, err := b.storeBroadcast(ctx, db)
		if err != nil {
			return nil, err
		}
		readings = append(readings, reading{"rate", "events/s", t.rate()})
		if !schedules {
			readings = append(readings, t.spent.readings(t.done)...)
		}
	}
	if schedules {
		if _, err := m.wait(ctx, time.Until(o.first.Add(expected))+patience); err != nil {
			return nil, err
		}
		late := starts.seen()
		if len(late) < o.count {
			return nil, fmt.Errorf("%d of %d events were started", len(late), o.count)
		}
		readings = append(readings, reading{"late p50", "ms", quantile(late, 0.5)}, reading{"late p99", "ms", quantile(late, 0.99)})
	}
	return readings, nil
}

func (b *bench) storeBroadcast(ctx context.Context, db database) (tally, error) {
	scheduler, err := newSchedulerOf(db.pool, hooks{}, []almanac.EventHandler{almanac.OneOff{Type: newsType}})
	if err != nil {
		return tally{}, err
	}
	store, err := postgres.New(db.pool)
	if err != nil {
		return tally{}, err
	}
	sender, err := broadcast.New(scheduler, store)
	if err != nil {
		return tally{}, err
	}
	before, err := db.gauge.read(ctx)
	if err != nil {
		return tally{}, err
	}
	began := time.Now()
	at := calendar.WallTimeOf(time.Now().UTC().AddDate(0, 1, 0).Truncate(time.Second))
	if _, err := sender.Start(ctx, broadcast.Broadcast{Name: "sale", Type: newsType, At: at, Passed: broadcast.Skip}); err != nil {
		return tally{}, err
	}
	if err := sender.RunOnce(ctx, broadcast.RunOptions{Log: slog.New(slog.DiscardHandler)}); err != nil {
		return tally{}, err
	}
	took := time.Since(began)
	after, err := db.gauge.read(ctx)
	if err != nil {
		return tally{}, err
	}
	p, err := sender.Progress(ctx, "sale")
	if err == nil && p.Total().Stored < b.Events {
		err = fmt.Errorf("%d of %d events were stored", p.Total().Stored, b.Events)
	}
	return tally{done: p.Total().Stored, took: took, spent: after.since(before)}, err
}
