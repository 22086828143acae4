package pgtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/almanac-go/almanac"
)

// helperVariable makes a test binary the helper of its go command: the process that runs one
// server for all tests of the command.
const helperVariable = "ALMANAC_TEST_HELPER"

// goCommand is a go command that runs test processes.
type goCommand struct {
	pid   int
	began string // distinguishes it from later processes with the same pid
}

// findCommand returns the go command that started this process, directly or not.
func findCommand() (goCommand, bool) {
	pid := os.Getppid()
	for pid > 0 {
		p, err := readProcess(pid)
		if err != nil {
			break
		}
		if p.name == "go" {
			return goCommand{pid: pid, began: p.began}, true
		}
		pid = p.parent
	}
	return goCommand{}, false
}

// running reports whether the command has not ended.
func (c goCommand) running() bool {
	p, err := readProcess(c.pid)
	return err == nil && p.began == c.began && p.state != "Z"
}

// file returns the path of the file in which the helper's announcement is. Processes with other
// settings, or with another schema, have another helper.
func (c goCommand) file() string {
	key := sha256.New()
	fmt.Fprintln(key, c.pid, c.began, os.Geteuid(), almanac.Schema())
	for _, name := range []string{ImageVariable, "DOCKER_HOST", "HOME", "PATH", "XDG_RUNTIME_DIR"} {
		fmt.Fprintln(key, os.Getenv(name))
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("almanac-test-server-%x", key.Sum(nil)[:8]))
}

// attach returns the server of the command's helper. The first process of the command starts the
// helper, while the others wait for the lock of the file.
func (c goCommand) attach() (source, error) {
	text, err := c.announced(startHelper)
	if err == nil && len(text) == 0 {
		text, err = c.announced(nil) // the helper has the lock until then
	}
	if err != nil {
		return source{}, fmt.Errorf("pgtest: %w", err)
	}
	var said announcement
	if err := json.Unmarshal(text, &said); err != nil {
		err = fmt.Errorf("pgtest: the helper said %q: %w", text, err)
		return source{}, errors.Join(err, os.Remove(c.file())) // which a helper that ended early left
	}
	if said.Error != "" {
		return source{}, errors.New(said.Error)
	}
	return source{url: said.URL, what: said.What, template: said.Template, release: keep}, nil
}

// announced returns the content of the file. If the file is empty, it calls start with the locked file.
func (c goCommand) announced(start func(*os.File) error) ([]byte, error) {
	f, err := c.lockFile()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err == nil && len(text) == 0 && start != nil {
		err = start(f)
	}
	return text, err
}

// lockFile opens the file and locks it until it is closed.
func (c goCommand) lockFile() (*os.File, error) {
	f, err := os.OpenFile(c.file(), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		err = fmt.Errorf("%s belongs to another user", f.Name())
	}
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// announcement is what the helper writes about its server.
type announcement struct {
	URL, What, Template string
	Error               string // why there is no server
}

// beginning is the directory of the package, whatever its TestMain changes to.
var beginning, _ = os.Getwd()

// startHelper starts the helper, which writes its announcement to the locked file and then unlocks it. The
// helper has no pipe that go test waits for. It is outside the process group that a terminal interrupts.
func startHelper(locked *os.File) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Dir = beginning // where the TestMain of a package expects to be
	cmd.Env = append(os.Environ(), helperVariable+"=yes")
	cmd.Stdout, cmd.Stderr = locked, locked
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// pollCommand is how often the helper checks that its go command runs.
const pollCommand = 100 * time.Millisecond

// help announces a server and runs it until the go command ends, however it ends. It returns the
// exit code of the helper.
func help() int {
	command, found := findCommand()
	if !found {
		return 1 // the command has ended already
	}
	if err := os.Chdir("/"); err != nil {
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := announce(ctx)
	for ctx.Err() == nil && command.running() {
		select {
		case <-time.After(pollCommand):
		case <-ctx.Done():
		}
	}
	err = errors.Join(err, os.Remove(command.file()))
	if s != nil {
		err = errors.Join(err, s.stop(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return 1
	}
	return 0
}

// announce starts a server, and says in the file where it is, or why there is none.
func announce(ctx context.Context) (*server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var said announcement
	s, err := openServer(ctx, launch)
	if err != nil {
		said.Error = err.Error()
	} else {
		said = announcement{URL: s.at.String(), What: s.what, Template: s.template}
	}
	err = json.NewEncoder(os.Stdout).Encode(said)
	return s, errors.Join(err, syscall.Flock(syscall.Stdout, syscall.LOCK_UN))
}

// processInfo is a part of /proc/<pid>/stat.
type processInfo struct {
	name, state, began string
	parent             int
}

func readProcess(pid int) (processInfo, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processInfo{}, err
	}
	// The name is in parentheses, and may contain anything.
	open, close := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || close < open {
		return processInfo{}, fmt.Errorf("stat of process %d: %q", pid, text)
	}
	fields := strings.Fields(string(text[close+1:])) // from the third of proc_pid_stat(5)
	if len(fields) < 20 {
		return processInfo{}, fmt.Errorf("stat of process %d: %q", pid, text)
	}
	parent, err := strconv.Atoi(fields[1])
	return processInfo{name: string(text[open+1 : close]), state: fields[0], began: fields[19], parent: parent}, err
}
