package almanac

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/almanac-go/almanac/internal/zoneinfo"
)

// ZoneRules is what a repository remembers of the rules that its instants follow
// in one zone, so that a program with other rules notices.
type ZoneRules struct {
	Zone string // the IANA name
	// Fingerprint stands for the changes of clocks in the ten years from Since on. It
	// follows from what the rules do, not from the file: two builds of one release
	// have the same.
	Fingerprint int64
	Since       int    // a year
	Version     string // of the zone data, such as "2026f"; empty where it did not say
	// Recheck is when the doubt about pending events ends: until then some may be planned by
	// other rules. A reconciliation that begins later, and can lock every event that it has
	// to move, settles it. Zero means that there is no doubt. UTC.
	Recheck time.Time
}

// fingerprintYears is how far ahead rules are compared. Events further ahead are
// looked at once a year in any case, when the window moves on.
const fingerprintYears = 10

// Rules returns the rules of z, as this process knows them, from a year on. The
// error is an [*InvalidTimezoneError] for a zone without data.
func (z Timezone) Rules(since int) (ZoneRules, error) {
	r := z.rules()
	if r == nil {
		return ZoneRules{}, z.check()
	}
	return ZoneRules{Zone: z.String(), Fingerprint: r.fingerprint(since).hash, Since: since, Version: r.version}, nil
}

// fingerprint is one that was taken: what a zone will do for ten years does not
// change while its rules do not.
type fingerprint struct {
	since int
	hash  int64
}

func (r *rules) fingerprint(since int) fingerprint {
	if last := r.print.Load(); last != nil && last.since == since {
		return *last
	}
	taken := fingerprint{since, r.hash(since)}
	r.print.Store(&taken)
	return taken
}

func (r *rules) hash(since int) int64 {
	hash := fnv.New64a()
	write := func(n int64) { _ = binary.Write(hash, binary.BigEndian, n) } // a hash takes everything
	low := time.Date(since, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	end := time.Date(since+fingerprintYears, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	offset := r.offset(low)
	write(offset)
	for low < end {
		high := min(low+changeStride, end)
		next := r.offset(high)
		if next != offset {
			write(r.changeBetween(low, high).At.Unix())
			write(next)
		}
		low, offset = high, next
	}
	return int64(hash.Sum64())
}

// verdict is what becomes of what a repository remembers of a zone.
type verdict int

const (
	agreed   verdict = iota // nothing
	doubted                 // the rules are the same; pending events need a look
	replaced                // the program's rules are newer
	outdated                // the program's rules are not newer
)

// judge compares what is remembered of a zone with what a program knows of it now,
// and returns what to remember. Rules are newer by the release that they come from;
// one that names its release is newer than one that does not. Trusted rules are
// newer in any case.
//
// Rules that agree for ten years need not agree for longer. So a program of an older
// release neither moves the window on, into years in which it would be wrong, nor ends
// a doubt by a look at what lies beyond the window.
func (z Timezone) judge(stored *ZoneRules, year int, trusted bool) (ZoneRules, verdict) {
	mine, _ := z.Rules(year) // the caller has checked that there are rules
	if stored == nil {
		return mine, replaced
	}
	same, _ := z.Rules(stored.Since)
	newer := trusted || newerRelease(mine.Version, stored.Version)
	older := !newer && newerRelease(stored.Version, mine.Version)
	switch {
	case same.Fingerprint != stored.Fingerprint && newer:
		return mine, replaced
	case same.Fingerprint != stored.Fingerprint:
		return *stored, outdated
	case older:
		return *stored, agreed
	}
	mine.Recheck = stored.Recheck
	if mine.Since > stored.Since {
		return mine, replaced // the window moves on
	}
	mine.Since, mine.Fingerprint = stored.Since, stored.Fingerprint
	if !newer {
		mine.Version = stored.Version
	}
	if !stored.Recheck.IsZero() {
		return mine, doubted
	}
	return mine, agreed
}

// with returns what a repository remembers of a zone together with marks of it, or nil
// where it remembers nothing. Rules of a newer release are the ones to follow, though
// nobody who has them compares rules; events that follow others need a look now.
func (r *ZoneRules) with(marks []ZoneRules, now time.Time) *ZoneRules {
	for _, mark := range marks {
		if r == nil || newerRelease(mark.Version, r.Version) {
			mark.Recheck = now.Add(recheckGrace)
			r = &mark
			continue
		}
		same := *r
		same.Recheck = time.Time{}
		if mark != same {
			same.Recheck = later(r.Recheck, now.Add(-time.Microsecond)) // over, but for a look
			r = &same
		}
	}
	return r
}

// newerRelease reports whether zone data of one release is newer than another's.
func newerRelease(one, other string) bool {
	if one == "" || other == "" {
		return one != "" && other == ""
	}
	order, ok := zoneinfo.Compare(one, other)
	return ok && order > 0
}
