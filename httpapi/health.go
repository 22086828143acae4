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
	healthLimit = 2 * time.Second // for the repository and the conditions to answer
	healthAge   = time.Second     // for which an answer is repeated
)

type statusAnswer struct {
	Status string `json:"status"`
}

// condition is what a probe asks.
type condition = func(context.Context) error

// probes are the conditions of /readyz and of /healthz, and their last answers.
type probes struct {
	ready, alive      []condition
	readiness, health verdict
}

// healthz and readyz say yes or no and nothing else, since everybody may ask.
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

// verdict remembers for healthAge what conditions said, so that probes cost next to
// nothing however many there are. Probes that come at once share one asking.
type verdict struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

// of returns the error of the first condition that does not hold.
func (v *verdict) of(ctx context.Context, conditions []condition) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Now().Before(v.until) {
		return v.err
	}
	// The answer is for others too, so it does not end with this request.
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
