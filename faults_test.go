package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// crashing says whether leases run out.
type crashing int

const (
	none crashing = iota
	some
	perhaps // as it happens: who is first, the sweep or a renewal, or what a process has in its hands
)

// faultCase is a fault by itself, and what it must come to.
type faultCase struct {
	faults   []fault
	jump     time.Duration
	receiver delivering
	crashes  crashing
	batch    int
}

// Each fault by itself, in a course in which it cannot but meet a call.
func TestAFaultLosesNothing(t *testing.T) {
	t.Parallel()
	at, second := 2*time.Second, time.Second
	tests := map[string]faultCase{
		"no fault":      {},
		"a claim fails": {faults: []fault{{"claim", fails, at, 0}}},
		"a claim commits, and its answer is lost":       {faults: []fault{{"claim", loses, at, 0}}},
		"all claims commit, and their answers are lost": {faults: []fault{{"claim", loses, at, 10 * second}}},
		"events of a lost claim are not released":       {faults: []fault{{"claim", loses, at, 0}, {"release", fails, at, 0}}, crashes: some},
		"a settlement commits, and its answer is lost":  {faults: []fault{{"settle", loses, at, 0}}},
		"settling fails again and again":                {faults: []fault{{"settle", fails, at, 10 * second}}},
		"settling hangs again and again":                {faults: []fault{{"settle", hangs, at, 10 * second}}},
		"nothing can be looked up":                      {faults: []fault{{"until", fails, at, 10 * second}}},
		"a renewal commits, and its answer is lost":     {faults: []fault{{"renew", loses, at, 0}}, receiver: lingers},
		"renewal fails for less than a lease":           {faults: []fault{{"renew", fails, at, 1500 * time.Millisecond}}, receiver: lingers},
		"nothing can be stored for longer than a lease": {faults: []fault{{"renew", fails, at, 10 * second}, {"settle", fails, at, 10 * second}}, receiver: lingers, crashes: some},
		"a process dies before it claims":               {faults: []fault{{"claim", dies, at, 0}}},
		"a process dies when it has claimed":            {faults: []fault{{"claim", diesAfter, at, 0}}, crashes: some},
		"a process dies while it holds events":          {faults: []fault{{"renew", dies, at, 0}}, receiver: lingers, crashes: some},
		"a process dies before it settles":              {faults: []fault{{"settle", dies, at, 0}}, crashes: some},
		"a process dies when it has settled":            {faults: []fault{{"settle", diesAfter, at, 0}}},
		"a process dies when it has swept":              {faults: []fault{{"sweep", diesAfter, at, 0}}, crashes: perhaps},
		"a delivery ignores that its time is over":      {receiver: ignores, crashes: some},
		"the clock leaps ahead":                         {jump: time.Hour, receiver: lingers, crashes: perhaps},
		"the clock is put back":                         {jump: -time.Minute, receiver: lingers},
	}
	for name, tt := range inBatchesToo(tests) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := course{Slots: 3, People: 2, Count: 4, Interval: second, Processes: [][]fault{tt.faults, tt.faults}, Batch: tt.batch}
				c.Receiver = []delivering{accepts, accepts, accepts, accepts}
				if tt.receiver != "" {
					c.Receiver[0] = tt.receiver
				}
				if tt.jump != 0 {
					c.Jumps = []jump{{3 * second, tt.jump}}
				}
				s := c.live(t)
				for _, complaint := range s.complaints {
					t.Error(complaint)
				}
				for _, f := range tt.faults {
					if s.bit[f] == 0 {
						t.Errorf("vacuous: %q has met no call", f)
					}
				}
				crashes := 0
				for _, e := range s.events(t) {
					crashes += e.CrashCount
				}
				if tt.crashes == none && crashes > 0 || tt.crashes == some && crashes == 0 {
					t.Errorf("leases of %d events ran out", crashes)
				}
				if tt.batch > 0 && s.together == 0 {
					t.Error("vacuous: no batch had two events")
				}
				if tt.crashes == none && len(s.ledger) != c.People*c.Count {
					t.Errorf("%d deliveries of %d", len(s.ledger), c.People*c.Count)
				}
			})
		})
	}
}

// A delivery that ignores the end of its context, in each process that has it, counts as one
// that kills its workers.
func TestADeliveryThatNeverReturnsIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := course{Slots: 6, People: 1, Count: 1, Receiver: []delivering{ignores}}.live(t)
		for _, complaint := range s.complaints {
			t.Error(complaint)
		}
		if e := s.events(t)[0]; e.Status != almanac.Failed || e.FailureReason != "worker died 5 times" {
			t.Errorf("it ended as %s: %q", e.Status, e.FailureReason)
		}
	})
}

func drawCourse(t *rapid.T) course {
	span := func(most time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(0, 20), func(n int) time.Duration { return most * time.Duration(n) / 20 })
	}
	faults := rapid.Custom(func(t *rapid.T) fault {
		return fault{
			Call:   rapid.SampledFrom([]string{"claim", "claim", "settle", "settle", "renew", "until", "release", "sweep"}).Draw(t, "call"),
			Answer: rapid.SampledFrom([]answer{fails, loses, hangs, dies, diesAfter}).Draw(t, "answer"),
			From:   span(12*time.Second).Draw(t, "from"),
			For:    rapid.OneOf(rapid.Just(time.Duration(0)), span(10*time.Second)).Draw(t, "for"),
		}
	})
	jumps := rapid.Custom(func(t *rapid.T) jump {
		return jump{span(12*time.Second).Draw(t, "at"), span(10*time.Minute).Draw(t, "by") - 5*time.Minute}
	})
	return course{
		Slots:     rapid.IntRange(1, 5).Draw(t, "slots"),
		People:    rapid.IntRange(1, 4).Draw(t, "people"),
		Count:     rapid.IntRange(2, 6).Draw(t, "occurrences"),
		Interval:  rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(t, "interval"),
		Receiver:  rapid.SliceOfN(rapid.SampledFrom([]delivering{accepts, accepts, accepts, accepts, busy, lingers, refuses, ignores, panicked}), 1, 10).Draw(t, "receiver"),
		Processes: rapid.SliceOfN(rapid.SliceOfN(faults, 0, 3), 0, 4).Draw(t, "processes"),
		Jumps:     rapid.SliceOfN(jumps, 0, 2).Draw(t, "jumps"),
		Batch:     rapid.SampledFrom([]int{0, 0, 2, 5}).Draw(t, "batch"),
	}
}

// Whatever happens, and in whatever order.
func TestFaultsLoseNothingAndRepeatOnlyWhatTheyInterrupt(t *testing.T) {
	t.Parallel()
	met := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCourse(rt)
		var s *stage
		synctest.Test(t, func(t *testing.T) { s = c.live(t) })
		for _, complaint := range s.complaints {
			rt.Error(complaint)
		}
		for f, times := range s.bit {
			met[f.Call+" "+string(f.Answer)] += times
		}
	})
	t.Log(met)
}

// name identifies an occurrence.
func name(e almanac.Event) string { return e.UserID.String() + " " + e.OccurrenceKey }

// look checks what must hold at every moment.
func (s *stage) look(t *testing.T) {
	open, known := make(map[uuid.UUID]int), make(map[uuid.UUID]int)
	for _, e := range s.events(t) {
		known[e.UserID]++
		if !e.Status.Terminal() {
			open[e.UserID]++
		}
		if leased := e.LeaseToken != uuid.Nil; e.Status == almanac.Processing && !leased {
			s.complain("I9: %s is PROCESSING without a lease", name(e))
		}
		was, seen := s.ended[name(e)]
		switch {
		case seen && (was.ID != e.ID || !same(was, e)):
			s.complain("I2: %s changed after it had ended: %+v, was %+v", name(e), e, was)
		case e.Status.Terminal():
			s.ended[name(e)] = e
		}
	}
	for user, n := range known {
		if over := n == s.Count && open[user] == 0; open[user] != 1 && !over {
			s.complain("I4: %s has %d open events after %d of %d", user, open[user], n, s.Count)
		}
	}
}

// same compares what is stored of an event.
func same(a, b almanac.Event) bool {
	return a.Status == b.Status && a.Version == b.Version && a.LeaseToken == b.LeaseToken && a.FailureReason == b.FailureReason &&
		a.ExecutedAt.Equal(b.ExecutedAt) && a.UpdatedAt.Equal(b.UpdatedAt) && string(a.Payload) == string(b.Payload)
}

// check checks what must hold in the end.
func (s *stage) check(t *testing.T) {
	rows, users := make(map[string]almanac.Event), make(map[uuid.UUID]bool)
	for _, e := range s.events(t) {
		if _, twice := rows[name(e)]; twice {
			s.complain("I3: %s is stored twice", name(e))
		}
		rows[name(e)], users[e.UserID] = e, true
	}
	for user := range users {
		for _, key := range s.keys {
			e, stored := rows[user.String()+" "+key]
			switch {
			case !stored:
				s.complain("I1: %s at %s was never stored", user, key)
			case !e.Status.Terminal() || e.Status == almanac.Failed && e.FailureReason == "":
				s.complain("I1: %s is %s because of %q", name(e), e.Status, e.FailureReason)
			case e.Version != 1+2*e.ClaimCount:
				s.complain("I8: %s is at version %d after %d claims", name(e), e.Version, e.ClaimCount)
			}
		}
	}
	if len(rows) != len(users)*len(s.keys) || len(users) != s.People {
		s.complain("I1: %d events of %d people, want %d of each of %d", len(rows), len(users), len(s.keys), s.People)
	}
	s.checkDeliveries(rows)
	s.checkNotices(rows)
	s.checkLeases(t)
}

// checkDeliveries compares what is stored with what was sent.
func (s *stage) checkDeliveries(rows map[string]almanac.Event) {
	accepted, first := make(map[string]int), make(map[string]almanac.Event)
	for _, d := range s.sent {
		e := d.Event
		if d.At.Before(e.Due) {
			s.complain("I6: %s was sent %v early", name(e), e.Due.Sub(d.At))
		}
		if was, again := first[name(e)]; again && (was.IdempotencyKey != e.IdempotencyKey || string(was.Payload) != string(e.Payload)) {
			s.complain("I5: %s was sent as %s with %s, before as %s with %s", name(e), e.IdempotencyKey, e.Payload, was.IdempotencyKey, was.Payload)
		}
		first[name(e)] = e
	}
	for _, d := range s.ledger {
		accepted[name(d.Event)]++
	}
	for who, e := range rows {
		if e.Status == almanac.Completed && accepted[who] == 0 {
			s.complain("I7: %s is COMPLETED, and no receiver accepted it", who)
		}
		if repeats := accepted[who] - 1; repeats > e.CrashCount {
			s.complain("I12: %s was accepted %d times more, and was %d times in the hands of one that lost it", who, repeats, e.CrashCount)
		}
		if e.CrashCount > 0 && s.harmless() {
			s.complain("I12: %s lost its worker, and nothing happened to any", who)
		}
	}
}

// checkNotices checks that the process that ended an event had claimed it last, and that
// observers were notified of its end once, as it is stored.
func (s *stage) checkNotices(rows map[string]almanac.Event) {
	holder, ended := make(map[string]int), make(map[string]int)
	for _, notice := range s.notices {
		e := notice.Event
		switch notice.Kind {
		case almanac.EventClaimed:
			holder[name(e)] = notice.process
			if e.UpdatedAt.Before(e.Due) {
				s.complain("I6: %s was claimed %v early", name(e), e.Due.Sub(e.UpdatedAt))
			}
		case almanac.EventCompleted, almanac.EventFailed:
			ended[name(e)]++
			if !same(e, rows[name(e)]) {
				s.complain("I11: notified of %+v, stored is %+v", e, rows[name(e)])
			}
			if by, held := holder[name(e)]; !held || by != notice.process {
				s.complain("I2: %s was ended by process %d, and claimed last by %d", name(e), notice.process, by)
			}
		default:
		}
	}
	for who := range rows {
		if n := ended[who]; n > 1 || n == 0 && !s.silenced() {
			s.complain("I11: the end of %s was notified %d times", who, n)
		}
	}
}

// silenced reports whether a process may have stored something without ever hearing of it:
// when it dies in between, or when it loses the answer and then the lease, which what it
// stored has ended, before a try is answered.
func (s *stage) silenced() bool {
	lost := false
	for f, times := range s.bit {
		if times > 0 && (f.Answer == dies || f.Answer == diesAfter) {
			return true
		}
		lost = lost || times > 0 && f.Call == "settle" && f.Answer == loses
	}
	return lost && (!s.harmless() || s.longestSettling() > faultLease/3)
}

// checkLeases checks that no lease is left of the claims that were notified.
func (s *stage) checkLeases(t *testing.T) {
	var tokens []uuid.UUID
	for _, notice := range s.notices {
		if notice.Kind == almanac.EventClaimed {
			tokens = append(tokens, notice.Event.LeaseToken)
		}
	}
	held, err := s.repository.Renew(t.Context(), tokens, faultLease)
	if err != nil || len(held) > 0 {
		s.complain("I9: %d leases are left (%v)", len(held), err)
	}
}

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

// course is what happens, in virtual time, to a few users and the processes that deliver
// their events.
type course struct {
	Slots, People, Count int
	Interval             time.Duration
	Receiver             []delivering // what becomes of each delivery in turn, over and over
	Processes            [][]fault    // of the first two, and of those that follow the dead
	Jumps                []jump
	Batch                int // how many events are delivered in one call; zero for single ones
}

// harmless reports whether the faults need not show: no lease is lost.
func (c course) harmless() bool {
	for _, faults := range c.Processes {
		for _, f := range faults {
			// One lost call may leave a claim that no process knows of, if its release fails
			// too. Settling may fail for any time while renewal does not.
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
	notices    []notified
	started    int
	processes  []*member
	bit        map[fault]int
	together   int                      // batches of several events
	ended      map[string]almanac.Event // terminal when last looked at
	complaints []string
	running    sync.WaitGroup
}

// notified is a notice, and the process whose observer was notified.
type notified struct {
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
		storeEvent(t, s.repository, s.handler(nil))
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

// handler plans and delivers the events of users.
func (s *stage) handler(f *faulty) series {
	return series{
		Execution: almanac.Execution{
			AttemptTimeout: faultAttempt, CatchUpPolicy: almanac.CatchUp{All: true},
			RetryPolicy: almanac.RetryPolicy{Attempts: 50, First: 100 * time.Millisecond, Factor: 1.5, Max: 2 * time.Second},
		},
		eventType: "TICK", seconds: s.seconds, execute: func(ctx context.Context, d almanac.Delivery) error { return s.receive(ctx, f, d) },
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
	observe := almanac.ObserverFunc(func(_ context.Context, notice almanac.Notice) {
		if f.isDead() {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notices = append(s.notices, notified{n, notice})
	})
	var handler almanac.EventHandler = s.handler(f)
	options := []almanac.Option{
		almanac.WithObserver(observe), almanac.WithWorkers(s.Slots), almanac.WithLease(faultLease), almanac.WithSweep(faultSweep),
		almanac.WithDrain(time.Minute), almanac.WithLookAhead(0), // what is claimed is due, as the invariants of the stage have it
	}
	if s.Batch > 0 {
		handler = unexecutedOf(s.handler(f))
		options = append(options, almanac.WithDeliverer("test", almanac.Batched(faultyBatch{s, f}, s.Batch)))
	}
	registry, err := almanac.NewRegistry(handler)
	scheduler, errScheduler := almanac.NewScheduler(f, registry, options...)
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
	return found.Items
}

func (s *stage) drained(t *testing.T) bool {
	for _, e := range s.events(t) {
		if !e.Status.Terminal() {
			return false
		}
	}
	return true
}

// answer is what becomes of a call of the repository.
type answer string

const (
	fails     answer = "fails"     // nothing takes effect
	loses     answer = "loses"     // it takes effect, and the answer is lost
	hangs     answer = "hangs"     // nothing takes effect, and no answer comes
	dies      answer = "dies"      // so does the process, before anything takes effect
	diesAfter answer = "diesAfter" // and here after it
)

// fault is what goes wrong with the calls of one kind, from a moment on. With a
// zero For it is only the first call from then on.
type fault struct {
	Call      string
	Answer    answer
	From, For time.Duration
}

var (
	errLost = errors.New("connection lost")
	errDead = errors.New("the process is dead")
)

// faulty is a repository as one process sees it, with faults. When the process is
// dead, nothing that it asks for takes effect any more.
type faulty struct {
	almanac.Repository
	start time.Time
	dead  chan struct{}
	death sync.Once

	mu     sync.Mutex
	faults []fault
	bit    map[fault]int // how often each has met a call
}

func newFaulty(r almanac.Repository, start time.Time, faults ...fault) *faulty {
	return &faulty{Repository: r, start: start, dead: make(chan struct{}), faults: faults, bit: make(map[fault]int)}
}

func (f *faulty) isDead() bool {
	select {
	case <-f.dead:
		return true
	default:
		return false
	}
}

// next is the answer to a call, "" when all is well.
func (f *faulty) next(call string) answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Since(f.start)
	for _, one := range f.faults {
		over := now >= one.From+one.For
		if one.For == 0 {
			over = f.bit[one] > 0
		}
		if one.Call == call && now >= one.From && !over {
			f.bit[one]++
			return one.Answer
		}
	}
	return ""
}

// call makes a call take effect, or not.
func (f *faulty) call(ctx context.Context, call string, operation func() error) error {
	if f.isDead() {
		return errDead
	}
	fate := f.next(call)
	switch fate {
	case fails:
		return errLost
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case dies:
		f.die()
		return errDead
	}
	err := operation()
	switch fate {
	case loses:
		return errLost
	case diesAfter:
		f.die()
		return errDead
	}
	return err
}

func (f *faulty) die() { f.death.Do(func() { close(f.dead) }) }

// answered is what a call returns beside its error.
func answered[V any](v V, err error) (V, error) {
	if err != nil {
		return *new(V), err
	}
	return v, nil
}

func (f *faulty) Claim(ctx context.Context, r almanac.ClaimRequest) (claim almanac.ClaimResult, err error) {
	err = f.call(ctx, "claim", func() (err error) {
		claim, err = f.Repository.Claim(ctx, r)
		return err
	})
	return answered(claim, err)
}

func (f *faulty) Confirm(ctx context.Context, events []almanac.Event) (confirmed almanac.ConfirmResult, err error) {
	err = f.call(ctx, "confirm", func() (err error) {
		confirmed, err = f.Repository.Confirm(ctx, events)
		return err
	})
	return answered(confirmed, err)
}

func (f *faulty) Return(ctx context.Context, events []almanac.Event) (returned []almanac.Event, err error) {
	err = f.call(ctx, "return", func() (err error) {
		returned, err = f.Repository.Return(ctx, events)
		return err
	})
	return answered(returned, err)
}

func (f *faulty) Settle(ctx context.Context, batch []almanac.Settlement) (settled []almanac.SettleResult, err error) {
	err = f.call(ctx, "settle", func() (err error) {
		settled, err = f.Repository.Settle(ctx, batch)
		return err
	})
	return answered(settled, err)
}

func (f *faulty) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) (held []uuid.UUID, err error) {
	err = f.call(ctx, "renew", func() (err error) {
		held, err = f.Repository.Renew(ctx, tokens, lease)
		return err
	})
	return answered(held, err)
}

func (f *faulty) Release(ctx context.Context, token uuid.UUID) (released []almanac.Event, err error) {
	err = f.call(ctx, "release", func() (err error) {
		released, err = f.Repository.Release(ctx, token)
		return err
	})
	return answered(released, err)
}

func (f *faulty) ReleaseExpired(ctx context.Context, limit, most int) (released []almanac.Event, err error) {
	err = f.call(ctx, "sweep", func() (err error) {
		released, err = f.Repository.ReleaseExpired(ctx, limit, most)
		return err
	})
	return answered(released, err)
}

func (f *faulty) Until(ctx context.Context, types []string, mark time.Time) (wait time.Duration, known bool, err error) {
	err = f.call(ctx, "until", func() (err error) {
		wait, known, err = f.Repository.Until(ctx, types, mark)
		return err
	})
	return wait, known, err
}
