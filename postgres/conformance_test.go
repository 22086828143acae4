package postgres_test

import (
	"testing"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestPostgresRepository(t *testing.T) {
	t.Parallel()
	almanactest.TestRepository(t, func(t *testing.T) almanac.Repository {
		return newStore(t, pgtest.MaxConns(20))
	})
}
