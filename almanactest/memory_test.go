package almanactest_test

import (
	"testing"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestMemoryRepository(t *testing.T) {
	t.Parallel()
	almanactest.TestRepository(t, func(*testing.T) almanac.Repository { return almanactest.NewRepository(nil) })
}
