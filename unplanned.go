package almanac

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
)

// planUnplanned stores the next events of series that wait for a program with their
// handlers: a program that has none cancelled their last event.
func (w *worker) planUnplanned(ctx context.Context) error {
	var errs []error
	for _, eventType := range w.registry.EventTypes() {
		h, err := w.registry.Handler(eventType)
		if err == nil {
			err = w.planUnplannedOf(ctx, h)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// planUnplannedOf does so for one type, a page of users at a time.
func (w *worker) planUnplannedOf(ctx context.Context, h EventHandler) error {
	zones, err := w.zoneView(ctx)
	if err != nil {
		return err
	}
	for page := (Page{Limit: maxPage}); ; {
		var refused []Refusal
		added, err := w.repository.AddSuccessors(ctx, h.EventType(), page, func(users []Standing, now time.Time) ([]Event, []uuid.UUID, error) {
			var events []Event
			var again []uuid.UUID
			refused = nil
			for _, one := range users {
				next, err := planWaiting(h, one, now)
				if err != nil {
					refused, again = append(refused, Refusal{UserID: one.User.ID, Err: err}), append(again, one.User.ID)
				}
				events = append(events, next...)
			}
			return zones.stampAll(events), again, nil
		})
		if err != nil {
			return err
		}
		for _, r := range refused {
			w.log.WarnContext(ctx, "successor not planned", slog.String("event_type", h.EventType()),
				slog.String("user_id", r.UserID.String()), slog.Any("error", r.Err))
		}
		w.tellEvents(ctx, EventCreated, added.Events)
		w.running.wakeFor(added.Events...)
		if page.After = added.Next; page.After == "" {
			return nil
		}
	}
}

// planWaiting plans the next event of each of a user's series that wait. A series that
// the user does not have any more is left as it is.
func planWaiting(h EventHandler, one Standing, now time.Time) ([]Event, error) {
	list, err := seriesOf(h, one.User)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(s oneSeries) bool {
		return !slices.ContainsFunc(one.Used, func(key string) bool { return idOf(h, Event{Type: s.EventType(), OccurrenceKey: key}) == s.id() })
	})
	return firsts(list, nil, Roster{User: one.User, Used: map[string][]string{h.EventType(): one.Used}, Now: now})
}
