package almanac_test

import (
	"log/slog"
	"testing"

	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what a scheduler writes unless a test says otherwise
	pgtest.Main(m)
}
