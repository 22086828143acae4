package postgres_test

import (
	"strings"
	"testing"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// The suite runs through a type that embeds the store, as a host's that measures or counts
// calls does. It has the store's own methods, so what passes through it passes without it.
func TestPostgresRepository(t *testing.T) {
	t.Parallel()
	almanactest.TestRepository(t, func(t *testing.T) almanac.Repository {
		if strings.Contains(t.Name(), "/Stats/") {
			// Dead rows of earlier tests make tables large, and then numbers are estimates.
			return decorated{mustStore(t, pgtest.Pool(t))}
		}
		return decorated{newStore(t)}
	})
}
