package calendar

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/almanac-go/almanac/internal/zoneinfo"
)

// ZoneRules says which rules a program has for one zone, in a form that can be stored and compared
// with the rules of another program, or of another release.
type ZoneRules struct {
	Zone string // the IANA name
	// Fingerprint is a hash of the changes of clocks in the ten years from Since on. It depends on the
	// effect of the rules, not on the file: two builds of one release have the same fingerprint.
	Fingerprint int64
	Since       int    // a year
	Version     string // of the zone data, such as "2026f"; empty if it is unknown
}

// fingerprintYears is how far ahead rules are compared.
const fingerprintYears = 10

// Until returns the end of the years that the fingerprint covers. Rules with equal
// fingerprints agree until then, and may differ afterwards.
func (r ZoneRules) Until() time.Time {
	return time.Date(r.Since+fingerprintYears, time.January, 1, 0, 0, 0, 0, time.UTC)
}

// NewerThan reports whether r comes from zone data of a later release than other. Data that
// name their release count as newer than data that do not.
func (r ZoneRules) NewerThan(other ZoneRules) bool {
	if r.Version == "" || other.Version == "" {
		return r.Version != "" && other.Version == ""
	}
	order, ok := zoneinfo.Compare(r.Version, other.Version)
	return ok && order > 0
}

// Rules returns the rules of z, as this process knows them, from a year on. The
// error is an [*InvalidTimezoneError] for a zone without data.
func (z Timezone) Rules(since int) (ZoneRules, error) {
	r := z.rules()
	if r == nil {
		return ZoneRules{}, z.check()
	}
	return ZoneRules{Zone: z.String(), Fingerprint: r.fingerprint(since), Since: since, Version: r.version}, nil
}

// fingerprint returns the hash of the rules from a year on. A program asks for few different years.
func (r *rules) fingerprint(since int) int64 {
	if known, ok := r.prints.Load(since); ok {
		return known.(int64)
	}
	hash := r.hash(since)
	r.prints.Store(since, hash)
	return hash
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
