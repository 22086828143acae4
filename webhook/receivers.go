package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/almanac-go/almanac"
)

// Receiver is where events go, such as those of one tenant.
type Receiver struct {
	URL     string   // as in [New]
	Secrets []string // as in [WithSecrets]; none leaves the requests unsigned
	Lane    string   // the lane of the events (see [almanac.LaneNamer]); empty leaves each event in its lane
}

// FindReceiver returns the receiver for a key. An error that matches [almanac.ErrPermanent] fails the events for
// good. After any other error they are tried again. It must be safe for concurrent use, and return when ctx is
// done.
type FindReceiver func(ctx context.Context, key string) (Receiver, error)

// Receivers is a deliverer that posts each event to the receiver of its key. All options, such as the timeout and the
// allowed addresses, hold for each receiver. [WithConcurrency] holds for each host and port. It is safe for
// concurrent use.
type Receivers struct {
	key       func(almanac.Delivery) string
	find      FindReceiver
	keep      time.Duration
	settings  settings
	content   content
	transport *http.Transport

	mu    sync.Mutex
	found map[string]*found // by key
}

// found is a receiver that was looked up, or is being looked up.
type found struct {
	done      chan struct{} // closed when the rest is set
	deliverer *Deliverer
	lane      string
	err       error
	until     time.Time // when it is looked up again
}

// mostReceivers is how many receivers are kept. When there are more, all are forgotten.
const mostReceivers = 10_000

var (
	_ almanac.Deliverer      = (*Receivers)(nil)
	_ almanac.BatchDeliverer = (*Receivers)(nil)
)

// NewReceivers returns a deliverer that looks up the receiver of each event by its key, such as the tenant of its
// user. keep is how long a receiver is cached; zero means one minute. A failed lookup is not cached. If the receiver
// names another lane, the event moves to that lane, and no attempt is counted (see [almanac.InLane]).
//
// The options are those of [New], without [WithSecrets]. The error names every wrong setting.
func NewReceivers(key func(almanac.Delivery) string, find FindReceiver, keep time.Duration, options ...Option) (*Receivers, error) {
	s := settings{timeout: 15 * time.Second, header: http.Header{}, log: slog.Default()}
	for _, option := range options {
		option(&s)
	}
	var errs []error
	refuse := func(bad bool, text string) {
		if bad {
			errs = append(errs, errors.New("webhook: "+text))
		}
	}
	refuse(key == nil, "no function for keys is given")
	refuse(find == nil, "no function for receivers is given")
	refuse(keep < 0, "the time for which receivers are kept is negative")
	refuse(s.signed, "secrets belong to the receivers")
	_, err := s.check("https://receiver.invalid/")
	made, bad := s.content()
	if err := errors.Join(append(errs, err, bad)...); err != nil {
		return nil, err
	}
	if keep == 0 {
		keep = time.Minute
	}
	return &Receivers{
		key: key, find: find, keep: keep, settings: s, content: made, transport: newTransport(s.guard()), found: make(map[string]*found),
	}, nil
}

// Deliver posts the event to its receiver, as [Deliverer.Deliver] does. If the receiver is invalid, for example if
// [New] refuses its URL, the error matches [almanac.ErrPermanent].
func (r *Receivers) Deliver(ctx context.Context, delivery almanac.Delivery) error {
	d, err := r.deliverer(ctx, delivery)
	if err != nil {
		return err
	}
	return d.Deliver(ctx, delivery)
}

// DeliverBatch posts the events as [Deliverer.DeliverBatch] does, to all receivers at once.
func (r *Receivers) DeliverBatch(ctx context.Context, batch []almanac.Delivery) []error {
	errs := make([]error, len(batch))
	var order []*Deliverer
	of := make(map[*Deliverer][]int)
	for i, delivery := range batch {
		d, err := r.deliverer(ctx, delivery)
		if errs[i] = err; err != nil {
			continue
		}
		if of[d] == nil {
			order = append(order, d)
		}
		of[d] = append(of[d], i)
	}
	var all sync.WaitGroup
	for _, d := range order {
		all.Go(func() { // so that no receiver waits for another one
			part := make([]almanac.Delivery, len(of[d]))
			for n, i := range of[d] {
				part[n] = batch[i]
			}
			for n, err := range d.DeliverBatch(ctx, part) {
				errs[of[d][n]] = err
			}
		})
	}
	all.Wait()
	return errs
}

// CloseIdleConnections closes the connections that no delivery uses.
func (r *Receivers) CloseIdleConnections() { r.transport.CloseIdleConnections() }

// deliverer returns the deliverer for an event, or an error that moves the event to the lane of its receiver.
func (r *Receivers) deliverer(ctx context.Context, delivery almanac.Delivery) (*Deliverer, error) {
	f, err := r.look(ctx, r.key(delivery))
	if err != nil {
		return nil, err
	}
	e := delivery.Event
	if f.lane != "" && f.lane != e.Lane && (f.lane != e.Type || e.Lane != "") {
		return nil, almanac.InLane(f.lane)
	}
	return f.deliverer, nil
}

// look returns the receiver for a key. Concurrent deliveries share one lookup, which none of them cancels.
func (r *Receivers) look(ctx context.Context, key string) (*found, error) {
	r.mu.Lock()
	f := r.found[key]
	if f == nil || !f.until.IsZero() && !time.Now().Before(f.until) {
		f = &found{done: make(chan struct{})}
		if len(r.found) >= mostReceivers {
			clear(r.found)
		}
		r.found[key] = f
		go r.lookUp(context.WithoutCancel(ctx), key, f)
	}
	r.mu.Unlock()
	select {
	case <-f.done:
		return f, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r *Receivers) lookUp(ctx context.Context, key string, f *found) {
	ctx, cancel := context.WithTimeout(ctx, r.settings.timeout)
	defer cancel()
	defer close(f.done)
	defer func() {
		if cause := recover(); cause != nil {
			f.err = fmt.Errorf("webhook: the lookup of the receiver panicked: %v", cause)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if f.until = time.Now().Add(r.keep); f.err != nil && r.found[key] == f {
			delete(r.found, key)
		}
	}()
	f.err = errors.New("webhook: the lookup of the receiver did not return") // unless it does
	is, err := r.find(ctx, key)
	if err != nil {
		f.err = fmt.Errorf("webhook: receiver: %w", err)
		return
	}
	f.lane = is.Lane
	f.deliverer, f.err = r.to(is)
}

// to returns the deliverer for a receiver.
func (r *Receivers) to(is Receiver) (*Deliverer, error) {
	s := r.settings
	s.secrets, s.signed = is.Secrets, len(is.Secrets) > 0
	keys, err := s.check(is.URL)
	if err != nil {
		return nil, almanac.Permanent(err)
	}
	to, _ := url.Parse(is.URL) // parsed before
	return &Deliverer{
		url: is.URL, receiver: receiverOf(to), keys: keys, header: s.header, timeout: s.timeout,
		bulkhead: s.bulkhead, log: s.log, content: r.content, transport: r.transport,
	}, nil
}
