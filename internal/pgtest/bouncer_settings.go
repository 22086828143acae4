package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// bouncerSettings are the settings that differ between PgBouncers.
type bouncerSettings struct {
	dir      string // for its files only
	port     int
	password string          // of the server's user, to PgBouncer and from it
	server   *pgx.ConnConfig // how to connect to the server
}

// write writes the files of a PgBouncer and returns the command that runs it.
func (s bouncerSettings) write(program string) ([]string, error) {
	config := filepath.Join(s.dir, "pgbouncer.ini")
	argv := []string{program, config}
	if os.Geteuid() == 0 {
		account, err := unprivileged()
		if err != nil {
			return nil, err
		}
		argv = []string{program, "-u", account, config} // it reads its files before it changes the account
	}
	return argv, errors.Join(
		os.WriteFile(config, []byte(s.config()), 0o600),
		os.WriteFile(s.users(), []byte(inDoubleQuotes(s.server.User)+" "+inDoubleQuotes(s.password)+"\n"), 0o600))
}

// unprivileged returns the account that replaces root, which PgBouncer and PostgreSQL
// refuse. It is the account of a private server.
func unprivileged() (string, error) {
	for _, name := range []string{"postgres", "nobody"} {
		if _, err := user.Lookup(name); err == nil {
			return name, nil
		}
	}
	return "", errors.New("PgBouncer refuses to run as root, and there is neither a user postgres nor a user nobody to run it as")
}

func (s bouncerSettings) users() string { return filepath.Join(s.dir, "users.txt") }

// config returns a careful production configuration, but with fewer connections, so that
// clients must share them. The server's user is in a file. Any other role is authenticated
// by its password on the server, if the server's user may read that, as a superuser may.
func (s bouncerSettings) config() string {
	tls := "disable"
	if s.server.TLSConfig != nil {
		tls = "prefer" // it cannot verify certificates as pgx does, and the tests do not concern TLS
	}
	return fmt.Sprintf(`[databases]
* = host=%s port=%d auth_user=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
stats_users = %s
server_tls_sslmode = %s
max_client_conn = 1000

pool_mode = transaction
default_pool_size = %d
; In this mode nothing of a session is undone between clients.
server_reset_query =
; A client's next transaction is to meet another session than its last.
server_round_robin = 1
min_pool_size = 2
; A client may ask for a setting, and must not count on it.
ignore_startup_parameters = default_transaction_isolation

; A test that waits for longer has failed.
server_login_retry = 1
query_wait_timeout = 60
`, inQuotes(s.server.Host), s.server.Port, inQuotes(s.server.User),
		s.port, s.users(), s.server.User, tls, poolSize)
}

// poolSize is the number of connections that all clients of one database and role share.
const poolSize = 5

// inQuotes quotes a value in the connection string of a database.
func inQuotes(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

// inDoubleQuotes quotes an entry in the file of users.
func inDoubleQuotes(value string) string { return `"` + strings.ReplaceAll(value, `"`, `""`) + `"` }
