//go:build unix && !solaris && !aix

package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user of the operating system that the server runs as.
type account struct {
	name  string
	id    syscall.Credential
	other bool // not the account of this process
}

// accountFor returns the account for the server on the data directory. It is the account of
// this process, unless that is root. For root it is the owner of the directory, or without
// a directory, postgres or nobody.
func accountFor(data string) (account, error) {
	uid := os.Geteuid()
	owner := -1
	info, err := os.Stat(data)
	if err == nil {
		owner = int(info.Sys().(*syscall.Stat_t).Uid)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return account{}, fmt.Errorf("pgserver: %w", err)
	}

	if uid != 0 {
		if owner >= 0 && owner != uid {
			return account{}, fmt.Errorf("pgserver: %s belongs to %s, and this program runs as %s",
				data, nameOf(owner), nameOf(uid))
		}
		return account{name: nameOf(uid)}, nil
	}
	if owner == 0 {
		return account{}, fmt.Errorf("pgserver: %s belongs to root, and PostgreSQL refuses to run as root: "+
			"give it to another user", data)
	}
	if owner > 0 {
		u, err := user.LookupId(strconv.Itoa(owner))
		if err != nil {
			return account{}, fmt.Errorf("pgserver: owner of %s: %w", data, err)
		}
		return switchTo(u)
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return switchTo(u)
		}
	}
	return account{}, errors.New("pgserver: PostgreSQL refuses to run as root, " +
		"and there is neither a user postgres nor a user nobody to run it as")
}

func switchTo(u *user.User) (account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("pgserver: user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("pgserver: group of user %s: %w", u.Username, err)
	}
	return account{
		name:  u.Username,
		id:    syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
		other: true,
	}, nil
}

func nameOf(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user " + id
}

func (a account) credential() *syscall.Credential {
	if !a.other {
		return nil
	}
	id := a.id
	return &id
}

// own gives the file to the account.
func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	return os.Chown(path, int(a.id.Uid), int(a.id.Gid))
}

// disown gives the file back to this process's account.
func (a account) disown(path string) error {
	if !a.other {
		return nil
	}
	return os.Chown(path, os.Geteuid(), os.Getegid())
}

// run runs a program as the account and returns its output. When the context ended the program,
// the error has the context's cause; the program's own error would only name a signal.
func (a account) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: a.credential()}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // its children too
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return out, err
}

// reach returns an error unless the account can enter dir and run program. It tries both as
// the account, because modes do not show access lists and special file systems.
func (a account) reach(ctx context.Context, dir, program string) error {
	if !a.other {
		return nil
	}
	var way []string
	for at := dir; ; at = filepath.Dir(at) {
		way = append([]string{at}, way...)
		if at == filepath.Dir(at) {
			break
		}
	}
	const firstClosed = `for at; do [ -x "$at" ] || { printf %s "$at"; exit 1; }; done`
	args := append([]string{"-c", firstClosed, "pgserver"}, append(way, program)...)
	out, err := a.run(ctx, "/bin/sh", args...)
	if err == nil {
		return nil
	}
	switch closed := string(bytes.TrimSpace(out)); closed {
	case "":
		return fmt.Errorf("pgserver: run a program as %s: %w", a.name, err)
	case program:
		return fmt.Errorf("pgserver: PostgreSQL refuses to run as root and so runs as %s, who may not run %s",
			a.name, program)
	default:
		return fmt.Errorf("pgserver: PostgreSQL refuses to run as root and so runs as %s, who may not enter %s "+
			"on the way to %s: choose another directory or open that one with chmod o+x", a.name, closed, dir)
	}
}
