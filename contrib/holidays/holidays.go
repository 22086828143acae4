package holidays

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/almanac-go/almanac/calendar"
)

//go:embed days/*.txt
var files embed.FS

// set has calendars by their codes.
type set struct {
	sync.RWMutex
	all map[string]*calendar.WorkCalendar
}

// known returns the calendars of the process. The first call parses the embedded files. Register adds
// calendars. Like zone data, the calendars belong to the process.
var known = sync.OnceValues(func() (*set, error) {
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
	return &set{all: all}, nil
})

// Register makes calendars known to the whole process by their names, such as those of files that a host has
// made or downloaded. A name can be a new code, or a code that [Codes] lists. Of two calendars with the same
// name, the later release counts from then on. So a host's file replaces the calendar of this module, until a
// newer module has a later release. A program calls Register when it starts, before it calls [All] or plans events.
//
// The error names each calendar that is nil. It also names each calendar with other days than the known calendar
// of the same name and release: a changed calendar needs a later release. With an error, none is registered.
func Register(all ...*calendar.WorkCalendar) error {
	s, err := known()
	if err != nil {
		return fmt.Errorf("holidays: %w", err)
	}
	return s.register(all)
}

func (s *set) register(all []*calendar.WorkCalendar) error {
	s.Lock()
	defer s.Unlock()
	next := maps.Clone(s.all)
	var bad []error
	for i, c := range all {
		if c == nil {
			bad = append(bad, fmt.Errorf("holidays: calendar %d is nil", i))
			continue
		}
		was := next[c.Name()]
		switch {
		case was == nil || was.Release() < c.Release():
			next[c.Name()] = c
		case was.Release() == c.Release():
			if year, differs := differ(was, c); differs {
				bad = append(bad, fmt.Errorf("holidays: %s, release %s, has other days in %d than the known calendar of that release", c.Name(), c.Release(), year))
			}
		}
	}
	if len(bad) > 0 {
		return errors.Join(bad...)
	}
	s.all = next
	return nil
}

// differ returns the first year in which the days of two calendars differ.
func differ(a, b *calendar.WorkCalendar) (year int, differs bool) {
	one, other := a.Rules(firstYear), b.Rules(firstYear)
	for i := range one.Hashes {
		if one.Hashes[i] != other.Hashes[i] {
			return one.Since + i, true
		}
	}
	return 0, false
}

// firstYear is the first year in which calendars are compared, as in an almanac.Registry.
const firstYear = 2024

// Calendar returns the work calendar of a country, such as "FR", or of a region, such as "DE-BY". The
// code is upper case. For a code that [Codes] does not list, it returns an error, which names the codes of the same country.
func Calendar(code string) (*calendar.WorkCalendar, error) {
	s, err := known()
	if err != nil {
		return nil, fmt.Errorf("holidays: %w", err)
	}
	s.RLock()
	defer s.RUnlock()
	c, ok := s.all[code]
	if !ok {
		return nil, fmt.Errorf("holidays: there is no calendar %q%s", code, neighbours(slices.Sorted(maps.Keys(s.all)), code))
	}
	return c, nil
}

// neighbours names the codes of the country of a code that is not known, of any case, as the end of an error.
func neighbours(codes []string, unknown string) string {
	country, _, _ := strings.Cut(strings.ToUpper(unknown), "-")
	if len(country) < 2 {
		return ""
	}
	var of []string
	for _, code := range codes {
		if strings.HasPrefix(code, country[:2]) {
			of = append(of, code)
		}
	}
	if len(of) == 0 {
		return ""
	}
	const most = 20
	if more := len(of) - most; more > 0 {
		of = append(of[:most], fmt.Sprintf("and %d more: see Codes", more))
	}
	return "; there are " + strings.Join(of, ", ")
}

// All returns all calendars, in the order of [Codes]. If users can choose a calendar, set the WorkCalendars of
// the handler to All. Then its events are planned again after a new release of any of them.
func All() ([]*calendar.WorkCalendar, error) {
	s, err := known()
	if err != nil {
		return nil, fmt.Errorf("holidays: %w", err)
	}
	s.RLock()
	defer s.RUnlock()
	list := slices.Collect(maps.Values(s.all))
	slices.SortFunc(list, func(a, b *calendar.WorkCalendar) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// Codes returns the codes of all calendars, in order.
func Codes() []string {
	all, _ := All() // a test parses the files
	codes := make([]string, len(all))
	for i, c := range all {
		codes[i] = c.Name()
	}
	return codes
}
