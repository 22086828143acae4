package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"

	"github.com/almanac-go/almanac"
)

// maxAnswer is how many bytes of a response body are read, so that the connection can be
// reused. The content is ignored.
const maxAnswer = 16 << 10

// maxBody is the most bytes of a body that a [Deliverer] posts, and that [Verifier.Handler]
// reads. A payload has at most 64 KiB. Names of members can double it, since their line
// separators are escaped. The rest is for templates.
const maxBody = 1 << 20

// Deliverer posts events to one URL. It is safe for concurrent use.
type Deliverer struct {
	url       string
	receiver  string // its host and port
	keys      []key
	header    http.Header
	timeout   time.Duration
	bulkhead  *bulkhead
	log       *slog.Logger
	content   content
	transport *http.Transport // used without a client: it follows no redirects and keeps no cookies
}

var _ almanac.Deliverer = (*Deliverer)(nil)

// New returns a deliverer that posts to a URL. The URL must be absolute, https (or http with
// [AllowPrivate]), at most 2,048 bytes, on an allowed port, and without userinfo or fragment. The
// error names every wrong setting and contains no secret. It matches [ErrProhibitedAddress] or
// [ErrProhibitedPort] when the URL itself names a prohibited address or port.
func New(target string, options ...Option) (*Deliverer, error) {
	s := settings{timeout: 15 * time.Second, header: http.Header{}, log: slog.Default()}
	for _, option := range options {
		option(&s)
	}
	keys, err := s.check(target)
	made, bad := s.content()
	if err := errors.Join(err, bad); err != nil {
		return nil, err
	}
	to, _ := url.Parse(target) // parsed before
	return &Deliverer{
		url: target, receiver: receiverOf(to), keys: keys, header: s.header, timeout: s.timeout,
		bulkhead: s.bulkhead, log: s.log, content: made, transport: newTransport(s.guard()),
	}, nil
}

// Deliver posts the event. A nil error means that the receiver answered 2xx. An error that matches
// [almanac.ErrPermanent] is final, such as that of a body of more than 1 MiB. After any other error another attempt may
// succeed. Any other status is a [*StatusError]. A delivery that [WithConcurrency] did not let start returns [ErrBusy].
// The text of an error contains neither the URL's path and query, nor a header, nor anything from the response.
func (d *Deliverer) Deliver(ctx context.Context, delivery almanac.Delivery) error {
	ctx, cancel := context.WithTimeout(traced(ctx), d.timeout)
	defer cancel()
	request, err := d.request(ctx, delivery)
	if err != nil {
		return almanac.Permanent(err)
	}
	leave, err := d.bulkhead.enter(ctx, d.receiver)
	if err != nil {
		return unanswered(ctx, err)
	}
	defer leave()
	began := time.Now()
	response, err := d.transport.RoundTrip(request)
	if err != nil {
		return unanswered(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		// Read the body so that the connection can be reused. The status has arrived, so an
		// error here changes nothing. After a 101 the body is the bare connection, and no
		// context interrupts reading it.
		_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	}
	if err := judge(response, delivery.At); err != nil {
		return err
	}
	d.logSuccess(ctx, delivery, response.StatusCode, time.Since(began))
	return nil
}

// traced returns a context by which the scheduler learns that a request was written, if it asks for that.
func traced(ctx context.Context) context.Context {
	begun := almanac.Begun(ctx)
	if begun == nil {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { begun() }})
}

// logSuccess logs a delivery that the receiver accepted.
func (d *Deliverer) logSuccess(ctx context.Context, delivery almanac.Delivery, status int, took time.Duration) {
	e := delivery.Event
	d.log.LogAttrs(ctx, slog.LevelInfo, "Webhook delivery succeeded",
		slog.String("event_id", e.ID.String()),
		slog.String("event_type", e.Type),
		slog.String("user_id", e.UserID.String()),
		slog.String("idempotency_key", e.IdempotencyKey.String()),
		slog.Int("attempt", delivery.Attempt),
		slog.Int("status_code", status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000))
}

// String returns the receiver's host, and nothing secret.
func (d *Deliverer) String() string {
	to, _ := url.Parse(d.url) // parsed before
	return "webhook to " + to.Host
}

// CloseIdleConnections closes the connections that no delivery uses.
func (d *Deliverer) CloseIdleConnections() { d.transport.CloseIdleConnections() }

func (d *Deliverer) request(ctx context.Context, delivery almanac.Delivery) (*http.Request, error) {
	body, err := d.content.body(delivery.Event)
	if err != nil {
		return nil, fmt.Errorf("webhook: body of event %s: %w", delivery.Event.ID, err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("webhook: body of event %s has %d bytes, more than %d", delivery.Event.ID, len(body), maxBody)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("webhook: no request can be made for the URL")
	}
	id := delivery.Event.IdempotencyKey.String()
	timestamp := strconv.FormatInt(delivery.At.Unix(), 10)
	request.Header = d.header.Clone()
	request.Header.Set("Content-Type", d.content.mediaType)
	request.Header.Set("User-Agent", "almanac")
	request.Header.Set("X-Idempotency-Key", id)
	request.Header.Set(headerID, id)
	request.Header.Set(headerTimestamp, timestamp)
	if len(d.keys) > 0 {
		request.Header.Set(headerSignature, sign(d.keys, id, timestamp, body))
	}
	return request, nil
}
