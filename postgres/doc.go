// Package postgres keeps Almanac's users and events in PostgreSQL 13 or later,
// through pgx.
//
// [New] takes a pool, a connection or a transaction. On a transaction of the
// host's, everything that a scheduler stores is part of it:
//
//	tx, err := pool.Begin(ctx)
//	…
//	store, err := postgres.New(tx)
//	…
//	enrolment, err := scheduler.With(store).CreateUser(ctx, profile)
//	…
//	err = tx.Commit(ctx)
//
// # Statements
//
// Each statement is a file under queries, with a header that says what it takes,
// what it returns and what it locks. Three things stand for text that is filled in
// when a store is made: :"schema" for the quoted PostgreSQL schema, :event and
// :user for the columns of a row, in the order in which it is scanned. Nothing
// relies on the search_path.
//
// # Locks
//
// Claims and sweeps pass over rows that others hold (SKIP LOCKED), so they never
// wait for each other. Whatever changes a user or ends an event locks users first
// and events second, each in the order of their ids; leases are taken away before
// the events that they hold, and a settlement never waits for a lease. No cycle is
// left for a deadlock; one that a host's own transaction closes is retried.
//
// Settling locks the users FOR SHARE, and an edit locks its user FOR NO KEY
// UPDATE (PostgreSQL manual, section 13.3.2): the two exclude each other, so that a
// successor is never planned from a user who is being changed.
//
// # Isolation
//
// Transactions that the store begins are READ COMMITTED, whatever the role's
// default is, because re-checking a locked row's latest version is what the
// statements count on (PostgreSQL manual, section 13.2.1).
//
// # Releases
//
// A scheduler does not run on a database that lacks a migration of its release
// ([Store.Verify]), and does run on one that a newer release has migrated, so that
// programs of two releases work side by side while the newer takes over, and the
// older can come back. Migrations therefore only add what the releases before can
// do without; what a release no longer uses goes with a later one, when no program
// is left that uses it. There is no way down.
//
// # Poolers
//
// A store keeps nothing in a session: no setting, no lock that outlives its
// transaction, no LISTEN. It works through a pooler that hands each transaction to
// another session, such as PgBouncer in transaction mode. pgx does prepare
// statements, which only PgBouncer 1.21 and later can carry along
// (max_prepared_statements); before an older one add
//
//	default_query_exec_mode=exec
//
// to the URL of the pool, and datestyle=ISO where a role or the database has
// another, since values then travel as text. The tests are run that way too.
//
// Time spent in the queue of a pooler counts towards [WithTimeout]. Close the pool
// before the program ends: that waits until a statement that was given up is
// cancelled. PgBouncer 1.18 falls over, for all its clients, when a program goes
// away in the middle of a cancellation.
package postgres
