package almanac

import (
	"strings"
	"sync"
	"time"

	"github.com/almanac-go/almanac/internal/zones"
)

// Timezone is a zone of the IANA time zone database, such as "Asia/Tokyo". It
// keeps the name that was given, in the database's spelling. Timezones are values,
// safe for concurrent use. The zero Timezone is no zone at all: it is refused
// wherever one is needed, and never means UTC.
type Timezone struct {
	zone *zone // interned, so that == holds for two Timezones of one name
}

type zone struct {
	name      string
	canonical string
	location  *time.Location // nil for a zone that this process cannot load
}

// interned holds each zone once it was loaded. Go's own LoadLocation reads the
// zone file anew each time.
var interned sync.Map // string → *zone

// maxZoneName is longer than any name of the database (32 bytes) and bounds what
// an error will repeat.
const maxZoneName = 64

// LoadTimezone returns the zone of an IANA name. Links are accepted ("US/Pacific")
// and case does not matter ("asia/tokyo"); surrounding blanks, abbreviations
// ("EST"), offsets ("UTC+5"), "Local", the empty name and anything that is a path
// rather than a name are not. UTC is "UTC" or "Etc/UTC". Note that "Etc/GMT+5" is
// five hours behind UTC, as POSIX would have it.
//
// The error is an [*InvalidTimezoneError], which suggests the nearest name.
//
// Rules come from the program's zone data: the ZONEINFO environment variable, the
// system's directories, or an embedded copy when the program imports time/tzdata.
func LoadTimezone(name string) (Timezone, error) {
	if len(name) > maxZoneName {
		return Timezone{}, &InvalidTimezoneError{Name: clip(name, maxZoneName)}
	}
	proper, canonical, ok := zones.Lookup(name)
	if !ok {
		return Timezone{}, &InvalidTimezoneError{Name: name, Suggestion: zones.Nearest(name)}
	}
	if z, ok := interned.Load(proper); ok {
		return Timezone{z.(*zone)}, nil
	}
	location, err := time.LoadLocation(proper)
	if err != nil {
		return Timezone{}, &InvalidTimezoneError{Name: proper, NoData: true}
	}
	z, _ := interned.LoadOrStore(proper, &zone{proper, canonical, location})
	return Timezone{z.(*zone)}, nil
}

// StoredTimezone returns the zone of a name that was accepted when it was stored.
// Where this process cannot load it, for want of zone data as new as the writer's,
// the result keeps the name and refuses to resolve anything: what is already
// planned still runs, and nothing new is planned wrongly.
func StoredTimezone(name string) Timezone {
	z, err := LoadTimezone(name)
	if err != nil {
		return Timezone{&zone{name: name, canonical: name}}
	}
	return z
}

// String returns the name that was given, in the database's spelling, or "" for
// the zero Timezone.
func (z Timezone) String() string {
	if z.zone == nil {
		return ""
	}
	return z.zone.name
}

// Canonical returns the present name of the same place: "Asia/Kolkata" for
// "Asia/Calcutta". Only pure renames are followed. Zones of different places that
// happen to agree today are different zones.
func (z Timezone) Canonical() string {
	if z.zone == nil {
		return ""
	}
	return z.zone.canonical
}

// Equal reports whether z and other name the same place, whichever of its names
// each was given.
func (z Timezone) Equal(other Timezone) bool { return z.Canonical() == other.Canonical() }

// IsZero reports whether z is the zero Timezone.
func (z Timezone) IsZero() bool { return z.zone == nil }

// WallTime returns what clocks in z show at the given instant, cut to the second.
// In a zone that cannot be loaded, and in the zero Timezone, it answers for UTC.
func (z Timezone) WallTime(instant time.Time) WallTime {
	return WallTimeOf(instant.In(z.location()))
}

// offset returns how far clocks in z stand east of UTC at the Unix time sec.
func (z Timezone) offset(sec int64) int64 {
	_, seconds := time.Unix(sec, 0).In(z.location()).Zone()
	return int64(seconds)
}

func (z Timezone) location() *time.Location {
	if z.loaded() {
		return z.zone.location
	}
	return time.UTC
}

func (z Timezone) loaded() bool { return z.zone != nil && z.zone.location != nil }

// check returns why nothing can be resolved in z, or nil.
func (z Timezone) check() error {
	if z.loaded() {
		return nil
	}
	return &InvalidTimezoneError{Name: z.String(), NoData: !z.IsZero() && !strings.ContainsAny(z.String(), " \t")}
}
