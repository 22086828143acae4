package calendar

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
)

// DayRules says what a work calendar or a [System] says about the days of some years, in a form that can be
// stored and compared with that of another program, or of another release. Make it with
// [WorkCalendar.Rules] or [SystemRules].
type DayRules struct {
	// Name is the name as in [Consulted]: "DE-BY" for a work calendar, "system:hebrew" for a System.
	Name string
	// Release is that of the calendar. Of two calendars of one name, the one with the greater release is
	// newer, compared byte by byte.
	Release string
	// Until is the end of a work calendar: the last day whose holidays are known. Of a System it is the
	// last day of its last year, or the last date of all if that is earlier.
	Until Date
	Since int // the first year of the next two
	// Hashes are a hash of each year: see [WorkCalendar.Hash]. For a System, it depends on the day of the
	// System that each date is.
	Hashes []int64
	// Changed are the releases in which each year changed last, as far as that is known. They never are
	// later than Release. In the rules of a program, they are Release.
	Changed []string
	// Releases are the releases that have been stored, the newest last, at most twenty. Changed says nothing
	// about other releases. In the rules of a program, it is Release alone.
	Releases []string
}

// dayRuleYears is for how many years days are compared. Plans that look further ahead are taken to be
// changed by each new release.
const dayRuleYears = 12

// knownReleases is how many stored releases are kept. A plan of an earlier one is taken to be outdated.
const knownReleases = 20

func newDayRules(name, release string, until Date, since int) DayRules {
	r := DayRules{Name: name, Release: release, Until: until, Since: min(max(since, 1), 9999-dayRuleYears), Releases: []string{release}}
	r.Hashes, r.Changed = make([]int64, dayRuleYears), make([]string, dayRuleYears)
	for i := range r.Changed {
		r.Changed[i] = release
	}
	return r
}

// Rules returns what c says about the twelve years from a year on.
func (c *WorkCalendar) Rules(since int) DayRules {
	r := newDayRules(c.name, c.release, c.Until(), since)
	for i := range r.Hashes {
		r.Hashes[i] = c.Hash(r.Since + i)
	}
	return r
}

// SystemRules returns what a System says about the twelve Gregorian years from a year on.
func SystemRules(s System, since int) DayRules {
	info := s.Info()
	r := newDayRules(systemPrefix+info.Name, info.Release, lastDay(s, info.Last), since)
	for i := range r.Hashes {
		r.Hashes[i] = systemHash(s, r.Since+i)
	}
	return r
}

// lastDay returns the last date of a year of a System, or the last date of all if that is earlier.
func lastDay(s System, year int) Date {
	months, err := s.Months(year)
	if err != nil || len(months) == 0 {
		return lastDate
	}
	last := months[len(months)-1]
	date, err := s.Date(SystemDate{year, last.Number, last.Leap, last.Days})
	if err != nil || lastDate.Before(date) {
		return lastDate
	}
	return date
}

// systemHash returns a hash of which day of a System each date of a year is.
func systemHash(s System, year int) int64 {
	hash := fnv.New64a()
	var is [8]byte
	until := dayNumber(Date{year + 1, 1, 1})
	for day := dayNumber(Date{year, 1, 1}); day < until; day++ {
		clear(is[:])
		if d, err := s.Day(dateOf(day)); err == nil {
			binary.BigEndian.PutUint32(is[:], uint32(d.Year))
			is[4], is[5] = byte(d.Month), byte(d.Day)
			if d.Leap {
				is[6] = 1
			}
		}
		_, _ = hash.Write(is[:]) // a hash takes everything
	}
	return int64(hash.Sum64())
}

// NewerThan reports whether r is of a later release than other.
func (r DayRules) NewerThan(other DayRules) bool { return r.Release > other.Release }

// Replace returns the rules to store in the place of stored rules of the same calendar: r, if it is newer,
// or of the same release for later years, and otherwise stored. Its Changed says which years are not as
// they were stored. With zero stored rules, it is r. The error is a [*ReleaseError] if both have the same
// release, and differ about a year.
func (r DayRules) Replace(stored DayRules) (DayRules, error) {
	switch {
	case stored.Name == "":
		return r, nil
	case stored.NewerThan(r):
		return stored, nil
	}
	newer := r.NewerThan(stored)
	next := r
	next.Changed = make([]string, len(r.Hashes))
	if next.Releases = stored.Releases; newer {
		known := append(slices.Clone(stored.Releases), r.Release)
		next.Releases = known[max(0, len(known)-knownReleases):]
	}
	for i, hash := range r.Hashes {
		next.Changed[i] = r.Release
		k := r.Since + i - stored.Since
		if k < 0 || k >= len(stored.Hashes) {
			continue
		}
		if hash == stored.Hashes[k] {
			next.Changed[i] = stored.Changed[k]
		} else if !newer {
			return stored, &ReleaseError{r.Name, r.Release, r.Since + i}
		}
	}
	if !newer && r.Since <= stored.Since {
		return stored, nil
	}
	return next, nil
}

// Outdates reports whether r is newer than what was consulted, and differs about a year that was looked at,
// or may differ. It may if the release that was consulted has never been stored, because r was not compared
// with it. Then an event must be planned again.
func (r DayRules) Outdates(c Consulted) bool {
	release, looked := c.Release(r.Name)
	if !looked || release >= r.Release {
		return false
	}
	if !slices.Contains(r.Releases, release) {
		return true
	}
	for year := c.From.Year; year <= c.Until.Year; year++ {
		if i := year - r.Since; i < 0 || i >= len(r.Changed) || release < r.Changed[i] {
			return true
		}
	}
	return false
}

// ReleaseError says that two programs have calendars of the same name and release that differ. A changed
// calendar needs a later release.
type ReleaseError struct {
	Name, Release string // as in [DayRules]
	Year          int    // the first year about which they differ
}

func (e *ReleaseError) Error() string {
	return fmt.Sprintf("calendar: release %s of %s differs about %d from the same release of another program: a changed calendar needs a later release",
		e.Release, e.Name, e.Year)
}
