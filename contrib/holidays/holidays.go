package holidays

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/almanac-go/almanac/calendar"
)

//go:embed days/*.txt
var files embed.FS

// parsed reads all files, on the first call.
var parsed = sync.OnceValues(func() (map[string]*calendar.WorkCalendar, error) {
	const dir = "days"
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*calendar.WorkCalendar, len(entries))
	for _, entry := range entries {
		text, err := files.ReadFile(path.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		c, err := calendar.ParseWorkCalendar(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all[c.Name()] = c
	}
	return all, nil
})

// Calendar returns the work calendar of a country, such as "FR", or of a region, such as "DE-BY". The
// code is upper case. For a code that [Codes] does not list, it returns an error.
func Calendar(code string) (*calendar.WorkCalendar, error) {
	all, err := parsed()
	if err != nil {
		return nil, fmt.Errorf("holidays: %w", err)
	}
	c, ok := all[code]
	if !ok {
		return nil, fmt.Errorf("holidays: there is no calendar %q", code)
	}
	return c, nil
}

// Codes returns the codes of all calendars, in order.
func Codes() []string {
	all, _ := parsed() // a test parses the files
	return slices.Sorted(maps.Keys(all))
}
