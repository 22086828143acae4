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

// known are the calendars that the process knows: those of the files, until Register adds others. Like
// zone data they belong to the process. The files are parsed by the first call that needs them.
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

// Register makes calendars known to the whole process by their names: those of files that a host has made
// or downloaded. A name can be a new code, or one that [Codes] lists. Of two calendars of one name, that of
// the later release is known from then on. So a host's file replaces that of this module, until a newer
// module has a later release. A program calls Register when it starts, before [All] and before it plans events.
//
// The error names each calendar that is nil, and each one that has the name and the release of a known
// calendar, and other days: a changed calendar needs a later release. Then none of them is registered.
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

// differ returns the first year about which two calendars differ.
func differ(a, b *calendar.WorkCalendar) (year int, differs bool) {
	one, other := a.Rules(firstYear), b.Rules(firstYear)
	for i := range one.Hashes {
		if one.Hashes[i] != other.Hashes[i] {
			return one.Since + i, true
		}
	}
	return 0, false
}

// firstYear begins the years in which calendars are compared, as in an almanac.Registry.
const firstYear = 2024

// Calendar returns the work calendar of a country, such as "FR", or of a region, such as "DE-BY". The
// code is upper case. For a code that [Codes] does not list, it returns an error.
func Calendar(code string) (*calendar.WorkCalendar, error) {
	s, err := known()
	if err != nil {
		return nil, fmt.Errorf("holidays: %w", err)
	}
	s.RLock()
	defer s.RUnlock()
	c, ok := s.all[code]
	if !ok {
		return nil, fmt.Errorf("holidays: there is no calendar %q", code)
	}
	return c, nil
}

// All returns all calendars, in the order of [Codes]. Give them to a handler that lets each user choose one:
// they are its WorkCalendars, so that a new release of any of them plans its events again.
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
