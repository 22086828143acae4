package almanactest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
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

// Pause pauses a type of event, unless it is paused already.
func (r *Repository) Pause(ctx context.Context, eventType string) error {
	return r.transact(ctx, func(now time.Time) error {
		if _, already := r.pauses[eventType]; !already {
			r.pauses[eventType] = now
		}
		return nil
	})
}

// Resume resumes a type of event.
func (r *Repository) Resume(ctx context.Context, eventType string) error {
	return r.transact(ctx, func(time.Time) error {
		delete(r.pauses, eventType)
		return nil
	})
}

// Paused returns the paused types, in order.
func (r *Repository) Paused(ctx context.Context) (paused []almanac.Pause, err error) {
	err = r.read(ctx, func(time.Time) error {
		for _, eventType := range slices.Sorted(maps.Keys(r.pauses)) {
			paused = append(paused, almanac.Pause{EventType: eventType, Since: r.pauses[eventType]})
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
			r.shared[setting.Name] = setting
		}
		return nil
	})
}

// Settings returns the stored settings, in the order of their names.
func (r *Repository) Settings(ctx context.Context) (settings []almanac.Setting, err error) {
	err = r.read(ctx, func(time.Time) error {
		for _, name := range slices.Sorted(maps.Keys(r.shared)) {
			settings = append(settings, r.shared[name])
		}
		return nil
	})
	return settings, err
}

// unpaused returns the given types that are not paused.
func (s *state) unpaused(types []string) []string {
	return slices.DeleteFunc(slices.Clone(types), func(eventType string) bool {
		_, paused := s.pauses[eventType]
		return paused
	})
}
