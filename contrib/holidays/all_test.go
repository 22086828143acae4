package holidays_test

import (
	"slices"
	"testing"

	"github.com/almanac-go/almanac/contrib/holidays"
)

func TestAllHasTheCalendarOfEachCode(t *testing.T) {
	t.Parallel()
	all, err := holidays.All()
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, c := range all {
		codes = append(codes, c.Name())
		if one, err := holidays.Calendar(c.Name()); one != c || err != nil {
			t.Errorf("the calendar of %s is another one, %v", c.Name(), err)
		}
	}
	if !slices.Equal(codes, holidays.Codes()) || len(codes) == 0 {
		t.Errorf("the names of all calendars are %v", codes)
	}
}
