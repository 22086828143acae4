// Package pgserver runs a private PostgreSQL server from the binaries that are
// on the machine, for programs that need a database and were given none.
//
// [Find] looks for the binaries and [Start] runs them:
//
//	home/            Config.Dir, or a fresh temporary directory
//	├── data/        the cluster; belongs to the account the server runs as
//	├── password     the superuser's, random, readable by the starting user only
//	├── server.log   what the server said since its last start; .old before that
//	└── lock, owner  held while a program starts the server, and while it runs it
//
// The server listens on a free port of 127.0.0.1, has no Unix socket, and requires the
// password from every client. Other users of the machine therefore have no access.
//
// PostgreSQL refuses to run as root. If the program runs as root, the server runs as the owner of an
// existing cluster. For a new cluster it runs as "postgres" if there is such an account, or as "nobody".
//
// The server never outlives the program that started it, even if that program is killed. A small
// shell between the two stops the server when the program's end of a pipe closes. Ctrl-C in a
// terminal reaches only the program, which can finish its work before it stops its database.
package pgserver
