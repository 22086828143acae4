package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/webhook"
)

// Point is a moment in a worker's life at which it can be made to stop dead.
type Point string

// The points, in the order of an event's way.
const (
	BeforeClaim  Point = "before claim"  // nothing was taken
	AfterClaim   Point = "after claim"   // taken, and no worker knows
	BeforeSend   Point = "before send"   // the request was not made
	MidSend      Point = "mid send"      // the receiver has it, and has not answered
	AfterSend    Point = "after send"    // accepted, and no worker knows
	BeforeSettle Point = "before settle" // known, and not stored
	MidSettle    Point = "mid settle"    // stored, in a transaction that is not committed
	AfterSettle  Point = "after settle"  // stored, and observers were not notified
	BegunLate    Point = "begun late"    // a request that began too long after its lane admitted the event
)

// Ready is what a worker reports when it is about to claim for the first time.
const Ready Point = "ready"

// What a worker reports about its hints.
const (
	Listening  Point = "listening"   // it has begun to
	Received   Point = "received"    // a hint, or its own check
	ListenLost Point = "listen lost" // it receives no more hints
)

// Points are all points.
func Points() []Point {
	return []Point{BeforeClaim, AfterClaim, BeforeSend, MidSend, AfterSend, BeforeSettle, MidSettle, AfterSettle}
}

// Orders are the settings that a worker process gets when it starts.
type Orders struct {
	Name     string
	URL      string // of the database
	Receiver string // where deliveries go
	// Receivers are further ones, by name.
	Receivers map[string]string
	// Mail is the address of an SMTP server that takes deliveries instead of Receiver.
	Mail string
	// Roots is a file of certificates to trust, if the system's are not enough.
	Roots string
	// Public allows deliveries to public addresses only, at this port or 443. Zero
	// allows all addresses.
	Public   uint16
	Secret   string // that signs them
	Slots    int
	Lease    time.Duration
	Sweep    time.Duration
	Drain    time.Duration
	Patience time.Duration // with one call, to the database or to the receiver
	// LookAhead is how long before their instants it claims events.
	LookAhead time.Duration
	Migrate   bool // before anything else
	// PollOnly keeps it from listening, and from giving hints.
	PollOnly bool
	// ListenAt is the address of the server for the connection that listens, if it
	// differs from that in URL; see [Line].
	ListenAt string
	// StopAt makes the worker stop dead when it comes to a point for the StopAfter-th
	// time, counted from one. Empty lets it run.
	StopAt    Point
	StopAfter int
	// Freeze makes it stand still there, as by SIGSTOP, instead of stopping dead: it
	// goes on at the signal SIGCONT.
	Freeze bool
	// Relay makes the process a relay of the outbox, which does nothing else: the address
	// of a [Stream]; empty for a worker.
	Relay string
	// Broadcasts makes the process store, cancel and requeue the events of broadcasts, and do nothing else.
	Broadcasts bool
	// Once has the process work in passes, one after the other, instead of all the time.
	Once bool
	// Connections is how many its pool has at most. Zero is the pool's own choice.
	Connections int32
	// NoPlans has the handler fail whenever it is to plan the next event.
	NoPlans bool
	// Breaker has the handler stop for a receiver that fails, and try each event twice only.
	Breaker bool
	// Batch is how many events it delivers in one request, or over one connection of a mail server. Zero
	// delivers each event by itself.
	Batch int
	// Flood is the id of a user whom the process edits in a hundred calls at once
	// beside its work, again and again; empty for none.
	Flood string
	// Bulk has the process change many users, and deliver nothing.
	Bulk *Bulk
}

// ordersVariable carries the orders to a process, and makes one of the test binary.
const ordersVariable = "ALMANAC_CHAOS_ORDERS"

// Work is the worker program: it runs until it is told to stop, or killed, and
// writes a [Report] a line. It reports false when this process has no orders.
func Work() (code int, ordered bool) {
	text := os.Getenv(ordersVariable)
	if text == "" {
		return 0, false
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := work(ctx, text, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// Report is what a worker says of itself.
type Report struct {
	Worker string
	Point  Point              `json:",omitempty"` // reached, and stopped at if it is one of Points
	Kind   almanac.NoticeKind `json:",omitempty"` // stored, of the event
	Event  string             `json:",omitempty"`
	// Version is the event's: who stored what when, also where the telling came late.
	Version int       `json:",omitzero"`
	Lease   uuid.UUID `json:",omitzero"`  // under which it was claimed, or ended
	Reason  string    `json:",omitempty"` // why the event failed
	Health  string    `json:",omitempty"` // from now on: Well, or what is not
	Mark    time.Time `json:",omitzero"`  // at which it claims from now on
	At      time.Time
}

// worker is what its wrappers share.
type worker struct {
	Orders
	ready   sync.Once
	mu      sync.Mutex
	reports *json.Encoder
	reached int
	mark    time.Time // as it was reported last; for the one goroutine that claims
}

func work(ctx context.Context, text string, out io.Writer) error {
	w := &worker{reports: json.NewEncoder(out)}
	if err := json.Unmarshal([]byte(text), &w.Orders); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(w.URL)
	if err != nil {
		return err
	}
	config.BeforeConnect = w.lead
	config.ConnConfig.Tracer = committing{w}
	if w.Connections > 0 {
		config.MaxConns = w.Connections
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if w.Migrate {
		if err := postgres.Migrate(ctx, pool); err != nil {
			return err
		}
	}
	settings := []postgres.Option{postgres.WithTimeout(w.Patience)}
	if w.PollOnly {
		settings = append(settings, postgres.PollOnly())
	}
	store, err := postgres.New(pool, settings...)
	if err != nil {
		return err
	}
	if w.Relay != "" {
		return w.relay(ctx, store)
	}
	if w.Bulk != nil {
		return w.bulk(ctx, store)
	}
	if w.Broadcasts {
		return w.broadcast(ctx, store)
	}
	senders, err := w.senders()
	if err != nil {
		return err
	}
	handler := fatal(w.Patience + time.Second)
	if w.NoPlans {
		handler = planless(w.Patience + time.Second)
	}
	if w.Breaker {
		handler = careful(w.Patience + time.Second)
	}
	registry, err := almanac.NewRegistry(handler)
	if err != nil {
		return err
	}
	scheduler, err := almanac.NewScheduler(stopping{store, w}, registry, append(senders,
		almanac.WithObserver(w),
		almanac.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))),
		almanac.WithWorkers(w.Slots), almanac.WithLease(w.Lease), almanac.WithDrain(w.Drain),
		almanac.WithPoll(200*time.Millisecond), almanac.WithLookAhead(w.LookAhead), almanac.WithSweep(w.Sweep))...)
	if err != nil {
		return err
	}
	go w.watch(ctx, scheduler)
	if w.Flood != "" {
		ebb, err := w.flood(ctx, scheduler)
		if err != nil {
			return err
		}
		defer ebb()
	}
	if w.Once {
		return passes(ctx, scheduler)
	}
	if err := scheduler.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// passes runs one pass after the other, as a cron would. What fails is for the next.
func passes(ctx context.Context, s almanac.Runner) error {
	for ctx.Err() == nil {
		if _, err := s.RunOnce(ctx, almanac.RunOnceOptions{}); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		_ = pause(ctx, 50*time.Millisecond)
	}
	return nil
}

// senders are the deliverers to all receivers, each by a channel of its own.
func (w *worker) senders() ([]almanac.Option, error) {
	if w.Roots != "" {
		if err := os.Setenv("SSL_CERT_FILE", w.Roots); err != nil { // which crypto/x509 reads at its first use
			return nil, err
		}
	}
	settings := []webhook.Option{webhook.WithSecrets(w.Secret), webhook.WithTimeout(w.Patience), webhook.WithLogger(slog.New(slog.DiscardHandler))}
	if w.Public == 0 {
		settings = append(settings, webhook.AllowPrivate())
	} else {
		settings = append(settings, webhook.AllowPorts(w.Public))
	}
	if w.Batch > 0 {
		settings = append(settings, webhook.WithCloudEvents("/chaos", "com.example."))
	}
	receivers := map[string]string{string(almanac.ChannelWebhook): w.Receiver}
	maps.Copy(receivers, w.Receivers)
	var senders []almanac.Option
	if w.Mail != "" {
		send, err := mailer(w.Mail)
		if err != nil {
			return nil, err
		}
		delete(receivers, string(almanac.ChannelWebhook))
		senders = append(senders, almanac.WithDeliverer(almanac.ChannelWebhook, w.sending(send)))
	}
	for name, url := range receivers {
		send, err := webhook.New(url, settings...)
		if err != nil {
			return nil, err
		}
		senders = append(senders, almanac.WithDeliverer(almanac.Channel(name), w.sending(send)))
	}
	return senders, nil
}

func (w *worker) say(r Report) {
	r.Worker, r.At = w.Name, time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.reports.Encode(r) // the reader is gone, and so is the run
}

// Observe reports a change.
func (w *worker) Observe(_ context.Context, n almanac.Notice) {
	w.say(Report{Kind: n.Kind, Event: n.Event.ID.String(), Version: n.Event.Version, Lease: n.Event.LeaseToken, Reason: n.Event.FailureReason})
}

// Measure reports requests that begin too late.
func (w *worker) Measure(_ context.Context, m almanac.Measurement) {
	if m.Kind == almanac.MeasuredLate {
		w.say(Report{Point: BegunLate})
	}
}

// at stops dead if the orders say so: this goroutine, and with it whatever it
// holds, until the process is killed.
func (w *worker) at(p Point) {
	if p != w.StopAt {
		return
	}
	w.mu.Lock()
	w.reached++
	stop := w.reached == max(w.StopAfter, 1)
	w.mu.Unlock()
	if !stop {
		return
	}
	w.say(Report{Point: p})
	if !w.Freeze {
		select {}
	}
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGCONT)
	defer signal.Stop(goOn)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // of ourselves, which is allowed
	<-goOn                                         // this thread may be the last to be stopped
}

func (w *worker) delivering(next almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		w.at(BeforeSend)
		swallow(d)
		if w.StopAt == MidSend { // only then, for who listens to interim answers takes any number of them
			// The receiver says that it has the delivery before it answers.
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
				w.at(MidSend)
				return nil
			}})
		}
		err := next.Deliver(ctx, d)
		w.at(AfterSend)
		return err
	})
}

// swallow does to this process what the event's poison does.
func swallow(d almanac.Delivery) {
	switch Poison(mark(d.Event)) {
	case Panics:
		panic("poison")
	case Exits:
		runtime.Goexit()
	case Kills:
		os.Exit(3)
	case Lingers:
		if d.Attempt < 3 {
			time.Sleep(5 * time.Second)
		}
	case Ignores:
		if d.Event.CrashCount == 0 {
			time.Sleep(20 * time.Second)
		}
	}
}

// stopping is a store with points around what matters.
type stopping struct {
	*postgres.Store
	w *worker
}

func (s stopping) Listen(ctx context.Context, wake func()) error {
	point := Listening
	err := s.Store.Listen(ctx, func() {
		s.w.say(Report{Point: point})
		point = Received
		wake()
	})
	if err != nil {
		s.w.say(Report{Point: ListenLost})
	}
	return err
}

func (s stopping) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	s.w.ready.Do(func() { s.w.say(Report{Point: Ready}) })
	s.w.at(BeforeClaim)
	if !r.Mark.IsZero() && !r.Mark.Equal(s.w.mark) {
		s.w.mark = r.Mark
		s.w.say(Report{Mark: r.Mark})
	}
	claim, err := s.Store.Claim(ctx, r)
	if len(claim.Events) > 0 {
		s.w.at(AfterClaim)
	}
	return claim, err
}

func (s stopping) Settle(ctx context.Context, batch []almanac.Settlement) ([]almanac.SettleResult, error) {
	s.w.at(BeforeSettle)
	if s.w.Freeze {
		// As if the statements had been sent before: whether the lease is over is then
		// for the database to say.
		ctx = context.WithoutCancel(ctx)
	}
	settled, err := s.Store.Settle(context.WithValue(ctx, settling{}, true), batch)
	s.w.at(AfterSettle)
	return settled, err
}

// settling marks the context of a settlement.
type settling struct{}

// committing sees the commits of settlements.
type committing struct{ w *worker }

func (c committing) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if q.SQL == "commit" && ctx.Value(settling{}) != nil {
		c.w.at(MidSettle)
	}
	if q.SQL == "commit" && ctx.Value(moving{}) != nil {
		c.w.at(MidMove)
	}
	if q.SQL == "commit" && ctx.Value(editing{}) != nil {
		c.w.at(MidEdit)
	}
	c.w.paging(ctx, q.SQL)
	return ctx
}

func (committing) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
