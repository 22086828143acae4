package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Bouncer is a PgBouncer in transaction mode in front of a cluster, which keeps its
// address when it is started again.
type Bouncer struct {
	dir     string
	user    string
	address string
	command *exec.Cmd
}

// NewBouncer starts a PgBouncer that asks for no password, with five connections to the
// server.
func (c *Cluster) NewBouncer(ctx context.Context) (*Bouncer, error) {
	server, err := pgx.ParseConfig(c.server.URL())
	if err != nil {
		return nil, err
	}
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := free.Addr().(*net.TCPAddr)
	if err := free.Close(); err != nil {
		return nil, err
	}
	b := &Bouncer{dir: filepath.Join(filepath.Dir(c.dir), "bouncer"), user: server.User, address: address.String()}
	config := fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
admin_users = %s
pool_mode = transaction
default_pool_size = 5
server_login_retry = 1
`, server.Host, server.Port, server.User, server.Password, address.Port, b.users(), server.User)
	owner, err := c.owner()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(b.dir, 0o711); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{b.config(): config, b.users(): fmt.Sprintf("%q \"\"\n", server.User)} {
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chown(name, int(owner.Uid), int(owner.Gid))); err != nil {
			return nil, err
		}
	}
	return b, b.start(ctx, owner)
}

func (b *Bouncer) config() string { return filepath.Join(b.dir, "pgbouncer.ini") }
func (b *Bouncer) users() string  { return filepath.Join(b.dir, "users.txt") }

// start starts the program, as the account of the server: it refuses root.
func (b *Bouncer) start(ctx context.Context, owner *syscall.Credential) error {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return err
		}
	}
	b.command = exec.Command(program, "--quiet", b.config())
	b.command.Dir = "/"
	b.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: owner}
	if err := b.command.Start(); err != nil {
		return err
	}
	for {
		conn, err := pgx.Connect(ctx, b.URL("pgbouncer"))
		if err == nil {
			return conn.Close(ctx)
		}
		if ended := pause(ctx, pollEvery); ended != nil {
			return fmt.Errorf("chaos: PgBouncer does not answer: %w: %w", ended, err)
		}
	}
}

// URL leads to a database through PgBouncer.
func (b *Bouncer) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(b.user), Host: b.address, Path: database, RawQuery: "sslmode=disable&default_query_exec_mode=exec"}
	return u.String()
}

// Tell gives PgBouncer a command of its console, and waits until it is done.
func (b *Bouncer) Command(ctx context.Context, command string) error {
	conn, err := pgx.Connect(ctx, b.URL("pgbouncer"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, command, pgx.QueryExecModeSimpleProtocol)
	return errors.Join(err, conn.Close(ctx))
}

// Kill ends the program at once.
func (b *Bouncer) Kill() error {
	err := b.command.Process.Kill()
	_ = b.command.Wait() // that it was killed is known
	return err
}

// Restart starts the program again after it was killed.
func (b *Bouncer) Restart(ctx context.Context) error {
	return b.start(ctx, b.command.SysProcAttr.Credential)
}
