package browsertest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		fmt.Fprintln(os.Stderr, program())
		os.Exit(1)
	}
	pgtest.Main(m, goleak.IgnoreCurrent())
}
