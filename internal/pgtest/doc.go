// Package pgtest gives each test a PostgreSQL database of its own.
//
// A package that uses it runs its tests through [Main]:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and each test asks for a database, which is cloned from a migrated template
// in a fraction of a second and dropped when the test ends:
//
//	pool := pgtest.Pool(t)
//
// The tests of one process share one server, which is started when the first of
// them asks. It is the first of these that is to be had, and a line on standard
// error says which:
//
//  1. the server that [DatabaseVariable] names; the role in the URL must be
//     allowed to create databases, and for pgtest's own tests also roles;
//  2. a container of the image that [ImageVariable] names, or else of
//     [DefaultImage], when a Docker engine answers and has the image or can pull
//     it. An image named by the variable is an order: without it the tests fail;
//  3. a private server from binaries on the machine.
//
// Tests are never skipped for want of a server: without one they fail, and say
// what would help.
//
// With [BouncerVariable] the tests reach that server through a PgBouncer in
// transaction mode, set up so that a client's next transaction meets another
// session than its last: what counts on a session, such as a prepared statement,
// does not last long. pgx is told by the URL to prepare none
// (default_query_exec_mode=exec, as pgx's documentation asks for with a PgBouncer
// before 1.21). What a test does for itself and needs a session for goes around
// it through [Direct].
//
// What is started is stopped by Main, and also when the test process dies, in
// the case of a container by the reaper of testcontainers. Only a server that
// was given keeps what a killed process leaves: databases whose names begin
// with "almanac_test_".
package pgtest
