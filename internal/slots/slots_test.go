package slots_test

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/internal/slots"
)

// Other programs compute slots too, so the function can never change. docs/shards.md has the same vectors.
func TestOfIsThePublishedFunction(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{
		"00000000-0000-0000-0000-000000000000": 221,
		"ffffffff-ffff-ffff-ffff-ffffffffffff": 363,
		"0190a0a0-0000-7000-8000-000000000001": 934,
	} {
		if got := slots.Of(uuid.MustParse(id)); got != want {
			t.Errorf("Of(%s) = %d, want %d", id, got, want)
		}
	}
}

func TestNameChangesTheLastTenBitsAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "event"))
		user := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "user"))
		named := id
		slots.Name(&named, user)
		if slots.In(named) != slots.Of(user) {
			t.Fatalf("names slot %d, want %d", slots.In(named), slots.Of(user))
		}
		if [14]byte(named[:14]) != [14]byte(id[:14]) || named[14]>>2 != id[14]>>2 {
			t.Fatalf("%x became %x", id, named)
		}
	})
}

func TestOfSpreadsUsers(t *testing.T) {
	t.Parallel()
	var users [slots.Count]int
	for range 100 * slots.Count {
		users[slots.Of(uuid.New())]++
	}
	for slot, n := range users {
		if n < 40 || n > 180 { // six standard deviations from 100, and more
			t.Errorf("slot %d has %d of %d users", slot, n, 100*slots.Count)
		}
	}
}
