package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// asProgram in the environment makes the test binary the program itself.
const asProgram = "TEST_AS_ALMANAC"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	pgtest.Main(m)
}

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// result is what the program did.
type result struct {
	code      int
	out, errs string
}

// started is the program, on its way as another process.
type started struct {
	*exec.Cmd
	in        io.WriteCloser
	out, errs bytes.Buffer
}

// start begins to run the program. It is killed when t ends, if it is still there.
func start(t *testing.T, args ...string) *started {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	s := &started{Cmd: exec.CommandContext(t.Context(), self, args...)}
	s.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH")}
	s.Stdout, s.Stderr = &s.out, &s.errs
	s.in, err = s.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start())
	return s
}

// fileOf writes a file and returns its path.
func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func countUsers(t *testing.T, url string) int {
	t.Helper()
	return ask(t, url, "SELECT count(*) FROM almanac.users")
}

func countEvents(t *testing.T, url string) int {
	t.Helper()
	return ask(t, url, "SELECT count(*) FROM almanac.events")
}

// ask returns the one number that a database answers.
func ask(t *testing.T, url, question string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, conn.QueryRow(t.Context(), question).Scan(&n))
	return n
}
