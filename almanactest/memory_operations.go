package almanactest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// Requeued returns the ids of those of the events that were requeued before.
func (r *Repository) Requeued(ctx context.Context, events []almanac.Event) (requeued []uuid.UUID, err error) {
	err = r.read(ctx, func(time.Time) error {
		for _, e := range events {
			repeat := e
			repeat.Origin = almanac.Origin{Kind: almanac.OriginRequeued, From: e.ID}
			if r.hasOpen(seriesOf(repeat)) || r.usedUp(repeat) {
				requeued = append(requeued, e.ID)
			}
		}
		return nil
	})
	return requeued, err
}

// Pause pauses a type of event.
func (r *Repository) Pause(ctx context.Context, p almanac.Pause) error {
	return r.transact(ctx, func(now time.Time) error {
		p.Author, p.Since, p.Until = almanac.Principal(ctx), now, p.Until.UTC()
		if was := r.pauses[p.Lane]; r.paused(p.Lane, now) {
			p.Since = was.Since
		}
		set(&r.undo, r.pauses, p.Lane, p)
		return nil
	})
}

// Resume ends the pause of a type of event.
func (r *Repository) Resume(ctx context.Context, eventType string) error {
	return r.transact(ctx, func(now time.Time) error {
		if r.paused(eventType, now) {
			set(&r.undo, r.pauses, eventType, almanac.Pause{Lane: eventType, Until: now})
		}
		remove(&r.undo, r.breakers, eventType)
		return nil
	})
}

// Paused returns the paused types, in order.
func (r *Repository) Paused(ctx context.Context) (paused []almanac.Pause, err error) {
	err = r.read(ctx, func(now time.Time) error {
		for _, eventType := range slices.Sorted(maps.Keys(r.pauses)) {
			if r.paused(eventType, now) {
				paused = append(paused, r.pauses[eventType])
			}
		}
		return nil
	})
	return paused, err
}

// PutSetting stores a setting, unless the repository has it with this value already.
func (r *Repository) PutSetting(ctx context.Context, setting almanac.Setting) error {
	return r.transact(ctx, func(now time.Time) error {
		if is, known := r.shared[setting.Name]; !known || is.Value != setting.Value {
			setting.Since = now
			set(&r.undo, r.shared, setting.Name, setting)
		}
		return nil
	})
}

// Settings returns the stored settings, in the order of their names.
func (r *Repository) Settings(ctx context.Context) (settings []almanac.Setting, err error) {
	err = r.read(ctx, func(now time.Time) error {
		settings = r.zoneBook(now).Settings
		return nil
	})
	return settings, err
}

// paused reports whether a type is paused.
func (s *state) paused(eventType string, now time.Time) bool {
	p := s.pauses[eventType]
	return !p.Since.IsZero() && (p.Until.IsZero() || p.Until.After(now))
}

// since returns where a search for events of a type begins: at the mark, or from the beginning if events have
// waited for the end of a pause since. A mark later than now counts as zero: the clock was set back.
func (s *state) since(mark time.Time, eventType string, now time.Time) time.Time {
	if end := s.pauses[eventType].Until; mark.After(now) || !end.IsZero() && !mark.After(end) {
		return time.Time{}
	}
	return mark
}

// Prune deletes the events of a page that ended before an instant and were due before it.
func (r *Repository) Prune(ctx context.Context, before time.Time, page almanac.Page) (deleted int, next almanac.Cursor, err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return 0, "", err
	}
	err = r.transact(ctx, func(time.Time) error {
		deleted = 0
		if before.After(r.pruned) {
			r.pruned = before
		}
		events := r.matching(func(e almanac.Event) bool {
			return e.Status.Terminal() && bytes.Compare(e.ID[:], after[:]) > 0 && e.CreatedAt.Before(before)
		})
		found := almanac.PageOf(events, limit, almanac.OldestFirst)
		next = found.Next
		for _, e := range found.Items {
			if e.UpdatedAt.Before(before) && e.Due.Before(before) && r.due[e.ID].Before(before) {
				remove(&r.undo, r.due, e.ID)
				r.forget(e.ID)
				deleted++
			}
		}
		return nil
	})
	return deleted, next, err
}

// ZoneRules returns the stored zone rules.
func (r *Repository) ZoneRules(ctx context.Context) (book almanac.ZoneBook, err error) {
	err = r.read(ctx, func(now time.Time) error {
		book = r.zoneBook(now)
		return nil
	})
	return book, err
}

func (s *state) zoneBook(now time.Time) almanac.ZoneBook {
	book := almanac.ZoneBook{Rules: slices.Clone(s.zones), Marks: slices.Clone(s.marks), Calendars: slices.Clone(s.calendars), Quarantines: slices.Clone(s.held), Now: now}
	for _, name := range slices.Sorted(maps.Keys(s.shared)) {
		book.Settings = append(book.Settings, s.shared[name])
	}
	return book
}

func byZone(a, b calendar.ZoneRules) int {
	return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Version, b.Version), cmp.Compare(a.Fingerprint, b.Fingerprint), cmp.Compare(a.Since, b.Since))
}

func byRelease(a, b almanac.Quarantine) int {
	if a.Calendar != b.Calendar {
		if b.Calendar {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}

func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// EditZoneRules edits the stored zone rules.
func (r *Repository) EditZoneRules(ctx context.Context, edit func(almanac.ZoneBook) (almanac.ZoneBook, error)) error {
	return r.transact(ctx, func(now time.Time) error {
		edited, err := edit(r.zoneBook(now))
		if err != nil {
			return err
		}
		r.calendars = slices.Clone(r.calendars)
		for _, rules := range edited.Calendars {
			i, known := slices.BinarySearchFunc(r.calendars, rules.Name, func(r calendar.DayRules, name string) int { return strings.Compare(r.Name, name) })
			if !known {
				r.calendars = slices.Insert(r.calendars, i, rules)
			}
			r.calendars[i] = rules
		}
		changed := edited.Rules
		r.zones = slices.Clone(r.zones)
		for _, rules := range changed {
			rules.Recheck = rules.Recheck.UTC().Truncate(time.Microsecond)
			i, known := slices.BinarySearchFunc(r.zones, rules.Zone, func(r almanac.ZoneRecord, zone string) int { return strings.Compare(r.Zone, zone) })
			if !known {
				r.zones = slices.Insert(r.zones, i, rules)
			}
			r.zones[i] = rules
		}
		r.held = slices.Clone(r.held)
		for _, q := range edited.Quarantines {
			if !q.Waits() {
				q.Author = almanac.Principal(ctx)
			}
			q.FirstAt, q.Since, q.AnsweredAt = stored(q.FirstAt), stored(q.Since), stored(q.AnsweredAt)
			i, known := slices.BinarySearchFunc(r.held, q, byRelease)
			if !known {
				r.held = slices.Insert(r.held, i, q)
			}
			r.held[i] = q
		}
		r.marks = slices.DeleteFunc(slices.Clone(r.marks), func(m calendar.ZoneRules) bool {
			return slices.ContainsFunc(changed, func(c almanac.ZoneRecord) bool { return c.Zone == m.Zone })
		})
		return nil
	})
}

// Consulted returns what pending events of a type have consulted, if it has a calendar in an earlier release
// than the one that releases has for the name of that calendar.
func (r *Repository) Consulted(ctx context.Context, eventType string, releases map[string]string) (all []calendar.Consulted, err error) {
	err = r.read(ctx, func(time.Time) error {
		for _, e := range r.events {
			earlier := false
			for name, release := range e.Consulted.Releases() {
				earlier = earlier || release < releases[name]
			}
			if e.Status == almanac.Pending && e.Type == eventType && earlier && !slices.Contains(all, e.Consulted) {
				all = append(all, e.Consulted)
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b calendar.Consulted) int { return strings.Compare(a.String(), b.String()) })
	return all, err
}

// FindConsulted returns a page of the pending events of a type that have consulted the same.
func (r *Repository) FindConsulted(ctx context.Context, eventType string, c calendar.Consulted, page almanac.Page) (found almanac.List[almanac.Event], err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.List[almanac.Event]{}, err
	}
	err = r.read(ctx, func(time.Time) error {
		found = almanac.PageOf(r.matching(func(e almanac.Event) bool {
			return e.Status == almanac.Pending && e.Type == eventType && c.Calendars != "" && e.Consulted == c && bytes.Compare(e.ID[:], after[:]) > 0
		}), limit, almanac.OldestFirst)
		return nil
	})
	return found, err
}

// mark stores by which other rules an event was planned, and returns the event as stored.
func (s *state) mark(e almanac.Event) almanac.Event {
	if e.PlannedBy != nil && !slices.Contains(s.marks, *e.PlannedBy) {
		s.marks = append(slices.Clone(s.marks), *e.PlannedBy)
		slices.SortFunc(s.marks, byZone)
	}
	e.PlannedBy = nil
	return e
}

// MoveEvents moves pending events to another instant.
func (r *Repository) MoveEvents(ctx context.Context, events []almanac.Event) (moved []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		for _, e := range events {
			is, known := r.events[e.ID]
			if !known || is.Version != e.Version-1 || is.Status != almanac.Pending || is.ClaimCount > 0 {
				continue
			}
			was := is
			is.Due, is.ReadyAt, is.Version = e.Due, e.ReadyAt, e.Version
			is.AvailableAt, is.ReadyAt = availableAfter(was, is, now)
			moved = append(moved, r.put(is, now))
		}
		return nil
	})
	return moved, err
}
