// Package engine claims items when they are due, does each in a goroutine of
// its own, and settles the results in batches. It is goroutines and nothing
// else: what an item is, where it is stored and what doing it means are
// functions of the caller's.
//
// # The way of an item
//
//	             Claim            Do               Settle
//	store ──────────────▶ in hand ────▶ result ──────────────▶ store
//	        at most as            one goroutine     a batch, again and
//	        many as there         for each item     again, until stored
//	        are free slots
//	      └───────────────── one slot, one lease ─────────────┘
//
// Items can also be claimed before they are due ([Ahead]). Such an item has its slot
// and its lease, and is held until it is due; then the store is asked whether it is
// still ours, and only what it confirms is done. What is gone by then, or given back
// because Run was asked to stop, leads to no result.
//
// A slot is held from the claim until the result is stored. A store that cannot
// settle therefore stops the claiming by itself, and memory stays bounded.
// Each item claimed leads to one result that is settled. The exceptions are
// each logged as an error: an item whose lease was over before it could start,
// one that the store handed out in excess of what was asked for, a result that
// could not be stored while its lease lasted, and an item that ignored the end of
// its context for longer than the engine waits. The lease of such an item is let
// go, so that somebody else can do it; its slot is taken until it returns.
//
// # Who runs, and who stops whom
//
//	actor    file       number     does                             ends
//	Run      engine.go  1          starts the rest, waits, drains   when all below have
//	claimer  claim.go   1          sleeps until due; claims         when Run's context does
//	         once.go               or claims what is due            when nothing is left to do
//	holder   ahead.go   1          keeps what is not due yet, and   when the claimer has ended
//	                               begins it when confirmed
//	item     do.go      ≤ Slots    calls Do, hands on the result    when Do returns
//	settler  settle.go  Settlers   stores batches                   when Run says that no result is to come,
//	                                                                and those that came are dealt with
//	renewer  renew.go   1          keeps leases, reports lost ones, when the settlers have ended
//	                               lets go those of stuck items
//	chore    every.go   per Chore  upkeep at an interval            when Run's context does
//
// Three contexts keep them apart. Run's own ends the claiming and the chores.
// The work context, which Claim and Do get, outlives it by up to Settings.Drain
// and is then cancelled with [ErrDraining]; below it each item has one of its
// own, which ends at its limit, or with [ErrLeaseLost] when its lease is gone.
// Settle and Renew get a third, which nobody cancels, with a deadline for each
// call.
//
//	Run's context done ──▶ no claim begins, no chore goes on, what is not begun is given back
//	          │ until the items in hand are done, at most Drain
//	work context cancelled: ErrDraining
//	          │ until the items in hand are done, at most Abandon
//	settlers told that no more is to come
//	          │ until all is stored, at most one TTL after the last success
//	renewer stopped ──▶ Run returns
//
// Under Settings.Once the claimer ends Run's context itself when nothing is left to do.
// The rest is the same.
//
// # Time
//
// The store's clock decides what is due: the engine only ever asks how long,
// and sleeps on its own monotonic clock. It judges leases by that clock too,
// counting from before the call that obtained them, so that it takes a lease to
// be over no later than the store does.
//
// # Callbacks
//
// Claim, Until, Settle, Renew, those of Ahead and chores must return when their context ends,
// or Run cannot. Each is called by one goroutine at a time, Settle by one for each
// settler, but they overlap with each other and with Do. A panic in any of them, or in Exited, Limit or Key,
// is a fault of the program and crashes it; only a panic in Do becomes a result.
package engine
