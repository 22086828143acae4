package main

import (
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

const scratchSchemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'almanac_bench_%'"

func TestAMeasurementThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	s := start(t, "bench", "--events", "1000000", "--database-url", url)
	require.Eventually(t, func() bool { return ask(t, url, scratchSchemas) == 1 }, time.Minute, 20*time.Millisecond)
	require.NoError(t, s.Process.Signal(syscall.SIGINT))
	require.Error(t, s.Wait())
	require.Equal(t, exitInterrupted, s.ProcessState.ExitCode(), s.errs.String())
	require.Regexp(t, regexp.MustCompile(`\nalmanac: interrupted\n$`), s.errs.String())
	require.Empty(t, s.out.String())
	require.Zero(t, ask(t, url, scratchSchemas))
}
