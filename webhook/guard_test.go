package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

// Each row is one address of a range of the special-purpose registries, or an address that
// clouds use for their own purposes.
func TestGuardKnowsEveryRange(t *testing.T) {
	t.Parallel()
	const always, private, never = "always", "with AllowPrivate", "never"
	tests := map[string]string{
		"93.184.216.34": always, "1.1.1.1": always, "2606:4700::1111": always, "::ffff:1.1.1.1": always,

		"127.0.0.1": private, "127.255.255.254": private, "10.1.2.3": private, "172.16.0.1": private,
		"172.31.255.255": private, "192.168.1.1": private, "100.64.0.1": private, "100.127.255.255": private,
		"::1": private, "fc00::1": private, "fd12:3456::1": private,
		"::ffff:127.0.0.1": private, "::ffff:10.0.0.1": private, "::ffff:7f00:1": private, "::ffff:100.64.0.1": private,

		"0.0.0.0": never, "0.1.2.3": never, "169.254.0.1": never, "169.254.169.254": never, "169.254.170.2": never,
		"192.0.0.1": never, "192.0.0.192": never, "192.0.2.1": never, "192.88.99.1": never, "198.18.0.1": never,
		"198.19.255.255": never, "198.51.100.1": never, "203.0.113.1": never, "224.0.0.1": never,
		"239.255.255.255": never, "240.0.0.1": never, "255.255.255.255": never,
		"::": never, "::127.0.0.1": never, "::ffff:0.0.0.0": never, "::ffff:169.254.169.254": never,
		"fe80::1": never, "fe80::1%25lo": never, "fec0::1": never, "ff02::1": never,

		// NAT64: what the embedded address is.
		"64:ff9b::1.1.1.1": always, "64:ff9b::93.184.216.34": always, "64:ff9b:1::1.1.1.1": always, "64:ff9b:1:101:1:100::": always,
		"64:ff9b:1:5d:b8:d822::": always, "64:ff9b:1::5d:b8d8:2200:0": always, "64:ff9b:1:abcd::1.1.1.1": always,
		"64:ff9b::7f00:1": private, "64:ff9b::10.1.2.3": private, "64:ff9b::192.168.1.1": private, "64:ff9b::100.64.0.1": private,
		"64:ff9b:1::7f00:1": private, "64:ff9b:1:7f00:0:100::": private, "64:ff9b:1:a00::1.1.1.1": private,
		"64:ff9b:1:7f00:0:100:101:101": private, // at 96 bits 1.1.1.1, at 48 bits 127.0.0.1
		"64:ff9b:1:7f:0:1::":           private, "64:ff9b:1::7f:0:100:0": private,
		"64:ff9b::169.254.169.254": never, "64:ff9b::168.63.129.16": never, "64:ff9b::100.100.100.200": never, "64:ff9b::0.0.0.0": never,
		"64:ff9b::224.0.0.1": never, "64:ff9b::192.0.2.1": never, "64:ff9b::": never, "64:ff9b:1::": never, "64:ff9b:1::169.254.169.254": never,
		"64:ff9b:1:a9fe:a9:fe00::": never, "64:ff9b:1:a9fe:a9:fe00:101:101": never,
		"64:ff9b:0:0:0:1:101:101": never, "64:ff9b:2::1.1.1.1": never, "64:ff9a::1.1.1.1": never,
		// Other ways to embed an address: without a host's tunnel nothing is there, and with one anything.
		"::1.1.1.1": never, "::ffff:0:1.1.1.1": never, "2002:101:101::": never, "2002:7f00:1::1": never, "2002:a9fe:a9fe::": never,
		"2001:0:4136:e378:8000:63bf:fefe:fefe": never, "2001:0:7f00:1::1": never,

		"100::1": never, "2001::1": never, "2001:db8::1": never,
		"2002:7f00:1::": never, "3fff::1": never, "5f00::1": never,
		"100.100.100.200": never, "168.63.129.16": never, "fd00:ec2::254": never, "fd00:ec2::23": never,
		"fd20:ce::254": never, "fd00:c1::a9fe:a9fe": never, "fd00:42::42": never,
		"fd00:a9fe:a9fe::1": never, "fd00:100::100:200": never, "::ffff:100.100.100.200": never,
	}
	for address, want := range tests {
		host := address
		if strings.Contains(address, ":") {
			host = "[" + address + "]"
		}
		_, strict := webhook.New("https://" + host + "/")
		require.Equal(t, want == always, strict == nil, "%s: %v", address, strict)
		_, lenient := webhook.New("https://"+host+"/", webhook.AllowPrivate())
		require.Equal(t, want != never, lenient == nil, "%s with AllowPrivate: %v", address, lenient)
		for _, err := range []error{strict, lenient} {
			if err != nil {
				require.ErrorIs(t, err, webhook.ErrProhibitedAddress, address)
			}
		}
	}
}

// A name is checked by its address when it is dialled. The receiver listens without
// accepting, so the test would see a waiting connection.
func TestDeliverDialsNoPrivateAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	port := portOf(listener)
	d, err := webhook.New(fmt.Sprintf("https://localhost:%d", port), webhook.AllowPorts(port))
	require.NoError(t, err, "a name alone tells nothing")

	err = d.Deliver(t.Context(), greeting(time.Now()))

	require.ErrorIs(t, err, webhook.ErrProhibitedAddress)
	require.ErrorIs(t, err, almanac.ErrPermanent)
	require.NoError(t, listener.(*net.TCPListener).SetDeadline(time.Now()))
	_, err = listener.Accept()
	require.Error(t, err, "no connection was made")
}

// The standard library never uses a proxy for loopback. The URL therefore has a name that
// does not resolve, and only a proxy could get the request.
func TestDeliverTakesNoProxyFromTheEnvironment(t *testing.T) {
	proxy := listen(t, status(http.StatusOK))
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	d := deliverer(t, "http://receiver.invalid/hook", webhook.WithTimeout(time.Second))
	require.Error(t, d.Deliver(t.Context(), greeting(time.Now())))
	require.Empty(t, proxy.received())
}

// New checks the port of the URL. The dialer checks it again with the same guard.
func TestOnlyPortsThatAreAllowedAreDialled(t *testing.T) {
	t.Parallel()
	private, ports := webhook.AllowPrivate, webhook.AllowPorts
	tests := map[string]struct {
		url     string
		options []webhook.Option
		ok      bool
	}{
		"the port of https":                     {"https://93.184.216.34/", nil, true},
		"the same, by number":                   {"https://93.184.216.34:443/", nil, true},
		"another":                               {"https://93.184.216.34:8443/", nil, false},
		"that of a mail server":                 {"https://93.184.216.34:25/", nil, false},
		"that of http":                          {"https://93.184.216.34:80/", nil, false},
		"another allowed port":                  {"https://93.184.216.34:8443/", []webhook.Option{ports(1, 8443)}, true},
		"a port that one of two options allows": {"https://93.184.216.34:8443/", []webhook.Option{ports(8443), ports(1)}, true},
		"a port that is not allowed":            {"https://93.184.216.34:8444/", []webhook.Option{ports(8443)}, false},
		"443 although another is allowed":       {"https://93.184.216.34/", []webhook.Option{ports(8443)}, true},
		"any, where private is":                 {"https://93.184.216.34:25/", []webhook.Option{private()}, true},
		"any, on loopback":                      {"http://127.0.0.1:9000/", []webhook.Option{private()}, true},
		"private, but not the port":             {"http://127.0.0.1:9000/", []webhook.Option{private(), ports(9001)}, false},
		"private, but not the port of http":     {"http://127.0.0.1/", []webhook.Option{private(), ports(9001)}, false},
		"private, and the port":                 {"http://127.0.0.1:9000/", []webhook.Option{ports(9000), private()}, true},
		"in IPv6":                               {"https://[2606:4700::1111]:25/", nil, false},
		"443 where no further one is allowed":   {"https://93.184.216.34:80/", []webhook.Option{ports()}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := append([]webhook.Option{webhook.WithTimeout(10 * time.Second)}, tt.options...)
			_, early := webhook.New(tt.url, options...)
			require.Equal(t, tt.ok, early == nil, "%v", early)

			// A name with AllowPrivate passes New with any port, so the dialer is replaced
			// by one with the options of the test case.
			d, err := webhook.New(tt.url, private(), webhook.WithTimeout(10*time.Second))
			require.NoError(t, err)
			t.Cleanup(d.CloseIdleConnections)
			dialer := webhook.NewDialer(tt.options...)
			guarded := dialer.ControlContext
			dialer.ControlContext = func(ctx context.Context, network, address string, conn syscall.RawConn) error {
				return errors.Join(guarded(ctx, network, address, conn), errOutside)
			}
			d.Transport().DialContext = dialer.DialContext
			late := d.Deliver(t.Context(), greeting(time.Now()))

			require.ErrorIs(t, late, errOutside)
			for what, err := range map[string]error{"by its URL": early, "when it is dialled": late} {
				require.Equal(t, !tt.ok, errors.Is(err, webhook.ErrProhibitedPort), "%s: %v", what, err)
			}
			require.Equal(t, !tt.ok, errors.Is(late, almanac.ErrPermanent), "asking again changes no setting")
		})
	}
}
