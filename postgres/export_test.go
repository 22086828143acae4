package postgres

import (
	"context"
	"time"
)

// Hearing sets how a store makes sure that it hears: after how long without a
// notification it asks for one, and how long it waits for that.
func Hearing(quiet, patience time.Duration) Option {
	return func(s *Store) { s.hearing = hearing{quiet, patience} }
}

// Catalog returns what the schema is made of, as the embedded catalog has it.
func (s *Store) Catalog(ctx context.Context) (string, error) {
	c, err := s.catalog(ctx, s.db)
	return c.String(), err
}
