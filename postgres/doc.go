// Package postgres stores Almanac's users and events in PostgreSQL 13 or later, through pgx.
//
// [New] takes a pool, a connection or a transaction. On a transaction of the host,
// everything that a scheduler stores is part of that transaction:
//
//	tx, err := pool.Begin(ctx)
//	…
//	store, err := postgres.New(tx)
//	…
//	created, err := scheduler.With(store).CreateUser(ctx, profile)
//	…
//	err = tx.Commit(ctx)
//
// [NewSQL] takes a transaction of database/sql, if its driver is pgx's.
//
// # Statements
//
// Each statement is a file under queries. The header of the file names the parameters, the result
// and the locks. Placeholders stand for text that is filled in when a store is made:
//
//   - :"schema" is the quoted PostgreSQL schema.
//   - :event, :claimed and :user are the columns of a row, in the order in which
//     the row is scanned.
//   - :holds is a condition on leases.
//
// The placeholders :pending, :processing and :ended are filled in for each query by
// a specification. Statements mean the same whatever the search_path is, and whatever
// operators and functions other roles have created.
//
// # Tables
//
// An open event is a row of the table series. Its successor replaces it in the same row. While the event
// is PENDING, it also has a row in the table queue. A claim deletes the events' rows from the queue and
// inserts one lease for all of them, which makes the events PROCESSING. Ended events are inserted into
// the table history. The view events shows all events, with the columns of an event; it is for reading.
//
// Counters and version in a series row are those of its event while the event is
// PENDING. A lease lists the versions that it claimed, and holds an event as long as
// the event is at that version. So a claim writes nothing but the queue and the lease.
//
// # Locks
//
// Claims, settlements, releases, sweeps and backfills skip rows that another transaction has locked
// (SKIP LOCKED). They wait neither for each other nor for a transaction that the host keeps open.
// Skipped rows are processed later; Settle returns [almanac.ErrLocked] for them.
//
// All other calls lock users first, then series, each in the order of their ids, and
// then rows of the queue. They wait for half of [WithTimeout] by default (see
// [WithLockTimeout]), and then fail with ErrLocked. This order leaves no cycle for a
// deadlock. If a transaction of the host closes a cycle, the store retries its operation.
//
// A settlement locks no users. It plans successors from the users that the claim returned with the
// events. Each series row has the version of its user, and an outcome is stored only if that version is
// still the one that was planned from. The remaining outcomes are settled in a second transaction, which
// locks the users FOR NO KEY UPDATE, as an edit does (PostgreSQL manual, section 13.3.2). So a successor
// is never planned from a user that is being changed, or has been changed.
//
// A settlement that stores events in other series has a transaction of its own, which
// also locks the user. A backfill locks a page of users FOR SHARE. Edits of these users
// wait for the backfill, for as long as it takes to store a thousand events.
//
// # Claims ahead
//
// A lease may hold events that are not due yet; its column ahead_since has the time of the claim.
// No process begins such an event before its instant. Until then, an edit or a deletion releases
// the event: it puts the event back into the queue at another version, before it reads the pending
// events. It has locked the series by then, and waited for claims in progress.
//
// At the instant, the process that holds the events asks whether their versions are still current
// ([Store.Confirm]). An edit reads the clock after it has locked the series. A confirmation reads
// the clock before it reads the series. So at least one of the two sees the other.
//
// # Isolation
//
// The store begins its transactions as READ COMMITTED, whatever the role's default is.
// The statements rely on it: a statement that waited for a row lock checks the latest
// version of the row again (PostgreSQL manual, section 13.2.1).
//
// A transaction of the host may have another level. Above READ COMMITTED it does not see events
// that another program has stored since its first statement. So edits and deletions of users, and
// operations on their events, fail there with an [*IsolationError]. CreateUser works, since a new
// user has no other events.
//
// # The connection of a transaction of the host
//
// If a context ends in the middle of a statement, also because of [WithTimeout], pgx closes the
// connection, and the transaction is lost. So does an error that ends the session, such as
// idle_in_transaction_session_timeout, transaction_timeout or a restart of the server. Any other
// error of an operation undoes that operation alone.
//
// # Principals
//
// If the context of a call has a principal ([almanac.WithPrincipal]), each transaction of the call sets
// almanac.principal to it, for itself only. The default of audit.principal reads this setting. Without a
// principal nothing is sent, so claims and most outcomes cost nothing more. A setting of the session
// would leak to the next request that gets the connection. The name is a claim of the program: any role
// that may write events can set any name. The actor in the same row is the role of the session.
//
// In a transaction of the host, the operation sets its principal under its savepoint. At the
// end it restores what the host had set, so the host's later statements have no principal of
// the operation. A host can set almanac.principal itself with SET LOCAL. The setting then
// applies to its own statements, and to operations whose context has no principal.
//
// # Releases of Almanac
//
// A scheduler does not run on a database that lacks a migration of its release ([Store.Verify]). It
// does run on a database that a newer release has migrated. So programs of two releases work side
// by side during an upgrade, and a host can go back to the older release. Therefore migrations only
// add objects that earlier releases can do without. Objects that a release no longer uses are
// dropped by a later release, when no program uses them any more.
//
// [MigrateDown] undoes migrations, one per call. An upgrade or a downgrade does not
// need it. It loses no irreplaceable rows unless [MigrateDownOptions] allows it.
//
// [Export] returns the migrations as SQL, for users who apply them by hand, or as files for goose, tern
// or golang-migrate, up and down. [Store.Examine] reports how a database differs from what the
// migrations create. The command almanac offers all of these, and almanac doctor finds further problems.
//
// # Pools
//
// Give Scheduler.Run a pool of its own, and use another pool for everything else. A pool hands out
// connections in the order of the requests. If a hundred API calls wait for a slow statement in the same
// pool, claims are late, outcomes cannot be stored, and leases expire because they are not renewed.
//
// Run needs few connections, however many events it delivers at once: one to claim, one
// to renew, two to settle, and two or three for maintenance. It holds no connection while
// it delivers. The connection that listens is not from the pool and is needed besides.
//
//	work, err := postgres.New(workerPool)
//	…
//	scheduler, err := almanac.NewScheduler(work, registry, options...)
//	…
//	api, err := postgres.New(apiPool)
//	…
//	planner := scheduler.With(api) // wakes the same Run
//
// The command birthdayd is an example. The connections of all pools together must not
// exceed the server's max_connections and the role's CONNECTION LIMIT. If they do,
// nothing is lost, but a refused call waits for up to five seconds.
//
// A dashboard or a report gets a store with [ReadOnly], on a pool of its own. Such a store
// cannot write, and no statement of it takes longer than its limit.
//
// # database/sql
//
// A host that uses database/sql opens it on the pool, so that both share connections
// and their limit, and binds a scheduler to its transactions:
//
//	db := stdlib.OpenDBFromPool(pool)
//	…
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	store, err := postgres.NewSQL(tx)
//	…
//	created, err := scheduler.With(store).CreateUser(ctx, profile)
//	…
//	err = tx.Commit()
//
// With another driver, such as lib/pq, the host and Almanac cannot share a transaction: calls
// return a [DriverError], and nothing is stored. A host with such a driver has two ways:
//
//   - Replace the driver by pgx's, which takes the same URLs and placeholders.
//   - Choose the id of the user, and commit the host's own row with a note of the
//     pending call. Then call Almanac until the call succeeds or its error matches
//     almanac.ErrExists.
//
// # Failures
//
// The store repeats an operation that the database undid in favour of another transaction, and an
// operation whose connection broke before its COMMIT was sent. It repeats an operation at most five times
// and within [WithTimeout], on another connection if necessary. Other failures are returned, and the
// caller may repeat the call. Run repeats its calls by itself, after a delay that grows to five seconds.
//
// For an error of a [Store], pgconn.SafeToRetry reports whether it is certain that nothing
// was stored. It is not certain if the connection broke while the store waited for the
// response to COMMIT. Then check whether a user exists before you create the user again.
//
// # Failover
//
// A pool keeps its connections when another server becomes the primary, and the old server may
// still respond. The store closes a connection that refuses to write (25006), so that the pool
// drops connections to a demoted server. So that new connections reach the new primary, name both
// hosts in the URL of the pool and add target_session_attrs=read-write, or use a proxy. A
// connection that only reads does not notice the change: bound its life by pool_max_conn_lifetime.
//
// Commits that a standby had not received when it was promoted are lost. Deliveries that they recorded
// are made again with the same key. An acknowledged edit is lost unless the standby is synchronous.
//
// # Hints
//
// While Scheduler.Run runs, a store on a pool listens for events that other processes store (LISTEN), on
// a connection of its own besides those of the pool. So an event that is due within moments does not
// wait for the next poll. A transaction that stores events which can be claimed within a minute notifies
// the other processes (NOTIFY), once per transaction. The host's transactions do so too.
//
// Transactions that notify commit one after another on the whole server, because NOTIFY holds a lock during
// the commit (NOTIFY in the PostgreSQL manual). Transactions that store only later events do not notify.
//
// If a hint is lost, the event waits for the next poll. A listener that receives no notifications,
// because its connection died or because of a pooler, notices that within half a minute. It reports
// the failure once, and tries again at growing intervals. [PollOnly] turns hints off.
//
// # Poolers
//
// A store keeps nothing in a session of its pool: no setting, no lock that outlives its transaction, no
// LISTEN. It works through a pooler that assigns each transaction to another session, such as PgBouncer
// in transaction mode. However, pgx prepares statements, which only PgBouncer 1.21 and later supports in
// that mode (max_prepared_statements). For an older PgBouncer add
//
//	default_query_exec_mode=exec
//
// to the URL of the pool. Also add datestyle=ISO if a role or the database has another
// setting, because values then travel as text. The tests also run in this mode.
//
// Notifications do not pass such a pooler. Use [PollOnly], or connect the listening connection
// directly to the server: a BeforeConnect function of the pool recognises it by [ListenerName].
//
// Time spent in the queue of a pooler counts towards [WithTimeout]. Close the pool before
// the program ends: Close waits until an abandoned statement is cancelled. PgBouncer 1.18
// crashes, for all its clients, when a program exits in the middle of a cancellation.
package postgres
