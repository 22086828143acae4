package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Reasons for which a receiver is not dialled.
var (
	// ErrProhibitedAddress reports that the receiver's name resolves to an address that is
	// not public; see [AllowPrivate].
	ErrProhibitedAddress = errors.New("webhook: prohibited address")
	// ErrProhibitedPort reports a port other than 443; see [AllowPorts].
	ErrProhibitedPort = errors.New("webhook: prohibited port")
)

const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10

	httpPort, httpsPort = 80, 443
)

// newTransport returns a transport with a bound on everything that a receiver could make
// endless. It uses no proxy of the environment: a proxy would dial where the guard cannot
// check the address.
func newTransport(g guard) *http.Transport {
	return &http.Transport{
		DialContext:            newDialer(g).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    100,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		// An HTTP/2 connection outlives a request that timed out. If the connection is
		// dead, every request on it fails until TCP gives up after a quarter of an hour. A
		// ping detects this within 15 seconds, at the cost of one attempt.
		HTTP2: &http.HTTP2Config{SendPingTimeout: headerTimeout, PingTimeout: dialTimeout},
	}
}

// newDialer returns a dialer that checks each address with the guard, after the name was
// resolved and before anything is sent.
func newDialer(g guard) *net.Dialer {
	return &net.Dialer{
		Timeout:   dialTimeout,
		KeepAlive: 15 * time.Second,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: %s", ErrProhibitedAddress, address)
			}
			return g.check(to)
		},
	}
}

// guard decides which addresses and ports may be dialled.
type guard struct {
	private bool // allows private addresses too
	anyPort bool // allows every port, not only httpsPort and ports
	ports   []uint16
}

// public knows IANA's registries of special-purpose addresses.
var public = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())

// check returns an error unless the address and port may be dialled. It checks an
// IPv4-mapped IPv6 address as the IPv4 address.
func (g guard) check(to netip.AddrPort) error {
	ip := to.Addr().Unmap().WithZone("")
	metadata := slices.ContainsFunc(cloudMetadata, func(p netip.Prefix) bool { return p.Contains(ip) })
	inside := ip.IsLoopback() || ip.IsPrivate() || sharedSpace.Contains(ip)
	if metadata || !(inside && g.private) && public.SafeAddr(ip) != nil {
		return fmt.Errorf("%w: %s", ErrProhibitedAddress, ip)
	}
	return g.checkPort(to.Port())
}

func (g guard) checkPort(port uint16) error {
	if g.anyPort || port == httpsPort || slices.Contains(g.ports, port) {
		return nil
	}
	return fmt.Errorf("%w: %d (ports other than 443 need AllowPorts)", ErrProhibitedPort, port)
}

// sharedSpace is the address space that carriers and overlay networks use like private
// space (RFC 6598).
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// cloudMetadata are the addresses outside the link-local ranges at which clouds serve
// credentials to a machine. They look like private addresses, and Azure's like a public
// one. The link-local ranges are always forbidden.
var cloudMetadata = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba
	netip.MustParsePrefix("fd00:100::100:200/128"),  // Alibaba
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure
	netip.MustParsePrefix("fd00:ec2::/32"),          // Amazon
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
	netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"),  // Akamai
}
