package webhook_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// A nameServer answers successive questions with its successive answers, and repeats the
// last one, for any name.
type nameServer struct {
	net.PacketConn
	answers [][]netip.Addr
	asked   map[uint16]int // by type of record
}

const (
	typeA    = 1
	typeAAAA = 28
)

func serveNames(t *testing.T, answers ...[]netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &nameServer{conn, answers, make(map[uint16]int)}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	t.Cleanup(func() { _ = conn.Close(); serving.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *nameServer) serve() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := s.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = s.WriteTo(s.answer(buffer[:n]), from) // a client without a response asks again
	}
}

// answer makes a response of the query (RFC 1035, section 4.1).
func (s *nameServer) answer(query []byte) []byte {
	const header = 12
	end := header
	for query[end] != 0 { // skip the labels of the name
		end += 1 + int(query[end])
	}
	end += 5 // and its type and class
	question := query[header:end]
	kind := binary.BigEndian.Uint16(question[len(question)-4:])
	turn := min(s.asked[kind], len(s.answers)-1)
	s.asked[kind]++

	response := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	for _, ip := range s.answers[turn] {
		if (kind == typeA) != ip.Is4() || kind != typeA && kind != typeAAAA {
			continue
		}
		response[7]++
		response = append(response, 0xc0, header, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(ip.BitLen()/8)) // with a TTL of zero
		response = append(response, ip.AsSlice()...)
	}
	return response
}

// errOutside stops a test from connecting to another machine.
var errOutside = errors.New("the test must not leave the machine")

func portOf(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }

// rebound returns a deliverer to a name of the name server at a listener's port. The
// returned function returns the addresses that the guard allowed.
func rebound(t *testing.T, listener net.Listener, answers ...[]netip.Addr) (*webhook.Deliverer, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var passed []string
	port := portOf(listener)
	dialer := webhook.NewDialer(webhook.AllowPorts(port))
	dialer.Resolver = serveNames(t, answers...)
	guarded := dialer.ControlContext
	dialer.ControlContext = func(ctx context.Context, network, address string, conn syscall.RawConn) error {
		if err := guarded(ctx, network, address, conn); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		to := netip.MustParseAddrPort(address).Addr()
		passed = append(passed, to.String())
		if !to.Unmap().IsLoopback() && !to.IsUnspecified() {
			return errOutside
		}
		return nil
	}
	d, err := webhook.New(fmt.Sprintf("https://receiver.example:%d", port), webhook.AllowPorts(port), webhook.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(d.CloseIdleConnections)
	d.Transport().DialContext = dialer.DialContext
	return d, func() []string { mu.Lock(); defer mu.Unlock(); return passed }
}

// A name that resolved to a public address resolves to a private one at the next lookup, or
// to both at once.
func TestDeliverChecksEveryAddressANameResolvesTo(t *testing.T) {
	t.Parallel()
	outside := netip.MustParseAddr("93.184.216.34")
	for _, text := range []string{
		"127.0.0.1", "::ffff:127.0.0.1", "::1", "0.0.0.0", "::", "::127.0.0.1", "10.0.0.1", "192.168.0.1", "100.64.0.1", "169.254.169.254",
		"64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1:7f00:0:100:101:101", "2002:7f00:1::", "2001::1", "fd00::1", "fd00:ec2::254", "fe80::1", "224.0.0.1",
	} {
		t.Run(strings.ReplaceAll(text, ":", "-"), func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			inside := netip.MustParseAddr(text)

			turns, passed := rebound(t, listener, []netip.Addr{outside}, []netip.Addr{inside})
			err = turns.Deliver(t.Context(), greeting(time.Now()))
			require.ErrorIs(t, err, errOutside, "the first answer is good")
			require.NotErrorIs(t, err, almanac.ErrPermanent)
			for range 2 {
				err = turns.Deliver(t.Context(), greeting(time.Now()))
				require.ErrorIs(t, err, webhook.ErrProhibitedAddress)
				require.ErrorIs(t, err, almanac.ErrPermanent)
			}
			require.Equal(t, []string{outside.String()}, passed())

			both, passed := rebound(t, listener, []netip.Addr{outside, inside}, []netip.Addr{inside, outside})
			for range 2 {
				require.Error(t, both.Deliver(t.Context(), greeting(time.Now())))
			}
			require.Subset(t, []string{outside.String()}, passed(), "nothing else may be dialled")

			require.NoError(t, listener.(*net.TCPListener).SetDeadline(time.Now()))
			_, err = listener.Accept()
			require.Error(t, err, "no connection was made")
		})
	}
}

// Many resolvers read these names as numeric addresses. Either they do not resolve here, or
// their address is checked like any other.
func TestDeliverChecksNumericSpellingsOfAddresses(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	allowed := webhook.AllowPorts(portOf(listener))
	for _, host := range []string{"127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "１２７.０.０.１", "127。0。0。1", "localhost.", "LOCALHOST"} {
		dialer := webhook.NewDialer(allowed)
		dialer.Resolver = serveNames(t, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
		d, err := webhook.New(fmt.Sprintf("https://%s:%d", host, portOf(listener)), allowed)
		require.NoError(t, err, "a name alone tells nothing")
		d.Transport().DialContext = dialer.DialContext
		err = d.Deliver(t.Context(), greeting(time.Now()))
		unheard := new(net.DNSError)
		require.True(t, errors.Is(err, webhook.ErrProhibitedAddress) || errors.As(err, &unheard) && unheard.IsNotFound, "%s: %v", host, err)
	}
	require.NoError(t, listener.(*net.TCPListener).SetDeadline(time.Now()))
	_, err = listener.Accept()
	require.Error(t, err, "no connection was made")
}
