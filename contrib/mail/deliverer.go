package almanacmail

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/almanac-go/almanac"
)

// Deliverer sends events as mails. It is safe for concurrent use.
type Deliverer struct {
	settings Settings
	pool     *pool

	mu      sync.Mutex
	failing error // of the sender's side, since when no mail was accepted or refused for its recipient
}

var (
	_ almanac.Deliverer      = (*Deliverer)(nil)
	_ almanac.BatchDeliverer = (*Deliverer)(nil)
)

// New returns a deliverer. It opens no connection. The error names every wrong setting, and
// contains no password.
func New(s Settings) (*Deliverer, error) {
	s, err := s.checked()
	if err != nil {
		return nil, err
	}
	return &Deliverer{settings: s, pool: &pool{server: s.Server, slots: make(chan struct{}, s.Server.Connections)}}, nil
}

// Deliver sends the mail of an event. A nil error means that the server has accepted it. The
// README says which errors are final, which postpone the event, and which are tried again.
// All but those of [Settings].Address match a [*DeliveryError].
func (d *Deliverer) Deliver(ctx context.Context, delivery almanac.Delivery) error {
	return d.DeliverBatch(ctx, []almanac.Delivery{delivery})[0]
}

// DeliverBatch sends the mails of several events one after the other, over one connection as long as the server
// keeps it open, and returns what [Deliverer.Deliver] returns for each. See [almanac.Batched]. All mails must be
// sent within the time of one: those that are left when ctx is done are tried again. If no connection can be
// opened, none of the mails that are left is tried.
func (d *Deliverer) DeliverBatch(ctx context.Context, batch []almanac.Delivery) []error {
	errs := make([]error, len(batch))
	l := &line{pool: d.pool}
	defer l.end()
	for i, delivery := range batch {
		errs[i] = d.deliver(ctx, delivery, l)
	}
	return errs
}

// deliver sends the mail of an event, and reports it.
func (d *Deliverer) deliver(ctx context.Context, delivery almanac.Delivery, l *line) error {
	began := time.Now()
	verdict, err := d.attempt(ctx, delivery, l)
	report := Report{Delivery: delivery, Verdict: verdict, Err: err, Took: time.Since(began)}
	d.log(ctx, report)
	d.settings.Observe(ctx, report)
	return err
}

// attempt sends the mail, and returns what Deliver returns.
func (d *Deliverer) attempt(ctx context.Context, delivery almanac.Delivery, l *line) (Verdict, error) {
	address, err := d.settings.Address(ctx, delivery)
	if err != nil {
		return NoAddress, err
	}
	failure := d.send(ctx, delivery, address, l)
	if failure == nil {
		d.working(ctx)
		return Accepted, nil
	}
	switch {
	case failure.Verdict == Unavailable || failure.Verdict == SenderRefused:
		d.fails(ctx, failure)
	case failure.Code != 0: // of a session that was opened
		d.working(ctx)
	}
	return failure.Verdict, deliverError(failure, delivery)
}

// send sends the mail.
func (d *Deliverer) send(ctx context.Context, delivery almanac.Delivery, address string, l *line) *DeliveryError {
	if address == "" {
		return &DeliveryError{Verdict: NoAddress, reason: "the user has no e-mail address"}
	}
	to, ok := parseBare(address)
	if !ok { // nor if it has a line break
		return &DeliveryError{Verdict: AddressRefused, reason: "the address is not an e-mail address"}
	}
	m, err := d.settings.compose(delivery, to)
	if err != nil {
		return &DeliveryError{Verdict: NotComposed, reason: err.Error(), cause: err}
	}
	return examine(l.send(ctx, m))
}

// Health returns the error because of which the server accepts no mail from this sender, or nil:
// it cannot be reached, refuses the login, or refuses the sender. The error matches a
// [*DeliveryError]. Mails wait until the cause is removed, so an alert on Health is worth having.
func (d *Deliverer) Health() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failing
}

// CloseIdleConnections closes the connections that no delivery uses.
func (d *Deliverer) CloseIdleConnections() {
	for c := d.pool.take(); c != nil; c = d.pool.take() {
		c.quit()
	}
}

// fails notes an error of the sender's side, and logs the first one.
func (d *Deliverer) fails(ctx context.Context, err error) {
	d.mu.Lock()
	first := d.failing == nil
	if first {
		d.failing = err
	}
	d.mu.Unlock()
	if first {
		d.settings.Log.ErrorContext(ctx, "Mail server takes no mail", slog.String("server", d.settings.Server.Address), slog.Any("error", err))
	}
}

// working notes that the server takes mails, and logs the end of an outage.
func (d *Deliverer) working(ctx context.Context) {
	d.mu.Lock()
	was := d.failing
	d.failing = nil
	d.mu.Unlock()
	if was != nil {
		d.settings.Log.InfoContext(ctx, "Mail server takes mail again", slog.String("server", d.settings.Server.Address))
	}
}

// log logs what the scheduler does not: successes, and errors that an operator should see at once.
func (d *Deliverer) log(ctx context.Context, r Report) {
	level, line := slog.LevelInfo, ""
	switch r.Verdict {
	case Accepted:
		line = "Mail delivery succeeded"
	case PolicyRefused:
		level, line = slog.LevelError, "Mail refused by policy"
	case NotComposed:
		level, line = slog.LevelError, "Mail cannot be composed"
	default:
		return
	}
	e := r.Delivery.Event
	attrs := []slog.Attr{
		slog.String("event_id", e.ID.String()),
		slog.String("event_type", e.Type),
		slog.String("user_id", e.UserID.String()),
		slog.String("idempotency_key", e.IdempotencyKey.String()),
		slog.Int("attempt", r.Delivery.Attempt),
		slog.Float64("duration_ms", float64(r.Took.Microseconds())/1000),
	}
	if r.Err != nil {
		attrs = append(attrs, slog.Any("error", r.Err))
	}
	d.settings.Log.LogAttrs(ctx, level, line, attrs...)
}
