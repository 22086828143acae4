//go:build unix && !solaris && !aix

package pgserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// watchdog runs between this program and the server. It prints the server's pid, and passes on
// each signal named on its input. The end of its input means that this program died. The
// watchdog then sends the server a last signal, and removes the temporary directory if there is
// one. Its arguments are that directory or nothing, the last signal, and the server's command.
//
// A child of the shell sends the signals and reads nothing else, so that the shell itself
// can wait for the server and end with it. Both ignore SIGHUP, which the system may send to
// a group without a parent. The server treats SIGHUP as a request to reload its settings.
const watchdog = `
trap '' HUP
remove=$1 last=$2
shift 2
exec 3<&0 4>&1 </dev/null >&2
"$@" 3<&- 4>&- &
server=$!
echo "$server" >&4
exec 4>&-
{
	while read -r signal; do kill -s "$signal" "$server"; done
	trap '' TERM
	kill -s "$last" "$server"
	while kill -0 "$server" 2>/dev/null; do sleep 1; done
	[ -z "$remove" ] || rm -rf -- "$remove"
} <&3 &
watch=$!
exec 3<&-
wait "$server"
code=$?
kill "$watch" 2>/dev/null
exit "$code"
`

// Signals that stop the server: disconnect every client and write a checkpoint, or abort
// everything and recover at the next start.
const (
	fast      = "INT"
	immediate = "QUIT"
)

// process is a server under its watchdog.
type process struct {
	pid    int            // the server's
	group  int            // the process group of both
	orders io.WriteCloser // one signal name per line; its end means that this program died
	ended  chan struct{}  // closed when both are gone
}

// command describes a server to launch.
type command struct {
	account account
	argv    []string
	log     *os.File // takes all output
	remove  string   // the directory to remove if this program dies, or empty
	last    string   // the signal that the server gets then
}

// launch runs the command and returns once the server has a pid; it may not be healthy. It starts a
// goroutine that ends with the server and then calls ended. If launch fails, ended is not called.
func launch(c command, ended func()) (*process, error) {
	args := append([]string{"-c", watchdog, "pgserver", c.remove, c.last}, c.argv...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = "/" // the account may not have access to our directory, and the server must not keep it busy
	cmd.Env = environment()
	cmd.Stderr = c.log
	// A separate group: signals of the terminal are only for this program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.account.credential()}

	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	told, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, orders.Close())
	}
	if err := cmd.Start(); err != nil { // it closes the pipes
		return nil, err
	}

	p := &process{group: cmd.Process.Pid, orders: orders, ended: make(chan struct{})}
	line, err := bufio.NewReader(told).ReadString('\n')
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watchdog told no pid: %w", err), orders.Close(), cmd.Wait())
	}
	go func() {
		defer ended()
		defer close(p.ended)
		_ = cmd.Wait() // its log says how it ended, and Stop must handle every end
	}()
	return p, nil
}

// send passes a signal to the server. It fails when the server is gone.
func (p *process) send(signal string) error {
	_, err := io.WriteString(p.orders, signal+"\n")
	return err
}

// kill kills the server and its watchdog.
func (p *process) kill() error { return syscall.Kill(-p.group, syscall.SIGKILL) }

// alive reports whether there is a process pid.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// tryLock locks the file for this process, or returns false when another process has locked
// it. Closing the file or ending the process unlocks it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// environment is the environment of this process without variables that configure
// PostgreSQL, and with messages in English.
func environment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "LC_") {
			env = append(env, entry)
		}
	}
	return append(env, "LC_ALL=C", "TZ=UTC")
}
