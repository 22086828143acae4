// Package chaos breaks things under a running Almanac and checks that its promises
// hold: real worker processes, a PostgreSQL server of its own behind a proxy that
// can misbehave, and a receiver whose ledger is the truth.
//
// A [Run] stores users with a known series of occurrences, starts workers, lets a fault loose, heals it,
// waits until everything is delivered, and then checks the invariants ([Run.Check]). A fault that never met
// what it was meant to meet fails the run as vacuous: each row of the matrix says which counters must not
// be zero.
//
// A worker is the test program itself, started again with orders in its environment. It has the
// real engine, store and webhook. What must be delivered is computed without the library.
// Leases last three seconds, the shortest that the library allows. They are long in rows in
// which only the machine is slow, since no repeat is allowed there.
//
// The tests of this package are the matrix. Each prints its seed and figures; a run is repeated with the
// flag -seed. docs/reliability.md has the table. Rows that set the server's clock need libfaketime, which
// is Debian's package faketime. Rows with a mail server need Debian's package postfix, and root.
package chaos
