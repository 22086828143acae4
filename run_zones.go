package almanac

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

// zoneFollower is the chore by which a running scheduler follows zone data that is
// replaced under it, and what programs with other zone data plan.
type zoneFollower struct {
	*scheduler
	checked time.Time            // when zone data was read last, by the repository's clock
	every   time.Duration        // until it is read again
	doubts  map[string]time.Time // what was in doubt after that, and until when
}

func (s *scheduler) followZones() engine.Chore {
	f := &zoneFollower{scheduler: s}
	return engine.Chore{Name: "compare zone rules", Every: min(s.zoneCheck, max(s.sweep, zoneLook)), Limit: s.zoneCheck, Do: f.follow}
}

// follow sees to zone rules when it is time to, or when others give reason to.
func (f *zoneFollower) follow(ctx context.Context) error {
	_, book, err := f.readZones(ctx)
	if err != nil {
		return err
	}
	since := book.Now.Sub(f.checked)
	if f.checked.IsZero() || since < 0 || since >= f.every {
		return f.check(ctx, true)
	}
	if len(book.Marks) > 0 || f.isInDoubt(book) {
		return f.check(ctx, false)
	}
	return nil
}

// isInDoubt reports whether a look at pending events is worth it: a doubt is new, or
// one is over that a look would end.
func (f *zoneFollower) isInDoubt(book ZoneBook) bool {
	for _, rules := range book.Rules {
		if rules.Recheck.IsZero() || f.doubts[rules.Zone].Equal(rules.Recheck) && !rules.Recheck.Before(book.Now) {
			continue
		}
		z := StoredTimezone(rules.Zone)
		if z.check() != nil {
			continue
		}
		if _, verdict := z.judge(&rules, book.Now.Year(), false); verdict == doubted {
			return true
		}
	}
	return false
}

// check reads zone data anew where it is time to, and brings pending events into step.
func (f *zoneFollower) check(ctx context.Context, anew bool) error {
	var reloaded error
	if anew {
		reloaded = OwnZoneData().refresh()
	}
	r, err := f.Reconcile(ctx, Reconcile{})
	for _, z := range r.Zones {
		if z.Moved+z.Left > 0 {
			f.log.InfoContext(ctx, "zone rules changed", slog.String("zone", z.Zone), slog.String("version", z.Version),
				slog.Int("checked", z.Checked), slog.Int("moved", z.Moved), slog.Int("left", z.Left),
				slog.Duration("smallest", z.Smallest), slog.Duration("largest", z.Largest))
		}
	}
	if anew && len(r.Outdated) > 0 {
		f.log.WarnContext(ctx, "zone data is older than the database's", slog.Any("zones", r.Outdated))
	}
	if err := errors.Join(reloaded, err); err != nil {
		return err
	}
	_, book, err := f.readZones(ctx)
	if err != nil {
		return err
	}
	f.doubts = make(map[string]time.Time)
	for _, rules := range book.Rules {
		f.doubts[rules.Zone] = rules.Recheck
	}
	if anew {
		f.checked = book.Now
		f.every = time.Duration(float64(f.zoneCheck) * (0.8 + 0.4*rand.Float64())) // not all programs at once
	}
	return nil
}
