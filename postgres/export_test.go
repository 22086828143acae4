package postgres

import "time"

// Hearing sets how a store makes sure that it hears: after how long without a
// notification it asks for one, and how long it waits for that.
func Hearing(quiet, patience time.Duration) Option {
	return func(s *Store) { s.hearing = hearing{quiet, patience} }
}
