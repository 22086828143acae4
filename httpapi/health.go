package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// readyLimit is how long the repository has to say that it is there.
const readyLimit = 2 * time.Second

type statusAnswer struct {
	Status string `json:"status"`
}

func (a *api) healthz(*http.Request) (reply, error) {
	return reply{status: http.StatusOK, body: statusAnswer{"ok"}}, nil
}

// readyz says yes or no and nothing else, since everybody may ask.
func (a *api) readyz(r *http.Request) (reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyLimit)
	defer cancel()
	if err := a.isReady(ctx); err != nil {
		a.log.DebugContext(ctx, "not ready", slog.Any("error", err))
		return reply{}, newProblem(http.StatusServiceUnavailable, "")
	}
	return reply{status: http.StatusOK, body: statusAnswer{"ready"}}, nil
}

func (a *api) isReady(ctx context.Context) error {
	for _, ready := range a.ready {
		if err := ready(ctx); err != nil {
			return err
		}
	}
	_, err := a.reader.Now(ctx)
	return err
}
