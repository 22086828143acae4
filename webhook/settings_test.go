package webhook_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/webhook"
)

func TestNewRefusesUnsafeURLs(t *testing.T) {
	t.Parallel()
	private := webhook.AllowPrivate()
	tests := map[string]struct {
		url     string
		options []webhook.Option
		ok      bool
	}{
		"https":                           {"https://example.com/hook?x=1", nil, true},
		"another port":                    {"https://example.com:8443/hook", nil, false},
		"another port, where it is fine":  {"https://example.com:8443/hook", []webhook.Option{webhook.AllowPorts(8443)}, true},
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
		"as long as may be":               {"https://example.com/" + strings.Repeat("x", 2048-20), nil, true},
		"a password and no name":          {"https://:secret@example.com/", nil, false},
		"an opaque URL":                   {"https:example.com/hook", nil, false},
		"a port and no host":              {"https://:443/", nil, false},
		"a negative port":                 {"https://example.com:-1/", nil, false},
		"a backslash for a slash":         {"https://example.com\\@127.0.0.1/", nil, false},
		"a blank in the host":             {"https://exam ple.com/", nil, false},
		"a tab in the path":               {"https://example.com/\thook", nil, false},
		"loopback in other clothes":       {"https://[::ffff:7f00:1]/", nil, false},
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
		webhook.WithHeader("X-Bell", "a\ab"), webhook.WithHeader("expect", "100-continue"),
		webhook.AllowPorts(443, 0), webhook.WithConcurrency(-1), webhook.WithLogger(nil))
	for _, complaint := range []string{"scheme", "timeout", "secret 1", "secret 2", "Webhook-Id", "X-Bad", `"a b"`, "X-Bell", "Expect", "port 0", "concurrency", "logger"} {
		require.ErrorContains(t, err, complaint)
	}
}

func TestSecretsAreLongOrRefused(t *testing.T) {
	t.Parallel()
	random := func(bytes int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", bytes)))
	}
	tests := map[string]struct {
		secrets []string
		want    string // part of the error; empty means none
	}{
		"none at all":           {nil, "no secret is given"},
		"an empty one":          {[]string{""}, "secret 1 has 0 bytes"},
		"a prefix alone":        {[]string{"whsec_"}, "secret 1 has 0 bytes"},
		"an empty one besides":  {[]string{random(32), ""}, "secret 2 has 0 bytes"},
		"one that is too short": {[]string{random(23)}, "secret 1 has 23 bytes"},
		"one that is too long":  {[]string{random(65)}, "secret 1 has 65 bytes"},
		"one that is no base64": {[]string{"whsec_correct horse battery staple"}, "secret 1 is not base64"},
		"the shortest":          {[]string{random(24)}, ""},
		"the longest, and old":  {[]string{random(64), strings.TrimPrefix(random(32), "whsec_")}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, sender := webhook.New("https://example.com", webhook.WithSecrets(tt.secrets...))
			_, receiver := webhook.NewVerifier(tt.secrets...)
			for _, err := range []error{sender, receiver} {
				if tt.want == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, tt.want)
			}
		})
	}
}

func TestNewRefusesReservedHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"webhook-id", "webhook-timestamp", "webhook-signature", "x-idempotency-key", "content-type", "user-agent", "content-length", "content-encoding",
		"accept-encoding", "transfer-encoding", "te", "trailer", "host", "connection", "keep-alive", "proxy-connection", "upgrade", "expect",
	} {
		_, err := webhook.New("https://example.com", webhook.WithHeader(name, "x"))
		require.ErrorContains(t, err, "is reserved", name)
	}
	for what, header := range map[string][2]string{
		"a line's end in a value":   {"X-Token", "a\r\nHost: b"},
		"a carriage's return alone": {"X-Token", "a\rb"},
		"a line feed alone":         {"X-Token", "a\nb"},
		"a NUL character":           {"X-Token", "a\x00b"},
		"a line's end in a name":    {"X-Token: a\r\nHost", "b"},
		"a colon in a name":         {"X:Token", "b"},
		"no name":                   {"", "b"},
	} {
		_, err := webhook.New("https://example.com", webhook.WithHeader(header[0], header[1]))
		require.Error(t, err, what)
	}
	_, err := webhook.New("https://example.com", webhook.WithHeader("X-Token", "a\tb"), webhook.WithHeader("Authorization", "Bearer x"))
	require.NoError(t, err)
}
