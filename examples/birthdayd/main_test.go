package main

import (
	"os"
	"testing"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// asProgram is the environment variable that makes the test binary the program itself, so
// that tests can start, stop and kill it.
const asProgram = "TEST_AS_BIRTHDAYD"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if err := calendar.RegisterSystems(calendars.All()...); err != nil { // as run does
		panic(err)
	}
	pgtest.Main(m)
}
