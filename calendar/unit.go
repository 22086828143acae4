package calendar

// Unit says what the keys of a recurrence name. Keys of one unit are compared byte by byte. Keys of
// different units are not comparable. Units are texts, so that they can be stored, and a unit of another
// calendar than the Gregorian has that calendar's name behind a colon, such as "year:hebrew".
type Unit string

// The units of the recurrences of this package.
const (
	// UnitText is the unit of keys that the host made. They have any form.
	UnitText  Unit = ""
	UnitTime  Unit = "time"  // a wall time, "2027-03-15T09:00:00"
	UnitDay   Unit = "day"   // "2027-03-15"
	UnitMonth Unit = "month" // "2027-03"
	UnitYear  Unit = "year"  // "2027"
)

// unitOf returns the unit of the keys of [keyOf].
func unitOf(oncePerDay bool) Unit {
	if oncePerDay {
		return UnitDay
	}
	return UnitTime
}
