package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
)

// ordersVariable makes a worker of a process: it holds its orders as JSON.
const ordersVariable = "ALMANAC_BENCH_WORKER"

// orders are the settings that a worker gets when it starts.
type orders struct {
	URL       string        // of the database
	Workers   int           // zero for as many as in this process
	LookAhead time.Duration // zero for the default
	Takes     time.Duration // how long each delivery waits for its receiver
	Lease     time.Duration // zero for the default
	Part      part
	Stream    string // where a dispatcher, or a worker behind it, finds the stream
}

// part is what a worker does.
type part string

const (
	scheduling  part = "" // claims for itself
	dispatching part = "dispatching"
	delivering  part = "delivering" // takes events from a stream
)

func (o orders) options() (options []almanac.Option) {
	if o.Workers > 0 {
		options = append(options, almanac.WithWorkers(o.Workers))
	}
	if o.LookAhead > 0 {
		options = append(options, almanac.WithLookAhead(o.LookAhead))
	}
	if o.Lease > 0 {
		options = append(options, almanac.WithLease(o.Lease))
	}
	return options
}

// progress is what a worker says of itself.
type progress struct {
	Ready  bool      // it has searched for events once, and reports when there are some
	Stored int64     // outcomes
	At     time.Time // when that was so
	CPU    time.Duration
	Memory int64     // resident, KiB
	Late   []float64 // by how many milliseconds handlers started late since the word before
}

// work is the worker program. It says when it is ready, runs from a first line of
// input until the input ends, and writes its progress a line.
func work(ctx context.Context) error {
	var o orders
	if err := json.Unmarshal([]byte(os.Getenv(ordersVariable)), &o); err != nil {
		return fmt.Errorf("%s: %w", ordersVariable, err)
	}
	pool, err := pgxpool.New(ctx, o.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return err
	}
	var stored atomic.Int64
	var late lateness
	changed := make(chan struct{}, 1)
	runner, err := o.runner(pool, hooks{started: late.note, stored: func() {
		stored.Add(1)
		hint(changed)
	}, takes: o.Takes})
	if err != nil {
		return err
	}
	var ready atomic.Bool
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(progress{At: time.Now()}); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return nil // it was stopped before it began
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in) // its end is the message
		stop()
	}()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	go func() {
		for ctx.Err() == nil && !ready.Load() {
			h := runner.Health()
			ready.Store(h.Running && h.Claim == almanac.Failure{})
			time.Sleep(5 * time.Millisecond)
		}
		hint(changed)
	}()
	now := func() progress {
		p := progressNow(stored.Load(), &late)
		p.Ready = ready.Load()
		return p
	}
	second := time.NewTicker(time.Second) // while nothing changes: saying it costs more than idling does
	defer second.Stop()
	for {
		select {
		case err := <-ended:
			return errors.Join(err, out.Encode(now()))
		case <-changed:
		case <-second.C:
		}
		if err := out.Encode(now()); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // what comes meanwhile is said together
	}
}

// hint leaves a signal unless one waits already.
func hint(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// lateness is how late handlers started, until it is said.
type lateness struct {
	mu     sync.Mutex
	millis []float64
}

func (l *lateness) note(_ uint64, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.millis = append(l.millis, millis(time.Since(due)))
}

func (l *lateness) add(millis []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.millis = append(l.millis, millis...)
}

func (l *lateness) take() []float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.millis
	l.millis = nil
	return taken
}

func progressNow(stored int64, late *lateness) progress {
	p := progress{Stored: stored, At: time.Now(), Late: late.take()}
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		p.CPU = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	memory, _, _ := strings.Cut(field("/proc/self/status", "VmRSS"), " ")
	p.Memory, _ = strconv.ParseInt(memory, 10, 64) // 0 where the kernel does not tell
	return p
}

// process is a worker in a process of its own.
type process struct {
	command  *exec.Cmd
	input    io.WriteCloser
	said     *json.Decoder
	stderr   strings.Builder
	latest   atomic.Pointer[progress]
	late     lateness
	begun    bool
	received chan struct{} // closed after its last report
}

// launch starts a worker, and returns when it is ready.
func launch(o orders) (*process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command(program), received: make(chan struct{})}
	p.command.Env = append(os.Environ(), ordersVariable+"="+string(text))
	p.command.Stderr = &p.stderr
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	p.said = json.NewDecoder(out)
	if err := p.readReports(); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

func (p *process) readReports() error {
	var now progress
	if err := p.said.Decode(&now); err != nil {
		return err
	}
	p.late.add(now.Late)
	p.latest.Store(&now)
	return nil
}

// begin lets the worker run. It calls reported after each report of the worker.
func (p *process) begin(reported func()) error {
	p.begun = true
	go func() {
		defer close(p.received)
		for p.readReports() == nil {
			reported()
		}
	}()
	_, err := io.WriteString(p.input, "go\n")
	return err
}

// kill ends a worker as a crash does.
func (p *process) kill() error {
	err := errors.Join(p.command.Process.Kill(), p.input.Close())
	<-p.received
	_ = p.command.Wait() // says that it was killed
	return err
}

// stop ends a worker, and waits for its end.
func (p *process) stop() error {
	err := p.input.Close()
	if p.begun {
		<-p.received // Wait must not come before the last word is read
	}
	return errors.Join(err, p.end())
}

func (p *process) end() error {
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("worker: %w\n%s", err, p.stderr.String())
	}
	return nil
}
