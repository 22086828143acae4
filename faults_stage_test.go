package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// The settings of the processes: a lease is as short as may be.
const (
	faultLease   = 3 * time.Second
	faultSweep   = time.Second
	faultAttempt = 2 * time.Second
)

// delivering is what a receiver does with a delivery.
type delivering string

const (
	accepts  delivering = "accepts"
	busy     delivering = "busy"     // for the moment
	refuses  delivering = "refuses"  // for good
	lingers  delivering = "lingers"  // and accepts after a second and a half
	ignores  delivering = "ignores"  // that the attempt is over, and accepts half a minute later
	panicked delivering = "panicked" // in the sender
)

// jump is a jump of the repository's clock.
type jump struct{ At, By time.Duration }

// course is what happens to a few people and the processes that deliver what they are
// owed, in virtual time.
type course struct {
	Slots, People, Count int
	Interval             time.Duration
	Receiver             []delivering // what becomes of each delivery in turn, over and over
	Processes            [][]fault    // of the first two, and of those that follow the dead
	Jumps                []jump
}

// harmless are faults of which nobody need notice anything: no lease is lost.
func (c course) harmless() bool {
	for _, faults := range c.Processes {
		for _, f := range faults {
			// One call lost may leave a claim that nobody knows of, should giving it back
			// fail too. Settling can fail for as long as it likes while renewal does not.
			if f.Answer == dies || f.Answer == diesAfter || f.Call != "settle" && f.Call != "until" && f.Call != "sweep" {
				return false
			}
		}
	}
	for _, d := range c.Receiver {
		if d == ignores {
			return false
		}
	}
	return len(c.Jumps) == 0
}

// longestSettling is for how long settling fails at most, in one way or another.
func (c course) longestSettling() time.Duration {
	longest := time.Duration(0)
	for _, faults := range c.Processes {
		all := time.Duration(0)
		for _, f := range faults {
			if f.Call == "settle" {
				all += f.For
			}
		}
		longest = max(longest, all)
	}
	return longest
}

// stage is a repository in memory, the processes on it, and the receiver's ledger.
type stage struct {
	course
	start      time.Time
	repository *almanactest.Repository
	keys       []string
	seconds    []time.Time

	mu         sync.Mutex
	ahead      time.Duration // of the repository's clock
	arrived    int
	ledger     []almanac.Delivery // what was accepted
	sent       []almanac.Delivery // everything else too
	told       []telling
	started    int
	processes  []*member
	bit        map[fault]int
	ended      map[string]almanac.Event // terminal when last looked at
	complaints []string
	running    sync.WaitGroup
}

// telling is a notice, and which process was told.
type telling struct {
	process int
	almanac.Notice
}

// member is a process.
type member struct {
	scheduler almanac.Scheduler
	faulty    *faulty
	stop      context.CancelFunc
}

func (s *stage) complain(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complaints = append(s.complaints, fmt.Sprintf(format, args...))
}

func (s *stage) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

// live lets processes live through the course, in a bubble, until nothing is left to
// be done, and checks all that must hold.
func (c course) live(t *testing.T) *stage {
	s := &stage{course: c, start: time.Now(), bit: make(map[fault]int), ended: make(map[string]almanac.Event)}
	s.repository = almanactest.NewRepository(s.now)
	first := s.start.UTC().Truncate(time.Second).Add(2 * time.Second)
	for n := range c.Count {
		due := first.Add(time.Duration(n) * c.Interval)
		s.seconds, s.keys = append(s.seconds, due), append(s.keys, due.Format("2006-01-02T15:04:05"))
	}
	for range c.People {
		owe(t, s.repository, s.handler(nil))
	}
	for _, j := range c.Jumps {
		time.AfterFunc(j.At, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ahead += j.By
		})
	}
	s.begin(t)
	s.begin(t)
	// Every fault has come to its end by then, and every lease of a dead process.
	for time.Since(s.start) < 40*time.Second || !s.drained(t) {
		if time.Since(s.start) > 2*time.Hour {
			s.complain("I1: not drained")
			break
		}
		pass(500 * time.Millisecond)
		s.look(t)
	}
	pass(time.Minute) // what ignores its end comes to it, and leases run out
	s.end()
	s.look(t)
	s.check(t)
	return s
}

// pass lets virtual time go by, and all that happens at its end happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// handler is what is owed to people, as a process delivers it.
func (s *stage) handler(f *faulty) series {
	return series{
		Execution: almanac.Execution{
			AttemptTimeout: faultAttempt, CatchUpPolicy: almanac.CatchUp{All: true},
			RetryPolicy: almanac.RetryPolicy{Attempts: 50, First: 100 * time.Millisecond, Factor: 1.5, Max: 2 * time.Second},
		},
		eventType: "TICK", seconds: s.seconds,
		execute: func(ctx context.Context, d almanac.Delivery) error { return s.receive(ctx, f, d) },
	}
}

// receive is the receiver. What it accepts goes into the ledger, unless the process
// was dead before it could be sent.
func (s *stage) receive(ctx context.Context, f *faulty, d almanac.Delivery) error {
	s.mu.Lock()
	does := s.Receiver[s.arrived%len(s.Receiver)]
	s.arrived++
	s.sent = append(s.sent, d)
	s.mu.Unlock()
	switch does {
	case busy:
		return errBusy
	case refuses:
		return almanac.Permanent(errBusy)
	case panicked:
		panic("out of cheese")
	case ignores:
		time.Sleep(30 * time.Second)
	case lingers:
		select {
		case <-time.After(1500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.isDead() {
		return errDead
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = append(s.ledger, d)
	return nil
}

// begin starts a process; when it dies, another follows.
func (s *stage) begin(t *testing.T) {
	s.mu.Lock()
	n := s.started
	s.started++
	s.mu.Unlock()
	var faults []fault
	if n < len(s.Processes) {
		faults = s.Processes[n]
	}
	f := newFaulty(s.repository, s.start, faults...)
	hear := almanac.ObserverFunc(func(_ context.Context, told almanac.Notice) {
		if f.isDead() {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = append(s.told, telling{n, told})
	})
	registry, err := almanac.NewRegistry(s.handler(f))
	scheduler, errScheduler := almanac.NewScheduler(f, registry, almanac.WithObserver(hear), almanac.WithWorkers(s.Slots),
		almanac.WithLease(faultLease), almanac.WithSweep(faultSweep), almanac.WithDrain(time.Minute))
	if err = errors.Join(err, errScheduler); err != nil {
		s.complain("process %d: %v", n, err)
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.mu.Lock()
	s.processes = append(s.processes, &member{scheduler, f, cancel})
	s.mu.Unlock()
	s.running.Go(func() {
		if err := scheduler.Run(ctx); err != nil && !f.isDead() {
			s.complain("Run of process %d: %v", n, err)
		}
	})
	s.running.Go(func() {
		select {
		case <-ctx.Done():
		case <-f.dead:
			cancel()
			time.Sleep(time.Second)
			s.begin(t)
		}
	})
}

// end stops the processes that live, which are well by now.
func (s *stage) end() {
	s.mu.Lock()
	processes := s.processes
	s.mu.Unlock()
	for n, p := range processes {
		if err := p.scheduler.Health().Err(); err != nil && !p.faulty.isDead() {
			s.complain("process %d is not well in the end: %v", n, err)
		}
		p.stop()
		for fault, times := range p.faulty.bit {
			s.bit[fault] += times
		}
	}
	s.running.Wait()
}

func (s *stage) events(t *testing.T) []almanac.Event {
	found, err := s.repository.Find(t.Context(), nil, almanac.Page{Limit: 1000})
	require.NoError(t, err)
	return found.Events
}

func (s *stage) drained(t *testing.T) bool {
	for _, e := range s.events(t) {
		if !e.Status.Terminal() {
			return false
		}
	}
	return true
}
