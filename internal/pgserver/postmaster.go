package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// postmaster is the content of a running server's postmaster.pid.
type postmaster struct {
	pid    int
	port   int
	status string // "starting", "ready", "stopping", "standby"; empty early in a start
}

func (p postmaster) ready() bool { return p.port != 0 && p.status == "ready" }

// readPostmaster reads the file in the data directory. The error matches fs.ErrNotExist
// when no server runs there.
func readPostmaster(data string) (postmaster, error) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return postmaster{}, err
	}
	// One value per line, written as the server determines it: pid, data directory, start
	// time, port, socket directory, address, memory key, status.
	lines := strings.Split(string(text), "\n")
	line := func(n int) string {
		if n >= len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[n])
	}

	p := postmaster{status: line(7)}
	p.pid, err = strconv.Atoi(line(0))
	if err != nil {
		return postmaster{}, fmt.Errorf("postmaster.pid names no process: %w", err)
	}
	if text := line(3); text != "" {
		p.port, err = strconv.Atoi(text)
		if err != nil {
			return postmaster{}, fmt.Errorf("postmaster.pid names no port: %w", err)
		}
	}
	return p, nil
}

// poll is how often the file is read while a change is expected.
const poll = 20 * time.Millisecond

// orphanGrace is how long the watchdog of a killed program may take to stop its server. A
// server without an owner that runs longer was started by hand.
const orphanGrace = 2 * time.Second

// running returns the server that already serves the directory. It waits while that server
// starts or stops. It returns false when there is none, also for the file of a killed server.
func (h homeDir) running(ctx context.Context) (postmaster, bool, error) {
	patience := time.Now().Add(orphanGrace)
	for {
		p, err := readPostmaster(h.data())
		if errors.Is(err, fs.ErrNotExist) || err == nil && !alive(p.pid) {
			return postmaster{}, false, nil
		}
		if err == nil && !serves(p.pid) {
			// After a reboot the number may belong to any process of ours. The server would
			// refuse to start while that process lives.
			if err := os.Remove(filepath.Join(h.data(), "postmaster.pid")); err != nil {
				return postmaster{}, false, fmt.Errorf("pgserver: left by a server that is gone: %w", err)
			}
			return postmaster{}, false, nil
		}
		if err == nil && p.ready() && answers(ctx, p.port) {
			unlock, err := h.tryLock(ownerLock)
			if err != nil {
				return postmaster{}, false, err
			}
			if unlock == nil {
				return p, true, nil
			}
			unlock()
			if time.Now().After(patience) {
				return p, true, nil
			}
		}

		select {
		case <-time.After(poll):
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("server with pid %d is %q", p.pid, p.status)
			}
			return postmaster{}, false, fmt.Errorf("pgserver: %s: %w: %w", h.data(), err, ctx.Err())
		}
	}
}

// answers reports whether the port accepts connections. A killed server leaves a file that
// says ready, and remains a process until its parent notices.
func answers(ctx context.Context, port int) bool {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was written
	return true
}

// serves reports whether the living process pid may be a PostgreSQL server. It returns
// false only when the process is known to be another program.
func serves(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		name, err = exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "comm=").Output()
	}
	if err != nil {
		return true
	}
	program := filepath.Base(strings.TrimSpace(string(name)))
	return strings.HasPrefix(program, "postgres") || program == "postmaster"
}
