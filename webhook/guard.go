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

// Why a receiver must not be dialled from here.
var (
	// ErrProhibitedAddress reports that its name leads to an address that is not
	// public; see [AllowPrivate].
	ErrProhibitedAddress = errors.New("webhook: prohibited address")
	// ErrProhibitedPort reports a port that is not 443; see [AllowPorts].
	ErrProhibitedPort = errors.New("webhook: prohibited port")
)

const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10

	httpPort, httpsPort = 80, 443
)

// newTransport returns a transport of our own: no proxy of the environment, which
// would dial for us where the guard does not see it, and a bound on everything
// that a receiver could make endless.
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
		// A connection of HTTP/2 outlives a request that timed out, and one that died
		// unseen would take all the following with it until TCP gives up, in a quarter of
		// an hour. Found out within 15 seconds, it costs one attempt.
		HTTP2: &http.HTTP2Config{SendPingTimeout: headerTimeout, PingTimeout: dialTimeout},
	}
}

// newDialer returns a dialer that asks the guard about each address, after the
// last name was resolved and before anything is sent.
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

// guard says what may be dialled.
type guard struct {
	private bool // private addresses too, not only public ones
	anyPort bool // and not only httpsPort and those that follow
	ports   []uint16
}

// public knows the special-purpose registries of IANA.
var public = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())

// check judges the address that is about to be dialled, and its port. An IPv4
// address in IPv6 clothing is judged as what it is.
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
	return fmt.Errorf("%w: %d (others than 443 take AllowPorts)", ErrProhibitedPort, port)
}

// sharedSpace is what carriers and overlay networks use like private space (RFC 6598).
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// cloudMetadata is where clouds tell a machine its credentials, outside of the
// link-local ranges, which are forbidden anyway: these look like any private
// address, and Azure's like a public one.
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
