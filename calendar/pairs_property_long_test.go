//go:build long

package calendar_test

import (
	"hash/crc32"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/almanac-go/almanac/calendar"
)

// Every wrapper around another one of every rule, in every zone: each zone has its own choice of inner wrappers and
// of 30 years, and all zones together have every pair of each rule about fifty times.
func TestEveryPairOfWrappersInEveryZone(t *testing.T) {
	t.Parallel()
	wrappers, rules := wrappersOf(t), wrapped()
	names := slices.Sorted(maps.Keys(rules))
	zones := make(chan calendar.Timezone)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for zone := range zones {
				for i, rule := range names {
					for j, outer := range wrappers {
						n := i + 5*j + int(crc32.ChecksumIEEE([]byte(zone.String())))%4096
						p := pair{rule, wrappers[n%len(wrappers)], outer, zone, pairPolicies[n%len(pairPolicies)], 2007 + n%30}
						if err := p.check(rules); err != nil {
							t.Errorf("%s: %v", p, err)
						}
					}
				}
			}
		})
	}
	for _, name := range calendar.TimezoneNames() {
		if zone, err := calendar.LoadTimezone(name); err == nil {
			zones <- zone
		}
	}
	close(zones)
	all.Wait()
}
