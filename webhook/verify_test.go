package webhook_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// signed returns headers made by the official library.
func signed(t *testing.T, secret, id string, at time.Time, body string) http.Header {
	t.Helper()
	official, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	signature, err := official.Sign(id, at, []byte(body))
	require.NoError(t, err)
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("webhook-signature", signature)
	return h
}

func TestVerify(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tests := map[string]struct {
		change func(h http.Header)
		at     time.Time
		body   string
		want   error
	}{
		"a genuine delivery":    {func(http.Header) {}, now, "{}", nil},
		"several signatures":    {func(h http.Header) { h.Set("webhook-signature", "v1a,xxxx v1,AAAA "+h.Get("webhook-signature")) }, now, "{}", nil},
		"another body":          {func(http.Header) {}, now, "{ }", webhook.ErrSignature},
		"another id":            {func(h http.Header) { h.Set("webhook-id", "event-x") }, now, "{}", webhook.ErrSignature},
		"another time":          {func(h http.Header) { h.Set("webhook-timestamp", strconv.FormatInt(now.Unix()+1, 10)) }, now, "{}", webhook.ErrSignature},
		"no id":                 {func(h http.Header) { h.Del("webhook-id") }, now, "{}", webhook.ErrUnsigned},
		"no time":               {func(h http.Header) { h.Del("webhook-timestamp") }, now, "{}", webhook.ErrUnsigned},
		"no signature":          {func(h http.Header) { h.Del("webhook-signature") }, now, "{}", webhook.ErrUnsigned},
		"a time in words":       {func(h http.Header) { h.Set("webhook-timestamp", "now") }, now, "{}", webhook.ErrUnsigned},
		"a signature cut short": {func(h http.Header) { h.Set("webhook-signature", h.Get("webhook-signature")[:20]) }, now, "{}", webhook.ErrSignature},
		"the parts cut differently": {func(h http.Header) {
			h.Set("webhook-id", "event-1."+h.Get("webhook-timestamp"))
			h.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
			h.Set("webhook-signature", signed(t, secret('a'), "event-1", now, strconv.FormatInt(now.Unix(), 10)+".{}").Get("webhook-signature"))
		}, now, "{}", webhook.ErrUnsigned},
		"a version and nothing":          {func(h http.Header) { h.Set("webhook-signature", "v1,") }, now, "{}", webhook.ErrSignature},
		"a signature of another version": {func(h http.Header) { h.Set("webhook-signature", "v2"+h.Get("webhook-signature")[2:]) }, now, "{}", webhook.ErrSignature},
		"played again":                   {func(http.Header) {}, now.Add(-6 * time.Minute), "{}", webhook.ErrTimestamp},
		"from the future":                {func(http.Header) {}, now.Add(6 * time.Minute), "{}", webhook.ErrTimestamp},
		"by a clock that is off":         {func(http.Header) {}, now.Add(-4 * time.Minute), "{}", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := signed(t, secret('a'), "event-1", tt.at, "{}")
			tt.change(h)
			verifier, err := webhook.NewVerifier(secret('b'), secret('a'))
			require.NoError(t, err)
			require.ErrorIs(t, verifier.Verify(h, []byte(tt.body), now), tt.want)
		})
	}
}

func TestVerifierHandler(t *testing.T) {
	t.Parallel()
	verifier, err := webhook.NewVerifier(secret('a'))
	require.NoError(t, err)
	handler := verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	ask := func(h http.Header, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Header = h
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}

	passed := ask(signed(t, secret('a'), "event-1", time.Now(), "hello"), "hello")
	require.Equal(t, http.StatusOK, passed.Code)
	require.Equal(t, "hello", passed.Body.String(), "the body is still to be read")
	require.Equal(t, http.StatusUnauthorized, ask(signed(t, secret('b'), "event-1", time.Now(), "hello"), "hello").Code)
	require.Equal(t, http.StatusRequestEntityTooLarge, ask(http.Header{}, strings.Repeat("x", 1<<20+1)).Code)
}

// Payloads of 64 KiB as PostgreSQL writes them, in each kind of body: JSON escapes some characters
// of names, and a template repeats the payload.
func TestVerifierHandlerTakesTheLargestDeliveries(t *testing.T) {
	t.Parallel()
	verifier, err := webhook.NewVerifier(secret('a'))
	require.NoError(t, err)
	filled := func(before, fill, after string) string {
		return before + strings.Repeat(fill, (64<<10-len(before)-len(after))/len(fill)) + after
	}
	for name, payload := range map[string]string{
		"a long text":        filled(`{"a": "`, "x", `"}`),
		"a name of escapes":  filled(`{"`, "\u2028", `": 1}`),
		"controls":           filled(`{"`, `\u0001`, `": 1}`),
		"numbers":            filled(`[`, "1"+strings.Repeat("0", 308)+", ", `1]`),
		"text of separators": filled(`"`, "\u2028", `"`),
	} {
		for kind, option := range map[string]webhook.Option{
			"plain": webhook.WithSecrets(secret('a')), "a CloudEvent": webhook.WithCloudEvents("https://example.com/"+strings.Repeat("x", 2000), "com.example."),
			"a template": webhook.WithTemplate(`{"one": {{json .Payload}}, "text": "{{json .Payload | printf "%s"}}", "two": {{json .Payload}}}`),
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				r := httptest.NewServer(verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })))
				t.Cleanup(r.Close)
				d := greeting(time.Now())
				d.Event.Payload = json.RawMessage(payload)

				require.NoError(t, deliverer(t, r.URL, webhook.WithSecrets(secret('a')), option).Deliver(t.Context(), d))
			})
		}
	}
}

// Another attempt would post as much, and no Verifier would read it.
func TestABodyThatIsTooLargeIsFinal(t *testing.T) {
	t.Parallel()
	_, _, err := sent(t, `{"a": "`+strings.Repeat("x", 60<<10)+`"}`, webhook.WithTemplate(`[`+strings.Repeat("{{json .Payload}},", 20)+`1]`))
	require.ErrorIs(t, err, almanac.ErrPermanent)
	require.ErrorContains(t, err, "bytes, more than 1048576")
}

func TestVerifierHandlerAnswers400ToABrokenBody(t *testing.T) {
	t.Parallel()
	verifier, err := webhook.NewVerifier(secret('a'))
	require.NoError(t, err)
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", iotest.ErrReader(io.ErrUnexpectedEOF))
	verifier.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
	require.Equal(t, http.StatusBadRequest, w.Code)
}

// An attacker must not make a receiver hash the body once for each of thousands of
// signatures in a header. Hashing allocates; comparing hardly does.
func TestVerifyHashesOnceForAnyNumberOfSignatures(t *testing.T) {
	verifier, err := webhook.NewVerifier(secret('a'), secret('b'))
	require.NoError(t, err)
	now := time.Now()
	h := signed(t, secret('c'), "event-1", now, "{}")
	cost := func(signatures int) float64 {
		h.Set("webhook-signature", strings.Repeat("v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4= ", signatures))
		return testing.AllocsPerRun(10, func() { _ = verifier.Verify(h, []byte("{}"), now) })
	}
	require.Less(t, cost(1001)-cost(1), 3000.0)
}
