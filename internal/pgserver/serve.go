package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// choose returns the binaries to run: the given ones, or those on the machine that fit the
// cluster, or any others, so that an error can name the mismatch.
func choose(given Binaries, major int) (Binaries, error) {
	if given != (Binaries{}) {
		return given, nil
	}
	if major != 0 {
		fits := func(b Binaries) bool { return b.Major == major }
		if b, err := search(os.Getenv("PATH"), places(), fits); err == nil {
			return b, nil
		}
	}
	return Find()
}

// serve launches the server on a free port and waits until it is ready.
func (s *Server) serve(ctx context.Context, b Binaries, c Config) error {
	if err := os.Rename(s.home.log(), s.home.log()+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pgserver: %w", err)
	}
	// On a busy machine orphans take seconds to notice.
	patience, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		err := s.attempt(ctx, b, c)
		if err == nil || !s.passing() || patience.Err() != nil {
			return err
		}
		time.Sleep(poll) // patience bounds the loop
	}
}

func (s *Server) attempt(ctx context.Context, b Binaries, c Config) error {
	var err error
	if s.port, err = freePort(); err != nil {
		return err
	}
	if s.process, err = s.launch(ctx, b, c); err != nil {
		return err
	}
	if err := s.await(ctx); err != nil {
		return errors.Join(err, s.halt(ctx, immediate))
	}
	return nil
}

// passing reports whether the server stopped for a temporary reason. Either another program took
// the port first, or children of a killed server have not yet noticed that they are orphans.
func (s *Server) passing() bool {
	why := s.home.logTail()
	return strings.Contains(why, "Address already in use") ||
		strings.Contains(why, "pre-existing shared memory block")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("pgserver: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("pgserver: %w", err)
	}
	return port, nil
}

func (s *Server) launch(ctx context.Context, b Binaries, c Config) (*process, error) {
	out, err := os.OpenFile(s.home.log(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("pgserver: %w", err)
	}
	defer out.Close()

	cmd := command{account: s.home.account, log: out, last: fast}
	if !c.Durable {
		cmd.last = immediate
	}
	if s.home.temporary {
		// If this program dies, only the server's account can clean up.
		cmd.remove = s.home.path
		if err := s.home.account.own(s.home.path); err != nil {
			return nil, fmt.Errorf("pgserver: %w", err)
		}
	}
	cmd.argv = []string{b.program("postgres"), "-D", s.home.data()}
	settings := c.settings(s.port)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		cmd.argv = append(cmd.argv, "-c", name+"="+settings[name])
	}

	disown, err := s.home.lock(ctx, ownerLock)
	if err != nil {
		return nil, err
	}
	p, err := launch(cmd, disown)
	if err != nil {
		disown()
		return nil, fmt.Errorf("pgserver: start %v as %s: %w", b, s.home.account.name, err)
	}
	return p, nil
}

// await returns once the server accepts connections.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		p, err := readPostmaster(s.home.data())
		if err == nil && p.pid == s.process.pid && p.ready() {
			return nil
		}
		select {
		case <-time.After(poll):
		case <-s.process.ended:
			return fmt.Errorf("pgserver: %s did not start:%s", s.version, s.home.logTail())
		case <-ctx.Done():
			return fmt.Errorf("pgserver: %s is not ready: %w:%s", s.version, ctx.Err(), s.home.logTail())
		}
	}
}
