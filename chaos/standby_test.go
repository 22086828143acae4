package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// Standby is a server that follows a cluster's by streaming replication, through a
// proxy of its own.
type Standby struct {
	dir    string
	config pgserver.Config
	server *pgserver.Server
	link   *toxiproxy.Proxy
}

// NewStandby copies the cluster's server and lets the copy follow it.
func (c *Cluster) NewStandby(ctx context.Context) (*Standby, error) {
	s := &Standby{dir: filepath.Join(filepath.Dir(c.dir), "standby"), config: c.config}
	s.config.Dir = s.dir
	s.link = newProxy("replication", c.upstream())
	if err := s.link.Start(); err != nil {
		return nil, err
	}
	binaries, err := pgserver.Find()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	// The address goes into the copy's settings, so that it follows through the proxy.
	copying := exec.CommandContext(ctx, filepath.Join(binaries.Dir, "pg_basebackup"),
		"--dbname", c.through(s.link.Listen, "postgres"), "--pgdata", data, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	if out, err := copying.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("chaos: pg_basebackup: %w: %s", err, out)
	}
	if err := s.adopt(c, data); err != nil {
		return nil, err
	}
	s.server, err = pgserver.Start(ctx, s.config)
	return s, err
}

// adopt gives the copy the password of the original, and to its account.
func (s *Standby) adopt(c *Cluster, data string) error {
	password, err := os.ReadFile(filepath.Join(c.dir, "password"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "password"), password, 0o600); err != nil {
		return err
	}
	owner, err := c.owner()
	if err != nil {
		return err
	}
	return filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(owner.Uid), int(owner.Gid)))
	})
}

// Close stops the standby, unless it has become the cluster's server.
func (s *Standby) Close(ctx context.Context) error {
	s.link.Stop()
	return s.server.Stop(ctx)
}

// Sever cuts the standby off: it does not get later commits.
func (s *Standby) Sever() { s.link.Stop() }

// Log returns what the server wrote since it was started.
func (s *Standby) Log() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "server.log"))
	return string(text), err
}

// Either returns both addresses, past the proxies, for connections to the server that accepts
// writes.
func (c *Cluster) Either(s *Standby, database string) (string, error) {
	one, err := pgx.ParseConfig(c.server.URL())
	if err != nil {
		return "", err
	}
	other, err := pgx.ParseConfig(s.server.URL())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("host=%s,%s port=%d,%d user=%s password=%s dbname=%s sslmode=disable target_session_attrs=read-write",
		one.Host, other.Host, one.Port, other.Port, one.User, one.Password, database), nil
}

// ask asks a server for one value.
func ask[T any](ctx context.Context, server, sql string, args ...any) (value T, err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return value, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = conn.QueryRow(ctx, sql, args...).Scan(&value)
	return value, err
}

// Demote makes the cluster's server refuse writes, as fencing does, and waits until the standby has all that was written.
func (c *Cluster) Demote(ctx context.Context, s *Standby) error {
	conn, err := pgx.Connect(ctx, c.server.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, sql := range []string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	// A session notices a little later, and finishes what it had begun.
	const received = 500 * time.Millisecond
	if err := pause(ctx, received); err != nil {
		return err
	}
	for writing := true; writing; {
		const begun = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
			AND xact_start < pg_conf_load_time() + $1::interval)`
		if err := errors.Join(conn.QueryRow(ctx, begun, received).Scan(&writing), pause(ctx, 20*time.Millisecond)); err != nil {
			return err
		}
	}
	var end string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&end); err != nil {
		return err
	}
	for there := false; !there; {
		there, err = ask[bool](ctx, s.server.URL(), "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", end)
		if err := errors.Join(err, pause(ctx, 20*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// Promote makes the standby the cluster's server, and the one before the standby's:
// it is stopped with that, if it still runs.
func (c *Cluster) Promote(ctx context.Context, s *Standby) error {
	done, err := ask[bool](ctx, s.server.URL(), "SELECT pg_promote()")
	if err != nil || !done {
		return fmt.Errorf("chaos: promoted: %t: %w", done, err)
	}
	c.server, s.server = s.server, c.server
	c.dir, s.dir = s.dir, c.dir
	c.config, s.config = s.config, c.config
	return nil
}
