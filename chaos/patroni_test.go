package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// Managed is a cluster of two servers that Patroni manages, with its locks in etcd.
type Managed struct {
	*Cluster
	dir         string
	account     *syscall.Credential
	etcd        *exec.Cmd
	members     []*Member
	synchronous bool
}

// Member is a server with its Patroni. The other one reaches it through proxies, and so it reaches etcd. Clients do not.
type Member struct {
	name, dir           string
	agent               *exec.Cmd
	database, api       *Port
	locks, peers, calls *toxiproxy.Proxy // to etcd, to the server, and to its Patroni
}

// The shortest times that Patroni allows: a leader that cannot reach etcd gives up after leaderTries, and one that does not
// answer loses its lock after LeaderTerm.
const (
	LeaderTerm  = 20 * time.Second
	leaderTries = 3 * time.Second
	leaderLooks = time.Second
)

// NewManaged starts a cluster. If it is synchronous, a commit is confirmed when both servers have it.
func NewManaged(ctx context.Context, synchronous bool) (_ *Managed, err error) {
	m := &Managed{synchronous: synchronous}
	if m.account, err = postgresAccount(); err != nil {
		return nil, err
	}
	if m.dir, err = os.MkdirTemp("", "almanac-chaos-"); err != nil {
		return nil, err
	}
	m.Cluster = &Cluster{either: m.addresses}
	if err := os.Chown(m.dir, int(m.account.Uid), int(m.account.Gid)); err != nil {
		return m, err
	}
	locks, err := m.startEtcd(ctx)
	if err != nil {
		return m, err
	}
	for _, name := range []string{"one", "two"} {
		if err := m.add(name, locks); err != nil {
			return m, err
		}
	}
	for _, one := range m.members {
		if err := m.Launch(one); err != nil {
			return m, err
		}
		if _, err := m.Leader(ctx); err != nil { // so that the first member makes the cluster
			return m, err
		}
	}
	_, err = m.AwaitFollower(ctx)
	return m, err
}

// postgresAccount returns the account as which servers run: PostgreSQL refuses root.
func postgresAccount() (*syscall.Credential, error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// startEtcd returns the address of etcd.
func (m *Managed) startEtcd(ctx context.Context) (string, error) {
	clients, err := ReservePort()
	if err != nil {
		return "", err
	}
	peers, err := ReservePort()
	if err != nil {
		return "", err
	}
	client, peer := "http://"+clients.Address(), "http://"+peers.Address()
	m.etcd, err = m.start("etcd", "etcd", "--data-dir", filepath.Join(m.dir, "locks"), "--unsafe-no-fsync", "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err != nil {
		return "", err
	}
	for {
		err := get(ctx, client+"/health", nil)
		if err == nil {
			return clients.Address(), nil
		}
		if pause(ctx, pollEvery) != nil {
			return "", m.failed(err)
		}
	}
}

// start starts a program that writes its log into the directory of the cluster.
func (m *Managed) start(name, program string, arguments ...string) (*exec.Cmd, error) {
	log, err := os.Create(filepath.Join(m.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	c := exec.Command(program, arguments...)
	c.Dir, c.Stdout, c.Stderr, c.Env = m.dir, log, log, append(os.Environ(), "HOME="+m.dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: m.account, Setpgid: true}
	return c, c.Start()
}

// add prepares a member.
func (m *Managed) add(name, locks string) (err error) {
	one := &Member{name: name, dir: filepath.Join(m.dir, name), locks: newProxy(name+" etcd", locks)}
	if one.database, err = ReservePort(); err != nil {
		return err
	}
	if one.api, err = ReservePort(); err != nil {
		return err
	}
	one.peers, one.calls = newProxy(name+" server", one.database.Address()), newProxy(name+" patroni", one.api.Address())
	for _, proxy := range []*toxiproxy.Proxy{one.locks, one.peers, one.calls} {
		if err := proxy.Start(); err != nil {
			return err
		}
	}
	binaries, err := pgserver.Find()
	if err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(one.dir, 0o700), os.Chown(one.dir, int(m.account.Uid), int(m.account.Gid))); err != nil {
		return err
	}
	login := func(name string) map[string]any { return map[string]any{"username": name, "password": "secret"} }
	settings, err := json.MarshalIndent(map[string]any{ // JSON is YAML, too
		"scope": "almanac", "name": name,
		"etcd3":   map[string]any{"hosts": []any{one.locks.Listen}, "use_proxies": true}, // and not the addresses that etcd itself names
		"restapi": map[string]any{"listen": one.api.Address(), "connect_address": one.calls.Listen},
		"bootstrap": map[string]any{
			"dcs": map[string]any{
				"ttl": LeaderTerm.Seconds(), "loop_wait": leaderLooks.Seconds(), "retry_timeout": leaderTries.Seconds(),
				"synchronous_mode": m.synchronous,
				"postgresql":       map[string]any{"use_pg_rewind": true, "parameters": map[string]any{"max_connections": 200, "wal_keep_size": "256MB"}},
			},
			"initdb": []any{map[string]any{"encoding": "UTF8"}, "data-checksums", map[string]any{"locale": "C"}},
		},
		"postgresql": map[string]any{
			"listen": one.database.Address(), "connect_address": one.peers.Listen, "data_dir": filepath.Join(one.dir, "data"),
			"bin_dir": binaries.Dir, "pgpass": filepath.Join(one.dir, "pgpass"),
			"pg_hba":         []any{"host all all 127.0.0.0/8 trust", "host replication all 127.0.0.0/8 trust", "local all all trust"},
			"authentication": map[string]any{"superuser": login("postgres"), "replication": login("replicator"), "rewind": login("rewinder")},
			"parameters":     map[string]any{"unix_socket_directories": one.dir, "shared_buffers": "64MB"},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	m.members = append(m.members, one)
	return os.WriteFile(filepath.Join(m.dir, name+".yml"), settings, 0o644)
}

// Launch starts the Patroni of a member, and with it the server.
func (m *Managed) Launch(one *Member) (err error) {
	one.agent, err = m.start(one.name, "patroni", filepath.Join(m.dir, one.name+".yml"))
	return err
}

// addresses returns both addresses, for connections to the server that accepts writes. A server that stands still accepts connections and
// does not answer, so there is a time for the attempt.
func (m *Managed) addresses(database string) string {
	var hosts []string
	for _, one := range m.members {
		hosts = append(hosts, one.database.Address())
	}
	return fmt.Sprintf("postgres://postgres:secret@%s/%s?sslmode=disable&connect_timeout=2&target_session_attrs=read-write", strings.Join(hosts, ","), database)
}

// status is what Patroni answers at /patroni.
type status struct {
	State string `json:"state"`
	Role  string `json:"role"`
	Sync  bool   `json:"sync_standby"`
}

// ask asks the Patroni of a member. It answers 503 for some states, with the same body.
func (one *Member) ask(ctx context.Context) (s status, err error) {
	return s, get(ctx, "http://"+one.api.Address()+"/patroni", &s)
}

func get(ctx context.Context, url string, to any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if to == nil {
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("chaos: %s answers %s", url, response.Status)
		}
		return nil
	}
	return json.NewDecoder(response.Body).Decode(to)
}

// Leader waits until a member leads, and returns it.
func (m *Managed) Leader(ctx context.Context) (*Member, error) { return m.LeaderBut(ctx, nil) }

// LeaderBut waits until a member leads that is not the given one.
func (m *Managed) LeaderBut(ctx context.Context, old *Member) (*Member, error) {
	for {
		for _, one := range m.members {
			if s, err := one.ask(ctx); one != old && err == nil && s.State == "running" && s.Role == "master" {
				return one, nil
			}
		}
		if err := pause(ctx, pollEvery); err != nil {
			return nil, m.failed(err)
		}
	}
}

// AwaitFollower waits until the other server follows the leader, and if the cluster is synchronous, confirms its commits.
func (m *Managed) AwaitFollower(ctx context.Context) (*Member, error) {
	for {
		for _, one := range m.members {
			if s, err := one.ask(ctx); err == nil && s.State == "running" && s.Role == "replica" && s.Sync == m.synchronous {
				return one, nil
			}
		}
		if err := pause(ctx, pollEvery); err != nil {
			return nil, m.failed(err)
		}
	}
}

// failed adds what the programs have written last.
func (m *Managed) failed(err error) error {
	for _, name := range []string{"etcd", "one", "two"} {
		text, _ := os.ReadFile(filepath.Join(m.dir, name+".log"))
		err = fmt.Errorf("%w\n%s: %s", err, name, text[max(0, len(text)-3000):])
	}
	return err
}

// signal sends a signal to Patroni, the server, and its processes.
func (m *Managed) signal(one *Member, s syscall.Signal) error {
	pids := []int{one.agent.Process.Pid}
	for i := 0; i < len(pids); i++ {
		children, err := childrenOf(pids[i])
		if err != nil && i == 0 {
			return err
		}
		pids = append(pids, children...)
	}
	server := &Cluster{dir: one.dir}
	if pid, err := server.postmaster(); err == nil {
		children, _ := childrenOf(pid)
		pids = append(append(pids, pid), children...)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
	return nil
}

// Kill ends a member's processes, as the loss of its machine does.
func (m *Managed) Kill(one *Member) error {
	err := m.signal(one, syscall.SIGKILL)
	_ = one.agent.Wait() // it was killed
	return err
}

// CutOff cuts a member off from etcd and from the other one. Clients still reach it.
func (m *Managed) CutOff(one *Member) {
	for _, proxy := range []*toxiproxy.Proxy{one.locks, one.peers, one.calls} {
		proxy.Stop()
	}
	for _, other := range m.members {
		if other != one {
			other.peers.Stop()
			other.calls.Stop()
		}
	}
}

// Connect undoes CutOff.
func (m *Managed) Connect(one *Member) error {
	proxies := []*toxiproxy.Proxy{one.locks, one.peers, one.calls}
	for _, other := range m.members {
		if other != one {
			proxies = append(proxies, other.peers, other.calls)
		}
	}
	for _, proxy := range proxies {
		if err := (&Cluster{proxy: proxy}).comeBack(proxy.Upstream); err != nil {
			return err
		}
	}
	return nil
}

// Close ends everything.
func (m *Managed) Close() error {
	for _, one := range m.members {
		if one.agent != nil {
			_ = m.Kill(one)
		}
		for _, proxy := range []*toxiproxy.Proxy{one.locks, one.peers, one.calls} {
			proxy.Stop()
		}
	}
	if m.etcd != nil {
		_ = m.etcd.Process.Kill()
		_ = m.etcd.Wait()
	}
	return os.RemoveAll(m.dir)
}
