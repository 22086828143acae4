package main

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// wire is a connection to a database that can be cut.
type wire struct {
	url      string // of the database through the wire
	listener net.Listener
	network  string
	address  string // of the database itself

	mu    sync.Mutex
	isCut bool
	ends  map[net.Conn]struct{}
}

// lay returns a working wire, which is closed when the test ends.
func lay(t *testing.T, database string) *wire {
	t.Helper()
	c, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	w := &wire{ends: make(map[net.Conn]struct{})}
	w.network, w.address = pgconn.NetworkAddress(c.Host, c.Port)
	w.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u, err := url.Parse(database)
	require.NoError(t, err)
	u.Host = w.listener.Addr().String()
	w.url = u.String()
	go func() {
		for {
			near, err := w.listener.Accept()
			if err != nil {
				return // the listener was closed
			}
			go w.join(near)
		}
	}()
	t.Cleanup(func() {
		_ = w.listener.Close() // only now
		w.cut()
	})
	return w
}

// join copies bytes in both directions until either end closes.
func (w *wire) join(near net.Conn) {
	defer near.Close()
	if !w.hold(near) {
		return
	}
	defer w.drop(near)
	far, err := net.Dial(w.network, w.address)
	if err != nil {
		return
	}
	defer far.Close()
	go func() {
		_, _ = io.Copy(far, near) // it ends with the connection
		_ = far.Close()           // ends the other direction too
	}()
	_, _ = io.Copy(near, far)
}

func (w *wire) hold(end net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isCut {
		w.ends[end] = struct{}{}
	}
	return !w.isCut
}

func (w *wire) drop(end net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ends, end)
}

// cut closes every connection, and refuses new ones.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for end := range w.ends {
		_ = end.Close() // ends both directions
	}
}

// mend accepts connections again.
func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}
