package almanac

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// CalendarReport says how a new release of a calendar moved, or would move, pending events: of a work
// calendar, or of a [calendar.System].
type CalendarReport struct {
	Name    string // as in [calendar.DayRules]
	Release string
	Checked int // pending events that were never claimed and that a change may concern
	Moved   int // events with a new instant
	Removed int // events of occurrences that the release no longer has, or whose new time has passed
	Added   int // events of other occurrences, planned in place of the removed ones; none if the rule has no other occurrence
	// Left is how many events could not be planned again, because their handler failed or another
	// transaction had locked their user. They are tried again within an hour.
	Left int
	// Smallest and Largest are as in a [ZoneReport].
	Smallest, Largest time.Duration
	// First and FirstAt are as in a [ZoneReport], also of removed and added events.
	First   calendar.WallTime
	FirstAt time.Time
}

// calendars returns what the work calendars of the handlers and the registered calendars say from a year on, by name.
func (s *scheduler) calendars(year int) map[string]calendar.DayRules {
	all := make(map[string]calendar.DayRules)
	add := func(of any, compute func() calendar.DayRules) {
		made, known := s.days.Load(daysOf{of, year})
		if !known {
			made, _ = s.days.LoadOrStore(daysOf{of, year}, compute())
		}
		rules := made.(calendar.DayRules)
		all[rules.Name] = rules
	}
	for _, eventType := range s.registry.EventTypes() {
		h, err := s.registry.Handler(eventType)
		if err != nil {
			continue
		}
		for _, c := range givenExecution(h).WorkCalendars {
			add(c, func() calendar.DayRules { return c.Rules(year) })
		}
	}
	for _, name := range calendar.SystemNames() {
		if system, err := calendar.LoadSystem(name); err == nil {
			add(system.Info(), func() calendar.DayRules { return calendar.SystemRules(system, year) })
		}
	}
	return all
}

// daysOf is the calendar and the first year of computed rules.
type daysOf struct {
	of    any // *calendar.WorkCalendar, or the calendar.SystemInfo of a registered calendar
	since int
}

// checkCalendars returns an error for each work calendar that handlers name in two releases, or with other days.
func checkCalendars(handlers map[string]EventHandler) (errs []error) {
	known := make(map[string]calendar.DayRules)
	for _, eventType := range slices.Sorted(maps.Keys(handlers)) {
		x := givenExecution(handlers[eventType])
		if slices.Contains(x.WorkCalendars, nil) {
			errs = append(errs, fmt.Errorf("almanac: handler of %q: one of its calendars is nil", eventType))
			continue
		}
		for _, c := range x.WorkCalendars {
			rules := c.Rules(yearOfComparison)
			was, twice := known[rules.Name]
			if twice && (was.Release != rules.Release || !slices.Equal(was.Hashes, rules.Hashes)) {
				errs = append(errs, fmt.Errorf("almanac: handler of %q: its calendar %s, release %s, is not that of another handler, release %s",
					eventType, rules.Name, rules.Release, was.Release))
			}
			known[rules.Name] = rules
		}
	}
	return errs
}

// yearOfComparison begins the years in which the calendars of handlers are compared with each other.
const yearOfComparison = 2024

// dayWork is what a comparison of calendars came to.
type dayWork struct {
	changed  []calendar.DayRules // to be stored
	follow   []calendar.DayRules // those of this program that the repository follows, or will
	outdated []string            // the names of those of which the repository has a newer release
	refused  map[string]error    // those that have the same release, and differ, by name
	held     []calendar.DayRules // those of this program that are newer, and are held back
}

// compareDays compares the calendars of this program with the stored ones.
func (s *scheduler) compareDays(book ZoneBook, q *screening) dayWork {
	stored := make(map[string]calendar.DayRules, len(book.Calendars))
	for _, rules := range book.Calendars {
		stored[rules.Name] = rules
	}
	work := dayWork{refused: make(map[string]error)}
	mine := s.calendars(book.Now.UTC().Year() - 1) // what is pending now was often planned last year
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		was := stored[name]
		next, err := mine[name].Replace(was)
		switch {
		case err != nil:
			work.refused[name] = err
			continue
		case next.NewerThan(mine[name]):
			work.outdated = append(work.outdated, name)
			continue
		case was.Name != "" && next.Release != was.Release && q.holds(book, releaseKey{name, true}, next.Release):
			work.held = append(work.held, next)
			continue
		case next.Release != was.Release || next.Since != was.Since:
			work.changed = append(work.changed, next)
		}
		work.follow = append(work.follow, next)
	}
	return work
}

// err returns the error about calendars that have the same release and differ, or nil.
func (w dayWork) err() error {
	return errors.Join(slices.Collect(maps.Values(w.refused))...)
}

// outdating returns the calendar of this program in whose newer release an event must be planned again.
func (w dayWork) outdating(e Event) (calendar.DayRules, bool) {
	i := slices.IndexFunc(w.follow, func(r calendar.DayRules) bool { return r.Outdates(e.Consulted) })
	if i < 0 {
		return calendar.DayRules{}, false
	}
	return w.follow[i], true
}

// outdatedDays returns what those pending events of a type have consulted that must be planned again. Others is how
// many further texts of earlier releases the type has.
func (s *scheduler) outdatedDays(ctx context.Context, eventType string, w dayWork) (outdated []calendar.Consulted, others int, err error) {
	if len(w.follow) == 0 {
		return nil, 0, nil
	}
	releases := make(map[string]string, len(w.follow))
	for _, rules := range w.follow {
		releases[rules.Name] = rules.Release
	}
	list, err := s.repository.Consulted(ctx, eventType, releases)
	all := len(list)
	outdated = slices.DeleteFunc(list, func(c calendar.Consulted) bool {
		_, is := w.outdating(Event{Consulted: c})
		return !is
	})
	return outdated, all - len(outdated), err
}

// permits returns an error that matches [*calendar.ReleaseError] if events were planned by a calendar of
// the same release as that of another program, and with other days.
func (v *zoneView) permits(events ...Event) error {
	if !v.refuses() {
		return nil
	}
	for _, e := range events {
		for name := range e.Consulted.Releases() {
			if err := v.days.refused[name]; err != nil {
				return fmt.Errorf("almanac: planning %s: %w", e.Type, err)
			}
		}
	}
	return nil
}

// refuses reports whether any event may not be planned because of the release of a calendar.
func (v *zoneView) refuses() bool { return v != nil && len(v.days.refused) > 0 }

func isReleaseError(err error) bool {
	_, is := errors.AsType[*calendar.ReleaseError](err)
	return is
}

// isLater reports whether an event was planned by a newer release of a calendar than this program has, or whether
// this program's release is held back. Then this program leaves its times as they are, unless the edit changes the
// times of the series.
func (p replanning) isLater(h oneSeries, e Event) bool {
	if e.Consulted.Calendars == "" || p.User.Timezone != p.is.Timezone {
		return false
	}
	was, had, errWas := occurrenceNamed(h, p.User, e)
	is, has, errIs := occurrenceNamed(h, p.is, e)
	if errWas == nil && errIs == nil && !had && !has { // this program's release lacks it
		from := e.Due.Add(-time.Second)
		was, errWas = nextOf(h, &p.User, from)
		is, errIs = nextOf(h, &p.is, from)
	}
	if had != has || (errWas == nil) != (errIs == nil) || was != is {
		return false
	}
	for name, release := range e.Consulted.Releases() {
		if mine, known := p.zones.mine[name]; known && (mine.Release < release || p.zones.held[name] && mine.Release != release) {
			return true
		}
		if mine, known := is.Consulted.Release(name); known && mine < release {
			return true
		}
	}
	return false
}

// isNews reports whether an occurrence has another time than its pending event because of a newer release of
// a calendar, and is not an announcement that comes too late. Most rules that look up a calendar move the
// nominal time too. If nothing else was edited, that is still the same occurrence, by its key. Another time
// of day is not from a calendar: the rule has changed.
func (p replanning) isNews(e Event, same Occurrence) bool {
	if was, is := e.nominal(), nominalOf(same.Occurrence); was != is && (p.is.Version != p.User.Version || was.Clock != is.Clock) {
		return false
	}
	if same.Announces != (calendar.WallTime{}) {
		same.in(&p.is)
		if r, err := same.Zone.Resolve(same.Announces, same.Policies); err != nil || !r.Instant.After(p.Now) {
			return false
		}
	}
	for name, release := range same.Consulted.Releases() {
		if was, looked := e.Consulted.Release(name); looked && was < release {
			return true
		}
	}
	return false
}

// logCalendars logs what a reconciliation did about calendars.
func (s *scheduler) logCalendars(ctx context.Context, r ReconcileResult) {
	for _, c := range r.Calendars {
		s.log.InfoContext(ctx, "calendar changed", slog.String("calendar", c.Name), slog.String("release", c.Release),
			slog.Int("checked", c.Checked), slog.Int("moved", c.Moved), slog.Int("removed", c.Removed), slog.Int("added", c.Added),
			slog.Int("left", c.Left), slog.Duration("smallest", c.Smallest), slog.Duration("largest", c.Largest))
	}
	if len(r.OutdatedCalendars) > 0 {
		s.log.WarnContext(ctx, "calendars are older than the database's", slog.String("calendars", strings.Join(r.OutdatedCalendars, ", ")))
	}
}

// agreed returns the calendars that say the same as the stored ones.
func (w dayWork) agreed() (list []releaseKey) {
	for _, rules := range w.follow {
		if !slices.ContainsFunc(w.changed, func(c calendar.DayRules) bool { return c.Name == rules.Name }) {
			list = append(list, releaseKey{rules.Name, true})
		}
	}
	return list
}

// logWaiting logs the releases that wait.
func (s *scheduler) logWaiting(ctx context.Context, book ZoneBook) {
	type group struct {
		of      []string
		events  int
		largest time.Duration
		first   Quarantine
	}
	groups := make(map[releaseKey]*group)
	for _, one := range book.Quarantines {
		if !one.Waits() {
			continue
		}
		k := releaseKey{one.Release, one.Calendar}
		if groups[k] == nil {
			groups[k] = &group{first: one}
		}
		g := groups[k]
		if g.of, g.events = append(g.of, one.Name), g.events+one.Events; one.Largest.Abs() > g.largest.Abs() {
			g.largest = one.Largest
		}
		if !one.FirstAt.IsZero() && (g.first.FirstAt.IsZero() || one.FirstAt.Before(g.first.FirstAt)) {
			g.first = one
		}
	}
	for k, g := range groups {
		s.log.WarnContext(ctx, "new release waits for an operator", slog.String("release", k.name), slog.Bool("calendar", k.calendar), slog.Any("names", g.of),
			slog.Int("events", g.events), slog.Duration("largest", g.largest), slog.String("first", g.first.First.String()), slog.Time("first_at", g.first.FirstAt),
			slog.Time("since", g.first.Since))
	}
}
