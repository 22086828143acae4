package webhook_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
		"https":                           {"https://example.com/hook?x=1", nil, true},
		"another port":                    {"https://example.com:8443/hook", nil, true},
		"plain http":                      {"http://example.com/hook", nil, false},
		"plain http, where it is allowed": {"http://localhost:9000/hook", []webhook.Option{private}, true},
		"no scheme":                       {"example.com/hook", nil, false},
		"no host":                         {"https:///hook", nil, false},
		"nothing":                         {"", nil, false},
		"another scheme":                  {"file:///etc/passwd", []webhook.Option{private}, false},
		"a user name":                     {"https://me@example.com/", nil, false},
		"a fragment":                      {"https://example.com/#x", nil, false},
		"an empty fragment":               {"https://example.com/#", nil, false},
		"too long":                        {"https://example.com/" + strings.Repeat("x", 2048), nil, false},
		"loopback by number":              {"https://127.0.0.1/", nil, false},
		"loopback by number, allowed":     {"https://127.0.0.1/", []webhook.Option{private}, true},
		"a port that is none":             {"https://example.com:65536/", nil, false},
		"port zero":                       {"https://example.com:0/", nil, false},
		"a port that is none, by number":  {"https://1.1.1.1:99999/", nil, false},
		"a line of its own":               {"https://example.com/\r\nX-Bad: 1", nil, false},
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
		webhook.WithHeader("webhook-id", "x"), webhook.WithHeader("X-Bad", "a\r\nb"), webhook.WithHeader("a b", "x"),
		webhook.WithHeader("X-Bell", "a\ab"), webhook.WithHeader("expect", "100-continue"))
	for _, complaint := range []string{"scheme", "timeout", "secret 1", "secret 2", "Webhook-Id", "X-Bad", `"a b"`, "X-Bell", "Expect"} {
		require.ErrorContains(t, err, complaint)
	}
	_, err = webhook.New("https://example.com", webhook.WithSecrets())
	require.ErrorContains(t, err, "no secret")
}
