package postgres_test

import (
	"testing"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// The suite runs through a type that embeds the store, as a host's that measures or counts
// calls does. It has the store's own methods, so what passes through it passes without it.
func TestPostgresRepository(t *testing.T) {
	t.Parallel()
	almanactest.TestRepository(t, func(t *testing.T) almanac.Repository {
		return decorated{newStore(t)}
	})
}
