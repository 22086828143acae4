package webhook_test

import (
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
	require.Equal(t, http.StatusRequestEntityTooLarge, ask(http.Header{}, strings.Repeat("x", 1<<18)).Code)
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
