package pgserver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Stop stops the server, waits for its end, and removes its directory if that is temporary.
// Connected clients are disconnected; their commits are kept. When the context or half a
// minute ends first, Stop kills the server, and a durable cluster recovers at its next
// start.
//
// Stopping twice, or stopping a joined server, does nothing. Stop returns an error when the
// server had already ended by itself.
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
	options := fast
	if s.home.temporary {
		options = immediate // there is nothing to save
	}
	if err := errors.Join(crashed, s.halt(ctx, options), s.home.remove()); err != nil {
		return err
	}
	s.log.DebugContext(ctx, "stopped a server", "server", s.Describe())
	return nil
}

// halt ends the process by the given signal, and by stronger ones if necessary.
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
		_ = step.act() // fails when the server is gone, which the select detects
		patience := time.NewTimer(step.limit)
		defer patience.Stop()
		hurry := ctx.Done()
		if i > 0 {
			hurry = nil // the next steps are quick, and skipping them saves nothing
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
