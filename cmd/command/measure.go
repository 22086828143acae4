package command

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// measurement measures what a store can do.
type measurement struct {
	plan   benchPlan
	pool   *pgxpool.Pool
	schema string
	store  *postgres.Store
}

// measure fills in a report. When the limit is reached, what was measured by then is
// in it.
func (m *measurement) measure(ctx context.Context, r *benchReport) error {
	if err := m.prepare(ctx); err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, m.plan.limit)
	defer cancel()
	var err error
	if r.RoundTrip, err = m.roundTrip(timed); err == nil {
		if r.Enrolment, err = m.enrolBacklog(timed); err == nil {
			if r.Delivery, err = m.workOff(timed, r.Enrolment.Count); err == nil {
				r.Lateness, err = m.keepTime(timed)
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.Complete = err == nil; errors.Is(err, context.DeadlineExceeded) && timed.Err() != nil {
		return nil
	}
	return err
}

// prepare brings the tables to where they are once a program has run for a while: the
// zone rules are known and nothing is in doubt of them, so that no start of Run looks
// at every event.
func (m *measurement) prepare(ctx context.Context) error {
	scheduler, err := m.scheduler(occasion{})
	if err != nil {
		return err
	}
	if _, err := scheduler.Reconcile(ctx, almanac.ReconcileOptions{}); err != nil {
		return err
	}
	_, err = m.pool.Exec(ctx, "UPDATE "+pgx.Identifier{m.schema, "zone_rules"}.Sanitize()+" SET recheck = NULL")
	return err
}

func (m *measurement) scheduler(h almanac.EventHandler, options ...almanac.Option) (almanac.Scheduler, error) {
	registry, err := almanac.NewRegistry(h)
	if err != nil {
		return nil, err
	}
	return almanac.NewScheduler(m.store, registry, append(options, almanac.WithLogger(slog.New(slog.DiscardHandler)))...)
}

// roundTrip returns the median of what a statement takes that does nothing, in
// milliseconds.
func (m *measurement) roundTrip(ctx context.Context) (float64, error) {
	took := make([]time.Duration, 21)
	for i := range took {
		began := time.Now()
		if _, err := m.pool.Exec(ctx, "SELECT"); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return millis(took[len(took)/2]), nil
}

// enrolBacklog stores users with an event each, which is due at once.
func (m *measurement) enrolBacklog(ctx context.Context) (rate, error) {
	atOnce := func(_ almanac.User, after time.Time) time.Time { return after.Add(time.Microsecond) }
	scheduler, err := m.scheduler(occasion{"1", atOnce})
	if err != nil {
		return rate{}, err
	}
	began := time.Now()
	done, err := scheduler.CreateUsers(ctx, crowd(m.plan.events), almanac.CreateUsersOptions{})
	if err == nil && done.Created < m.plan.events {
		err = fmt.Errorf("%d of %d users were refused: %w", len(done.Refused), m.plan.events, done.Refused[0].Err)
	}
	return rateOf(done.Created, time.Since(began)), errors.Join(err, m.analyse(ctx))
}

// analyse does what the server would do by itself in a minute or so.
func (m *measurement) analyse(ctx context.Context) error {
	found, err := m.pool.Query(ctx, "SELECT tablename::text FROM pg_catalog.pg_tables WHERE schemaname = $1", m.schema)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	for _, name := range names {
		if err == nil {
			_, err = m.pool.Exec(ctx, "ANALYZE "+pgx.Identifier{m.schema, name}.Sanitize())
		}
	}
	return err
}

// workOff delivers a backlog by the real engine.
func (m *measurement) workOff(ctx context.Context, want int) (rate, error) {
	var took time.Duration
	done, err := m.deliver(ctx, want, func(almanac.Delivery) {}, &took)
	return rateOf(done, took), err
}

const (
	spreadStep = 25 * time.Millisecond
	// spreadLead is time for Run to start before the first event is due.
	spreadLead = 2 * time.Second
)

// keepTime delivers events that are due one after the other.
func (m *measurement) keepTime(ctx context.Context) (*lateness, error) {
	now, err := m.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	first := now.Add(spreadLead)
	inTurn := func(u almanac.User, _ time.Time) time.Time {
		return first.Add(time.Duration(placeOf(u.ID)) * spreadStep)
	}
	scheduler, err := m.scheduler(occasion{"1", inTurn})
	if err != nil {
		return nil, err
	}
	stored, err := scheduler.CreateUsers(ctx, crowd(m.plan.spread), almanac.CreateUsersOptions{})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var late []time.Duration
	_, err = m.deliver(ctx, stored.Events, func(d almanac.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		late = append(late, d.At.Sub(d.Event.Due))
	}, new(time.Duration))
	return latenessOf(late), err
}

// deliver runs the engine until so many events are completed, of which each has its
// successor by then, and returns how many are.
func (m *measurement) deliver(ctx context.Context, want int, begin func(almanac.Delivery), took *time.Duration) (int, error) {
	aYearLater := func(_ almanac.User, after time.Time) time.Time { return after.AddDate(1, 0, 0) }
	count := &counter{want: want, reached: make(chan struct{})}
	nothing := func(_ context.Context, d almanac.Delivery) error {
		begin(d)
		return nil
	}
	scheduler, err := m.scheduler(occasion{"2", aYearLater}, almanac.WithWorkers(m.plan.workers),
		almanac.WithDeliverer(benchChannel, almanac.DelivererFunc(nothing)), almanac.WithObserver(count))
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- scheduler.Run(running) }()
	select {
	case <-count.reached:
	case <-ctx.Done():
	case err := <-ended: // before its time
		ended <- err
	}
	*took = time.Since(began)
	done := count.done()
	stop()
	return done, errors.Join(ctx.Err(), <-ended)
}

// counter counts what is completed.
type counter struct {
	want    int
	reached chan struct{} // closed when all are

	mu        sync.Mutex
	completed int
}

// Observe counts.
func (c *counter) Observe(_ context.Context, n almanac.Notice) {
	if n.Kind != almanac.EventCompleted {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.completed++; c.completed == c.want {
		close(c.reached)
	}
}

func (c *counter) done() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.completed
}

const benchChannel almanac.Channel = "bench"

// occasion is the handler of one occurrence. Another with a greater key takes its place
// when it is over.
type occasion struct {
	key string
	at  func(u almanac.User, after time.Time) time.Time
}

// EventType returns the only type that there is.
func (occasion) EventType() string { return "BENCH" }

// Next returns the occurrence.
func (o occasion) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	at := o.at(u, after).UTC().Truncate(time.Microsecond)
	return calendar.Occurrence{Key: o.key, Wall: calendar.WallTimeOf(at)}, nil
}

// Payload is about as long as a greeting.
func (occasion) Payload(u almanac.User, _ almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"message": almanac.BirthdayMessage(u)})
}

// Channel returns the only channel that there is.
func (occasion) Channel(almanac.Event) almanac.Channel { return benchChannel }

// crowd yields users, who have their places in their ids.
func crowd(n int) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for i := range n {
			p := almanac.Profile{ID: uuid.New(), FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "UTC"}
			binary.BigEndian.PutUint32(p.ID[12:], uint32(i))
			if !yield(p, nil) {
				return
			}
		}
	}
}

func placeOf(id uuid.UUID) uint32 { return binary.BigEndian.Uint32(id[12:]) }
