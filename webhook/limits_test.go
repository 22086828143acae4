package webhook_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// connected returns a deliverer whose connections are pipes to the receiver, so that in a
// synctest bubble nothing takes real time.
func connected(t *testing.T, url string, receiver func(net.Conn), options ...webhook.Option) *webhook.Deliverer {
	t.Helper()
	var receivers sync.WaitGroup
	t.Cleanup(receivers.Wait)
	d := deliverer(t, url, options...)
	d.Transport().DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		receivers.Go(func() { defer far.Close(); receiver(far) })
		return near, nil
	}
	return d
}

// says sends some text and then, if drip is not empty, drip once a second for an hour. A
// deliverer without a limit of its own fails the test but does not hang.
func says(words, drip string) func(net.Conn) {
	return func(c net.Conn) {
		began, buffer := time.Now(), make([]byte, 4<<10)
		if _, err := c.Read(buffer); err != nil {
			return
		}
		go untilClosed(c)
		_, err := io.WriteString(c, words)
		for err == nil && time.Since(began) < time.Hour {
			time.Sleep(time.Second)
			_, err = io.WriteString(c, drip)
		}
	}
}

func TestDeliverTakesNoLongerThanItsLimits(t *testing.T) {
	t.Parallel()
	const plain, secure = "http://receiver.example/", "https://receiver.example/"
	tests := map[string]struct {
		url       string
		receiver  func(net.Conn)
		want      time.Duration
		delivered bool
	}{
		"a handshake that does not begin":    {secure, says("", ""), 5 * time.Second, false},
		"a handshake that comes slowly":      {secure, says("\x16\x03\x03\x40\x00", "x"), 5 * time.Second, false},
		"a request that is not read":         {plain, func(net.Conn) { time.Sleep(time.Hour) }, 15 * time.Second, false},
		"headers that do not come":           {plain, says("", ""), 10 * time.Second, false},
		"headers that come byte by byte":     {plain, says("HTTP/1.1 200 OK\r\nX-Slow: ", "x"), 10 * time.Second, false},
		"interim answers without a last one": {plain, says("", "HTTP/1.1 103 Early Hints\r\n\r\n"), 10 * time.Second, false},
		"a body that does not come":          {plain, says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", ""), 15 * time.Second, true},
		"a body that comes byte by byte":     {plain, says("HTTP/1.1 200 OK\r\n\r\n", "x"), 15 * time.Second, true},
		"a refusal that comes byte by byte":  {plain, says("HTTP/1.1 503 No\r\n\r\n", "x"), 15 * time.Second, false},
		"another protocol":                   {plain, says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "x"), 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := connected(t, tt.url, tt.receiver).Deliver(t.Context(), greeting(began))
				took := time.Since(began)

				require.Equal(t, tt.want, took)
				require.Equal(t, tt.delivered, err == nil, "%v", err)
				require.NotErrorIs(t, err, almanac.ErrPermanent)
			})
		})
	}
}

// Not parallel: package net creates a channel at its first name server query, and that
// channel must not belong to a bubble.
func TestDeliverLimitsTheNameLookup(t *testing.T) {
	silent := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no network")
	}}
	_, err := silent.LookupHost(t.Context(), "receiver.example")
	require.Error(t, err)
	synctest.Test(t, func(t *testing.T) {
		dialer := webhook.NewDialer()
		dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		d := deliverer(t, "https://receiver.example/")
		d.Transport().DialContext = dialer.DialContext
		began := time.Now()

		err := d.Deliver(t.Context(), greeting(began))

		require.Equal(t, 5*time.Second, time.Since(began), "%v", err)
		require.NotErrorIs(t, err, almanac.ErrPermanent)
	})
}

// The address is allowed, and nothing there accepts or refuses the connection.
func TestDeliverLimitsTheConnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dialer := webhook.NewDialer()
		guarded := dialer.ControlContext
		dialer.ControlContext = func(ctx context.Context, network, address string, conn syscall.RawConn) error {
			if err := guarded(ctx, network, address, conn); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Hour):
				return errOutside
			}
		}
		d := deliverer(t, "https://93.184.216.34/")
		d.Transport().DialContext = dialer.DialContext
		began := time.Now()

		err := d.Deliver(t.Context(), greeting(began))

		require.Equal(t, 5*time.Second, time.Since(began), "%v", err)
		require.NotErrorIs(t, err, almanac.ErrPermanent)
	})
}

// A cable carries bytes to the other end until it is cut. Then it drops them, as a network
// does that has lost the state of a connection.
type cable struct {
	net.Conn
	cut *atomic.Bool
}

func (c cable) Write(b []byte) (int, error) {
	if c.cut.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// cables is a network of such connections to one listener.
type cables struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
	laid   []*atomic.Bool
}

func (n *cables) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *cables) Close() error   { n.once.Do(func() { close(n.closed) }); return nil }
func (n *cables) Addr() net.Addr { return &net.TCPAddr{} }

func (n *cables) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	cut := new(atomic.Bool)
	n.laid = append(n.laid, cut)
	n.conns <- cable{far, cut}
	return cable{near, cut}, nil
}

// overHTTP2 returns a deliverer to a server that speaks HTTP/2, in a bubble.
func overHTTP2(t *testing.T, network *cables, answer http.HandlerFunc) *webhook.Deliverer {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	require.NoError(t, server.Listener.Close())
	server.Listener, server.EnableHTTP2 = network, true
	server.TLS = &tls.Config{Time: certified}
	server.StartTLS()
	t.Cleanup(server.Close)
	d := deliverer(t, "https://example.com/")
	d.Transport().DialContext = network.dial
	d.Transport().TLSClientConfig.RootCAs = rootsOf(server)
	d.Transport().TLSClientConfig.Time = certified
	return d
}

// An HTTP/2 connection carries many deliveries, so they must not all fail when it dies
// silently.
func TestDeliverReplacesADeadHTTP2Connection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := &cables{conns: make(chan net.Conn), closed: make(chan struct{})}
		var version atomic.Value
		d := overHTTP2(t, network, func(_ http.ResponseWriter, r *http.Request) { version.Store(r.Proto) })
		require.NoError(t, d.Deliver(t.Context(), greeting(time.Now())))
		require.Equal(t, "HTTP/2.0", version.Load())

		network.laid[0].Store(true)
		require.Error(t, d.Deliver(t.Context(), greeting(time.Now())))
		time.Sleep(10 * time.Second) // the first wait of the default retry policy

		require.NoError(t, d.Deliver(t.Context(), greeting(time.Now())))
		require.Len(t, network.laid, 2)
	})
}

func TestDeliverHasTheSameLimitsOverHTTP2(t *testing.T) {
	t.Parallel()
	hang := func(r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Hour):
		}
	}
	tests := map[string]struct {
		answer    http.HandlerFunc
		want      time.Duration
		delivered bool
	}{
		"headers that do not come": {func(_ http.ResponseWriter, r *http.Request) { hang(r) }, 10 * time.Second, false},
		"a body that does not come": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			hang(r)
		}, 15 * time.Second, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := &cables{conns: make(chan net.Conn), closed: make(chan struct{})}
				d := overHTTP2(t, network, tt.answer)
				began := time.Now()

				err := d.Deliver(t.Context(), greeting(began))

				require.Equal(t, tt.want, time.Since(began), "%v", err)
				require.Equal(t, tt.delivered, err == nil, "%v", err)
				require.NotErrorIs(t, err, almanac.ErrPermanent)
			})
		})
	}
}
