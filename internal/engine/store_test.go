package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/almanac-go/almanac/internal/backoff"
	"github.com/almanac-go/almanac/internal/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errStore = errors.New("store is down")

type (
	// item is done for as long as takes says, or until its context ends.
	item struct {
		id    int
		due   time.Time
		takes time.Duration
		lease int // set by the claim
		// outcome is "done", or the reason why the item is not.
		outcome string
	}
	machine = engine.Engine[item]
	batch   struct {
		At  time.Duration // exported, so that it prints well
		IDs []int
	}
)

// ended returns an item with its outcome.
func (it item) ended(outcome string) item {
	it.outcome = outcome
	return it
}

func keyOf(lease int) (k engine.Key) {
	binary.BigEndian.PutUint64(k[:], uint64(lease))
	return k
}

// sameKey gives every item one lease.
func sameKey(item) engine.Key { return keyOf(1) }

// byNumber renews leases by their numbers.
func byNumber(renew func(context.Context, []int) ([]int, error)) func(context.Context, []engine.Key) ([]engine.Key, error) {
	return func(ctx context.Context, keys []engine.Key) (held []engine.Key, err error) {
		var leases []int
		for _, k := range keys {
			leases = append(leases, int(binary.BigEndian.Uint64(k[:])))
		}
		kept, err := renew(ctx, leases)
		for _, lease := range kept {
			held = append(held, keyOf(lease))
		}
		return held, err
	}
}

// store keeps items in memory and records the engine's calls. Fields switch its failures;
// they are set before the engine runs or under mu.
type store struct {
	mu      sync.Mutex
	start   time.Time
	waiting []item
	settled map[int]string
	log     journal

	claims  []time.Duration // when Claim was called
	looks   []time.Duration // when Until was called
	begun   map[int]time.Duration
	batches []batch // each call of Settle, failed ones included
	renewed []time.Duration
	held    int

	failClaim, failUntil, failSettle, failRenew func(call int) error
	lost                                        map[int]bool // leases that another process has
	locked                                      map[int]bool // items that another transaction has locked, so that their results must wait
}

func newStore(items ...item) *store {
	return &store{
		start: time.Now(), waiting: items, begun: map[int]time.Duration{},
		settled: map[int]string{}, lost: map[int]bool{}, locked: map[int]bool{},
	}
}

// engine returns an engine with settings that tests then change.
func (s *store) engine() *machine {
	retry := backoff.Exponential{First: 100 * time.Millisecond, Max: 5 * time.Second, Factor: 2}
	return &machine{
		Claim: s.claim, Until: s.until, Do: returning(s.do), Settle: s.settle,
		Limit:  func(item) time.Duration { return 24 * time.Hour },
		Exited: func(it item, _ any, _ []byte) item { return it.ended("exited") },
		Leases: engine.Leases[item]{
			Key: func(it item) engine.Key { return keyOf(it.lease) }, Renew: byNumber(s.renew), TTL: 30 * time.Second,
		},
		Settings: engine.Settings{
			Slots: 10, Batch: 10, Poll: time.Second, Drain: time.Minute, Abandon: time.Second,
			Backoff: func(n int) time.Duration { return retry.Delay(n, 0) },
		},
		Log: slog.New(slog.NewTextHandler(&s.log, nil)),
	}
}

func (s *store) now() time.Duration { return time.Since(s.start) }

func (s *store) add(items ...item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, items...)
}

func (s *store) claim(_ context.Context, free int) ([]item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, s.now())
	if s.failClaim != nil {
		if err := s.failClaim(len(s.claims)); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(s.waiting, func(a, b item) int { return a.due.Compare(b.due) })
	var taken []item
	for len(s.waiting) > 0 && len(taken) < free && !s.waiting[0].due.After(time.Now()) {
		it := s.waiting[0]
		it.lease = len(s.claims)
		taken, s.waiting = append(taken, it), s.waiting[1:]
	}
	s.held += len(taken)
	return taken, nil
}

func (s *store) until(context.Context) (time.Duration, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, s.now())
	if s.failUntil != nil {
		if err := s.failUntil(len(s.looks)); err != nil {
			return 0, false, err
		}
	}
	if len(s.waiting) == 0 {
		return 0, false, nil
	}
	next := slices.MinFunc(s.waiting, func(a, b item) int { return a.due.Compare(b.due) })
	return time.Until(next.due), true, nil
}

func (s *store) do(ctx context.Context, it item) item {
	s.mu.Lock()
	s.begun[it.id] = s.now()
	s.mu.Unlock()
	// A timer of zero runs in the goroutine that checks it. When two goroutines of one
	// bubble do so at once, the race detector of Go 1.26 crashes.
	if it.takes == 0 {
		return it.ended("done")
	}
	select {
	case <-time.After(it.takes):
		return it.ended("done")
	case <-ctx.Done():
		return it.ended(context.Cause(ctx).Error())
	}
}

// returning returns a Do whose items return with it.
func returning(do func(context.Context, item) item) func(context.Context, item, engine.Later[item]) (item, bool) {
	return func(ctx context.Context, it item, _ engine.Later[item]) (item, bool) { return do(ctx, it), true }
}

func (s *store) settle(ctx context.Context, results []item) (later []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []int
	for _, r := range results {
		ids = append(ids, r.id)
	}
	s.batches = append(s.batches, batch{s.now(), ids})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.failSettle != nil {
		if err := s.failSettle(len(s.batches)); err != nil {
			return nil, err
		}
	}
	for i, r := range results {
		if s.locked[r.id] {
			later = append(later, i)
			continue
		}
		s.settled[r.id] += r.outcome // storing a result twice would show
	}
	s.held -= len(results) - len(later)
	return later, nil
}

func (s *store) renew(_ context.Context, keys []int) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed = append(s.renewed, s.now())
	if s.failRenew != nil {
		if err := s.failRenew(len(s.renewed)); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k int) bool { return s.lost[k] }), nil
}

// lock makes the results of items wait until unlock.
func (s *store) lock(ids ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.locked[id] = true
	}
}

func (s *store) unlock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.locked)
}

// soon returns an item that is due d from now.
func soon(id int, d, takes time.Duration) item {
	return item{id: id, due: time.Now().Add(d), takes: takes}
}

func always(int) error { return errStore }

// begin runs e. It returns a function that stops e and returns the error of Run.
func begin(t *testing.T, e *machine) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// pass lets d of virtual time go by, with everything that happens at its end. The lock
// orders what the test read or set before what the engine does meanwhile.
func (s *store) pass(d time.Duration) {
	s.mu.Lock()
	//lint:ignore SA2001 empty on purpose
	s.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
}

// stopClean stops an engine whose Run must return nil.
func stopClean(t *testing.T, stop func() error) {
	t.Helper()
	if err := stop(); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// journal collects log output.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) count(substring string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), substring)
}
