//go:build !linux

package pgtest

import "errors"

// On other systems each process starts a server for itself: there is no /proc, in which a helper
// can find its go command.
const helperVariable = "ALMANAC_TEST_HELPER"

type goCommand struct{}

func findCommand() (goCommand, bool) { return goCommand{}, false }

func (goCommand) attach() (source, error) { return source{}, errors.ErrUnsupported }

func help() int { return 1 }
