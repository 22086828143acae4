package rrule_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// spec is a rule in the words of the tests, from which both its text and, by brute
// force, its readings are made. Frequencies and skips are those of the RFCs.
type spec struct {
	freq, skip               string
	interval, count          int
	wkst                     time.Weekday
	month, weekNo            []int
	yearDay, monthDay        []int
	day                      []nth
	hour, minute, second, at []int // at is BYSETPOS
}

// nth is an entry of BYDAY; n is 0 for all days of that weekday.
type nth struct {
	n int
	w time.Weekday
}

func (n nth) String() string {
	day := [...]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}[n.w]
	if n.n == 0 {
		return day
	}
	return fmt.Sprint(n.n) + day
}

func (s spec) String() string {
	text := "FREQ=" + s.freq
	add := func(name string, value any) {
		list := strings.ReplaceAll(strings.Trim(fmt.Sprint(value), "[]"), " ", ",")
		if list != "" && list != "0" || list == "0" && strings.HasPrefix(name, "BY") {
			text += ";" + name + "=" + list
		}
	}
	add("INTERVAL", s.interval)
	add("COUNT", s.count)
	add("BYMONTH", s.month)
	add("BYWEEKNO", s.weekNo)
	add("BYYEARDAY", s.yearDay)
	add("BYMONTHDAY", s.monthDay)
	add("BYDAY", s.day)
	add("BYHOUR", s.hour)
	add("BYMINUTE", s.minute)
	add("BYSECOND", s.second)
	add("BYSETPOS", s.at)
	add("WKST", nth{w: s.wkst})
	if s.skip != "" {
		text += ";RSCALE=GREGORIAN;SKIP=" + s.skip
	}
	return text
}

// reading is what the oracle says of one slot.
type reading struct {
	at    time.Time
	named string // the date that the rule names, when SKIP moved it
}

// unit is the length of a period that is a part of a day.
func (s spec) unit() time.Duration {
	return map[string]time.Duration{"HOURLY": time.Hour, "MINUTELY": time.Minute, "SECONDLY": time.Second}[s.freq]
}

// oracle writes out so many periods of a series, day by day and time by time, and
// returns its readings and the moment before which they are complete. It shares
// nothing with the package but the RFC.
func (s spec) oracle(start time.Time, periods int) (all []reading, complete time.Time) {
	for k := range periods {
		var set []reading
		var end time.Time
		if s.unit() != 0 {
			begin := start.Truncate(s.unit()).Add(time.Duration(k*s.interval) * s.unit())
			set, end = s.shortPeriod(begin, start), begin.Add(s.unit())
		} else {
			begin, days := s.period(start, k)
			set, end = s.longPeriod(begin, days, start), begin.AddDate(0, 0, days)
		}
		complete = end
		for i, r := range set {
			chosen := len(s.at) == 0 || slices.Contains(s.at, i+1) || slices.Contains(s.at, i-len(set))
			if chosen && !r.at.Before(start) {
				all = append(all, r)
			}
		}
	}
	all = merged(all)
	all = slices.DeleteFunc(all, func(r reading) bool { return !r.at.Before(complete) })
	if s.count > 0 && len(all) > s.count {
		all = all[:s.count]
	}
	return all, complete
}

// merged sorts readings and leaves each once. On a day that the rule names itself,
// none was moved.
func merged(all []reading) []reading {
	itself := map[string]bool{}
	for _, r := range all {
		if r.named == "" {
			itself[r.at.Format(time.DateOnly)] = true
		}
	}
	for i, r := range all {
		if itself[r.at.Format(time.DateOnly)] {
			all[i].named = ""
		}
	}
	slices.SortFunc(all, func(a, b reading) int {
		return 2*a.at.Compare(b.at) + strings.Compare(a.named, b.named)
	})
	return slices.CompactFunc(all, func(a, b reading) bool { return a.at.Equal(b.at) })
}

// period returns the first day of the k-th period and how many days it has.
func (s spec) period(start time.Time, k int) (begin time.Time, days int) {
	k *= s.interval
	year, month, day := start.Date()
	midnight := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	switch s.freq {
	case "YEARLY":
		return midnight(year+k, 1, 1), midnight(year+k, 12, 31).YearDay()
	case "MONTHLY":
		return midnight(year, month+time.Month(k), 1), midnight(year, month+time.Month(k)+1, 0).Day()
	case "WEEKLY":
		begin = midnight(year, month, day)
		for begin.Weekday() != s.wkst {
			begin = begin.AddDate(0, 0, -1)
		}
		return begin.AddDate(0, 0, 7*k), 7
	}
	return midnight(year, month, day+k), 1
}

func (s spec) longPeriod(begin time.Time, days int, start time.Time) []reading {
	s = s.supplied(start)
	var set []reading
	add := func(d time.Time, named string) {
		for _, h := range s.hour {
			for _, m := range s.minute {
				for _, sec := range s.second {
					set = append(set, reading{time.Date(d.Year(), d.Month(), d.Day(), h, m, sec, 0, time.UTC), named})
				}
			}
		}
	}
	for i := range days {
		d := begin.AddDate(0, 0, i)
		if s.has(d) {
			add(d, "")
		}
		if d.Day() == 1 {
			s.moved(d, add)
		}
	}
	return merged(set)
}

// moved adds what SKIP makes of the days that the month from first on lacks.
func (s spec) moved(first time.Time, add func(d time.Time, named string)) {
	last := first.AddDate(0, 1, -1)
	moves := s.skip == "FORWARD" || s.skip == "BACKWARD"
	if !moves || s.freq != "MONTHLY" && s.freq != "YEARLY" || s.yearDay != nil || s.weekNo != nil ||
		s.month != nil && !slices.Contains(s.month, int(first.Month())) {
		return
	}
	for _, n := range s.monthDay {
		to := last
		if s.skip == "FORWARD" {
			to = last.AddDate(0, 0, 1)
		}
		if n > last.Day() && s.onDay(to) {
			add(to, fmt.Sprintf("%s-%d", first.Format("2006-01"), n))
		}
	}
}

// supplied fills in from the start what s leaves open.
func (s spec) supplied(start time.Time) spec {
	if s.yearDay == nil && s.monthDay == nil && s.day == nil {
		switch {
		case s.freq == "WEEKLY" || s.weekNo != nil:
			s.day = []nth{{0, start.Weekday()}}
		case s.freq == "YEARLY" && s.month == nil:
			s.month, s.monthDay = []int{int(start.Month())}, []int{start.Day()}
		case s.freq == "YEARLY" || s.freq == "MONTHLY":
			s.monthDay = []int{start.Day()}
		}
	}
	for _, part := range []struct {
		list *[]int
		own  int
	}{{&s.hour, start.Hour()}, {&s.minute, start.Minute()}, {&s.second, start.Second()}} {
		if *part.list == nil {
			*part.list = []int{part.own}
		}
	}
	return s
}

// has says whether the parts about days allow d.
func (s spec) has(d time.Time) bool {
	if !among(s.month, int(d.Month()), 99) || !s.onDay(d) {
		return false
	}
	yearLen := time.Date(d.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
	week, weeks := 0, 0
	if s.weekNo != nil {
		week, weeks = s.week(d)
	}
	monthLen := time.Date(d.Year(), d.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return among(s.yearDay, d.YearDay(), yearLen) && among(s.monthDay, d.Day(), monthLen) && among(s.weekNo, week, weeks)
}

func among(list []int, n, of int) bool {
	return list == nil || slices.Contains(list, n) || slices.Contains(list, n-of-1)
}

// onDay says whether BYDAY allows d. It counts the weekday's days, one by one.
func (s spec) onDay(d time.Time) bool {
	inside := func(other time.Time) bool {
		yearly := s.freq == "YEARLY" && s.month == nil
		return other.Year() == d.Year() && (yearly || other.Month() == d.Month())
	}
	every := slices.Contains(s.day, nth{0, d.Weekday()})
	if s.day == nil || every || !slices.ContainsFunc(s.day, func(n nth) bool { return n.w == d.Weekday() }) {
		return s.day == nil || every
	}
	front, back := 0, 0
	for other := d; inside(other); other = other.AddDate(0, 0, -7) {
		front++
	}
	for other := d; inside(other); other = other.AddDate(0, 0, 7) {
		back--
	}
	return slices.Contains(s.day, nth{front, d.Weekday()}) || slices.Contains(s.day, nth{back, d.Weekday()})
}

// week returns which week of how many d lies in. It walks: the first week of a year
// is the one with 4 January, the last the one with 28 December.
func (s spec) week(d time.Time) (n, of int) {
	begin := func(d time.Time) time.Time {
		for d.Weekday() != s.wkst {
			d = d.AddDate(0, 0, -1)
		}
		return d
	}
	in := func(year int, month time.Month, day int) time.Time {
		return begin(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
	}
	d = begin(d)
	for year := d.Year() + 1; ; year-- {
		first := in(year, 1, 4)
		if first.After(d) {
			continue
		}
		weeks := func(to time.Time) int { return int(to.Sub(first).Hours())/24/7 + 1 }
		return weeks(d), weeks(in(year, 12, 28))
	}
}

func (s spec) shortPeriod(begin, start time.Time) []reading {
	if !s.has(begin.Truncate(24*time.Hour)) || !among(s.hour, begin.Hour(), 99) ||
		s.unit() <= time.Minute && !among(s.minute, begin.Minute(), 99) ||
		s.unit() == time.Second && !among(s.second, begin.Second(), 99) {
		return nil
	}
	s = s.supplied(start)
	minutes, seconds := s.minute, s.second
	if s.unit() <= time.Minute {
		minutes = []int{begin.Minute()}
	}
	if s.unit() == time.Second {
		seconds = []int{begin.Second()}
	}
	var set []reading
	for _, m := range minutes {
		for _, sec := range seconds {
			set = append(set, reading{begin.Truncate(time.Hour).Add(time.Duration(m*60+sec) * time.Second), ""})
		}
	}
	return merged(set)
}
