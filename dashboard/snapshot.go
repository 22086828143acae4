package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

const (
	// freshFor is how long numbers are shared by all viewers before they are read again.
	freshFor = 5 * time.Second
	// patience is how long a page that is about numbers waits for new ones. Then it shows the last ones
	// with their age, or none. Pages that only offer more with them take what is there.
	patience = 250 * time.Millisecond
	// staleAfter is the age from which on numbers say beside themselves how old they are.
	staleAfter = 2 * freshFor
	// readAgain is the least time between two reads. It counts after a failure.
	readAgain = time.Second
)

// snapshot is what all viewers see at the same time: one read of the numbers.
type snapshot struct {
	Stats   ops.Stats
	Retries ops.Retries
	Book    almanac.ZoneBook
	Leases  []ops.Lease
	Paused  []almanac.Pause
	// Asked and Answered are the times of this machine around the read of Book.Now.
	Asked, Answered time.Time
}

// Skew returns how much this machine's clock is ahead of the database's, and how exactly that is known.
func (s snapshot) Skew() (ahead, within time.Duration) {
	half := s.Answered.Sub(s.Asked) / 2
	return s.Asked.Add(half).Sub(s.Book.Now), half
}

// numbers reads a snapshot when a viewer asks for one, and shares it. Without viewers it
// reads nothing. All viewers together cause one read at a time.
type numbers struct {
	read func(context.Context) (snapshot, error)
	now  func() time.Time
	log  *slog.Logger
	next shared[time.Time] // when the next pending event is due, which is read if none is due in the wave

	mu      sync.Mutex
	last    snapshot
	failed  error         // of the last read
	begun   time.Time     // of the last read
	reading chan struct{} // closed at the end of the read under way; nil if there is none
}

// errNoNumbers is returned while the first snapshot is being read.
var errNoNumbers = errors.New("dashboard: numbers are being read")

// get returns numbers that are at most freshFor old, if they can be read within wait.
// Otherwise it returns the last ones, with the error of the last read if that failed.
func (n *numbers) get(ctx context.Context, wait time.Duration) (snapshot, error) {
	n.mu.Lock()
	if now := n.now(); n.reading == nil && now.Sub(n.last.Answered) >= freshFor && now.Sub(n.begun) >= readAgain {
		n.begun, n.reading = now, make(chan struct{})
		go n.renew(n.reading) // ends after readLimit for each call at the latest
	}
	reading := n.reading
	n.mu.Unlock()
	if reading != nil {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-reading:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.Answered.IsZero() && n.failed == nil {
		return snapshot{}, errNoNumbers
	}
	return n.last, n.failed
}

// reading says of when the numbers of a page are. Each page that shows numbers embeds it, and uses the
// template "age" beside them.
type reading struct {
	Loading bool          // there are none yet: they are being read for the first time
	Offline string        // why there are none, or only old ones; "" if they can be read
	None    bool          // there are none, which is not the same as zero
	Counted time.Time     // when they were read, by the database's clock
	Age     time.Duration // how old they are, in whole seconds
}

// Stale reports whether the numbers are so old that they must say it.
func (r reading) Stale() bool { return r.Age >= staleAfter }

// lastNumbers returns the shared numbers, and of when they are.
func (d *dashboard) lastNumbers(r *request) (snapshot, reading) {
	s, err := d.numbers.get(r.Context(), patience)
	now := reading{None: s.Answered.IsZero()}
	if !now.None {
		now.Counted, now.Age = s.Stats.At, max(0, d.now().Sub(s.Answered).Truncate(time.Second))
	}
	switch {
	case errors.Is(err, errNoNumbers):
		now.Loading = true
	case err != nil:
		if now.Offline = causeOf(err) + " There are no numbers."; !now.None {
			now.Offline = causeOf(err) + " These numbers are from " + utc(s.Book.Now) + " UTC."
		}
	}
	return s, now
}

// renew reads a snapshot. It belongs to no request, because other viewers may wait for it.
func (n *numbers) renew(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), pageLimit)
	defer cancel()
	s, err := recovered(func() (snapshot, error) { return n.read(ctx) })
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err != nil && n.failed == nil: // once for each time that it begins
		n.log.ErrorContext(ctx, "Dashboard numbers cannot be read", slog.Any("error", err))
	case err == nil && n.failed != nil:
		n.log.InfoContext(ctx, "Dashboard numbers are read again")
	}
	if n.failed = err; err == nil {
		n.last = s
	}
	n.reading = nil
	close(done)
}

// nextDue returns when the next pending event is due. The zero time means that there is none, or that it cannot be
// read now: then the numbers, which the page is about, say so.
func (d *dashboard) nextDue(ctx context.Context) time.Time {
	at, _, _ := d.numbers.next.get(ctx, d.now, freshFor, func(ctx context.Context) (time.Time, error) {
		found, err := d.reader.Find(ctx, almanac.InStatus(almanac.Pending), almanac.Page{Limit: 1, Order: almanac.NextFirst})
		if err != nil || len(found.Items) == 0 {
			return time.Time{}, err
		}
		return found.Items[0].AvailableAt, nil
	})
	return at
}

// leasesShown is how many leases a snapshot has at most.
const leasesShown = 200

// readNumbers reads a snapshot, one call after the other.
func (d *dashboard) readNumbers(ctx context.Context) (s snapshot, err error) {
	if s.Stats, err = d.reader.Stats(ctx); err != nil {
		return s, err
	}
	if s.Retries, err = d.reader.Retries(ctx); err != nil {
		return s, err
	}
	if s.Leases, err = d.reader.Leases(ctx, leasesShown); err != nil {
		return s, err
	}
	if s.Paused, err = d.scheduler.Paused(ctx); err != nil {
		return s, err
	}
	s.Asked = d.now()
	s.Book, err = d.reader.ZoneRules(ctx)
	s.Answered = d.now()
	return s, err
}

// shared is something that was read, and that all viewers share while it is fresh. So many live
// pages cost one call.
type shared[T any] struct {
	mu    sync.Mutex
	at    time.Time // when it was read; zero means that it must be read
	value T
	err   error
}

// get returns what read returns, or what it returned less than fresh ago, and when that was. An
// error is shared for streamPace at most. The call of read belongs to no request, because others may wait for it.
func (s *shared[T]) get(ctx context.Context, now func() time.Time, fresh time.Duration, read func(context.Context) (T, error)) (T, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		fresh = min(fresh, streamPace)
	}
	if s.at.IsZero() || now().Sub(s.at) >= fresh {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		defer cancel()
		s.value, s.err = read(ctx)
		s.at = now()
	}
	return s.value, s.at, s.err
}

// forget has it read again.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}
