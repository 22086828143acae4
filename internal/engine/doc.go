// Package engine claims items when they are due, runs a function for each in a goroutine of its
// own, and settles the results in batches. The caller's functions decide what an item is, where it
// is stored and what is done with it. The package itself only starts, bounds and stops goroutines.
//
// # The path of an item
//
//	             Claim             Do               Settle
//	store ──────────────▶  item  ─────▶ result ──────────────▶ store
//	        at most as             one goroutine    a batch, repeated
//	        many items as          for each item    until it is stored
//	        there are free slots
//	      └────────────────── one slot, one lease ──────────────┘
//
// Items can also be claimed before they are due ([Ahead]). Such an item has its slot and
// its lease, and is held until it is due. Then Ahead.Confirm reports whether the engine may
// still do the item. A held item that is gone by then leads to no result. Neither does one
// that the engine releases because Run was asked to stop.
//
// An item keeps its slot from the claim until its result is stored. A store that cannot
// settle therefore stops further claims, and memory stays bounded. After a failed call, the next
// call of Claim or Settle has half as many items, because the call may have taken too long. An
// item that Claim returns leads to one settled result. The engine logs each exception as an error:
//
//   - the item's lease ended before the item could start;
//   - Claim returned more items than it was asked for;
//   - the result could not be stored while its lease lasted;
//   - the item ignored the end of its context for longer than the engine waits.
//
// In the last case the engine stops renewing the lease, so that another process can do
// the item. The item keeps its slot until Do returns.
//
// # Goroutines and their ends
//
//	goroutine  file       number     does                            ends
//	Run        engine.go  1          starts the rest, waits, drains  when all below have ended
//	claimer    claim.go   1          sleeps until due; claims        when Run's context is done
//	           once.go               or claims what is due           when nothing is left to do
//	holder     ahead.go   1          keeps items until they are due  when the claimer has ended
//	                                 and starts the confirmed ones
//	item       do.go      ≤ Slots    calls Do, passes the result on  when Do returns
//	settler    settle.go  Settlers   stores batches                  when Run announces that no more results
//	                                                                 come, and the last ones are dealt with
//	postponer  postpone.go 1         retries postponed results       when the settlers have ended and
//	                                                                 nothing is postponed
//	renewer    renew.go   1          renews leases, cancels the      when the postponer has ended
//	                                 items of lost ones, abandons
//	                                 those of stuck items
//	task       every.go   per Task   maintenance at an interval      when Run's context is done
//
// Three contexts keep them apart. Run's own context ends the claims and the maintenance
// tasks. The work context, which Claim and Do get, outlives Run's by up to Settings.Drain and
// is then cancelled with [ErrDraining]. Each item has a context below the work context, which
// ends at the item's limit, or with [ErrLeaseLost] when the item's lease is lost. Settle and
// Renew get a third context, which is never cancelled, with a deadline for each call.
//
//	Run's context done ──▶ no new claim, no new round of a task, held items are released
//	          │ until the running items have returned, at most Drain
//	work context cancelled: ErrDraining
//	          │ until the running items have returned, at most Abandon
//	settlers learn that no more results come
//	          │ until all results are stored, at most one TTL after the last success
//	renewer stopped ──▶ Run returns
//
// Under Settings.Once the claimer itself ends Run's context when nothing is left to do.
// Everything after that is the same.
//
// # Time
//
// The store's clock decides what is due: the engine only asks how long it is until then, and sleeps
// on its own monotonic clock. So it compares no two clocks, and the network delays an item by half
// a round trip but never makes it early. Polling finds every item; a wake-up only finds it sooner.
// A trigger from outside each minute would make items up to a minute late. The engine also judges
// leases by its own clock, counting from before the call that obtained the lease. It therefore
// considers a lease ended no later than the store does.
//
// # Callbacks
//
// Claim, Until, Settle, Renew, the functions of Ahead and the tasks must return when their
// context ends; otherwise Run cannot return. One goroutine at a time calls each of them,
// except Settle, which each settler and the postponer may call at once. Different
// functions overlap with each other and with Do. A panic in any of them, or in Exited,
// Limit or Key, crashes the program, and so does [runtime.Goexit]. In Do both become a result.
package engine
