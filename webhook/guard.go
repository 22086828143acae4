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

// newTransport returns a transport with a bound on everything that a receiver could make endless.
// It uses no proxy of the environment: a proxy would dial where the guard cannot check the address.
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

// check returns an error unless the address and port may be dialled. It checks an IPv4-mapped IPv6 address
// as the IPv4 address, and a NAT64 address as the IPv4 addresses to which a gateway may translate it.
func (g guard) check(to netip.AddrPort) error {
	ip := to.Addr().Unmap().WithZone("")
	reached := []netip.Addr{ip}
	if translated, ok := behindNAT64(ip); ok {
		reached = translated
	}
	if len(reached) == 0 || !all(reached, g.allows) {
		return fmt.Errorf("%w: %s", ErrProhibitedAddress, ip)
	}
	return g.checkPort(to.Port())
}

func (g guard) allows(ip netip.Addr) bool {
	if slices.ContainsFunc(cloudMetadata, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return false
	}
	inside := ip.IsLoopback() || ip.IsPrivate() || sharedSpace.Contains(ip)
	return inside && g.private || public.SafeAddr(ip) == nil
}

func all(addresses []netip.Addr, allowed func(netip.Addr) bool) bool {
	return !slices.ContainsFunc(addresses, func(ip netip.Addr) bool { return !allowed(ip) })
}

// The prefixes of NAT64. A network that has only IPv6 reaches public IPv4 addresses by the
// first one. The second one is for the use of a network (RFC 8215). Prefixes that a network
// takes from its own addresses cannot be distinguished from other public addresses.
var (
	wellKnownNAT64 = netip.MustParsePrefix("64:ff9b::/96")
	localNAT64     = netip.MustParsePrefix("64:ff9b:1::/48")
)

// behindNAT64 reports whether ip is a NAT64 address, and returns the IPv4 addresses that it
// may embed. Under the local prefix there is one for each length of prefix that a gateway
// may have: the octets after the prefix, without octet 8 (RFC 6052, section 2.2). Those in
// 0.0.0.0/8 are left out, because no gateway can reach them.
func behindNAT64(ip netip.Addr) (embedded []netip.Addr, ok bool) {
	b := ip.As16()
	layouts := [][4]byte{{b[12], b[13], b[14], b[15]}} // of a prefix of 96 bits
	switch {
	case wellKnownNAT64.Contains(ip):
	case localNAT64.Contains(ip):
		layouts = append(layouts, // of 48, 56 and 64 bits
			[4]byte{b[6], b[7], b[9], b[10]}, [4]byte{b[7], b[9], b[10], b[11]}, [4]byte{b[9], b[10], b[11], b[12]})
	default:
		return nil, false
	}
	for _, octets := range layouts {
		if octets[0] != 0 {
			embedded = append(embedded, netip.AddrFrom4(octets))
		}
	}
	return embedded, true
}

func (g guard) checkPort(port uint16) error {
	if g.anyPort || port == httpsPort || slices.Contains(g.ports, port) {
		return nil
	}
	return fmt.Errorf("%w: %d (ports other than 443 need AllowPorts)", ErrProhibitedPort, port)
}

// sharedSpace is the address space that carriers and overlay networks use like private space (RFC 6598).
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
