// Package migrators has no code of its own. Its tests give what Almanac writes to programs
// that no other module requires: exported migrations to goose, tern and golang-migrate, and
// calendars to go-ical.
package migrators
