package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Pause stores that a lane is paused. If the pause has an end, Pause notifies other processes unless the
// store has [PollOnly].
func (s *Store) Pause(ctx context.Context, p almanac.Pause) error {
	return s.transact(ctx, "pause", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.statements.Pause, pgx.StrictNamedArgs{"name": p.Lane, "until": orNull(p.Until.UTC()), "reason": orNull(p.Reason)})
		if err != nil || p.Until.IsZero() || s.pollOnly {
			return err
		}
		_, err = tx.Exec(ctx, s.statements.Notify, s.notification(hintPayload))
		return err
	})
}

// Resume ends the pause of a lane, closes its breaker, and notifies other processes unless the store has [PollOnly].
func (s *Store) Resume(ctx context.Context, eventType string) error {
	return s.transact(ctx, "resume", func(ctx context.Context, tx pgx.Tx) error {
		name := pgx.StrictNamedArgs{"name": eventType}
		for _, statement := range []string{s.statements.Resume, s.statements.CloseBreaker} {
			if _, err := tx.Exec(ctx, statement, name); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, s.statements.VisitAgain, name); err != nil || s.pollOnly {
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
			var until *time.Time
			err = row.Scan(&p.Lane, &p.Reason, &p.Author, &p.Since, &until)
			p.Since = p.Since.UTC()
			if until != nil {
				p.Until = until.UTC()
			}
			return p, err
		})
		return err
	})
	return paused, err
}

// PutSetting stores a setting, unless the database has it with this value already.
func (s *Store) PutSetting(ctx context.Context, setting almanac.Setting) error {
	return s.transact(ctx, "store a setting", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.statements.PutSetting, pgx.StrictNamedArgs{"name": setting.Name, "value": setting.Value, "program": setting.Program})
		return err
	})
}

// Settings returns the stored settings, in the order of their names.
func (s *Store) Settings(ctx context.Context) ([]almanac.Setting, error) {
	var settings []almanac.Setting
	err := s.do(ctx, "find settings", func(ctx context.Context, db DB) (err error) {
		settings, err = all(ctx, db, s.statements.Settings, nil, scanSetting)
		return err
	})
	return settings, err
}

func scanSetting(row pgx.CollectableRow) (stored almanac.Setting, err error) {
	err = row.Scan(&stored.Name, &stored.Value, &stored.Program, &stored.Since)
	stored.Since = stored.Since.UTC()
	return stored, err
}
