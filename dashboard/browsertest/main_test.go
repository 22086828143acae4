package browsertest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestMain(m *testing.M) {
	pgtest.Main(m, goleak.IgnoreCurrent())
}
