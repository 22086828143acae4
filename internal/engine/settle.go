package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// settler gathers results into batches and stores them, one batch at a time. There are
// Settings.Settlers of them. One gathers while the others store.
type settler[T any] struct {
	r         *run[T]
	tracker   *tracker
	gathering chan struct{} // full while one of the settlers gathers
	size      CallSize
	works     bool      // whether a call has succeeded since a result was postponed because it failed alone
	limit     time.Time // when to stop trying, once no more results come; zero before
	err       error     // returned by Run: results discarded since Run was asked to stop
}

// run ends once r.last is closed and all earlier results are dealt with.
func (s *settler[T]) run(ctx context.Context) {
	for {
		s.gathering <- struct{}{}
		batch := s.gather()
		<-s.gathering
		if len(batch) == 0 {
			return
		}
		s.settle(ctx, batch)
	}
}

// gather waits for a result and then up to Settings.Linger for more. It returns none when
// no more results come.
func (s *settler[T]) gather() []finished[T] {
	batch := make([]finished[T], 0, s.r.Settings.Batch)
	select {
	case o := <-s.r.results:
		batch = append(batch, o)
	case <-s.r.last:
		return s.fill(batch)
	}

	if s.r.Settings.Linger == 0 {
		return s.fill(batch)
	}
	linger := time.NewTimer(s.r.Settings.Linger)
	defer linger.Stop()
	for len(batch) < s.r.Settings.Batch {
		select {
		case o := <-s.r.results:
			batch = append(batch, o)
		case <-linger.C:
			return s.fill(batch)
		case <-s.r.last:
			return s.fill(batch)
		}
	}
	return batch
}

// fill adds the results that are ready.
func (s *settler[T]) fill(batch []finished[T]) []finished[T] {
	for len(batch) < s.r.Settings.Batch {
		select {
		case o := <-s.r.results:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// settle stores batch, in one call unless a call has failed, and frees its slots. It tries again until all
// results are stored, postponed or discarded. The results of a failed call come after the others. A result
// that fails alone is postponed with its slot if the store works: then it may take too long in every call.
func (s *settler[T]) settle(ctx context.Context, batch []finished[T]) {
	defer s.tracker.idle() // nothing of the batch is left
	failures := 0
	for len(batch) > 0 {
		s.checkLast()
		n := s.size.Of(len(batch))
		later, err := s.try(ctx, batch[:n])
		if err == nil {
			s.checkLast()
			if s.draining() {
				s.limit = time.Now().Add(s.r.Leases.TTL) // the store works: go on
			}
			left, stored := split(batch[:n], later)
			s.free(stored)
			if len(left) > 0 {
				s.r.postponer.add(left, true)
			}
			batch, failures, s.works = batch[n:], 0, true
			continue
		}

		failed := batch[:n]
		if n == 1 && s.works {
			s.r.log.WarnContext(ctx, "settle failed", "error", err, "results", 1, "retry_in", firstRetry)
			s.r.postponer.add(failed, false)
			failed, s.works = nil, false // postpones no more than one if the store fails from now on
		}
		batch = slices.Concat(batch[n:], failed)
		batch = s.discard(ctx, batch, err)
		if len(batch) == 0 {
			return
		}
		failures++
		wait := min(s.r.backoff(failures), time.Until(s.end(batch)))
		s.r.log.WarnContext(ctx, "settle failed", "error", err, "results", len(batch), "retry_in", wait)
		s.sleep(ctx, wait)
	}
}

// try stores batch once, and returns the indexes of the results to postpone.
func (s *settler[T]) try(ctx context.Context, batch []finished[T]) (later []int, err error) {
	deadline := time.Now().Add(s.r.call())
	if s.draining() && s.limit.Before(deadline) {
		deadline = s.limit
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()

	results := make([]T, len(batch))
	for i, o := range batch {
		results[i] = o.result
	}
	s.tracker.try()
	asked := time.Now()
	later, err = s.r.Settle(ctx, results)
	s.size.Note(len(batch), asked, s.r.call(), err)
	s.tracker.tried(err)
	return later, err
}

// discard frees the results of batch whose lease has ended, or all when the drain's limit
// has passed. It returns the rest.
func (s *settler[T]) discard(ctx context.Context, batch []finished[T], cause error) []finished[T] {
	now := time.Now()
	pastLimit := s.draining() && !now.Before(s.limit)
	var kept, lost []finished[T]
	for _, o := range batch {
		if pastLimit || !now.Before(s.r.ledger.endOf(o.share)) {
			s.r.ledger.countLost(o.share, now)
			lost = append(lost, o)
			continue
		}
		kept = append(kept, o)
	}
	if len(lost) == 0 {
		return kept
	}
	s.r.log.ErrorContext(ctx, "results given up, they could not be stored in time", "count", len(lost), "error", cause)
	if s.r.isStopping() || s.r.Settings.Once { // otherwise the log must do: Run goes on
		s.err = errors.Join(s.err, fmt.Errorf("%w: %d: %w", ErrUnsettled, len(lost), cause))
	}
	s.free(lost)
	return kept
}

// free ends the lease shares of batch and frees its slots.
func (s *settler[T]) free(batch []finished[T]) {
	slots := 0
	for _, o := range batch {
		s.r.ledger.drop(o.share)
		if !o.slotless {
			slots++
		}
	}
	if slots > 0 {
		s.r.slots.put(slots)
	}
}

// end returns when to stop trying to store batch.
func (s *settler[T]) end(batch []finished[T]) time.Time {
	var end time.Time
	for _, o := range batch {
		if t := s.r.ledger.endOf(o.share); t.After(end) {
			end = t
		}
	}
	if s.draining() && s.limit.Before(end) {
		return s.limit
	}
	return end
}

// sleep waits before another try. It returns early when the drain begins meanwhile.
func (s *settler[T]) sleep(ctx context.Context, d time.Duration) {
	if s.draining() {
		pause(ctx, d, nil)
		return
	}
	pause(ctx, d, s.r.last)
}

// checkLast sets the limit the first time it sees that no more results come.
func (s *settler[T]) checkLast() {
	if s.draining() {
		return
	}
	select {
	case <-s.r.last:
		s.limit = time.Now().Add(s.r.Leases.TTL)
	default:
	}
}

func (s *settler[T]) draining() bool { return !s.limit.IsZero() }
