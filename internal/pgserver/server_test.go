//go:build unix && !solaris && !aix

package pgserver_test

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// directory returns an empty directory that the server's account can enter. The account
// cannot enter t.TempDir when root runs the tests.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgserver-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return filepath.Join(dir, "home")
}

func start(t *testing.T, c pgserver.Config) *pgserver.Server {
	t.Helper()
	s, err := pgserver.Start(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop(context.Background()) }) // tests of Stop have stopped it before
	return s
}

func stop(t *testing.T, s *pgserver.Server) {
	t.Helper()
	require.NoError(t, s.Stop(t.Context()))
}

// query asks through psql, which comes with the server.
func query(t *testing.T, url, sql string) (string, error) {
	t.Helper()
	b, err := pgserver.Find()
	require.NoError(t, err)
	psql := exec.CommandContext(t.Context(), filepath.Join(b.Dir, "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, url)
	out, err := psql.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func mustQuery(t *testing.T, url, sql string) string {
	t.Helper()
	out, err := query(t, url, sql)
	require.NoError(t, err, out)
	return out
}

// pidOf returns the pid of the server in the directory.
func pidOf(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	return pid
}

// gone reports whether the process has ended. A zombie has.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		return strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(pid, 0) == syscall.ESRCH
}

func TestStart_servesUntilStop(t *testing.T) {
	t.Parallel()
	s := start(t, pgserver.Config{MaxConnections: 17, Settings: map[string]string{"work_mem": "7MB"}})

	settings := mustQuery(t, s.URL(), `SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings
		WHERE name IN ('fsync', 'max_connections', 'work_mem', 'TimeZone', 'server_encoding')`)
	dir := mustQuery(t, s.URL(), "SHOW data_directory")
	require.Equal(t, "TimeZone=UTC fsync=off max_connections=17 server_encoding=UTF8 work_mem=7168", settings)
	require.Contains(t, s.Describe(), "PostgreSQL "+mustQuery(t, s.URL(), "SELECT split_part(version(), ' ', 2)"))
	require.DirExists(t, filepath.Dir(dir))

	stop(t, s)
	stop(t, s)

	require.NoDirExists(t, filepath.Dir(dir))
	_, err := query(t, s.URL(), "SELECT 1")
	require.Error(t, err)
}

func TestStart_keepsADurableClusterFromOneRunToTheNext(t *testing.T) {
	t.Parallel()
	c := pgserver.Config{Dir: directory(t), Durable: true}

	first := start(t, c)
	require.Equal(t, "on", mustQuery(t, first.URL(), "SHOW fsync"))
	mustQuery(t, first.URL(), "CREATE TABLE kept AS SELECT 42 AS n")
	stop(t, first)
	second := start(t, c)

	require.Equal(t, "42", mustQuery(t, second.URL(), "SELECT n FROM kept"))
}

func TestStart_requiresThePassword(t *testing.T) {
	t.Parallel()
	dir := directory(t)
	s := start(t, pgserver.Config{Dir: dir})
	guess, err := url.Parse(s.URL())
	require.NoError(t, err)
	guess.User = url.UserPassword(guess.User.Username(), "guess")

	out, err := query(t, guess.String(), "SELECT 1")

	require.Error(t, err)
	require.Contains(t, out, "password authentication failed")
	require.NotContains(t, s.Describe(), mustPassword(t, s.URL()))
	for name, want := range map[string]os.FileMode{"password": 0o600, "data": 0o700, "server.log": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), name)
	}
}

func mustPassword(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	password, ok := u.User.Password()
	require.True(t, ok)
	require.GreaterOrEqual(t, len(password), 20)
	return password
}

func TestStart_joinsTheServerOfAnotherProgram(t *testing.T) {
	t.Parallel()
	c := pgserver.Config{Dir: directory(t)}
	first := start(t, c)

	second := start(t, c)
	require.Equal(t, first.URL(), second.URL())
	require.Contains(t, second.Describe(), "of another program")
	stop(t, second)

	require.Equal(t, "1", mustQuery(t, first.URL(), "SELECT 1"), "the server outlives who joined it")
}

func TestStart_createsOneServerForManyCallers(t *testing.T) {
	t.Parallel()
	const programs = 4
	c := pgserver.Config{Dir: directory(t)}

	var starting sync.WaitGroup
	servers := make(chan *pgserver.Server, programs)
	for range programs {
		starting.Go(func() {
			s, err := pgserver.Start(t.Context(), c)
			if err != nil {
				t.Error(err) // require would end the wrong goroutine
				return
			}
			servers <- s
		})
	}
	starting.Wait()
	close(servers)

	urls, joined := make(map[string]bool), 0
	for s := range servers {
		t.Cleanup(func() { _ = s.Stop(context.Background()) })
		urls[s.URL()] = true
		if strings.Contains(s.Describe(), "of another program") {
			joined++
		}
	}
	require.Len(t, urls, 1)
	require.Equal(t, programs-1, joined)
}

func TestStart_doesNotJoinAServerThatIsGone(t *testing.T) {
	t.Parallel()
	passerBy := exec.Command("sleep", "600")
	require.NoError(t, passerBy.Start())
	t.Cleanup(func() { _ = passerBy.Process.Kill(); _ = passerBy.Wait() })
	ended := exec.Command("true")
	require.NoError(t, ended.Run())

	tests := map[string]int{
		"whose number is free":                 ended.Process.Pid,
		"whose number another program has now": passerBy.Process.Pid,
	}
	for name, pid := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := pgserver.Config{Dir: directory(t)}
			stop(t, start(t, c))
			file := filepath.Join(c.Dir, "data", "postmaster.pid")
			left := fmt.Sprintf("%d\n%s\n1700000000\n1\n\n127.0.0.1\n0\nready   \n", pid, filepath.Dir(file))
			require.NoError(t, os.WriteFile(file, []byte(left), 0o644))

			s := start(t, c)

			require.Equal(t, "1", mustQuery(t, s.URL(), "SELECT 1"))
		})
	}
}

func TestStart_refuses(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		config  pgserver.Config
		prepare func(t *testing.T, dir string)
		want    string // with %s for the directory
	}{
		"a cluster of another major version": {
			prepare: func(t *testing.T, dir string) {
				stop(t, start(t, pgserver.Config{Dir: dir}))
				require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("12\n"), 0o600))
			},
			want: "pgserver: cluster in %s/data was made by PostgreSQL 12 and cannot be served by PostgreSQL ",
		},
		"a directory that is itself a cluster": {
			prepare: func(t *testing.T, dir string) {
				require.NoError(t, os.Mkdir(dir, 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("15\n"), 0o600))
			},
			want: "pgserver: %s is a data directory of its own",
		},
		"a setting that is not the caller's": {
			config: pgserver.Config{Settings: map[string]string{"Listen_Addresses": "*"}},
			want:   `pgserver: setting "Listen_Addresses" cannot be chosen`,
		},
		"a setting that the server refuses, in the server's words": {
			config: pgserver.Config{Settings: map[string]string{"work_mem": "plenty"}},
			want:   `invalid value for parameter "work_mem": "plenty"`,
		},
		"fewer than no connections": {
			config: pgserver.Config{MaxConnections: -1},
			want:   "pgserver: -1 connections",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.config.Dir = directory(t)
			if tt.prepare != nil {
				tt.prepare(t, tt.config.Dir)
			}
			want := tt.want
			if strings.Contains(want, "%s") {
				want = fmt.Sprintf(want, tt.config.Dir)
			}

			_, err := pgserver.Start(t.Context(), tt.config)

			require.ErrorContains(t, err, want)
		})
	}
}

// A directory below one that only its owner may enter works for that owner, but not for
// root, whose server runs as another account.
func TestStart_namesTheDirectoryWithoutAccess(t *testing.T) {
	t.Parallel()
	private := filepath.Join(directory(t), "private")
	require.NoError(t, os.MkdirAll(private, 0o755))
	require.NoError(t, os.Chmod(private, 0o700))
	c := pgserver.Config{Dir: filepath.Join(private, "cluster")}

	s, err := pgserver.Start(t.Context(), c)

	if os.Geteuid() != 0 {
		require.NoError(t, err)
		stop(t, s)
		return
	}
	require.ErrorContains(t, err, "who may not enter "+private+" on the way to "+c.Dir)
	account := "nobody"
	if u, err := user.Lookup("postgres"); err == nil {
		account = u.Username
	}
	require.ErrorContains(t, err, "runs as "+account)
}

func TestStart_leavesNothingWhenItIsCancelled(t *testing.T) {
	temporary := filepath.Dir(directory(t))
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	_, err := pgserver.Start(ctx, pgserver.Config{})

	require.ErrorIs(t, err, context.DeadlineExceeded)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTemporaryClustersAreInMemoryUnlessTheyAreDurable(t *testing.T) {
	elsewhere := t.TempDir()
	for _, c := range []struct {
		tmpdir  string
		durable bool
		want    string
	}{
		{"", false, cmp.Or(pgserver.MemoryDir(), os.TempDir())},
		{"", true, "/tmp"},
		{elsewhere, false, elsewhere},
		{elsewhere, true, elsewhere},
	} {
		t.Setenv("TMPDIR", c.tmpdir)
		dir, err := pgserver.MakeTemporary(c.durable)
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.Remove(dir) })
		require.Equal(t, c.want, filepath.Dir(dir), "%+v", c)
	}
}
