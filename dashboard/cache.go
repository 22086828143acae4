package dashboard

import (
	"context"
	"sync"
	"time"
)

// shared is something that was read, and that all viewers share while it is fresh. So many live
// pages cost one call.
type shared[T any] struct {
	mu    sync.Mutex
	at    time.Time // when it was read; zero means that it must be read
	value T
	err   error
}

// get returns what read returns, or what it returned less than fresh ago, and when that was. An
// error is shared for streamPace at most. The call of read belongs to no request, because others may wait for it.
func (s *shared[T]) get(ctx context.Context, now func() time.Time, fresh time.Duration, read func(context.Context) (T, error)) (T, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		fresh = min(fresh, streamPace)
	}
	if s.at.IsZero() || now().Sub(s.at) >= fresh {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		defer cancel()
		s.value, s.err = read(ctx)
		s.at = now()
	}
	return s.value, s.at, s.err
}

// forget has it read again.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}
