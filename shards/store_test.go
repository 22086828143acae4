package shards_test

import (
	"fmt"
	"testing"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/almanactest/conformance"
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
	var places []shards.Place
	var schemas []shards.Schema
	for i := range n {
		r := almanactest.NewRepository(nil)
		places = append(places, shards.Place{Schema: fmt.Sprint("s", i)})
		schemas = append(schemas, shards.Schema{Name: fmt.Sprint("s", i), Repository: r, Statistics: r})
	}
	return open(t, shards.Options{Directory: shards.NewDirectory(places...), Schemas: schemas, Reservations: shards.NewMemoryReservations()})
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
			conformance.TestRepository(t, func(t *testing.T) almanac.Repository { return overMemories(t, n) })
			conformance.TestStatistics(t, func(t *testing.T) (almanac.Repository, ops.Statistics) {
				store := overMemories(t, n)
				return store, store
			})
		})
	}
}
