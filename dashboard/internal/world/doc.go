// Package world has what a map of the world's time zones needs: where the zones are, where the
// sun stands, and where clocks show a given hour.
//
// # Places
//
// A [Place] is the coordinate of a zone. [Places] returns one for each accepted zone name that
// has a coordinate, [CanonicalPlaces] one for each zone, and [Find] that of one name. The names
// of UTC and GMT and the Etc names have none.
//
// # Drawing
//
// The map is equirectangular: the Earth is a box that is twice as wide as it is high. [Project]
// returns the point of a coordinate, [Dot] the circle of a place, [LandPath] the outlines of land,
// [GraticulePath] the lines of the grid and [NightPath] the shadow of the night. Paths and circles are SVG without style.
//
// # Sun and clocks
//
// [Sun] returns where the sun stands overhead, [Altitude] how high it stands at a place and [Daylight]
// the [Phase] of the day there. [Lit] reports whether clocks in a zone show a given hour. [Front] returns
// the offsets from UTC where they do, and [ByOffset] sorts all zones into a [Group] for each offset.
//
// No function reads a clock: each takes the instant that it is about.
package world
