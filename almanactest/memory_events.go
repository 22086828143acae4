package almanactest

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Event returns an event.
func (r *Repository) Event(ctx context.Context, id uuid.UUID) (e almanac.Event, err error) {
	err = r.read(ctx, func(time.Time) error {
		var ok bool
		if e, ok = r.events[id]; !ok {
			return &almanac.NotFoundError{Kind: "event", ID: id}
		}
		e = copied(e)
		return nil
	})
	return e, err
}

// Events returns the events with the given ids that exist.
func (r *Repository) Events(ctx context.Context, ids []uuid.UUID) (events []almanac.Event, err error) {
	err = r.read(ctx, func(time.Time) error {
		events = r.matching(func(e almanac.Event) bool { return slices.Contains(ids, e.ID) })
		return nil
	})
	return events, err
}

// Find returns a page of the events that match spec.
func (r *Repository) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (found almanac.List[almanac.Event], err error) {
	limit, at, after, err := page.EventBounds()
	if err != nil {
		return almanac.List[almanac.Event]{}, err
	}
	err = r.read(ctx, func(now time.Time) error {
		last := almanac.Event{ID: after, AvailableAt: at}
		if page.Order != almanac.NextFirst {
			events := r.after(after, page.Order == almanac.NewestFirst, limit+1, func(e almanac.Event) bool { return matches(spec, e, now) })
			found = almanac.PageOf(events, limit, page.Order)
			return nil
		}
		events := r.matching(func(e almanac.Event) bool {
			return e.Status == almanac.Pending && nextFirst(last, e) < 0 && matches(spec, e, now)
		})
		slices.SortFunc(events, nextFirst)
		found = almanac.PageOf(events, limit, page.Order)
		return nil
	})
	return found, err
}

// nextFirst compares two events by their places in the order in which they become available.
func nextFirst(a, b almanac.Event) int {
	return position{a.AvailableAt, a.ID}.compare(position{b.AvailableAt, b.ID})
}

// Count returns how many events match spec.
func (r *Repository) Count(ctx context.Context, spec almanac.Spec) (n int, err error) {
	err = r.read(ctx, func(now time.Time) error {
		for _, e := range r.events {
			if matches(spec, e, now) {
				n++
			}
		}
		return nil
	})
	return n, err
}

func matches(spec almanac.Spec, e almanac.Event, now time.Time) bool {
	return spec == nil || spec.Matches(e, now)
}

// updateLease is how long Update leases an event that it makes PROCESSING.
const updateLease = time.Minute

// Update replaces a stored event that is still at the expected version.
func (r *Repository) Update(ctx context.Context, e almanac.Event, expected int) (stored almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		was, ok := r.events[e.ID]
		if !ok {
			return &almanac.NotFoundError{Kind: "event", ID: e.ID}
		}
		if was.Version != expected {
			return &almanac.OptimisticLockError{EventID: e.ID, Expected: expected}
		}
		if err := almanac.CheckChange(was, e); err != nil {
			return err
		}
		if err := storable(e); err != nil {
			return err
		}
		if _, err := r.visible(was.UserID); err != nil && e.Status == almanac.Pending {
			return err
		}
		if seriesOf(e) != seriesOf(was) || r.usedUp(e) {
			return &almanac.OptimisticLockError{EventID: e.ID, Expected: expected}
		}
		e.Version, e.CreatedAt, e.Unplanned = expected+1, was.CreatedAt, false
		if was.Status == e.Status && e.ClaimCount == 0 {
			e.AvailableAt, e.ReadyAt = availableAfter(was, e, now)
		} else {
			e.ReadyAt = was.ReadyAt
		}
		stored = r.put(e, now)
		if e.Status == almanac.Processing {
			set(&r.undo, r.leases, e.LeaseToken, lease{owner: "update", claimed: now, expires: now.Add(updateLease), ids: []uuid.UUID{e.ID}})
		}
		r.endLease(was.LeaseToken)
		return nil
	})
	return stored, err
}

// FindMissed returns up to limit events that have been ready for longer than grace, oldest first.
func (r *Repository) FindMissed(ctx context.Context, types []string, grace time.Duration, limit int) (events []almanac.Event, err error) {
	if limit, err = almanac.MissedLimit(limit); err != nil {
		return nil, err
	}
	err = r.read(ctx, func(now time.Time) error {
		events = slices.DeleteFunc(r.matching(pending(types)), func(e almanac.Event) bool { return !e.AvailableAt.Before(now.Add(-grace)) })
		slices.SortStableFunc(events, func(a, b almanac.Event) int { return a.AvailableAt.Compare(b.AvailableAt) })
		events = events[:min(limit, len(events))]
		return nil
	})
	return events, err
}

// Missed counts the events that have been ready for longer than grace.
func (r *Repository) Missed(ctx context.Context, types []string, grace time.Duration) (m almanac.Missed, err error) {
	err = r.read(ctx, func(now time.Time) error {
		for _, e := range r.matching(pending(types)) {
			if !e.AvailableAt.Before(now.Add(-grace)) {
				continue
			}
			m.Count++
			if m.Oldest.IsZero() || e.Due.Before(m.Oldest) {
				m.Oldest = e.Due
			}
			if e.Due.After(m.Newest) {
				m.Newest = e.Due
			}
		}
		return nil
	})
	return m, err
}
