package webhook_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/webhook"
)

func TestNewRefusesURLsThatHideSomething(t *testing.T) {
	t.Parallel()
	private := webhook.AllowPrivate()
	tests := map[string]struct {
		url     string
		options []webhook.Option
		ok      bool
	}{
		"https":                            {"https://example.com/hook?x=1", nil, true},
		"another port":                     {"https://example.com:8443/hook", nil, true},
		"plain http":                       {"http://example.com/hook", nil, false},
		"plain http, where it is allowed":  {"http://localhost:9000/hook", []webhook.Option{private}, true},
		"no scheme":                        {"example.com/hook", nil, false},
		"no host":                          {"https:///hook", nil, false},
		"nothing":                          {"", nil, false},
		"another scheme":                   {"file:///etc/passwd", []webhook.Option{private}, false},
		"a user name":                      {"https://me@example.com/", nil, false},
		"a fragment":                       {"https://example.com/#x", nil, false},
		"an empty fragment":                {"https://example.com/#", nil, false},
		"too long":                         {"https://example.com/" + strings.Repeat("x", 2048), nil, false},
		"loopback by number":               {"https://127.0.0.1/", nil, false},
		"loopback by number, allowed":      {"https://127.0.0.1/", []webhook.Option{private}, true},
		"loopback in IPv6 clothing":        {"https://[::ffff:127.0.0.1]/", nil, false},
		"the metadata of a cloud":          {"https://169.254.169.254/latest", []webhook.Option{private}, false},
		"the metadata of a cloud, in IPv6": {"https://[fd00:ec2::254]/latest", []webhook.Option{private}, false},
		"private space":                    {"https://10.1.2.3/", nil, false},
		"a carrier's space":                {"https://100.64.0.1/", nil, false},
		"NAT64 of a private address":       {"https://[64:ff9b::a01:203]/", nil, false},
		"multicast":                        {"https://224.0.0.1/", []webhook.Option{private}, false},
		"the unspecified address":          {"https://0.0.0.0/", []webhook.Option{private}, false},
		"the unspecified address of IPv6":  {"https://[::]/", []webhook.Option{private}, false},
		"link-local with a zone":           {"https://[fe80::1%25eth0]/", []webhook.Option{private}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := webhook.New(tt.url, tt.options...)
			require.Equal(t, tt.ok, err == nil, "%v", err)
		})
	}
}

func TestNewReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	_, err := webhook.New("ftp://x", webhook.WithTimeout(0), webhook.WithSecrets("short", "whsec_c2hvcnQ="),
		webhook.WithHeader("webhook-id", "x"), webhook.WithHeader("X-Bad", "a\r\nb"), webhook.WithHeader("a b", "x"))
	for _, complaint := range []string{"scheme", "timeout", "secret 1", "secret 2", "Webhook-Id", "X-Bad", `"a b"`} {
		require.ErrorContains(t, err, complaint)
	}
	_, err = webhook.New("https://example.com", webhook.WithSecrets())
	require.ErrorContains(t, err, "no secret")
}

// A name is judged by where it leads when it is dialled.
func TestDeliverDialsNoPrivateAddress(t *testing.T) {
	t.Parallel()
	r := listen(t, status(http.StatusOK))
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	d, err := webhook.New("https://localhost:" + port)
	require.NoError(t, err, "a name alone tells nothing")

	err = d.Deliver(t.Context(), greeting(time.Now()))

	require.ErrorIs(t, err, webhook.ErrProhibitedAddress)
	require.ErrorIs(t, err, almanac.ErrPermanent)
	require.Empty(t, r.heard())
}

func TestDeliverTakesNoProxyFromTheEnvironment(t *testing.T) {
	proxy := listen(t, status(http.StatusOK))
	r := listen(t, status(http.StatusOK))
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	require.NoError(t, deliverer(t, r.URL).Deliver(context.WithoutCancel(t.Context()), greeting(time.Now())))
	require.Empty(t, proxy.heard())
}
