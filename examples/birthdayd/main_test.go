package main

import (
	"os"
	"testing"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// asProgram in the environment makes the test binary the program itself, so that
// tests can start it, stop it and kill it like any other.
const asProgram = "TEST_AS_BIRTHDAYD"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	pgtest.Main(m)
}
