package dashboard

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Monitor measures the deliveries of one process for the dashboard: how late they start, how many
// there are, and which were just made. It keeps the last 24 hours, in at most 700 kB for each event
// type, and nothing about users but ids. Give it to the scheduler as an observer, and its
// Middleware to each deliverer. A Monitor is safe for concurrent use. Make it with [NewMonitor].
type Monitor struct {
	now func() time.Time

	mu     sync.Mutex
	types  map[string]*series
	recent [recentShown]delivered // a ring
	count  int                    // of all that were ever put into recent
}

var _ almanac.Observer = (*Monitor)(nil)

// recentShown is how many deliveries a Monitor keeps for the map.
const recentShown = 256

// delivered is a delivery that was just accepted.
type delivered struct {
	EventID  uuid.UUID
	Type     string
	Zone     string        // of the event
	At       time.Time     // by this machine's clock
	Lateness time.Duration // from when it could first be delivered to the end of the delivery
}

// NewMonitor returns a Monitor that has measured nothing yet.
func NewMonitor() *Monitor { return &Monitor{now: time.Now, types: make(map[string]*series)} }

// A day of minutes, each with a histogram of lateness.
const (
	minutes = 24 * 60
	buckets = 101   // the bounds are firstBound · growth^k; the last bucket has all that is greater
	growth  = 1.2   // so a quantile is within ten percent
	first   = 0.001 // seconds
)

// series is what a Monitor has of one type.
type series struct {
	slots [minutes]slot
}

// slot is one minute.
type slot struct {
	minute                      int64 // since 1970; another minute means that the slot is out of date
	started, completed, retried int32
	failed, cancelled           int32
	refused                     int32    // attempts that failed, the last ones of failed events too
	late                        []uint32 // by bucket; nil if nothing started
	most                        time.Duration
}

// bucketOf returns the bucket of a lateness. A bucket has the values up to its bound.
func bucketOf(d time.Duration) int {
	if d.Seconds() <= first {
		return 0
	}
	return min(buckets-1, int(math.Ceil(math.Log(d.Seconds()/first)/math.Log(growth)-1e-9)))
}

// Middleware returns a deliverer that measures how late the first attempt of each event
// starts in next. That is the time from [almanac.Event.FirstAvailable] to the start of the
// attempt, by the database's clock. It leaves out events that were requeued, because their targets
// passed long ago. It changes nothing.
func (m *Monitor) Middleware(next almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		m.start(d)
		return next.Deliver(ctx, d)
	})
}

// start counts the start of an attempt. A retry and a repeat are not late: they waited on purpose.
func (m *Monitor) start(d almanac.Delivery) {
	late := max(0, d.At.Sub(d.Event.FirstAvailable()))
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slot(d.Event.Type)
	if s.started++; d.Attempt > 1 || d.Event.Origin.Kind == almanac.OriginRequeued {
		return
	}
	if s.late == nil {
		s.late = make([]uint32, buckets)
	}
	s.late[bucketOf(late)]++
	s.most = max(s.most, late)
}

// slot returns the slot of the present minute. The caller holds mu.
func (m *Monitor) slot(eventType string) *slot {
	all := m.types[eventType]
	if all == nil {
		all = new(series)
		m.types[eventType] = all
	}
	minute := m.now().Unix() / 60
	s := &all.slots[minute%minutes]
	if s.minute != minute {
		*s = slot{minute: minute}
	}
	return s
}

// Observe counts the outcomes of events.
func (m *Monitor) Observe(_ context.Context, n almanac.Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n.Kind {
	case almanac.EventCompleted:
		m.slot(n.Event.Type).completed++
		m.recent[m.count%recentShown] = delivered{n.Event.ID, n.Event.Type, n.Event.Zone, m.now(), max(0, n.Event.Lateness())}
		m.count++
	case almanac.EventFailed:
		s := m.slot(n.Event.Type)
		s.failed++
		s.refused++
	case almanac.EventCancelled:
		m.slot(n.Event.Type).cancelled++
	case almanac.EventReleased:
		s := m.slot(n.Event.Type)
		if s.retried++; n.Cause == almanac.AfterFailure {
			s.refused++
		}
	}
}

// lateness is how late attempts started in a span of time.
type lateness struct {
	Span          time.Duration
	Count         int
	P50, P95, P99 time.Duration // within ten percent between 1 ms and 19 h; below at most 1 ms, above equal to Most
	Most          time.Duration // exactly
	Histogram     [buckets]int  // by bucket of lateness
}

// rates are numbers of outcomes in a span of time.
type rates struct {
	Span                                            time.Duration
	Started, Completed, Failed, Cancelled, Released int
	Refused                                         int // attempts that failed, the last ones of failed events too
}

// add adds the outcomes of a minute.
func (r *rates) add(s *slot) {
	r.Started += int(s.started)
	r.Completed += int(s.completed)
	r.Failed += int(s.failed)
	r.Cancelled += int(s.cancelled)
	r.Released += int(s.retried)
	r.Refused += int(s.refused)
}

// span adds up the last minutes of one type, or of all types if eventType is "".
func (m *Monitor) span(eventType string, span time.Duration) (l lateness, r rates) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.Span, r.Span = span, span
	now := m.now().Unix() / 60
	for name, all := range m.types {
		if eventType != "" && eventType != name {
			continue
		}
		for i := range int64(span / time.Minute) {
			s := &all.slots[(now-i)%minutes]
			if s.minute != now-i {
				continue
			}
			r.add(s)
			for b, n := range s.late {
				l.Histogram[b] += int(n)
				l.Count += int(n)
			}
			l.Most = max(l.Most, s.most)
		}
	}
	l.P50, l.P95, l.P99 = l.quantile(0.5), l.quantile(0.95), l.quantile(0.99)
	return l, r
}

// quantile returns the lateness that a share of the attempts do not exceed.
func (l lateness) quantile(share float64) time.Duration {
	if l.Count == 0 {
		return 0
	}
	passed := 0
	for b, n := range l.Histogram {
		if passed += n; float64(passed) >= share*float64(l.Count) {
			if b == buckets-1 {
				return l.Most
			}
			upper := first * math.Pow(growth, float64(b))
			return min(l.Most, time.Duration(upper/math.Sqrt(growth)*float64(time.Second)))
		}
	}
	return l.Most
}

// fiveMinutes returns the outcomes of the last n five minutes, oldest first. Each begins at a multiple of five
// minutes since 1970, so the last ones are not over yet.
func (m *Monitor) fiveMinutes(n int) []rates {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]rates, n)
	now := m.now().Unix() / 60
	first := now/5*5 - int64(n-1)*5
	for _, one := range m.types {
		for minute := first; minute <= now; minute++ {
			s := &one.slots[minute%minutes]
			if s.minute != minute {
				continue
			}
			all[(minute-first)/5].add(s)
		}
	}
	for i := range all {
		all[i].Span = 5 * time.Minute
	}
	return all
}

// eventTypes returns the types that were measured, in alphabetical order.
func (m *Monitor) eventTypes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.types {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// since returns the deliveries after the first seen of all, oldest first, and how many there
// were in all. It leaves out those that were overwritten.
func (m *Monitor) since(seen int) (made []delivered, all int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := max(seen, m.count-recentShown); i < m.count; i++ {
		made = append(made, m.recent[i%recentShown])
	}
	return made, m.count
}
