package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, stops the server if one was started, and
// exits. A package's TestMain calls it and nothing after it.
//
// After tests that passed it looks for goroutines that they left running, and
// fails if there are any. The options except goroutines that are known.
func Main(m *testing.M, leaks ...goleak.Option) {
	os.Exit(run(m, leaks))
}

func run(m *testing.M, leaks []goleak.Option) int {
	shared.open()
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if code != 0 {
		return code // a failed test may well have left something behind; its failure is the news
	}
	// The connection that tells the reaper of containers that we live is kept until we do not.
	leaks = append(leaks, goleak.IgnoreTopFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"))
	if err := goleak.Find(leaks...); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: tests left goroutines:", err)
		return 1
	}
	return 0
}

const (
	// startLimit is how long a server may take to start, an image to pull included.
	startLimit = 5 * time.Minute
	stopLimit  = time.Minute
)

// shared is the server of this process. Tests that know nothing of each other
// have no other way to meet at one server than a variable of the package.
var shared process

// process starts a server when the first test asks and remembers a failure, so
// that every test reports it and none tries again.
type process struct {
	mu      sync.Mutex
	running bool // Main runs the tests
	started bool
	server  *server
	err     error
}

var errNoMain = errors.New("pgtest: the package's TestMain must call pgtest.Main")

func (p *process) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = true
}

// get returns the server and starts it if need be.
func (p *process) get() (*server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return nil, errNoMain
	}
	if !p.started {
		p.started = true
		// Not a test's context: the server outlives the test that asked first.
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
