package engine_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

// If a goroutine of Run ended without an error, the engine would hold its items and claim no
// others.
func TestACallbackThatEndsItsGoroutineCrashesTheProgram(t *testing.T) {
	t.Parallel()
	const inside = "ALMANAC_TEST_GOEXIT"
	if os.Getenv(inside) != "" {
		e := newStore().engine()
		e.Tasks = []engine.Task{{Name: "sweep", Every: time.Second, Do: func(context.Context) error {
			runtime.Goexit()
			return nil
		}}}
		_ = e.Run(t.Context())
		return
	}
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=20s")
	self.Env = append(os.Environ(), inside+"=1")
	out, err := self.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Fatalf("ended with %v, want a crash:\n%s", err, out)
	}
}
