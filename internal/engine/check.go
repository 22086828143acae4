package engine

import (
	"errors"
	"fmt"
	"time"
)

// check returns all complaints about e's fields, joined, or nil.
func (e *Engine[T]) check() error {
	var errs []error
	require := func(ok bool, complaint string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("engine: "+complaint, args...))
		}
	}

	require(e.Claim != nil, "no Claim")
	require(e.Until != nil, "no Until")
	require(e.Do != nil, "no Do")
	require(e.Limit != nil, "no Limit")
	require(e.Exited != nil, "no Exited")
	require(e.Settle != nil, "no Settle")

	l := e.Leases
	require(l.Key != nil, "no Leases.Key")
	require(l.Renew != nil, "no Leases.Renew")
	require(l.TTL >= time.Millisecond, "Leases.TTL of %v is under a millisecond", l.TTL)

	if a := e.Ahead; a.Window != 0 {
		require(a.Window > 0 && a.Window <= l.TTL/3, "Ahead.Window of %v is not between 0 and a third of Leases.TTL", a.Window)
		require(a.Claim != nil, "no Ahead.Claim")
		require(a.Wait != nil, "no Ahead.Wait")
		require(a.Confirm != nil, "no Ahead.Confirm")
		require(a.Return != nil, "no Ahead.Return")
	}

	s := e.Settings
	require(s.Slots > 0, "%d Slots", s.Slots)
	require(s.MaxClaim >= 0, "MaxClaim of %d", s.MaxClaim)
	require(s.Batch > 0, "Batch of %d", s.Batch)
	require(s.Settlers >= 0, "%d Settlers", s.Settlers)
	require(s.Linger >= 0, "Linger of %v", s.Linger)
	require(s.Poll >= time.Millisecond, "Poll of %v is under a millisecond", s.Poll)
	require(s.Drain >= 0, "Drain of %v", s.Drain)
	require(s.Abandon >= 0, "Abandon of %v", s.Abandon)
	require(s.Backoff != nil, "no Backoff")

	for _, task := range e.Tasks {
		require(task.Do != nil, "task %q has no Do", task.Name)
		require(task.Every >= time.Millisecond, "task %q runs every %v, under a millisecond", task.Name, task.Every)
	}
	return errors.Join(errs...)
}
