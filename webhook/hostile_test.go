package webhook_test

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// Text from a receiver must not get into a database or a log through an error, in
// particular when the receiver is not a web server.
func TestErrorsContainNothingFromTheReceiver(t *testing.T) {
	t.Parallel()
	say := func(words string) http.HandlerFunc {
		return misbehave(func(c io.ReadWriteCloser) { _, _ = io.WriteString(c, words) })
	}
	tests := map[string]http.HandlerFunc{
		"a banner":          say("220 confidential\r\n"),
		"a status":          say("HTTP/1.1 confidential\r\n\r\n"),
		"a reason":          say("HTTP/1.1 500 confidential\r\n\r\n"),
		"a header":          say("HTTP/1.1 200 OK\r\nconfidential\r\n\r\n"),
		"a length":          say("HTTP/1.1 200 OK\r\nContent-Length: confidential\r\n\r\n"),
		"a coding":          say("HTTP/1.1 200 OK\r\nTransfer-Encoding: confidential\r\n\r\n"),
		"a redirect":        say("HTTP/1.1 302 Found\r\nLocation: http://[confidential\r\n\r\n"),
		"a body":            say("HTTP/1.1 404 Not Found\r\n\r\nconfidential"),
		"a time to come by": say("HTTP/1.1 503 No\r\nRetry-After: confidential\r\n\r\n"),
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := deliverer(t, listen(t, answer).URL).Deliver(t.Context(), greeting(time.Now()))
			require.ErrorContains(t, err, "webhook: ")
			require.NotContains(t, err.Error(), "confidential")
		})
	}
}

func TestDeliverReadsABoundedResponse(t *testing.T) {
	t.Parallel()
	const endless = 64 << 20
	written := make(chan int, 1)
	r := listen(t, misbehave(func(c io.ReadWriteCloser) {
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		n, chunk := 0, strings.Repeat("x", 32<<10)
		for err == nil && n < endless {
			_, err = io.WriteString(c, chunk)
			n += len(chunk)
		}
		written <- n
	}))
	require.NoError(t, deliverer(t, r.URL, webhook.WithTimeout(time.Minute)).Deliver(t.Context(), greeting(time.Now())))
	require.Less(t, <-written, endless, "the connection is closed on who goes on")
}

func TestDeliverRefusesHeadersOfUnusualSize(t *testing.T) {
	t.Parallel()
	for size, accepted := range map[int]bool{32 << 10: true, 128 << 10: false} {
		r := listen(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", size))
		})
		err := deliverer(t, r.URL).Deliver(t.Context(), greeting(time.Now()))
		require.Equal(t, accepted, err == nil, "%d bytes: %v", size, err)
		require.NotErrorIs(t, err, almanac.ErrPermanent)
	}
}

func TestDeliverTrustsOnlyTheSystemsAuthorities(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(status(http.StatusOK))
	t.Cleanup(secure.Close)

	err := deliverer(t, secure.URL).Deliver(t.Context(), greeting(time.Now()))

	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, err, &unknown)
	require.NotErrorIs(t, err, almanac.ErrPermanent, "certificates are renewed")
}

// A kilobyte can decompress to a gigabyte. Deliver asks for no compression, and reads a
// compressed response as it is.
func TestDeliverDecompressesNothing(t *testing.T) {
	t.Parallel()
	r := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "this is not packed at all")
	})
	require.NoError(t, deliverer(t, r.URL).Deliver(t.Context(), greeting(time.Now())))
	require.Empty(t, r.received()[0].header.Values("Accept-Encoding"))
}

func TestDeliverKeepsNoCookie(t *testing.T) {
	t.Parallel()
	r := listen(t, func(w http.ResponseWriter, _ *http.Request) { http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"}) })
	d := deliverer(t, r.URL)
	for range 2 {
		require.NoError(t, d.Deliver(t.Context(), greeting(time.Now())))
	}
	require.Empty(t, r.received()[1].header.Values("Cookie"))
}
