package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// call is one request that a receiver got.
type call struct {
	header http.Header
	body   []byte
}

// receiver is a real HTTP server that remembers its calls.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

func listen(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := new(receiver)
	r.Server = httptest.NewServer(r.answering(answer))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answering(answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		r.calls = append(r.calls, call{request.Header.Clone(), body})
		r.mu.Unlock()
		answer(w, request)
	})
}

func (r *receiver) received() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func deliverer(t *testing.T, url string, options ...webhook.Option) *webhook.Deliverer {
	t.Helper()
	d, err := webhook.New(url, append([]webhook.Option{webhook.AllowPrivate()}, options...)...)
	require.NoError(t, err)
	t.Cleanup(d.CloseIdleConnections)
	return d
}

func secret(b byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(b), 32)))
}

// greeting is one attempt to deliver a birthday.
func greeting(at time.Time) almanac.Delivery {
	return almanac.Delivery{Attempt: 1, At: at, Event: almanac.Event{
		ID: uuid.MustParse("0193b3a0-0000-7000-8000-000000000001"), UserID: uuid.New(), Type: "BIRTHDAY",
		IdempotencyKey: "event-0da59425d0ba435e", Payload: json.RawMessage(`{"message": "Hey, Ada O'Brien & co it's your birthday", "a": [1,  2]}`),
	}}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestDeliverIsSignedSoThatAnyoneCanVerify(t *testing.T) {
	t.Parallel()
	r := listen(t, status(http.StatusNoContent))
	now := time.Now().Add(-time.Minute) // by the database clock, which may differ from the local one
	old, new := secret('o'), secret('n')

	require.NoError(t, deliverer(t, r.URL, webhook.WithSecrets(new, old), webhook.WithHeader("Authorization", "Bearer x")).Deliver(t.Context(), greeting(now)))

	require.Len(t, r.received(), 1)
	got := r.received()[0]
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.Equal(t, "event-0da59425d0ba435e", got.header.Get("X-Idempotency-Key"))
	require.Equal(t, "event-0da59425d0ba435e", got.header.Get("webhook-id"))
	require.Equal(t, strconv.FormatInt(now.Unix(), 10), got.header.Get("webhook-timestamp"))
	require.Equal(t, "Bearer x", got.header.Get("Authorization"))
	require.Equal(t, `{"eventId":"0193b3a0-0000-7000-8000-000000000001","eventType":"BIRTHDAY","a":[1,2],"message":"Hey, Ada O'Brien & co it's your birthday"}`, string(got.body))
	for _, s := range []string{old, new} { // the official library, and ours
		official, err := standardwebhooks.NewWebhook(s)
		require.NoError(t, err)
		require.NoError(t, official.Verify(got.body, got.header))
		verifier, err := webhook.NewVerifier(s)
		require.NoError(t, err)
		require.NoError(t, verifier.Verify(got.header, got.body, time.Now()))
	}
}

func TestDeliverWithoutSecretsIsUnsigned(t *testing.T) {
	t.Parallel()
	r := listen(t, status(http.StatusOK))
	require.NoError(t, deliverer(t, r.URL).Deliver(t.Context(), greeting(time.Now())))
	require.Empty(t, r.received()[0].header.Values("webhook-signature"))
}

func TestDeliverRepeatsTheSameKeyAndBody(t *testing.T) {
	t.Parallel()
	r := listen(t, status(http.StatusServiceUnavailable))
	d := deliverer(t, r.URL, webhook.WithSecrets(secret('s')))
	event := greeting(time.Now())
	for range 3 {
		require.Error(t, d.Deliver(t.Context(), event))
		event.Attempt++
		event.At = event.At.Add(time.Minute)
	}
	received := r.received()
	require.Len(t, received, 3)
	for _, c := range received[1:] {
		require.Equal(t, received[0].body, c.body)
		require.Equal(t, received[0].header.Get("X-Idempotency-Key"), c.header.Get("X-Idempotency-Key"))
		require.NotEqual(t, received[0].header.Get("webhook-signature"), c.header.Get("webhook-signature"), "signed anew")
	}
}

func TestDeliverClassifiesEveryStatus(t *testing.T) {
	t.Parallel()
	for code := 200; code < 600; code++ {
		if http.StatusText(code) == "" {
			continue
		}
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			var elsewhere *receiver
			answer := status(code)
			if code/100 == 3 {
				elsewhere = listen(t, status(http.StatusOK))
				answer = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, code) }
			}

			err := deliverer(t, listen(t, answer).URL).Deliver(t.Context(), greeting(time.Now()))

			if code/100 == 2 {
				require.NoError(t, err)
				return
			}
			var answered *webhook.StatusError
			require.ErrorAs(t, err, &answered)
			require.Equal(t, code, answered.Code)
			again := code == 408 || code == 425 || code == 429 || code >= 500 || code/100 == 3
			require.Equal(t, again, !errors.Is(err, almanac.ErrPermanent))
			if elsewhere != nil {
				require.Empty(t, elsewhere.received(), "redirects are not followed")
			}
		})
	}
}

// misbehave takes the connection and does something a web server would not.
func misbehave(do func(conn io.ReadWriteCloser)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		do(conn)
	}
}

func TestDeliverReturnsWhateverTheReceiverDoes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer    http.HandlerFunc
		delivered bool
	}{
		"the receiver never answers":         {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false},
		"the receiver closes the connection": {misbehave(func(io.ReadWriteCloser) {}), false},
		"the receiver does not speak HTTP":   {misbehave(func(c io.ReadWriteCloser) { _, _ = io.WriteString(c, "220 ready\r\n") }), false},
		"its headers have no end": {misbehave(func(c io.ReadWriteCloser) {
			endless(c, "HTTP/1.1 200 OK\r\n", "X-More: "+strings.Repeat("x", 1000)+"\r\n")
		}), false},
		"its body has no end": {misbehave(func(c io.ReadWriteCloser) { endless(c, "HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1000)) }), true},
		"the body never arrives": {misbehave(func(c io.ReadWriteCloser) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
			untilClosed(c)
		}), true},
		"its failure never ends": {misbehave(func(c io.ReadWriteCloser) {
			_, _ = io.WriteString(c, "HTTP/1.1 503 No\r\nContent-Length: 10\r\n\r\n")
			untilClosed(c)
		}), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deliverer(t, listen(t, tt.answer).URL, webhook.WithTimeout(2*time.Second))
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // within the limit for headers
			defer cancel()

			err := d.Deliver(ctx, greeting(time.Now()))

			require.NoError(t, ctx.Err(), "it has limits of its own")
			require.Equal(t, tt.delivered, err == nil, "%v", err)
			require.NotErrorIs(t, err, almanac.ErrPermanent)
		})
	}
}

// untilClosed reads until the deliverer closes the connection.
func untilClosed(c io.Reader) { _, _ = io.Copy(io.Discard, c) }

func endless(c io.Writer, first, then string) {
	_, err := io.WriteString(c, first)
	for i := 0; err == nil && i < 100_000; i++ {
		_, err = io.WriteString(c, then)
	}
}

func TestDeliverEndsWithItsContext(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	r := listen(t, func(_ http.ResponseWriter, r *http.Request) { close(begun); <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()

	require.ErrorIs(t, deliverer(t, r.URL).Deliver(ctx, greeting(time.Now())), context.Canceled)
}

func TestDeliverReturnsTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("lease lost")
	r := listen(t, func(_ http.ResponseWriter, r *http.Request) { cancel(lost); <-r.Context().Done() })

	err := deliverer(t, r.URL).Deliver(ctx, greeting(time.Now()))

	require.ErrorIs(t, err, lost)
	require.EqualError(t, err, "webhook: no answer: lease lost")
}

func TestCloseIdleConnections(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	server := httptest.NewUnstartedServer(status(http.StatusNoContent))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	d := deliverer(t, server.URL)
	require.NoError(t, d.Deliver(t.Context(), greeting(time.Now())))

	d.CloseIdleConnections()

	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the connection is still open")
	}
}

// A receiver may close idle connections at any time. That must not fail an attempt.
func TestDeliverReplacesAConnectionThatBroke(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	hangUp := misbehave(func(io.ReadWriteCloser) {})
	r := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 {
			hangUp(w, r)
		}
	})
	d := deliverer(t, r.URL)
	require.NoError(t, d.Deliver(t.Context(), greeting(time.Now())))
	require.NoError(t, d.Deliver(t.Context(), greeting(time.Now())))
	received := r.received()
	require.Len(t, received, 3)
	require.Equal(t, received[1].body, received[2].body)
	require.Equal(t, received[1].header.Get("X-Idempotency-Key"), received[2].header.Get("X-Idempotency-Key"))
}

func TestErrorsContainNoSecrets(t *testing.T) {
	t.Parallel()
	r := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "confidential", http.StatusInternalServerError)
	})
	url := r.URL + "/private?token=confidential"
	answered := deliverer(t, url).Deliver(t.Context(), greeting(time.Now()))
	r.Close()
	unanswered := deliverer(t, url).Deliver(t.Context(), greeting(time.Now()))
	_, refused := webhook.New("https://confidential:confidential@example.com/", webhook.WithSecrets("confidential"))
	for _, err := range []error{answered, unanswered, refused} {
		require.Error(t, err)
		require.NotContains(t, err.Error(), "confidential")
		require.NotContains(t, err.Error(), "private?")
	}
}

func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	d := deliverer(t, "https://receiver.example:8443/private?token=confidential", webhook.WithSecrets(secret('s')), webhook.WithHeader("X-Token", "confidential"))
	v, err := webhook.NewVerifier(secret('s'))
	require.NoError(t, err)
	require.Equal(t, "webhook to receiver.example:8443", d.String())
	for _, text := range []string{fmt.Sprintf("%v %+v %s", d, d, d), fmt.Sprintf("%v %+v %#v", v, v, v), fmt.Sprintf("%v %+v %#v", *v, *v, *v)} {
		require.NotContains(t, text, "confidential")
		require.NotContains(t, text, strings.Repeat("s", 32))
		require.NotContains(t, text, "115 115")    // the same, as numbers
		require.NotContains(t, text, "0x73, 0x73") // and in Go syntax
	}
}
