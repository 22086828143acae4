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
// The server is the first of these that is available. A line on standard error says which:
//
//  1. the server that [DatabaseVariable] names. Its role must be allowed to
//     create databases, and for some tests also roles;
//  2. a container of the image that [ImageVariable] names, or else of
//     [DefaultImage], when a Docker engine answers and has the image or can pull
//     it. If the variable names an image, nothing else is used;
//  3. a server from binaries on the machine.
//
// Without a server the tests fail, and say what would help. They are never skipped.
//
// On Linux all packages of one go command share a container or server. The first process that needs it
// starts a helper, which is its test binary again. The helper starts the server, makes the template, and
// writes both to a file that the other processes find by the process id of the go command. The helper
// stops the server when the go command has ended, also if that was killed. On other systems, and without
// a go command, each process has a server of its own, which ends with it.
//
// Packages therefore run side by side on one server. Names of roles must be
// unique, and a test that counts sessions counts those of its database. A test
// that stops the server or changes its settings starts one by package pgserver.
//
// With [PoolerVariable] the tested code reaches the named server through a pooler.
// Tests that need one session for their own statements bypass it by [Direct].
//
// Only a named server keeps what a killed process leaves: databases whose names begin with "almanac_test_".
package pgtest
