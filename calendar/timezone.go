package calendar

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Timezone is a zone of the IANA time zone database, such as "Asia/Tokyo". It keeps the name
// that was given, in the database's spelling. Timezones are values, safe for concurrent use;
// those with the same name from the same [ZoneData] are ==. The zero Timezone is no zone at
// all: it is refused wherever one is needed, and never means UTC.
type Timezone struct {
	zone *zone // interned, so that == holds for two Timezones of one name
}

type zone struct {
	name      string
	canonical string
	rules     atomic.Pointer[rules] // nil for a zone that this process cannot load
}

// rules are what a zone file says.
type rules struct {
	location *time.Location
	version  string   // of the data, such as "2026f"; "" where it does not say
	prints   sync.Map // fingerprints (int64), by the year from which they are (int)
}

// offset returns how far clocks stand east of UTC at the Unix time sec.
func (r *rules) offset(sec int64) int64 {
	_, seconds := time.Unix(sec, 0).In(r.location).Zone()
	return int64(seconds)
}

const (
	maxZoneName = 64 // longer than any name of the database (32 bytes)
	maxQuoted   = 64 // what an error repeats of a text that makes no sense, in bytes
)

// LoadTimezone returns the zone of an IANA name. Links are accepted ("US/Pacific"), the
// System V names ("CET", "EST5EDT") too, and case does not matter ("asia/tokyo").
// Surrounding blanks, abbreviations that are no names ("PST"), offsets ("UTC+5"),
// "Local", the empty name and paths ("posix/Asia/Tokyo") are not accepted. UTC is "UTC"
// or "Etc/UTC". Note that "Etc/GMT+5" is five hours behind UTC, as POSIX would have it.
//
// The System V names are CET, CST6CDT, EET, EST, EST5EDT, HST, MET, MST, MST7MDT, PST8PDT
// and WET. Since release 2024b each is a link to a place, which is its canonical name: see
// [Timezone.Canonical]. Older zone data has rules of its own for these names, which agree
// with those of the place from 2026 on. Prefer the name of the place where the user lives.
//
// Three names that a directory of zone files may have are refused: Factory, which stands
// for a machine that was not set up, localtime and posixrules.
//
// The error is an [*InvalidTimezoneError], which suggests the nearest name. For a path,
// that is the zone at the end of the path. For a well-known abbreviation, it is the usual
// place. For a name that Windows uses, such as "W. Europe Standard Time", it is the place
// that the Unicode CLDR gives for it. For Local, localtime, posixrules and Factory there is no suggestion.
//
// Rules come from the program's own zone data, see [OwnZoneData], and are read once for each name.
func LoadTimezone(name string) (Timezone, error) { return OwnZoneData().Timezone(name) }

// isMachines reports whether a name stands for whatever zone a machine is set to.
func isMachines(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:] // "/etc/localtime"
	return strings.EqualFold(name, "Local") || strings.EqualFold(name, "localtime")
}

// StoredTimezone returns the zone of a name that was accepted when it was stored. If the zone data
// of this process is older and lacks the name, the result keeps the name, and [Timezone.Resolve]
// fails. Events that are planned still run, and no new event is planned wrongly.
func StoredTimezone(name string) Timezone {
	z, err := LoadTimezone(name)
	if err != nil {
		return Timezone{&zone{name: name, canonical: name}}
	}
	return z
}

// String returns the name that was given, in the database's spelling, or "" for the zero Timezone.
func (z Timezone) String() string {
	if z.zone == nil {
		return ""
	}
	return z.zone.name
}

// Canonical returns the present name of the same place: "Asia/Kolkata" for "Asia/Calcutta". It follows
// pure renames, and the System V names to the places that they are links to: "America/New_York" for
// "EST5EDT". Zones of different places that happen to agree today are different zones.
func (z Timezone) Canonical() string {
	if z.zone == nil {
		return ""
	}
	return z.zone.canonical
}

// Equal reports whether z and other name the same place, even by different names.
func (z Timezone) Equal(other Timezone) bool { return z.Canonical() == other.Canonical() }

// IsZero reports whether z is the zero Timezone.
func (z Timezone) IsZero() bool { return z.zone == nil }

// WallTime returns what clocks in z show at the given instant, cut to the second. In a zone
// that cannot be loaded, and in the zero Timezone, it returns the wall time in UTC.
func (z Timezone) WallTime(instant time.Time) WallTime {
	return WallTimeOf(instant.In(z.location()))
}

func (z Timezone) location() *time.Location {
	if r := z.rules(); r != nil {
		return r.location
	}
	return time.UTC
}

// rules returns what is in force for z at this moment, or nil. A reload replaces
// it as a whole, so a caller that needs consistent answers asks once.
func (z Timezone) rules() *rules {
	if z.zone == nil {
		return nil
	}
	return z.zone.rules.Load()
}

// check returns why nothing can be resolved in z, or nil.
func (z Timezone) check() error {
	if z.rules() != nil {
		return nil
	}
	return &InvalidTimezoneError{Name: z.String(), NoData: !z.IsZero() && !strings.ContainsAny(z.String(), " \t")}
}
