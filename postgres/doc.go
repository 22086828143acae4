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
// [NewSQL] takes a transaction of database/sql, if its driver is pgx's.
//
// # Statements
//
// Each statement is a file under queries, with a header that says what it takes,
// what it returns and what it locks. Some things stand for text that is filled in
// when a store is made: :"schema" for the quoted PostgreSQL schema, :event, :claimed
// and :user for the columns of a row, in the order in which it is scanned, :holds
// for a condition on leases; or when a specification is asked for: :pending,
// :processing and :ended. Nothing relies on the search_path.
//
// # Tables
//
// An event that is open is a row of series, which its successor takes over in place.
// While it is PENDING it is in the queue, too; a claim deletes it there and writes
// one lease for all that it took, which makes them PROCESSING. What has ended is
// appended to the history. The view events is all of them, with the columns of an
// event; it is for reading. Counters and versions of a series are those of its event
// while it is PENDING, so a lease lists the versions that it claimed: it holds an
// event that is still at that version, and nothing else needs to be written when an
// event is claimed.
//
// # Locks
//
// Claims, settlements, releases, sweeps and backfills pass over rows that another
// transaction has locked (SKIP LOCKED): they wait neither for each other nor for a
// host's transaction that stays open. What they pass over is for later; Settle answers
// [almanac.ErrLocked]. Everything else locks users first, then series, each in the
// order of their ids, and then what is in the queue. It waits for half of
// [WithTimeout], and fails with ErrLocked then. No cycle is left for a deadlock; one
// that a host's own transaction closes is retried.
//
// A settlement plans successors from the users as their events' claim returned them
// and locks none of them. Each series knows the version of its user, and an outcome
// takes effect where that is still the one that was planned from. What is left is
// settled in a second transaction, which locks users FOR NO KEY UPDATE, as an edit does
// (PostgreSQL manual, section 13.3.2): a successor never comes from a user that is being
// changed, or was. A settlement that stores events in other series has a transaction of
// its own, which locks its user too. A backfill locks a page of users FOR SHARE, so that
// edits of these wait for it, for as long as it takes to store a thousand events.
//
// # Ahead
//
// A lease may hold events that are not due yet (its ahead_since says since when). Until
// their target nobody has begun them: an edit or a deletion, which has locked their
// series and waited for claims in progress, puts them back into the queue at another
// version, before it looks at what is pending. Whoever holds them asks at the target
// whether their versions still stand ([Store.Confirm]). An edit reads the clock after it
// has locked, and a confirmation before it reads, so one of the two sees the other.
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
// is left that uses it. [MigrateDown] undoes one migration after the other, which none
// of this needs; it loses nothing for good unless it is told that it may.
//
// [Export] is the migrations as SQL, for people who apply them by hand, or in the
// files of goose, tern or golang-migrate, up and down. [Store.Examine] says in what a
// database is not as the migrations make it. The command almanac has all of it, and
// with almanac doctor more of what can be wrong.
//
// # Pools
//
// Give Scheduler.Run a pool of its own, and everything else another. A pool hands
// out connections in the order in which they are asked for: behind a hundred calls
// of an API that wait for a slow statement, claims come late, outcomes cannot be
// stored, and leases run out because nobody gets to renew them. Run needs few
// connections, however many events it delivers at once: one each to claim and to
// renew, two to settle, and two or three for upkeep. It holds none while it delivers.
// The one that listens is not the pool's and comes on top.
//
//	work, err := postgres.New(workerPool)
//	…
//	scheduler, err := almanac.NewScheduler(work, registry, options...)
//	…
//	api, err := postgres.New(apiPool)
//	…
//	planner := scheduler.With(api) // wakes the same Run
//
// The command birthdayd does it so. What the pools may have together has to fit into
// the server's max_connections and the role's CONNECTION LIMIT; where it does not,
// nothing is lost, but what is refused waits for up to five seconds.
//
// # database/sql
//
// A host whose own code is on database/sql opens it on the pool, so that both share
// connections and their limit, and binds a scheduler to its transactions:
//
//	db := stdlib.OpenDBFromPool(pool)
//	…
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	store, err := postgres.NewSQL(tx)
//	…
//	enrolment, err := scheduler.With(store).CreateUser(ctx, profile)
//	…
//	err = tx.Commit()
//
// With another driver, such as lib/pq, there is no common transaction: a [DriverError]
// says so, and nothing is stored. Either the driver is exchanged for pgx's, which takes
// the same URLs and placeholders, or the host chooses the id of the person, commits its
// own row with a note of what is left to do, and calls Almanac until that succeeds or
// matches almanac.ErrExists.
//
// # Failures
//
// What the database undid to let another pass, and what a broken connection cut off
// before its COMMIT was sent, is repeated on whatever connection there is, at most
// five times and within [WithTimeout]. Everything else is the caller's to repeat; Run
// does so by itself, after a while that grows to five seconds. pgconn.SafeToRetry
// tells of an error of a [Store] whether it is certain that nothing was stored. It is
// not when the connection broke while the answer to COMMIT was awaited: look before
// a person is created again.
//
// # Failover
//
// A pool keeps its connections when another server takes over, and the old one may
// still answer. A connection that refuses to write (25006) is closed, so that the
// pool loses those that lead to a server that was demoted. To find the new one, name
// both hosts in the URL of the pool and add target_session_attrs=read-write, or let a
// proxy do it. A connection on which one only reads does not notice: bound its life
// by pool_max_conn_lifetime. Commits that a standby had not got when it took over
// are lost; deliveries that they recorded are made again with the same key, but an
// edit that was acknowledged is gone unless the standby is synchronous.
//
// # Hints
//
// A store on a pool listens for what other processes store (LISTEN), while
// Scheduler.Run runs, on a connection of its own beside those of the pool, so that an
// event for the next moments is not late by a poll. What is stored and can be claimed
// within a minute is told to the others (NOTIFY), in the transaction that stores it,
// a host's included, once per transaction. Transactions that notify commit one after
// the other, all over the server, since they hold a lock while they do (NOTIFY in the
// PostgreSQL manual); those that store only what is further ahead do not notify.
//
// A hint that is lost costs nothing but the wait for the poll. A listener that hears
// nothing, be it for a connection that died or for a pooler, notices within half a
// minute, says so once, and tries again ever more rarely. [PollOnly] does without.
//
// # Poolers
//
// A store keeps nothing in a session of its pool: no setting, no lock that outlives
// its transaction, no LISTEN. It works through a pooler that hands each transaction to
// another session, such as PgBouncer in transaction mode. pgx does prepare
// statements, which only PgBouncer 1.21 and later can carry along
// (max_prepared_statements); before an older one add
//
//	default_query_exec_mode=exec
//
// to the URL of the pool, and datestyle=ISO where a role or the database has
// another, since values then travel as text. The tests are run that way too.
//
// Notifications do not come through it: use [PollOnly], or lead the connection that
// listens past it, by a BeforeConnect of the pool that knows it by [ListenerName].
//
// Time spent in the queue of a pooler counts towards [WithTimeout]. Close the pool
// before the program ends: that waits until a statement that was given up is
// cancelled. PgBouncer 1.18 falls over, for all its clients, when a program goes
// away in the middle of a cancellation.
package postgres
