package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// The test binary runs the program itself on request, so that the tests cover a process
// with signals and an exit code.
func TestMain(m *testing.M) {
	if os.Getenv("QUICKSTART") != "" {
		main()
		return
	}
	pgtest.Main(m)
}

func TestQuickstartPlansAndStops(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for range 2 {
		program := exec.CommandContext(t.Context(), os.Args[0])
		program.Env = append(os.Environ(), "QUICKSTART=1", "DATABASE_URL="+url)
		program.Stderr = os.Stderr
		out, err := program.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, program.Start())

		line, err := bufio.NewReader(out).ReadString('\n')

		require.NoError(t, err)
		require.Regexp(t, `^Ada Lovelace will be greeted at \d{4}-12-10T09:00:00 Europe/London\n$`, line)
		require.NoError(t, program.Process.Signal(syscall.SIGTERM))
		require.NoError(t, program.Wait(), "it drains and exits with success")
	}
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	var users int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.users").Scan(&users))
	require.Equal(t, 1, users, "it was started twice")
}

func TestReadmeShowsThisProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, main, _ := strings.Cut(string(program), "func main() {")
	main, _, _ = strings.Cut(main, "\n}\n")

	require.Contains(t, string(readme), "func main() {"+main+"\n}\n")
}
