package main

import (
	"os"
	"testing"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// asProgram is the environment variable that makes the test binary the program itself, so
// that tests can start, stop and kill it.
const asProgram = "TEST_AS_BIRTHDAYD"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	pgtest.Main(m)
}
