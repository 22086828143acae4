package webhook_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// lineOf delivers to a receiver that responds with a status, and returns the logged line.
func lineOf(t *testing.T, d almanac.Delivery, code int) map[string]any {
	t.Helper()
	r := listen(t, status(code))
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	began := time.Now()
	err := deliverer(t, r.URL, webhook.WithLogger(log)).Deliver(t.Context(), d)
	took := time.Since(began)
	if out.Len() == 0 {
		require.Error(t, err)
		return nil
	}
	require.NoError(t, err)
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), "%s is not one line", out.String())
	duration, isNumber := line["duration_ms"].(float64)
	require.True(t, isNumber, "duration_ms is %v", line["duration_ms"])
	require.Positive(t, duration)
	require.LessOrEqual(t, duration, float64(took.Microseconds())/1000)
	return line
}

func TestSuccessIsLoggedWithStatusAndDuration(t *testing.T) {
	t.Parallel()
	d := greeting(time.Now())
	d.Attempt = 3
	for _, code := range []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent} {
		line := lineOf(t, d, code)
		delete(line, "time")
		delete(line, "duration_ms")
		require.Equal(t, map[string]any{
			"level": "INFO", "msg": "Webhook delivery succeeded",
			"event_id": d.Event.ID.String(), "event_type": d.Event.Type, "user_id": d.Event.UserID.String(),
			"idempotency_key": d.Event.IdempotencyKey.String(), "attempt": 3., "status_code": float64(code),
		}, line)
	}
}

func TestFailuresAreLeftToTheSchedulerToLog(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusNotFound, http.StatusServiceUnavailable, http.StatusFound} {
		require.Nil(t, lineOf(t, greeting(time.Now()), code))
	}
}
