package calendar_test

import "github.com/almanac-go/almanac/internal/calendartest"

// Texts that the test itself wrote.
var (
	wall    = calendartest.Wall
	instant = calendartest.Instant
	zone    = calendartest.Zone
	rrule   = calendartest.RRule
	cron    = calendartest.Cron
)
