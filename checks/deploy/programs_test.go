package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// programs are the two programs of the image, built from this checkout.
type programs struct{ birthdayd, almanac string }

var build = sync.OnceValues(func() (programs, error) {
	dir, err := os.MkdirTemp("", "deploy")
	if err != nil {
		return programs{}, err
	}
	built := programs{filepath.Join(dir, "birthdayd"), filepath.Join(dir, "almanac")}
	for _, args := range [][]string{
		{"build", "-C", "../..", "-o", built.birthdayd, "./birthdayd"},
		{"build", "-C", "../../../cmd", "-o", built.almanac, "./almanac"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if said, err := cmd.CombinedOutput(); err != nil {
			return programs{}, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, said)
		}
	}
	return built, nil
})

func TestMain(m *testing.M) {
	if err := os.Chdir("../../examples/birthdayd/deploy"); err != nil {
		panic(err)
	}
	code := m.Run()
	if built, err := build(); err == nil {
		os.RemoveAll(filepath.Dir(built.birthdayd))
	}
	os.Exit(code)
}

func built(t *testing.T) programs {
	t.Helper()
	p, err := build()
	require.NoError(t, err)
	return p
}

// settings are the flags and variables that birthdayd -h lists. Each flag says whether it takes
// a value.
type settings struct {
	flags     map[string]bool
	variables map[string]bool
}

var (
	flagLine     = regexp.MustCompile(`(?m)^  -([a-z-]+)( [A-Z][A-Z:,\[\]]*| text\|json)? `)
	variableName = regexp.MustCompile(`\b(?:BIRTHDAYD_[A-Z_]+|DATABASE_URL)\b`)
)

func help(t *testing.T) settings {
	t.Helper()
	text, err := exec.Command(built(t).birthdayd, "-h").Output()
	require.NoError(t, err)
	s := settings{map[string]bool{}, map[string]bool{}}
	for _, found := range flagLine.FindAllStringSubmatch(string(text), -1) {
		s.flags[found[1]] = found[2] != ""
	}
	for _, found := range variableName.FindAllString(string(text), -1) {
		s.variables[found] = true
	}
	require.Greater(t, len(s.flags), 20)
	require.Greater(t, len(s.variables), 20)
	return s
}

// check requires that birthdayd has every flag of args, and that a flag that takes a value has one.
// It requires that birthdayd reads every variable, except those of the Go runtime.
func (s settings) check(t *testing.T, file string, args, variables []string) {
	t.Helper()
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		takes, ok := s.flags[name]
		require.True(t, ok && strings.HasPrefix(args[i], "-"), "%s: birthdayd has no flag %s", file, args[i])
		if takes && !joined {
			i++
			require.Less(t, i, len(args), "%s: -%s has no value", file, name)
		}
	}
	for _, name := range variables {
		if name != "GOMEMLIMIT" {
			require.True(t, s.variables[name], "%s: birthdayd reads no variable %s", file, name)
		}
	}
}

// checkMigration requires that args is a subcommand of almanac that needs nothing but DATABASE_URL.
func checkMigration(t *testing.T, file string, args []string) {
	t.Helper()
	require.Equal(t, []string{"/usr/local/bin/almanac", "migrate", "up"}, args, file)
	text, err := exec.Command(built(t).almanac, append(args[1:], "--help")...).Output()
	require.NoError(t, err, file)
	require.Contains(t, string(text), "$DATABASE_URL", file)
}

// stopping is how long birthdayd takes to stop at most, after -shutdown-delay: running deliveries
// end within the drain, and running requests within shutdownLimit.
func stopping(t *testing.T) time.Duration {
	t.Helper()
	drain := seconds(t, "../../../scheduler_options.go", `drain: +(\d+) \* time\.Second`)
	requests := seconds(t, "../serve.go", `shutdownLimit = (\d+) \* time\.Second`)
	return max(drain, requests) + 5*time.Second // to store the outcomes, on a database that may be slow
}

func seconds(t *testing.T, file, pattern string) time.Duration {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	require.NotNil(t, found, "%s: nothing matches %s", file, pattern)
	n, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return time.Duration(n) * time.Second
}

// running is a birthdayd with a PostgreSQL of its own, on a free port of loopback.
type running struct {
	url string
	cmd *exec.Cmd
	log *buffer
}

// start starts birthdayd as a file says, but on its own database and another port.
func start(t *testing.T, args, env []string) running {
	t.Helper()
	// Not t.TempDir, which another account cannot enter. As root the server runs under one.
	data, err := os.MkdirTemp("/var/tmp", "deploy")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(data) })
	require.NoError(t, os.Chmod(data, 0o755))

	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r := running{log: new(buffer)}
	r.cmd = exec.CommandContext(ctx, built(t).birthdayd, append(args, "-addr", "127.0.0.1:0", "-data-dir", data)...)
	r.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	r.cmd.Stderr = r.log
	require.NoError(t, r.cmd.Start())
	require.Eventually(t, func() bool { r.url = r.log.listening(); return r.url != "" }, time.Minute, 50*time.Millisecond, "it never listened")
	return r
}

// stop sends SIGTERM and returns the exit code.
func (r running) stop(t *testing.T) int {
	t.Helper()
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	_ = r.cmd.Wait() // the exit code says it all
	return r.cmd.ProcessState.ExitCode()
}

// status returns the status of a GET without a token.
func (r running) status(t *testing.T, path string) int {
	t.Helper()
	answer, err := http.Get(r.url + path)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// listening returns the URL that a line of the log in JSON names, or "".
func (b *buffer) listening() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(b.text.Bytes()) {
		var said struct{ Msg, URL string }
		if json.Unmarshal(line, &said) == nil && said.Msg == "listening" {
			return said.URL
		}
	}
	return ""
}
