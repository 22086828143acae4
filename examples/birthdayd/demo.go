package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// demo creates users whose birthday is now, receives their greetings, and shows them.
type demo struct {
	screen   screen
	receiver *receiver

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
	clock, err := readClock(ctx, s.repository)
	if err != nil {
		return stopped(ctx, err)
	}
	if err := d.populate(ctx, s.planner, clock); err != nil {
		return stopped(ctx, err)
	}
	d.watch(ctx, s, clock)
	return nil
}

// summaryPatience is how long the summary waits for missing greetings after the last one
// was due.
const summaryPatience = 20 * time.Second

// watch shows arrivals until ctx is done, and a summary once all users of this run have
// been greeted.
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
	return greeting{arrival: a, event: e, late: c.at(a.at).Sub(e.Due), ours: d.users[e.UserID]}
}
