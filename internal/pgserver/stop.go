package pgserver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Stop stops the server, waits for its end, and removes its directory if that
// was temporary. Clients that are still connected are sent home, and what they
// had committed is kept. When the context or half a minute ends first, the
// server is stopped the hard way, from which a durable cluster recovers at its
// next start.
//
// Stopping twice, or a server that was joined, does nothing. Stop returns an
// error when the server had already ended by itself.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	if s.process == nil {
		return nil
	}

	var crashed error
	select {
	case <-s.process.ended:
		crashed = fmt.Errorf("pgserver: %s had ended by itself:%s", s.version, s.home.logTail())
	default:
	}
	how := fast
	if s.home.temporary {
		how = immediate // there is nothing to save
	}
	if err := errors.Join(crashed, s.halt(ctx, how), s.home.remove()); err != nil {
		return err
	}
	s.log.DebugContext(ctx, "stopped a server", "server", s.Describe())
	return nil
}

// halt ends the process by the given signal, and by harder ones if need be.
func (s *Server) halt(ctx context.Context, signal string) error {
	p := s.process
	s.process = nil

	steps := []struct {
		act   func() error
		limit time.Duration
	}{
		{func() error { return p.send(signal) }, stopLimit},
		{func() error { return p.send(immediate) }, killLimit},
		{p.kill, killLimit},
	}
	for i, step := range steps {
		_ = step.act() // fails when the server is gone, which is what the select finds
		patience := time.NewTimer(step.limit)
		defer patience.Stop()
		hurry := ctx.Done()
		if i > 0 {
			hurry = nil // the harder ways are quick, and nothing is won by leaving them
		}
		select {
		case <-p.ended:
			return nil
		case <-hurry:
		case <-patience.C:
		}
	}
	return fmt.Errorf("pgserver: %s (pid %d) cannot be stopped", s.version, p.pid)
}
