//go:build !unix || solaris || aix

package pgserver

import (
	"context"
	"errors"
	"os"
)

// A private server needs a Unix shell as its watchdog and Unix accounts to run as. On other
// systems Start refuses, and the definitions here only satisfy the compiler.
var errSystem = errors.New("pgserver: a private server cannot be run on this operating system: name a running one by URL")

const (
	fast      = ""
	immediate = ""
)

type account struct {
	name  string
	other bool
}

func accountFor(string) (account, error)                               { return account{}, errSystem }
func (account) own(string) error                                       { return errSystem }
func (account) disown(string) error                                    { return errSystem }
func (account) run(context.Context, string, ...string) ([]byte, error) { return nil, errSystem }
func (account) reach(_ context.Context, _, _ string) error             { return errSystem }

type process struct {
	pid   int
	ended chan struct{}
}

type command struct {
	account account
	argv    []string
	log     *os.File
	remove  string
	last    string
}

func launch(command, func()) (*process, error) { return nil, errSystem }
func (*process) send(string) error             { return errSystem }
func (*process) kill() error                   { return errSystem }
func alive(int) bool                           { return false }
func tryLock(*os.File) (bool, error)           { return false, errSystem }
