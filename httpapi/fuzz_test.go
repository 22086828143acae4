package httpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/httpapi"
)

// FuzzBodies sends anything as a person: whatever it is, it is stored or refused
// with a problem that can be read, and it is never the server's fault.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		grace, `{}`, `null`, `[{}]`, `{"firstName":"\ud800"}`, `{"a":1,"a":2}`, "{\"\xff\":1}", `{"attributes":{"a":[1e400]}}`,
		with(`"timezone":"Local"`), with(`"timezone":"../../etc/passwd"`), with(`"dateOfBirth":"0000-00-00"`), "\ufeff" + grace,
	} {
		f.Add(body)
	}
	repository := newRepository()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(f, err)
	scheduler, err := almanac.NewScheduler(repository, registry,
		almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(nil)))
	require.NoError(f, err)
	api, err := httpapi.New(scheduler, repository, httpapi.NoAuthentication{})
	require.NoError(f, err)

	f.Fuzz(func(t *testing.T, body string) {
		before, err := repository.Count(t.Context(), nil)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/user", strings.NewReader(body)))
		after, err := repository.Count(t.Context(), nil)
		require.NoError(t, err)

		text, err := io.ReadAll(w.Result().Body)
		require.NoError(t, err)
		require.True(t, json.Valid(text), "%q", text)
		if w.Code == http.StatusCreated {
			require.Equal(t, before+1, after)
			return
		}
		require.Equal(t, http.StatusBadRequest, w.Code, "%s", text)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Contains(t, string(text), `"errors":[{"field":`)
		require.Equal(t, before, after, "something was stored")
	})
}
