package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Pause stores that a type of event is paused. If it is paused already, nothing changes.
func (s *Store) Pause(ctx context.Context, eventType string) error {
	return s.transact(ctx, "pause", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.statements.Pause, pgx.StrictNamedArgs{"type": eventType})
		return err
	})
}

// Resume deletes the pause of a type of event, and notifies other processes unless the store has [PollOnly].
func (s *Store) Resume(ctx context.Context, eventType string) error {
	return s.transact(ctx, "resume", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.statements.Resume, pgx.StrictNamedArgs{"type": eventType}); err != nil || s.pollOnly {
			return err
		}
		_, err := tx.Exec(ctx, s.statements.Notify, s.notification(hintPayload))
		return err
	})
}

// Paused returns the pauses, in the order of their event types.
func (s *Store) Paused(ctx context.Context) ([]almanac.Pause, error) {
	var paused []almanac.Pause
	err := s.do(ctx, "find pauses", func(ctx context.Context, db DB) (err error) {
		paused, err = all(ctx, db, s.statements.Paused, nil, func(row pgx.CollectableRow) (p almanac.Pause, err error) {
			err = row.Scan(&p.EventType, &p.Since)
			p.Since = p.Since.UTC()
			return p, err
		})
		return err
	})
	return paused, err
}

// PutSetting stores a setting, unless the database has it with this value already.
func (s *Store) PutSetting(ctx context.Context, setting almanac.Setting) error {
	return s.do(ctx, "store a setting", func(ctx context.Context, db DB) error {
		_, err := db.Exec(ctx, s.statements.PutSetting, pgx.StrictNamedArgs{"name": setting.Name, "value": setting.Value, "program": setting.Program})
		return err
	})
}

// Settings returns the stored settings, in the order of their names.
func (s *Store) Settings(ctx context.Context) ([]almanac.Setting, error) {
	var settings []almanac.Setting
	err := s.do(ctx, "find settings", func(ctx context.Context, db DB) (err error) {
		settings, err = all(ctx, db, s.statements.Settings, nil, func(row pgx.CollectableRow) (stored almanac.Setting, err error) {
			err = row.Scan(&stored.Name, &stored.Value, &stored.Program, &stored.Since)
			stored.Since = stored.Since.UTC()
			return stored, err
		})
		return err
	})
	return settings, err
}
