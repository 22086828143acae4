package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"DATABASE_URL", "COLUMNS"} { // which kong reads by itself
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	pgtest.Main(m)
}

// today is when tests ask.
var today = time.Date(2026, time.March, 7, 17, 0, 0, 0, time.UTC)

// result is what the program did.
type result struct {
	code      int
	out, errs string
}

// almanacAt runs the program within the test, at a moment.
func almanacAt(t *testing.T, now time.Time, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, Host{Out: &out, Err: &errs}.environment(now))
	return result{code, out.String(), errs.String()}
}

// checkMisuse wants a misuse with exactly these complaints, in one message.
func checkMisuse(t *testing.T, r result, want ...string) {
	t.Helper()
	const indent = "\n         "
	message, hint, _ := strings.Cut(r.errs, "\nTry \"almanac ")
	if wanted := "almanac: " + strings.Join(want, indent); r.code != exitUsage || r.out != "" || message != wanted || !strings.HasSuffix(hint, "--help\".\n") {
		t.Errorf("exit code %d, output %q, message:\n%s\nwant %d, no output, and a message, with a hint at --help:\n%s", r.code, r.out, r.errs, exitUsage, wanted)
	}
}

// zoneDir returns a directory of a release with one zone, whose footer is given.
func zoneDir(t *testing.T, release, zone, footer string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), release)
	if err := zonetest.WriteDir(dir, release, map[string][]byte{zone: zonetest.File(0, nil, footer)}); err != nil {
		t.Fatal(err)
	}
	return dir
}
