package chaos

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReservedPortRefusesConnectionsAndTakesItsServer(t *testing.T) {
	p, err := ReservePort()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })

	_, err = net.Dial("tcp", p.Address())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	l, err := net.Listen("tcp", p.Address())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	conn, err := net.Dial("tcp", p.Address())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestAReservedPortIsGivenToNobody(t *testing.T) {
	const reserved, listeners = 500, 20_000
	taken := make(map[string]bool)
	for range reserved {
		p, err := ReservePort()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		taken[p.Address()] = true
	}
	for range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.False(t, taken[l.Addr().String()], "%s is reserved", l.Addr())
		require.NoError(t, l.Close())
	}
}
