package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

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
