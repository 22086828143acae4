package pgtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, stops the server if it is of this process alone, and
// exits. A package's TestMain calls it and nothing after it.
//
// When all tests have passed, Main fails if goroutines are still running. The options
// except known goroutines.
func Main(m *testing.M, leaks ...goleak.Option) {
	os.Exit(run(m, leaks))
}

func run(m *testing.M, leaks []goleak.Option) int {
	if os.Getenv(helperVariable) != "" {
		return help()
	}
	shared.begin()
	if err := setFlags(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if code != 0 {
		return code // a failed test may leave goroutines; its failure is more important
	}
	// The connection to the reaper of containers stays open until this process ends.
	leaks = append(leaks, goleak.IgnoreTopFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"))
	var err error
	for range 10 { // each look takes a second, and on a busy machine a server may take longer to end
		if err = goleak.Find(leaks...); err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "pgtest: tests left goroutines:", err)
	return 1
}

// parallelTests is how many tests run at once unless -parallel is given. Tests mostly wait
// for the server and for instants, so it exceeds the number of processors.
const parallelTests = 8

// courses is how many cases a property of package rapid has by default: -short has fewer, .ci/nightly more.
const courses = 30

// setFlags sets flags that were not given.
func setFlags() error {
	flag.Parse()
	given := make(map[string]bool)
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var errs []error
	if !given["test.parallel"] && runtime.GOMAXPROCS(0) < parallelTests {
		errs = append(errs, flag.Set("test.parallel", strconv.Itoa(parallelTests)))
	}
	if checks := "rapid.checks"; flag.Lookup(checks) != nil && !given[checks] && !testing.Short() {
		errs = append(errs, flag.Set(checks, strconv.Itoa(courses)))
	}
	return errors.Join(errs...)
}

const (
	// startLimit is how long a server may take to start, including the pull of an image.
	startLimit = 5 * time.Minute
	stopLimit  = time.Minute
)

// shared is the server of this process, a package variable because independent tests share it.
var shared process

// process connects to a server at the first request of a test. Every later test gets the same failure.
type process struct {
	mu      sync.Mutex
	running bool // whether Main runs the tests
	started bool
	server  *server
	err     error
}

var errNoMain = errors.New("pgtest: the package's TestMain must call pgtest.Main")

func (p *process) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = true
}

// get returns the server, and connects to it if necessary.
func (p *process) get() (*server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return nil, errNoMain
	}
	if !p.started {
		p.started = true
		// Not a test's context: the server outlives the first test.
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		p.server, p.err = startServer(ctx)
	}
	return p.server, p.err
}

// stop stops the server if there is one.
func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	if p.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	return p.server.stop(ctx)
}
