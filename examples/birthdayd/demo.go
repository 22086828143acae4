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

// demo makes up people whose birthday is now, receives their greetings, and shows
// them.
type demo struct {
	screen   screen
	receiver *receiver

	mu     sync.Mutex
	events map[string]almanac.Event // that were on their way, by key
	people map[uuid.UUID]bool       // made up by this run
	last   time.Time                // when the last of them is due
	next   int                      // how many of them have next year's event
}

// stage is what the demo plays on.
type stage struct {
	planner    almanac.Planner
	repository almanac.Repository
	database   string // which it is
	url        string // of the API
	locked     bool   // the API asks for a token
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
		people:   make(map[uuid.UUID]bool),
	}, nil
}

func (d *demo) close() { _ = d.receiver.close() } // nothing is lost with it

// hook leads to the demo's own receiver.
func (d *demo) hook() hookConfig {
	return hookConfig{url: d.receiver.url, secret: d.receiver.secret, allowPrivate: true}
}

// observer hears which events are on their way, so that their lateness can be
// told when they arrive, and which are stored for next year.
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
			if d.people[e.UserID] { // not yet true of the first event, which comes with its person
				d.next++
			}
		},
	}
}

// run makes up the people, shows their greetings and a summary, and then shows
// what else arrives until ctx is done.
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

// summaryPatience is how long after the last greeting was due the summary waits
// for those that are missing.
const summaryPatience = 20 * time.Second

// watch shows what arrives until ctx is done, and a summary once the people of
// this run have all been greeted.
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
			t.people, t.next = d.count()
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

func (d *demo) count() (people, next int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.people), d.next
}

// greeting is an arrival with what it was for.
type greeting struct {
	arrival
	event almanac.Event
	late  time.Duration
	ours  bool // for somebody whom this run made up
}

func (d *demo) greetingOf(a arrival, c clock) greeting {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.events[a.key]
	return greeting{arrival: a, event: e, late: c.at(a.at).Sub(e.Due), ours: d.people[e.UserID]}
}
