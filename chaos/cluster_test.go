package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// Cluster is a PostgreSQL server of a run's own, durable, with a proxy in front
// that keeps its address when the server has to come back on another port.
type Cluster struct {
	dir    string
	config pgserver.Config
	server *pgserver.Server
	proxy  *toxiproxy.Proxy
	clock  *timepiece // nil for the machine's
	// either returns the addresses of a cluster of several servers, for connections to the one that accepts writes; nil for one server.
	either func(database string) string
}

// NewCluster starts a server in a temporary directory, with further settings.
func NewCluster(ctx context.Context, settings map[string]string) (*Cluster, error) {
	return NewClusterIn(ctx, "", settings)
}

// NewClusterIn is NewCluster with the directory within another.
func NewClusterIn(ctx context.Context, parent string, settings map[string]string) (*Cluster, error) {
	c, err := newCluster(parent, settings)
	if err != nil {
		return nil, err
	}
	return c, c.start(ctx)
}

func newCluster(parent string, settings map[string]string) (*Cluster, error) {
	dir, err := os.MkdirTemp(parent, "almanac-chaos-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the server's account has to pass
		return nil, err
	}
	dir = filepath.Join(dir, "cluster")
	return &Cluster{dir: dir, config: pgserver.Config{Dir: dir, Durable: true, MaxConnections: 200, Settings: settings}}, nil
}

func (c *Cluster) start(ctx context.Context) (err error) {
	if c.server, err = pgserver.Start(ctx, c.config); err != nil {
		return err
	}
	c.proxy = newProxy("database", c.upstream())
	return c.proxy.Start()
}

func (c *Cluster) upstream() string {
	u, err := url.Parse(c.server.URL())
	if err != nil {
		panic(err) // our own
	}
	return u.Host
}

// Direct is the server's address, past the proxy. It changes with a restart. What is
// written there is as durable as the server can make it, whatever its default.
func (c *Cluster) Direct(database string) string {
	if c.either != nil {
		return c.either(database)
	}
	return c.through(c.upstream(), database) + "&options=-c%20synchronous_commit%3Don"
}

// Log returns what the server wrote since it was last started.
func (c *Cluster) Log() (string, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "server.log"))
	return string(text), err
}

// URL is the proxy's address.
func (c *Cluster) URL(database string) string {
	if c.either != nil {
		return c.either(database)
	}
	return c.through(c.proxy.Listen, database)
}

func (c *Cluster) through(host, database string) string {
	u, err := url.Parse(c.server.URL())
	if err != nil {
		panic(err) // our own
	}
	u.Host, u.Path = host, database
	return u.String()
}

// Close stops the proxy and the server, and removes the directory.
func (c *Cluster) Close(ctx context.Context) error {
	c.proxy.Stop()
	return errors.Join(c.server.Stop(ctx), os.RemoveAll(filepath.Dir(c.dir)))
}

// Toxic lets the proxy misbehave, as toxiproxy's JSON describes.
func (c *Cluster) Toxic(json string) error {
	_, err := c.proxy.Toxics.AddToxicJson(strings.NewReader(json))
	return err
}

// Heal takes all toxics away.
func (c *Cluster) Heal(ctx context.Context) { c.proxy.Toxics.ResetToxics(ctx) }

// Cut breaks every connection through the proxy, and lets new ones in again.
func (c *Cluster) Cut() error {
	return c.comeBack(c.proxy.Upstream)
}

// comeBack lets the proxy begin anew at its address.
func (c *Cluster) comeBack(upstream string) error {
	address := c.proxy.Listen
	c.proxy.Stop()
	c.proxy.Listen, c.proxy.Upstream = address, upstream
	for began := time.Now(); ; {
		err := c.proxy.Start()
		// A process that is being started by another row has our files until it has
		// become another program, the listener among them.
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > 5*time.Second {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Crash stops the server the hard way, as pg_ctl stop -m immediate does: nothing is
// written, and the next start recovers.
func (c *Cluster) Crash(ctx context.Context) error {
	pid, err := c.postmaster()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return err
	}
	for syscall.Kill(pid, 0) == nil {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("chaos: the server does not stop: %w", err)
		}
	}
	_ = c.server.Stop(ctx) // it has ended by itself, which is what it complains of
	return nil
}

// Alive reports whether the server runs.
func (c *Cluster) Alive() bool {
	pid, err := c.postmaster()
	return err == nil && syscall.Kill(pid, 0) == nil
}

// Restart starts the server again where it left off.
func (c *Cluster) Restart(ctx context.Context) error {
	var err error
	if c.server, err = pgserver.Start(ctx, c.config); err != nil {
		return err
	}
	return c.Redirect()
}

// Redirect lets the proxy lead to the cluster's present server.
func (c *Cluster) Redirect() error { return c.comeBack(c.upstream()) }

// Freeze stops every process of the server where it stands.
func (c *Cluster) Freeze() error { return c.signal(syscall.SIGSTOP) }

// Thaw lets them go on.
func (c *Cluster) Thaw() error { return c.signal(syscall.SIGCONT) }

func (c *Cluster) signal(s syscall.Signal) error {
	pid, err := c.postmaster()
	if err != nil {
		return err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return err
	}
	for _, process := range append([]int{pid}, children...) {
		_ = syscall.Kill(process, s) // a backend may have ended in the meantime
	}
	return nil
}

func (c *Cluster) postmaster() (int, error) {
	f, err := os.Open(filepath.Join(c.dir, "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// owner is the account that the server runs as.
func (c *Cluster) owner() (*syscall.Credential, error) {
	data, err := os.Stat(filepath.Join(c.dir, "data"))
	if err != nil {
		return nil, err
	}
	stat := data.Sys().(*syscall.Stat_t)
	return &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}, nil
}

func childrenOf(parent int) ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

func newProxy(name, upstream string) *toxiproxy.Proxy {
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	// On a loopback address whose ports are not used otherwise, so that a proxy gets its port again.
	return toxiproxy.NewProxy(api, name, "127.0.0.2:0", upstream)
}

// pollEvery is how often something is looked at that is expected to happen.
const pollEvery = 20 * time.Millisecond

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
