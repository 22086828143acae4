package dashboard

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/almanac-go/almanac/ops"
)

const (
	// maxDryRuns is how many dry runs are under way at a time, or wait to be shown.
	maxDryRuns = 8
	// dryRunKept is how long a result waits for the page that reloads itself.
	dryRunKept = 30 * time.Second
)

// dryRuns are the searches of events that operations would change. A filter without an index can take
// seconds, so the page does not wait for it: it says that the search is under way, and reloads itself.
type dryRuns struct {
	mu  sync.Mutex
	all map[string]*dryRun // by the address of the filter
}

// dryRun is one search. Its result is there when done is closed.
type dryRun struct {
	Since  time.Time
	done   chan struct{}
	ended  time.Time
	result ops.OperateResult
	err    error
}

// errTooManyDryRuns is the answer to a search that cannot begin.
var errTooManyDryRuns = refused(http.StatusServiceUnavailable, "Other searches are under way. Try again in a moment.")

// begin returns the search of an address, and begins it if there is none.
func (s *dryRuns) begin(address string, clock func() time.Time, search func() (ops.OperateResult, error)) (*dryRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock()
	for key, one := range s.all {
		if !one.ended.IsZero() && now.Sub(one.ended) >= dryRunKept {
			delete(s.all, key)
		}
	}
	if one, ok := s.all[address]; ok {
		return one, nil
	}
	if len(s.all) >= maxDryRuns {
		return nil, errTooManyDryRuns
	}
	if s.all == nil {
		s.all = make(map[string]*dryRun)
	}
	one := &dryRun{Since: now, done: make(chan struct{})}
	s.all[address] = one
	go func() { // ends after operationLimit at the latest
		result, err := recovered(search)
		s.mu.Lock()
		defer s.mu.Unlock()
		one.result, one.err, one.ended = result, err, clock()
		close(one.done)
	}()
	return one, nil
}

// shown forgets a search, so that the next page searches again: its events may have changed.
func (s *dryRuns) shown(address string, one *dryRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[address] == one {
		delete(s.all, address)
	}
}

// dryRun returns what an operation would be applied to, or the search if it takes longer than patience.
func (d *dashboard) dryRun(r *request, f operationForm, w operationWish) (found ops.OperateResult, searching *dryRun, err error) {
	address := f.Address()
	one, err := d.dryRuns.begin(address, d.now, func() (ops.OperateResult, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), operationLimit)
		defer cancel()
		return ops.Operate(ctx, d.scheduler, w.kind.Name, w.filter, ops.OperateOptions{DryRun: true, Limit: w.limit})
	})
	if err != nil {
		return found, nil, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-one.done:
		d.dryRuns.shown(address, one)
		return one.result, nil, one.err
	case <-timer.C:
		return found, one, nil
	case <-r.Context().Done():
		return found, nil, r.Context().Err()
	}
}
