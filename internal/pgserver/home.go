package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// homeDir is the directory around a cluster: its data, password, log and lock. It belongs
// to the program's account. Only data belongs to the server's account, so that no other
// account can prepare files where the program, possibly root, writes.
type homeDir struct {
	path      string
	temporary bool
	account   account
}

func (h homeDir) data() string     { return filepath.Join(h.path, "data") }
func (h homeDir) password() string { return filepath.Join(h.path, "password") }
func (h homeDir) log() string      { return filepath.Join(h.path, "server.log") }

// superuser is the one role of a new cluster.
const superuser = "almanac"

// openHome creates the directory if it is missing. An empty path means a new temporary directory.
func openHome(path string, durable bool) (homeDir, error) {
	h := homeDir{temporary: path == ""}
	var err error
	if h.temporary {
		path, err = makeTemporary(durable)
	} else {
		err = os.MkdirAll(path, 0o700)
	}
	if err != nil {
		return h, fmt.Errorf("pgserver: %w", err)
	}
	if path, err = filepath.Abs(path); err == nil {
		h.path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return h, fmt.Errorf("pgserver: %w", err)
	}
	if h.account, err = accountFor(h.data()); err != nil {
		return h, errors.Join(err, h.remove())
	}
	return h, nil
}

// makeTemporary creates a temporary directory. If it need not survive a crash of the machine,
// it is in memory where that is possible, unless TMPDIR says where temporary files belong.
func makeTemporary(durable bool) (string, error) {
	const pattern = "almanac-postgres-"
	if memory := memoryDir(); memory != "" && !durable && os.Getenv("TMPDIR") == "" {
		if path, err := os.MkdirTemp(memory, pattern); err == nil {
			return path, nil
		}
	}
	return os.MkdirTemp("", pattern)
}

// remove removes the directory if it is temporary.
func (h homeDir) remove() error {
	if !h.temporary {
		return nil
	}
	if err := os.RemoveAll(h.path); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	return nil
}

// Locks in the directory. A program holds the first while it starts or joins a server. It
// holds the second while the server that it started runs.
const (
	startLock = "lock"
	ownerLock = "owner"
)

// lock waits for the lock of that name and holds it until unlock is called.
func (h homeDir) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		unlock, err := h.tryLock(name)
		if unlock != nil || err != nil {
			return unlock, err
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return nil, fmt.Errorf("pgserver: %s: another program holds the %s: %w", h.path, name, ctx.Err())
		}
	}
}

// tryLock takes the lock of that name, or returns nil when another holds it.
func (h homeDir) tryLock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(h.path, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	taken, err := tryLock(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pgserver: lock %s: %w", f.Name(), err), f.Close())
	}
	if !taken {
		return nil, f.Close()
	}
	return func() { _ = f.Close() }, nil
}

// major returns the major version of the cluster, or 0 when there is none.
func (h homeDir) major() (int, error) {
	text, err := os.ReadFile(filepath.Join(h.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(h.path, "PG_VERSION")); err == nil {
			return 0, fmt.Errorf("pgserver: %s is a data directory of its own: name the directory to keep one in", h.path)
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("pgserver: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("pgserver: PG_VERSION in %s: %w", h.data(), err)
	}
	return major, nil
}

// admit gives the server's account access to the directory, and checks that it has access.
func (h homeDir) admit(ctx context.Context, b Binaries) error {
	if h.account.other {
		info, err := os.Stat(h.path)
		if err == nil {
			err = os.Chmod(h.path, info.Mode().Perm()|0o011)
		}
		if err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
	}
	return h.account.reach(ctx, h.path, b.program("postgres"))
}

// create creates a cluster with a new password. The cluster is created under another name and renamed
// when it is complete. A program that dies meanwhile therefore leaves no incomplete cluster.
func (h homeDir) create(ctx context.Context, b Binaries, durable bool) error {
	unfinished := h.data() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	if err := h.writePassword(); err != nil {
		return err
	}
	for _, path := range []string{unfinished, h.password()} {
		if err := h.account.own(path); err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
	}

	// Byte order sorts the same on every machine and with every version of the C library.
	args := []string{
		"-D", unfinished, "--username=" + superuser, "--pwfile=" + h.password(),
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
	}
	if !durable {
		args = append(args, "--no-sync")
	}
	if out, err := h.account.run(ctx, b.program("initdb"), args...); err != nil {
		return fmt.Errorf("pgserver: initdb of %v: %w: %s", b, err, lastLines(string(out)))
	}

	if err := h.account.disown(h.password()); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	if err := os.Rename(unfinished, h.data()); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	return nil
}

func (h homeDir) writePassword() error {
	if err := os.Remove(h.password()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pgserver: %w", err)
	}
	f, err := os.OpenFile(h.password(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	_, err = f.WriteString(rand.Text() + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	return nil
}

func (h homeDir) readPassword() (string, error) {
	text, err := os.ReadFile(h.password())
	if err != nil {
		return "", fmt.Errorf("pgserver: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// logTail returns the last lines of the server's log, for an error message.
func (h homeDir) logTail() string {
	text, err := os.ReadFile(h.log())
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text))
}

func lastLines(text string) string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return "\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}
