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

// FuzzBodies sends arbitrary bodies as users. Each is stored or refused with a readable
// problem, and never causes a server error.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		grace, `{}`, `null`, `[{}]`, `{"firstName":"\ud800"}`, `{"a":1,"a":2}`, "{\"\xff\":1}", `{"attributes":{"a":[1e400]}}`,
		with(`"timezone":"Local"`), with(`"timezone":"../../etc/passwd"`), with(`"dateOfBirth":"0000-00-00"`), "\ufeff" + grace,
		with(`"locale":"EN_us","email":"a@b","externalId":"42"`), with(`"externalId":"42"`), with(`"locale":"x","email":null`),
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
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/user", strings.NewReader(body)))
		after, err := repository.Count(t.Context(), nil)
		require.NoError(t, err)

		text, err := io.ReadAll(w.Result().Body)
		require.NoError(t, err)
		require.True(t, json.Valid(text), "%q", text)
		if w.Code == http.StatusCreated {
			require.Equal(t, before+1, after)
			return
		}
		if w.Code != http.StatusConflict { // the external id of an earlier body
			require.Equal(t, http.StatusBadRequest, w.Code, "%s", text)
		}
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Contains(t, string(text), `"errors":[{"field":`)
		require.Equal(t, before, after, "something was stored")
	})
}

// FuzzHeaders sends arbitrary conditions and keys. A change is made only if the request
// names the version or allows any, and no header causes a server error.
func FuzzHeaders(f *testing.F) {
	for _, header := range []string{`"1"`, `*`, `W/"1"`, `"0", "1"`, `,,"1",`, `"1`, `"a\"b"`, `"1,"`, "\"\xff\"", ` "1" `, `"2",*`, "k-1"} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		s := open(t)
		created := s.send("POST", "/user", grace, "Idempotency-Key: "+header)
		require.Contains(t, []int{http.StatusCreated, http.StatusBadRequest}, created.status)
		if created.status == http.StatusCreated {
			require.Equal(t, created.header["Location"], s.send("POST", "/user", grace, "Idempotency-Key: "+header).header["Location"])
		}
		path := s.send("POST", "/user", grace).header.Get("Location")

		changed := s.send("PUT", path, `{"firstName":"A"}`, "If-Match: "+header)

		switch changed.status {
		case http.StatusOK:
			require.True(t, strings.Contains(header, `"1"`) || strings.Trim(header, " \t") == "*", "%q", header)
		case http.StatusPreconditionFailed, http.StatusBadRequest:
			require.Contains(t, s.send("GET", path, "").body, `"version":1`)
		default:
			t.Errorf("%q: %d", header, changed.status)
		}
	})
}
