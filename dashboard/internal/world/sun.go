package world

import (
	"math"
	"time"
)

// Altitudes of the sun's centre in degrees at which a [Phase] ends.
const (
	sunset = -0.833 // the upper edge of the sun, seen through the atmosphere, is at the horizon
	dusk   = -6.0   // the end of civil twilight
)

const (
	j2000        = 946_728_000 // 2000-01-01 12:00 UTC, in Unix seconds
	secondsOfDay = 86_400
)

// Phase is what the sun makes of a time of day at a place.
type Phase string

// The phases of a day, by the altitude of the sun's centre.
const (
	Day      Phase = "day"      // above -0.833 degrees: the sun is up
	Twilight Phase = "twilight" // from -0.833 down to -6 degrees: civil twilight
	Night    Phase = "night"    // below -6 degrees
)

// Sun returns the point of the Earth over which the sun stands at t: its latitude (-23.44 to
// 23.44) and longitude (-180 to 180) in degrees. The formulas are the low-precision ones of the
// U.S. Naval Observatory. The error is below 0.02 degrees from 1950 to 2050.
func Sun(t time.Time) (lat, lon float64) {
	n := (float64(t.Unix()-j2000) + float64(t.Nanosecond())/1e9) / secondsOfDay
	meanLongitude := 280.460 + 0.9856474*n
	anomaly := 357.528 + 0.9856003*n
	longitude := meanLongitude + 1.915*sin(anomaly) + 0.020*sin(2*anomaly)
	obliquity := 23.439 - 0.0000004*n
	declination := degrees(math.Asin(sin(obliquity) * sin(longitude)))
	ascension := degrees(math.Atan2(cos(obliquity)*sin(longitude), cos(longitude)))
	sidereal := 18.697374558 + 24.06570982441908*n // in hours
	return declination, math.Remainder(ascension-15*sidereal, 360)
}

// Altitude returns how high the centre of the sun stands over the horizon of a place at t, in
// degrees: 90 is overhead, and negative values are below the horizon. It ignores refraction.
func Altitude(p Place, t time.Time) float64 {
	lat, lon := Sun(t)
	s := sin(p.Lat)*sin(lat) + cos(p.Lat)*cos(lat)*cos(p.Lon-lon)
	return degrees(math.Asin(max(-1, min(1, s))))
}

// Daylight returns the phase of the day at a place at t.
func Daylight(p Place, t time.Time) Phase {
	switch altitude := Altitude(p, t); {
	case altitude > sunset:
		return Day
	case altitude >= dusk:
		return Twilight
	default:
		return Night
	}
}

func degrees(radians float64) float64 { return radians * 180 / math.Pi }

// sin returns the sine of an angle in degrees.
func sin(angle float64) float64 { return math.Sin(angle * math.Pi / 180) }

// cos returns the cosine of an angle in degrees.
func cos(angle float64) float64 { return math.Cos(angle * math.Pi / 180) }
