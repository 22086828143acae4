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

// watchdog stands between us and the server. It tells the server's pid on its
// output, passes on each signal named on its input, and takes the end of its
// input for our death: then it sends the server a last signal and, when we had
// a temporary directory, removes what we no longer can. Its arguments are that
// directory or nothing, the last signal, and the server's command.
//
// The signals are sent by a child of the shell that reads nothing else, so that
// the shell itself can wait for the server and end with it. Both ignore SIGHUP,
// which the system may send to a group whose parent is gone; the server, which
// takes it for a wish to read its settings again, is used to it.
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

// Signals that make the server stop. They mean to it: send every client home
// and write a checkpoint; drop everything and recover at the next start.
const (
	fast      = "INT"
	immediate = "QUIT"
)

// process is a server under its watchdog.
type process struct {
	pid    int            // the server's own
	group  int            // the process group of both
	orders io.WriteCloser // one signal name per line; its end means that we died
	ended  chan struct{}  // closed when both are gone
}

// command is a server about to be launched.
type command struct {
	account account
	argv    []string
	log     *os.File // takes all output
	remove  string   // the directory to remove if we die, or empty
	last    string   // the signal that the server gets then
}

// launch runs the command and returns once it has a pid, which says nothing
// about its health. The goroutine that it starts ends with the server, and calls
// ended then; it is not called if launch fails.
func launch(c command, ended func()) (*process, error) {
	args := append([]string{"-c", watchdog, "pgserver", c.remove, c.last}, c.argv...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = "/" // ours may be closed to the account, and must not be kept busy
	cmd.Env = environment()
	cmd.Stderr = c.log
	// A group of its own: what the terminal sends is for us alone.
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
		_ = cmd.Wait() // how it ended is in its log, and every end is one that Stop must take
	}()
	return p, nil
}

// send passes a signal to the server. It fails when the server is gone.
func (p *process) send(signal string) error {
	_, err := io.WriteString(p.orders, signal+"\n")
	return err
}

// kill ends the server and its watchdog without ceremony.
func (p *process) kill() error { return syscall.Kill(-p.group, syscall.SIGKILL) }

// alive reports whether there is a process pid.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// tryLock takes the file for this process alone, or reports false when another
// process has it. Closing the file gives it back, and so does the process's end.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// environment is ours without what would steer PostgreSQL behind our back, and
// with messages that can be read by the program as well.
func environment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "LC_") {
			env = append(env, entry)
		}
	}
	return append(env, "LC_ALL=C", "TZ=UTC")
}
