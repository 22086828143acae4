package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	healthLimit = 2 * time.Second // for the calls of the repository and the conditions
	healthAge   = time.Second     // for this long the last answer is repeated
)

type statusAnswer struct {
	Status string `json:"status"`
}

// condition is one check of a probe.
type condition = func(context.Context) error

// probes are the conditions of /readyz and of /healthz, and their last results.
type probes struct {
	ready, alive      []condition
	readiness, health verdict
}

// healthz and readyz return only a status, because every client may call them.
func (a *api) healthz(r *http.Request) (reply, error) {
	return a.probe(r, "ok", a.health.of(r.Context(), a.alive))
}

func (a *api) readyz(r *http.Request) (reply, error) {
	answers := func(ctx context.Context) error {
		_, err := a.reader.Now(ctx)
		return err
	}
	return a.probe(r, "ready", a.readiness.of(r.Context(), append(slices.Clone(a.ready), answers)))
}

// probe answers with the status, or 503 for an error.
func (a *api) probe(r *http.Request, status string, err error) (reply, error) {
	if err != nil {
		a.log.DebugContext(r.Context(), "not "+status, slog.Any("error", err))
		return reply{}, newProblem(http.StatusServiceUnavailable, "")
	}
	return reply{status: http.StatusOK, body: statusAnswer{status}}, nil
}

// verdict keeps the result of the conditions for healthAge, so that many probes cost next
// to nothing. Concurrent probes share one check.
type verdict struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

// of returns the error of the first condition that fails.
func (v *verdict) of(ctx context.Context, conditions []condition) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Now().Before(v.until) {
		return v.err
	}
	// Other probes share the result, so the check does not end with this request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthLimit)
	defer cancel()
	v.err = nil
	for _, holds := range conditions {
		if v.err = holds(ctx); v.err != nil {
			break
		}
	}
	v.until = time.Now().Add(healthAge)
	return v.err
}
