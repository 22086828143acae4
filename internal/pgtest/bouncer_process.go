package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// keeper is a shell between this process and a program that must not outlive it. The end of
// its input is the order to stop the program, and comes at the latest when this process
// ends. The keeper then stops the program, by SIGKILL if necessary, and removes the
// program's directory. Signals of a terminal do not prevent that.
const keeper = `
trap '' HUP INT TERM
dir=$1
shift
exec 3<&0 </dev/null
"$@" 3<&- &
program=$!
{
	read -r order
	kill -s TERM "$program"
	sleep 2
	kill -s KILL "$program"
} <&3 &
watch=$!
exec 3<&-
wait "$program"
kill -s KILL "$watch"
rm -rf -- "$dir"
`

// kept is a program with its keeper.
type kept struct {
	name  string
	log   *os.File  // the program's output; readable also when its name is gone
	life  io.Closer // closing it ends the program
	ended chan struct{}
}

// keep starts a program whose files are in dir. The directory is removed when the program
// ends. The program may not be healthy when keep returns. On an error dir is kept.
func keep(dir string, argv []string) (*kept, error) {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", keeper, "pgtest", dir}, argv...)...)
	cmd.Dir = "/" // the account may not have access to our directory
	cmd.Stdout, cmd.Stderr = log, log
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := cmd.Start(); err != nil { // it closes the pipe
		return nil, errors.Join(err, log.Close())
	}
	k := &kept{name: argv[0], log: log, life: life, ended: make(chan struct{})}
	go func() {
		defer close(k.ended)
		_ = cmd.Wait() // the log says how it ended
	}()
	return k, nil
}

// stop ends the program and returns when the program and its directory are gone. It returns
// an error when the program had ended by itself.
func (k *kept) stop(ctx context.Context) error {
	defer k.log.Close()
	select {
	case <-k.ended:
		return fmt.Errorf("%s had ended by itself:%s", k.name, k.lastWords())
	default:
	}
	_ = k.life.Close() // fails when the program ends at this moment, which the select detects
	select {
	case <-k.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s cannot be stopped: %w:%s", k.name, ctx.Err(), k.lastWords())
	}
}

// lastWords returns the end of the program's output.
func (k *kept) lastWords() string {
	const most = 2000
	info, err := k.log.Stat()
	if err != nil {
		return " " + err.Error()
	}
	text := make([]byte, min(most, info.Size()))
	if _, err := k.log.ReadAt(text, info.Size()-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
		return " " + err.Error()
	}
	return "\n" + strings.TrimSpace(string(text))
}
