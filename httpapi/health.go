package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// healthLimit is how long the repository and the conditions have to answer.
const healthLimit = 2 * time.Second

type statusAnswer struct {
	Status string `json:"status"`
}

// healthz and readyz say yes or no and nothing else, since everybody may ask.
func (a *api) healthz(r *http.Request) (reply, error) {
	return a.probe(r, "ok", a.alive)
}

func (a *api) readyz(r *http.Request) (reply, error) {
	answers := func(ctx context.Context) error {
		_, err := a.reader.Now(ctx)
		return err
	}
	return a.probe(r, "ready", append(slices.Clone(a.ready), answers))
}

// probe answers with the status, or 503 as soon as a condition does not hold.
func (a *api) probe(r *http.Request, status string, conditions []func(context.Context) error) (reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), healthLimit)
	defer cancel()
	for _, holds := range conditions {
		if err := holds(ctx); err != nil {
			a.log.DebugContext(ctx, "not "+status, slog.Any("error", err))
			return reply{}, newProblem(http.StatusServiceUnavailable, "")
		}
	}
	return reply{status: http.StatusOK, body: statusAnswer{status}}, nil
}
