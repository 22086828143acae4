package httpapi_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/httpapi"
)

// patience is how long a server may take whose limits are cut to a hundredth.
const patience = 30 * time.Second

// start runs a server made by this package, and dials it. All its timeouts are cut to a
// hundredth; those that off returns are set to zero.
func start(t *testing.T, h http.Handler, off func(s *http.Server) []*time.Duration) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := httpapi.Server(l.Addr().String(), h)
	for _, d := range []*time.Duration{&s.ReadHeaderTimeout, &s.ReadTimeout, &s.WriteTimeout, &s.IdleTimeout} {
		*d /= 100
	}
	for _, d := range off(s) {
		*d = 0
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, client.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return client
}

func TestSlowClientsAreDisconnected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		says string
		off  func(s *http.Server) []*time.Duration // all timeouts but the tested one
	}{
		"a header that does not end": {
			"POST /user HTTP/1.1\r\nHost: localhost\r\nX-More: ",
			func(s *http.Server) []*time.Duration {
				return []*time.Duration{&s.ReadTimeout, &s.WriteTimeout, &s.IdleTimeout}
			},
		},
		"a body that does not end": {
			"POST /user HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
			func(s *http.Server) []*time.Duration {
				return []*time.Duration{&s.ReadHeaderTimeout, &s.WriteTimeout, &s.IdleTimeout}
			},
		},
		"nothing after a request": {
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
			func(s *http.Server) []*time.Duration {
				return []*time.Duration{&s.ReadHeaderTimeout, &s.ReadTimeout, &s.WriteTimeout}
			},
		},
		"nothing at all": {
			"",
			func(s *http.Server) []*time.Duration {
				return []*time.Duration{&s.ReadTimeout, &s.WriteTimeout, &s.IdleTimeout}
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			client := start(t, s.handler, tt.off)
			_, err := io.WriteString(client, tt.says)
			if err == nil {
				_, err = io.Copy(io.Discard, client)
			}

			// On a busy machine, the time can be over before the server has read anything.
			hungUp := err == nil || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
			require.True(t, hungUp, "the server did not hang up: %v", err)
			s.nothing()
		})
	}
}

func TestClientsThatReadNothingAreDisconnected(t *testing.T) {
	t.Parallel()
	left := make(chan error, 1)
	client := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		piece, err := make([]byte, 1<<20), error(nil)
		for err == nil { // until the buffers on the way are full
			_, err = w.Write(piece)
		}
		left <- err
	}), func(s *http.Server) []*time.Duration {
		return []*time.Duration{&s.ReadHeaderTimeout, &s.ReadTimeout, &s.IdleTimeout}
	})
	_, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)

	select {
	case <-left:
	case <-time.After(patience):
		t.Error("the server still waits")
	}
}

func TestRequestsThatAreTooLargeAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ request, answer string }{
		"a header":              {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-More: " + strings.Repeat("x", 32<<10) + "\r\n\r\n", "431"},
		"many headers":          {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X-More: x\r\n", 4<<10) + "\r\n", "431"},
		"a path":                {"GET /" + strings.Repeat("x", 32<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "431"},
		"a body of some length": {"POST /user HTTP/1.1\r\nHost: localhost\r\nContent-Length: 262145\r\n\r\n" + grace + strings.Repeat(" ", 256<<10+1-len(grace)), "400"},
		"a body in chunks":      {"POST /user HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n41000\r\n" + grace + strings.Repeat(" ", 260<<10-len(grace)) + "\r\n0\r\n\r\n", "400"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			client := start(t, s.handler, func(s *http.Server) []*time.Duration {
				return []*time.Duration{&s.ReadHeaderTimeout, &s.ReadTimeout, &s.WriteTimeout, &s.IdleTimeout}
			})
			_, err := io.WriteString(client, tt.request)
			require.NoError(t, err)

			line, err := bufio.NewReader(client).ReadString('\n')

			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			if err == nil { // it may also have closed the connection before all was sent
				require.Contains(t, line, " "+tt.answer+" ")
			}
			s.nothing()
		})
	}
}
