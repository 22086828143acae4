package house_test

import (
	"errors"
	"log"
	"os"
	"testing"
)

// The tests run at the root of the repository, in the workspace.
func TestMain(m *testing.M) {
	if err := errors.Join(os.Chdir("../.."), os.Unsetenv("GOWORK")); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}
