package webhook

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Option is a setting of [New].
type Option func(*settings)

type settings struct {
	secrets  []string
	signed   bool
	header   http.Header
	private  bool
	ports    []uint16
	listed   bool // whether AllowPorts was given
	timeout  time.Duration
	bulkhead *bulkhead
	log      *slog.Logger

	templates []string // of WithTemplate
	clouds    []cloud  // of WithCloudEvents
}

// guard returns the guard that these settings describe.
func (s settings) guard() guard {
	return guard{private: s.private, anyPort: s.private && !s.listed, ports: s.ports}
}

// WithSecrets signs deliveries with each of the secrets. Give both the new and the old
// secret while receivers change over. A secret is the base64 of 24 to 64 random bytes, with
// or without the prefix "whsec_":
//
//	echo whsec_$(openssl rand -base64 32)
//
// Without this option deliveries are not signed, and receivers cannot recognize forgeries.
func WithSecrets(secrets ...string) Option {
	return func(s *settings) { s.secrets, s.signed = secrets, true }
}

// WithHeader adds a header to every delivery, such as a token that the receiver requires.
// New refuses headers that this package or the connection sets, and control characters.
func WithHeader(name, value string) Option {
	return func(s *settings) { s.header.Add(name, value) }
}

// AllowPrivate lets deliveries go to loopback and private networks, also over plain http,
// and to any port unless [AllowPorts] names some. Link-local and multicast addresses stay
// forbidden, and so do the addresses at which clouds serve a machine's credentials.
func AllowPrivate() Option { return func(s *settings) { s.private = true } }

// AllowPorts lets deliveries go to the given ports besides 443. Several AllowPorts options
// add up. Without this option and without [AllowPrivate], only port 443 is allowed: a URL from an
// untrusted source could otherwise probe every port of a host. A port of zero is an error.
func AllowPorts(ports ...uint16) Option {
	return func(s *settings) { s.ports, s.listed = append(s.ports, ports...), true }
}

// WithConcurrency bounds how many deliveries to one receiver, a host and port, are under way at once.
// Up to n more wait, each for at most half of its time. Others wait for at most a second, and only if that
// is expected to be enough. Any other delivery, or one that waited in vain, returns [ErrBusy] and sends
// nothing. Its event waits for a second to a minute, and no attempt is counted. So a slow receiver occupies
// at most 2n workers, apart from the first second of a wave. A receiver is slow if it takes a second or more.
//
// Zero means no bound, as without the option. A negative n is an error.
//
// Deliverers with the same Option value share its bound: pass one value to each of them when many
// URLs can lead to one host. Nothing about a receiver is kept after its last delivery has ended.
func WithConcurrency(n int) Option {
	b := &bulkhead{most: n, receivers: make(map[string]*semaphore)}
	return func(s *settings) { s.bulkhead = b }
}

// WithTimeout bounds a delivery from its wait under [WithConcurrency] to the end of the
// response. It must be positive. The default is 15 seconds.
func WithTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// WithLogger sets the logger for accepted deliveries. Each is one line at Info, "Webhook delivery
// succeeded", with event_id, event_type, user_id, idempotency_key, attempt, status_code and
// duration_ms: the milliseconds from the request to the end of the response. The scheduler logs
// failed deliveries (see [almanac.WithLogger]). The default is [slog.Default], taken when New is
// called. A logger with [slog.DiscardHandler] writes nothing. A nil logger is an error.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

const maxURL = 2048

// check validates all settings together and returns the signing keys.
func (s settings) check(target string) ([]key, error) {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("webhook: "+format, args...))
		}
	}
	errs = append(errs, s.checkURL(target))
	refuse(s.timeout < time.Microsecond, "timeout of %v is under a microsecond", s.timeout)
	refuse(s.bulkhead != nil && s.bulkhead.most < 0, "concurrency is negative")
	refuse(s.log == nil, "logger is nil")
	refuse(slices.Contains(s.ports, 0), "port 0 cannot be allowed: it is not a port")
	for _, name := range slices.Sorted(maps.Keys(s.header)) {
		refuse(name == "" || strings.ContainsFunc(name, notInName), "%q is not a header name", name)
		refuse(reserved(name), "the header %s is reserved", name)
		refuse(slices.ContainsFunc(s.header[name], hasControl), "the value of header %q has a control character", name)
	}
	var keys []key
	if s.signed {
		var err error
		keys, err = parseSecrets(s.secrets)
		errs = append(errs, err)
	}
	return keys, errors.Join(errs...)
}

func (s settings) checkURL(target string) error {
	u, err := url.Parse(target)
	switch {
	case len(target) > maxURL:
		return fmt.Errorf("webhook: the URL is longer than %d bytes", maxURL)
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("webhook: the URL is not absolute")
	case u.Scheme != "https" && (u.Scheme != "http" || !s.private):
		return fmt.Errorf("webhook: the URL's scheme is %q, not https; http needs AllowPrivate", u.Scheme)
	case u.User != nil:
		return errors.New("webhook: the URL carries a user name; send a header instead")
	case u.Fragment != "" || strings.HasSuffix(target, "#"):
		return errors.New("webhook: the URL has a fragment, which is never sent")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("webhook: %q is not a port", port)
		}
	}
	// An address in the URL is checked now; a name is checked when it is dialled.
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return s.guard().check(netip.AddrPortFrom(ip, portOf(u)))
	}
	return s.guard().checkPort(portOf(u))
}

// portOf returns the port of a URL, or the default port of its scheme.
func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return httpPort
	}
	return httpsPort
}

func notInName(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// hasControl reports whether a value would break the header line or make the transport
// refuse each delivery.
func hasControl(value string) bool {
	return strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// reserved reports whether this package or the connection sets a header, given in canonical form.
func reserved(name string) bool {
	switch name {
	case "Content-Type", "User-Agent", "X-Idempotency-Key", headerID, headerTimestamp, headerSignature,
		"Content-Length", "Content-Encoding", "Accept-Encoding", "Transfer-Encoding", "Te", "Trailer", "Host",
		"Connection", "Keep-Alive", "Proxy-Connection", "Upgrade", "Expect":
		return true
	}
	return false
}
