//go:build long

package calendar_test

import (
	"sync"
	"testing"

	"github.com/almanac-go/almanac/calendar"
)

// Every pair of wrappers, in every zone, over 30 years.
func TestEveryPairOfWrappersInEveryZone(t *testing.T) {
	t.Parallel()
	wrappers, rules := wrappersOf(t), wrapped()
	zones := make(chan calendar.Timezone)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for zone := range zones {
				checkPairs(t, zone, wrappers, rules)
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

// checkPairs checks all pairs in a zone, each year with one of the policies.
func checkPairs(t *testing.T, zone calendar.Timezone, wrappers []wrapper, rules map[string]calendar.Recurrence) {
	for rule := range rules {
		for i, inner := range wrappers {
			for j, outer := range wrappers {
				for year := 2007; year <= 2036; year++ {
					p := pair{rule, inner, outer, zone, pairPolicies[(i+j+year)%len(pairPolicies)], year}
					if err := p.check(rules); err != nil {
						t.Errorf("%s: %v", p, err)
						return
					}
				}
			}
		}
	}
}
