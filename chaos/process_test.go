package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a worker in a process of its own.
type Process struct {
	Orders
	command *exec.Cmd
	ended   chan struct{}

	mu       sync.Mutex
	reports  []Report
	received chan struct{} // closed and replaced at each report
	stderr   tail
}

// workerName is what the sessions of workers are called in the database.
const workerName = "almanac worker"

// Launch starts a worker process: a program that has [Work], with orders.
func Launch(program string, o Orders) (*Process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &Process{Orders: o, command: exec.Command(program), ended: make(chan struct{}), received: make(chan struct{})}
	p.command.Env = append(os.Environ(), ordersVariable+"="+string(text), "PGAPPNAME="+workerName)
	p.command.Stderr = &p.stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		for d := json.NewDecoder(out); ; {
			var r Report
			if d.Decode(&r) != nil {
				break // it ended, perhaps within a line
			}
			p.record(r)
		}
		_ = p.command.Wait() // how it ended is asked for by those who care
	}()
	return p, nil
}

func (p *Process) record(r Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, r)
	close(p.received)
	p.received = make(chan struct{})
}

// Reports returns what the worker said so far.
func (p *Process) Reports() []Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reports)
}

// Await returns the first report that matches, now or later.
func (p *Process) Await(ctx context.Context, matches func(Report) bool) (Report, error) {
	for {
		p.mu.Lock()
		i, received := slices.IndexFunc(p.reports, matches), p.received
		if i >= 0 {
			defer p.mu.Unlock()
			return p.reports[i], nil
		}
		p.mu.Unlock()
		select {
		case <-received:
		case <-p.ended:
			return Report{}, fmt.Errorf("chaos: worker %s ended: %v\n%s", p.Name, p.command.ProcessState, p.stderr.String())
		case <-ctx.Done():
			return Report{}, fmt.Errorf("chaos: worker %s did not get there: %w\n%s", p.Name, ctx.Err(), p.stderr.String())
		}
	}
}

// Complaints are the end of what the worker wrote to its standard error: warnings, and what it ended of. If it has
// ended, they begin with how.
func (p *Process) Complaints() string {
	select {
	case <-p.ended:
		return p.command.ProcessState.String() + "\n" + p.stderr.String()
	default:
		return p.stderr.String()
	}
}

// PID is the worker's id of a process, which is part of the name of its leases' owner.
func (p *Process) PID() int { return p.command.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.command.Process.Signal(s) }

// Still reports whether the worker was stopped by a signal.
func (p *Process) Still() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	_, state, _ := strings.Cut(string(stat), ") ") // after the name
	return err == nil && strings.HasPrefix(state, "T")
}

// Ended is closed when the worker has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Peak is the most memory that the worker has had at once, in bytes, of the
// machine's own: VmHWM in proc_pid_status(5).
func (p *Process) Peak() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes int
	_, err = fmt.Sscan(rest, &kilobytes)
	return kilobytes << 10, err
}

// Kill ends the worker at once, and waits for its end.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// Stop asks the worker to stop and returns how long it took.
func (p *Process) Stop(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-p.ended:
		if !p.command.ProcessState.Success() {
			return 0, fmt.Errorf("chaos: worker %s: %v\n%s", p.Name, p.command.ProcessState, p.stderr.String())
		}
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("chaos: worker %s does not stop: %w", p.Name, ctx.Err())
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(text []byte) (int, error) {
	const most = 8 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
