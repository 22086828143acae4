package browsertest

import (
	"context"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/dashboard"
	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/postgres"
)

// asProgram makes the test binary a program with a dashboard: its value is the address at which
// it listens and the file with the port of the database, whose URL is in databaseURL.
const (
	asProgram   = "BROWSERTEST_PROGRAM"
	portFile    = "BROWSERTEST_PORT_FILE"
	databaseURL = "BROWSERTEST_DATABASE"
)

// program serves a dashboard until it is killed.
func program() error {
	ctx := context.Background()
	pool, err := connect(ctx, os.Getenv(databaseURL), os.Getenv(portFile))
	if err != nil {
		return err
	}
	store, err := postgres.New(pool)
	if err != nil {
		return err
	}
	reader, err := postgres.New(pool, postgres.ReadOnly(0))
	if err != nil {
		return err
	}
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		return err
	}
	scheduler, err := almanac.NewScheduler(store, registry)
	if err != nil {
		return err
	}
	pages, err := dashboard.New(scheduler, reader, dashboard.AllowAll(), dashboard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	return http.ListenAndServe(os.Getenv(asProgram), pages)
}

// connect returns a pool for a database whose port changes when its server is started again.
func connect(ctx context.Context, url, file string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		port, err := strconv.ParseUint(string(text), 10, 16)
		c.Port = uint16(port)
		return err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// plant is a program with a dashboard and its own database, both of which can be crashed.
type plant struct {
	t       *testing.T
	config  pgserver.Config
	server  *pgserver.Server
	url     string // of the first server
	file    string
	address string
	process *exec.Cmd
}

func newPlant(t *testing.T) *plant {
	t.Helper()
	dir, err := os.MkdirTemp("", "almanac-browsertest-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711)) // the server's account has to pass
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &plant{t: t, config: pgserver.Config{Dir: filepath.Join(dir, "cluster"), Durable: true}, file: filepath.Join(dir, "port")}
	p.startServer()
	p.url = p.server.URL()
	pool, err := connect(t.Context(), p.url, p.file)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.address = l.Addr().String()
	require.NoError(t, l.Close())
	p.startProcess()
	t.Cleanup(func() {
		p.killProcess()
		_ = p.server.Stop(context.Background())
	})
	return p
}

func (p *plant) startServer() {
	p.t.Helper()
	var err error
	p.server, err = pgserver.Start(p.t.Context(), p.config)
	require.NoError(p.t, err)
	config, err := pgx.ParseConfig(p.server.URL())
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(p.file, []byte(strconv.Itoa(int(config.Port))), 0o600))
}

// crashServer stops the server as pg_ctl stop -m immediate does.
func (p *plant) crashServer() {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.config.Dir, "data", "postmaster.pid"))
	require.NoError(p.t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(p.t, err)
	require.NoError(p.t, syscall.Kill(pid, syscall.SIGQUIT))
	require.Eventually(p.t, func() bool { return syscall.Kill(pid, 0) != nil }, patience, 10*time.Millisecond)
	_ = p.server.Stop(p.t.Context()) // it has ended by itself, which is an error
}

func (p *plant) startProcess() {
	p.t.Helper()
	self, err := os.Executable()
	require.NoError(p.t, err)
	p.process = exec.Command(self)
	p.process.Env = append(os.Environ(), asProgram+"="+p.address, databaseURL+"="+p.url, portFile+"="+p.file)
	p.process.Stderr = os.Stderr
	require.NoError(p.t, p.process.Start())
	require.Eventually(p.t, func() bool {
		c, err := net.Dial("tcp", p.address)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, patience, 10*time.Millisecond)
}

func (p *plant) killProcess() {
	_ = p.process.Process.Kill()
	_ = p.process.Wait()
}

// open is how long a page stays open at least. A stream of the server ends after five minutes.
var open = flag.Duration("open", 0, "how long TestAPageLeftOpenRecovers leaves its page open")

// A page that is left open while PostgreSQL crashes and the program is killed says so, and then shows
// the present state again without an action of the viewer.
func TestAPageLeftOpenRecovers(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	began := time.Now()
	b := newTab(t, newBrowser(t), desk)
	b.expect("net::ERR_")
	b.expect("status of 503")
	require.EqualValues(t, 200, b.open("http://"+p.address+"/pauses"))
	loaded := eval[float64](b, "performance.timeOrigin")
	says := func(text string) {
		t.Helper()
		b.until(`document.querySelector("[data-state]").textContent === ` + quote(text))
	}
	says("Live")
	p.pause("ONE")
	b.until(`document.querySelector("[data-region]").textContent.includes("ONE")`)

	p.crashServer()
	says("The database does not answer. Trying again.")
	p.startServer()
	says("Live")

	p.killProcess()
	says("No connection; trying again")
	p.startProcess()
	says("Live")

	p.crashServer()
	p.killProcess()
	says("No connection; trying again")
	p.startProcess()
	says("The database does not answer. Trying again.")
	p.startServer()
	says("Live")
	p.pause("TWO")
	b.until(`document.querySelector("[data-region]").textContent.includes("TWO")`)

	timer := time.NewTimer(*open - time.Since(began))
	defer timer.Stop()
	<-timer.C
	p.pause("THREE")
	b.until(`document.querySelector("[data-region]").textContent.includes("THREE")`)
	says("Live")
	require.Equal(t, loaded, eval[float64](b, "performance.timeOrigin"), "the page was not loaded again")
	require.True(t, eval[bool](b, `document.querySelector("[data-region]").textContent.includes("ONE")`))
	// News take room, also those that come while this is read.
	eval[bool](b, "(window.shifts = Object.assign([], { push: () => 0 }), true)")
	b.requireSound("http://" + p.address)
}

// pause pauses a type of events that another program has.
func (p *plant) pause(eventType string) {
	p.t.Helper()
	pool, err := connect(p.t.Context(), p.url, p.file)
	require.NoError(p.t, err)
	defer pool.Close()
	store, err := postgres.New(pool)
	require.NoError(p.t, err)
	require.NoError(p.t, store.Pause(p.t.Context(), almanac.Pause{Lane: eventType}))
}
