package calendar

import (
	"fmt"
	"strings"

	"github.com/almanac-go/almanac/internal/excerpt"
	"github.com/almanac-go/almanac/internal/zones"
)

// ZonesOf returns the zones of a country, by its code of ISO 3166-1 with two letters, such as "DE",
// in upper or lower case. Of 247 countries, 216 have one zone, and 8 more have several zones whose
// clocks agree today. The caller owns the slice.
//
// The table is zone.tab of the IANA time zone database, release 2025b. The zones of a country are
// in the order of the table, which is roughly geographical: the first zone is not always the one
// with the most users. zone1970.tab is not used, because it has zones of other countries: Norway
// would follow the next change of clocks in Germany. Zones without data in this process are left
// out.
//
// The error is an [*InputError] for any other code, such as "UK" for "GB", and for the uninhabited BV
// and HM, which the table does not have. It is an [*InvalidTimezoneError] if no zone has data.
func ZonesOf(country string) ([]Timezone, error) {
	names := zones.OfCountry(strings.ToUpper(country))
	if names == nil {
		return nil, &InputError{[]InputProblem{{"country", countryProblem(country)}}}
	}
	var all []Timezone
	var failed error
	for _, name := range names {
		z, err := LoadTimezone(name)
		if err != nil {
			failed = err
			continue
		}
		all = append(all, z)
	}
	if len(all) == 0 {
		return nil, failed
	}
	return all, nil
}

// countryProblem says, as a clause, why a code has no zones.
func countryProblem(code string) string {
	switch strings.ToUpper(code) {
	case "":
		return "is empty"
	case "UK":
		return `is "UK", which is no code of ISO 3166-1; did you mean "GB"?`
	case "BV", "HM":
		return fmt.Sprintf("is %q, for which the time zone database has no zone", code)
	}
	return fmt.Sprintf("is %q, which has no zones: use a code of ISO 3166-1 with two letters, such as \"DE\"", excerpt.Of(code, maxQuoted))
}
