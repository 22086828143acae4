package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// demo creates users whose birthday is now, receives their greetings, and shows them.
type demo struct {
	screen   screen
	receiver *receiver
	clock    clock

	mu     sync.Mutex
	events map[string]almanac.Event // events in flight, by key
	users  map[uuid.UUID]bool       // created by this run
	last   time.Time                // when the last of them is due
	next   int                      // how many of these users have next year's event
}

// stage is the environment of the demo.
type stage struct {
	planner    almanac.Planner
	repository almanac.Repository
	database   string // describes the database
	url        string // of the API
	locked     bool   // the API requires a token
	left       owed   // by an earlier run
}

func newDemo(out io.Writer) (*demo, error) {
	r, err := newReceiver()
	if err != nil {
		return nil, fmt.Errorf("demo receiver: %w", err)
	}
	return &demo{
		screen:   newScreen(out),
		receiver: r,
		events:   make(map[string]almanac.Event),
		users:    make(map[uuid.UUID]bool),
	}, nil
}

func (d *demo) close() { _ = d.receiver.close() } // its contents are not needed any more

// hook returns a configuration that delivers to the demo's own receiver.
func (d *demo) hook() hookConfig {
	return hookConfig{url: d.receiver.url, secret: d.receiver.secret, allowPrivate: true}
}

// observer records the events in flight, so that the demo can show their lateness when they
// arrive. It also records the events stored for next year.
func (d *demo) observer() almanac.Observer {
	return almanac.Hooks{
		Claimed: func(_ context.Context, e almanac.Event) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.events[e.IdempotencyKey.String()] = e
		},
		Created: func(_ context.Context, e almanac.Event) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.users[e.UserID] { // false for the first event, which is stored together with its user
				d.next++
			}
		},
	}
}

// run creates the users, shows their greetings and a summary. Then it shows further
// arrivals until ctx is done.
func (d *demo) run(ctx context.Context, s stage) error {
	d.screen.title(s)
	var err error
	if d.clock, err = readClock(ctx, s.repository); err != nil {
		return stopped(ctx, err)
	}
	if err := errors.Join(d.populateLater(ctx, s.planner, d.clock.now()), d.populate(ctx, s.planner, d.clock)); err != nil {
		return stopped(ctx, err)
	}
	d.watch(ctx, s, d.clock)
	return nil
}

// owed are the greetings that users of the demo are still to get. Those of next year do not count.
type owed struct{ waiting, inFlight int }

// owedWithin is how far ahead a greeting may be due. A run makes users up for some seconds.
const owedWithin = time.Minute

// readOwed counts the greetings that are owed.
func readOwed(ctx context.Context, r almanac.Repository) (o owed, err error) {
	now, err := r.Now(ctx)
	if err != nil {
		return o, err
	}
	due := almanac.DueBetween{Until: now.Add(owedWithin)}
	if o.waiting, err = r.Count(ctx, almanac.And{almanac.InStatus(almanac.Pending), due}); err != nil {
		return o, err
	}
	o.inFlight, err = r.Count(ctx, almanac.And{almanac.InStatus(almanac.Processing), due})
	return o, err
}

// farewell shows the last arrivals, and what is left. It is called when the workers have stopped.
func (d *demo) farewell(ctx context.Context, r almanac.Repository) error {
	for {
		select {
		case a := <-d.receiver.arrivals:
			d.screen.greeting(d.greetingOf(a, d.clock))
			continue
		default:
		}
		left, err := readOwed(ctx, r)
		if err == nil {
			d.screen.farewell(left)
		}
		return err
	}
}

// runDemo runs the deployment with the demo. What an earlier run left is read before the
// workers deliver it.
func (d *deployment) runDemo(ctx context.Context, l net.Listener, show *demo, s stage) (err error) {
	if s.left, err = readOwed(ctx, s.repository); err != nil {
		return stopped(ctx, err)
	}
	if err := d.run(ctx, l, func(ctx context.Context) error { return show.run(ctx, s) }); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	return show.farewell(patience, s.repository)
}

// summaryPatience is how long the summary waits for missing greetings after the last one was due.
const summaryPatience = time.Minute

// watch shows arrivals until ctx is done, and a summary once all users of this run have been greeted.
func (d *demo) watch(ctx context.Context, s stage, c clock) {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	var t tally
	for {
		select {
		case a := <-d.receiver.arrivals:
			g := d.greetingOf(a, c)
			t.add(g)
			d.screen.greeting(g)
		case <-look.C:
			t.users, t.next = d.count()
			t.refused = d.receiver.refused.Load()
			if t.complete() || c.now().After(d.last.Add(summaryPatience)) {
				d.screen.summary(t)
				d.screen.hints(s)
				look.Stop()
			}
		case <-ctx.Done():
			return
		}
	}
}

func (d *demo) count() (users, next int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.users), d.next
}

// greeting is an arrival with its event.
type greeting struct {
	arrival
	event almanac.Event
	late  time.Duration
	ours  bool // for a user of this run
}

func (d *demo) greetingOf(a arrival, c clock) greeting {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.events[a.key]
	return greeting{arrival: a, event: e, late: c.late(a.at, e.Due), ours: d.users[e.UserID]}
}

// tally counts the greetings of the users of this run.
type tally struct {
	users   int // how many users there are
	next    int // how many of them have next year's event
	refused int64
	repeats int
	early   int
	late    []time.Duration
	zones   map[string]bool
}

func (t *tally) add(g greeting) {
	if !g.ours {
		return
	}
	if g.repeat {
		t.repeats++
		return
	}
	if g.late < 0 {
		t.early++
	}
	t.late = append(t.late, g.late)
	if t.zones == nil {
		t.zones = make(map[string]bool)
	}
	t.zones[g.event.Zone] = true
}

func (t *tally) complete() bool { return len(t.late) >= t.users && t.next >= t.users }

// quantile returns the lateness that the given share of greetings did not exceed.
func (t *tally) quantile(share float64) time.Duration {
	if len(t.late) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.late))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}
