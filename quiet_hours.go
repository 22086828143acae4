package almanac

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
	"github.com/almanac-go/almanac/internal/program"
)

// quietHours is the name of the stored setting.
const quietHours = "quiet hours"

// maxWindowText is the length in bytes of a stored window that is cut. With a hash it is within the bound of a setting.
const maxWindowText = 150

// quietSetting returns the setting of this program: the quiet hours of the zero user.
func (s settings) quietSetting() Setting {
	mine := Setting{Name: quietHours, Program: program.Own()}
	if s.window == nil {
		return mine
	}
	mine.Value = "by user"
	if w := s.window(User{}); w != (calendar.Window{}) {
		mine.Value = "outside " + w.String()
		if c := w.Holidays(); c != nil {
			mine.Value += "; holidays of " + c.Name() + " " + c.Release()
		}
	}
	if len(mine.Value) > maxWindowText { // two that differ must not become equal
		mine.Value = fmt.Sprintf("%s %x", excerpt.Of(mine.Value, maxWindowText), sha256.Sum256([]byte(mine.Value)))[:maxWindowText+len("… ")+16]
	}
	return mine
}

// storedQuietHours returns the stored setting. Without one, its Value is empty.
func (s *scheduler) storedQuietHours(ctx context.Context) (Setting, error) {
	stored, err := s.repository.Settings(ctx)
	if i := slices.IndexFunc(stored, func(one Setting) bool { return one.Name == quietHours }); err == nil && i >= 0 {
		return stored[i], nil
	}
	return Setting{}, err
}

// agree stores the quiet hours of a program that delivers, and logs a warning if another
// program stored others. An error stops no delivery, so it is logged too.
func (s *scheduler) agree(ctx context.Context) {
	mine := s.quietSetting()
	stored, err := s.storedQuietHours(ctx)
	if err == nil && stored.Value != mine.Value {
		if stored.Name != "" {
			s.log.WarnContext(ctx, "programs have different quiet hours", slog.String("quiet_hours", mine.Value), slog.String("stored", stored.Value),
				slog.String("stored_by", stored.Program), slog.Time("since", stored.Since))
		}
		err = s.repository.PutSetting(ctx, mine)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && ctx.Err() == nil {
		s.log.WarnContext(ctx, "quiet hours could not be compared with those of other programs", slog.Any("error", err))
	}
}

// checkQuietHours returns a [*ValidationError] if this program has no quiet hours but
// another one has: RunNow would make events due in them.
func (s *scheduler) checkQuietHours(ctx context.Context, options ForceOptions) error {
	if s.window != nil || options.Force {
		return nil
	}
	stored, err := s.storedQuietHours(ctx)
	if err != nil || stored.Value == "" {
		return err
	}
	return &ValidationError{[]FieldError{{Field: "force", Problem: fmt.Sprintf("is required, because this program does not have the quiet hours (%s) of %s",
		stored.Value, cmp.Or(stored.Program, "another program"))}}}
}

// runAt returns when an event of the roster is to run: now, or at the end of the user's quiet hours.
func (s *scheduler) runAt(g guard, r Roster, e Event, options ForceOptions) (time.Time, error) {
	if s.window == nil || options.Force {
		return r.Now, nil
	}
	if h, err := s.registry.Handler(e.Type); err == nil && givenExecution(h).OverrideOptOuts {
		return r.Now, nil
	}
	window, err := guarded(g, "choosing", "a window", func() (calendar.Window, error) { return s.window(r.User), nil })
	opens, _, _ := window.Next(r.User.Timezone, r.Now)
	return opens, err
}

// quietUntil returns when the user of a late event may be disturbed again, if that is later than
// now. The event is late if an attempt has failed. It is also late if it became ready longer ago than the
// grace, unless it may have waited for its lane. An event that has waited for its lane, or becomes ready after
// its instant, for example because its type is spread, counts as late unless its instant is in the same
// quiet hours as now. See docs/adr/0056-quiet-hours.md.
func (s *scheduler) quietUntil(j *job, now time.Time) (time.Time, bool) {
	late := j.event.RetryCount > 0 || j.of.asked.IsZero() && now.Sub(later(j.event.Due, j.event.ReadyAt)) > s.grace
	if s.window == nil || !late && j.of.asked.IsZero() && j.event.ReadyAt.IsZero() || j.event.Origin.Forced || givenExecution(j.route.handler).OverrideOptOuts {
		return time.Time{}, false
	}
	window := s.window(j.user)
	opens, _, _ := window.Next(j.user.Timezone, now)
	if !opens.After(now) {
		return time.Time{}, false
	}
	if !late {
		same, _, _ := window.Next(j.user.Timezone, j.event.Due)
		late = !same.Equal(opens)
	}
	return opens, late
}
