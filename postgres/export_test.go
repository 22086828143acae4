package postgres

import (
	"context"
	"time"
)

// Probing sets how a listener checks its connection: after how long without a notification,
// and how long it waits for the notification of the check.
func Probing(quiet, limit time.Duration) Option {
	return func(s *Store) { s.probing = probing{quiet, limit} }
}

// Catalog returns what the schema is made of, as the embedded catalog has it.
func (s *Store) Catalog(ctx context.Context) (string, error) {
	c, err := s.catalog(ctx, s.db)
	return c.String(), err
}
