package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

const (
	alone       = "alone" // the row without a neighbour, and the base of the ratios
	heldUsers   = 10      // users whose rows a transaction of the host holds
	besideTries = 60      // claims and edits that are measured in a round
	besideFirst = 20      // of each that are not: they prepare statements and write pages to the log in full
	besideStep  = 5 * time.Millisecond
)

// beside measures what neighbours do to throughput, lateness, claims and edits. In each
// round every neighbour is compared with nothing beside it.
func (b *bench) beside(ctx context.Context) error {
	const section = "beside"
	var entries []entry
	for _, n := range b.neighbours() {
		if !b.chosen(section, n.name) {
			continue
		}
		template, err := b.neighbourhood(ctx, n)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: n.name, contract: n.contract, run: b.cluster.on(template, func(ctx context.Context, db database) ([]reading, error) {
			return b.figures(ctx, db, n)
		})})
	}
	if err := b.rounds(ctx, section, b.Rounds, entries); err != nil {
		return err
	}
	b.report.timesAlone(section, alone)
	return nil
}

// neighbourhood prepares a database with a backlog, with far-off events, and with a neighbour.
func (b *bench) neighbourhood(ctx context.Context, n neighbour) (template string, err error) {
	template = "beside_nothing"
	if n.fill != nil {
		template = "beside " + n.name
	}
	return template, b.template(ctx, template, func(ctx context.Context, db database) error {
		if err := migrateAlmanac(ctx, db); err != nil {
			return err
		}
		scheduler, err := newScheduler(db.pool, ears{})
		if err != nil {
			return err
		}
		whom := profile(0)
		whom.ID = edited
		if _, err := scheduler.CreateUser(ctx, whom); err != nil {
			return err
		}
		store, err := postgres.New(db.pool)
		if err != nil {
			return err
		}
		if err := store.Pause(ctx, pausedType); err != nil {
			return err
		}
		far := load{count: b.Beside, first: time.Now().AddDate(1, 0, 0), step: time.Minute}
		return db.inBulk(ctx, func(conn *pgxpool.Conn) error {
			for _, o := range []load{far, {count: b.Beside}} {
				if err := o.storeOn(ctx, conn); err != nil {
					return err
				}
			}
			if n.fill == nil {
				return nil
			}
			return n.fill(ctx, conn)
		})
	})
}

// figures takes all figures, one after the other, on one database.
func (b *bench) figures(ctx context.Context, db database, n neighbour) (readings []reading, err error) {
	if n.old {
		n.old = false
		err = besideSnapshot(ctx, db, func() error {
			readings, err = b.figures(ctx, db, n)
			return err
		})
		return readings, err
	}
	for _, take := range []func(context.Context, database, neighbour) ([]reading, error){b.workBeside, b.lateBeside, b.claimBeside, b.editBeside} {
		taken, err := take(ctx, db, n)
		if err != nil {
			return nil, err
		}
		readings = append(readings, taken...)
	}
	return readings, nil
}

// during calls do while the neighbour's transaction is open, and rolls it back.
func (n neighbour) during(ctx context.Context, db database, do func() error) error {
	if n.holds == nil {
		return do()
	}
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		return err
	}
	err = n.holds(ctx, tx)
	if err == nil {
		err = do()
	}
	return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
}

// workBeside works the backlog off, but for events that wait for the neighbour.
func (b *bench) workBeside(ctx context.Context, db database, n neighbour) ([]reading, error) {
	p, err := b.runBeside(ctx, db, n, load{count: b.Beside})
	return []reading{{"backlog", "events/s", p.tally.rate()}}, err
}

// lateBeside stores events that are due one after the other, and measures how late they start.
func (b *bench) lateBeside(ctx context.Context, db database, n neighbour) ([]reading, error) {
	o := load{count: min(300, b.Beside), first: time.Now().Add(lead / 3), step: besideStep}
	if err := storeUsers(ctx, db, o); err != nil {
		return nil, err
	}
	p, err := b.runBeside(ctx, db, n, o)
	if err != nil {
		return nil, err
	}
	late := p.starts.seen()
	return []reading{{"late p50", "ms", quantile(late, 0.5)}, {"late p95", "ms", quantile(late, 0.95)}}, nil
}

// runBeside runs a process until it has stored all that it can beside the neighbour.
func (b *bench) runBeside(ctx context.Context, db database, n neighbour, o load) (p punctuality, err error) {
	p.starts = newStarts(o.count)
	m := newMeter(o.count - n.kept)
	var r *running
	err = n.during(ctx, db, func() error {
		m.began = time.Now()
		if r, err = startHandlers(ctx, db, ears{started: p.starts.note, stored: m.one}, paused{}); err != nil {
			return err
		}
		p.tally, err = m.wait(ctx, 2*b.Limit)
		if err == nil && p.tally.done < o.count-n.kept {
			err = fmt.Errorf("%d of %d events were stored", p.tally.done, o.count-n.kept)
		}
		return err
	})
	if r != nil { // only now could all be stored
		err = errors.Join(err, r.stop())
	}
	return p, err
}

// claimBeside claims from where the claim before came to, as Run mostly does, and from the
// beginning, as Run does after a hint and every few seconds. What it claims stays in flight.
func (b *bench) claimBeside(ctx context.Context, db database, n neighbour) (readings []reading, err error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	if err := storeUsers(ctx, db, load{count: 2 * (besideFirst + besideTries) * claimSize}); err != nil {
		return nil, err
	}
	types := []string{almanac.TypeBirthday, "APPOINTMENT", pausedType}
	claim := func(mark *time.Time) error {
		claim, err := store.Claim(ctx, almanac.ClaimRequest{
			Token: uuid.New(), Owner: "bench", Types: types, Limit: claimSize, Lease: time.Minute, Mark: *mark,
		})
		if err == nil && len(claim.Events) < claimSize-n.kept {
			err = fmt.Errorf("%d events were claimed of %d", len(claim.Events), claimSize)
		}
		*mark = claim.Reached
		return err
	}
	err = n.during(ctx, db, func() error {
		var mark time.Time
		onwards, err := timed("claim", func(int) error { return claim(&mark) })
		if err != nil {
			return err
		}
		first, err := timed("claim from the start", func(int) error { return claim(new(time.Time)) })
		readings = append(onwards, first...)
		return err
	})
	return readings, err
}

// editBeside edits one user.
func (b *bench) editBeside(ctx context.Context, db database, n neighbour) (readings []reading, err error) {
	scheduler, err := newScheduler(db.pool, ears{})
	if err != nil {
		return nil, err
	}
	err = n.during(ctx, db, func() error {
		readings, err = timed("edit", func(i int) error {
			name := fmt.Sprintf("Ada %d", i)
			_, err := scheduler.UpdateUser(ctx, edited, almanac.ProfileChange{FirstName: &name})
			return err
		})
		return err
	})
	return readings, err
}

// timed returns how long an operation takes, once it has been done for a while.
func timed(name string, do func(n int) error) ([]reading, error) {
	var took []float64
	for n := range besideFirst + besideTries {
		began := time.Now()
		if err := do(n); err != nil {
			return nil, err
		}
		if n >= besideFirst {
			took = append(took, millis(time.Since(began)))
		}
	}
	return []reading{{name, "ms", median(took)}}, nil
}
