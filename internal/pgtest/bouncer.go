package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// bouncer is a PgBouncer in front of the server of this process.
type bouncer struct {
	at      url.URL // the URL of any database through it
	version string  // "PgBouncer 1.18.0"
	process *kept
}

// bouncerLimit is how long PgBouncer may take to its first response. It usually takes a few
// hundredths of a second.
const bouncerLimit = 30 * time.Second

// startBouncer runs the program named by the variable in front of the server.
func startBouncer(ctx context.Context, named string, server *pgx.ConnConfig) (*bouncer, error) {
	program, err := findBouncer(named)
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w", BouncerVariable, named, err)
	}
	ctx, cancel := context.WithTimeout(ctx, bouncerLimit)
	defer cancel()
	const tries = 5
	for try := 1; ; try++ {
		b, err := attemptBouncer(ctx, program, server)
		// Another program may have taken the port in the meantime.
		if err == nil || try == tries || !strings.Contains(err.Error(), "Address already in use") {
			return b, err
		}
	}
}

// findBouncer returns the path of the program. "yes" means the one in PATH, or where
// packages install it, because PATH often lacks it.
func findBouncer(named string) (string, error) {
	if named != "yes" {
		return exec.LookPath(named)
	}
	program, err := exec.LookPath("pgbouncer")
	if err == nil {
		return program, nil
	}
	if program, elsewhere := exec.LookPath("/usr/sbin/pgbouncer"); elsewhere == nil {
		return program, nil
	}
	return "", err
}

func attemptBouncer(ctx context.Context, program string, server *pgx.ConnConfig) (*bouncer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	// A server that requires no password accepts any. PgBouncer always requires one.
	password := cmp.Or(server.Password, rand.Text())
	b := &bouncer{at: url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(server.User, password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		RawQuery: "sslmode=disable&default_query_exec_mode=exec",
	}}
	dir, err := os.MkdirTemp("", "almanac-pgbouncer-")
	if err != nil {
		return nil, err
	}
	settings := bouncerSettings{dir: dir, port: port, password: password, server: server}
	argv, err := settings.write(program)
	if err == nil {
		b.process, err = keep(dir, argv)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if b.version, err = b.await(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", program, err), b.process.stop(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// await returns PgBouncer's version once it responds.
func (b *bouncer) await(ctx context.Context) (string, error) {
	for {
		version, err := b.ask(ctx)
		if err == nil {
			return version, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-b.process.ended:
			return "", errors.New("no answer")
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), err)
		}
	}
}

// ask queries PgBouncer itself, in its virtual database.
func (b *bouncer) ask(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, b.url("pgbouncer"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	// It supports only the simple protocol.
	err = conn.QueryRow(ctx, "SHOW VERSION", pgx.QueryExecModeSimpleProtocol).Scan(&version)
	return version, err
}

// url returns the connection URL of the database of that name.
func (b *bouncer) url(database string) string {
	u := b.at
	u.Path = "/" + database
	return u.String()
}
