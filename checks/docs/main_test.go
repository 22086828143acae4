package docs_test

import (
	"errors"
	"log"
	"os"
	"testing"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// The tests run where the documents are, in the workspace.
func TestMain(m *testing.M) {
	if err := errors.Join(os.Chdir("../../docs"), os.Unsetenv("GOWORK")); err != nil {
		log.Fatal(err)
	}
	pgtest.Main(m)
}
