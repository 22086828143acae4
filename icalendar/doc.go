// Package icalendar serves the events of a user as a calendar (RFC 5545, RFC 7986), to which calendar
// programs subscribe by a URL. It imports the standard library, Almanac and google/uuid only.
//
//	feed, err := icalendar.New(scheduler, store, registry, icalendar.Settings{Name: "Acme"})
//	links, err := icalendar.NewLinks("https://example.com/calendar/", key)
//	mux.Handle("/calendar/", feed.Handler(links))
//	fmt.Println(links.URL(user.ID)) // give this to the user
//
// # Contents
//
// The calendar has one VEVENT for each occurrence: the stored events of the user, those that
// ended lately included, and the next occurrences of each type, which are not stored yet (see
// [almanac.Scheduler].Preview). Types that the user has opted out of are left out. Of an event
// and its requeued repeat, the calendar has the repeat.
//
//	UID            made of user, type, series, occurrence key and the key's calendar, if it is not the
//	               Gregorian one (RFC 9562, version 5); so it stays when the user moves, and when a
//	               previewed occurrence is stored
//	SEQUENCE       made of the versions of user and event; it never decreases for a UID
//	DTSTART        the instant, in UTC; without an end, since a delivery takes no time
//	DTSTAMP        the last change of the event, or of the user if the event is not stored
//	LAST-MODIFIED  the same
//	SUMMARY        see [Settings]
//	DESCRIPTION    the local day by both calendars, "2027-02-15, 8 Adar I 5787", if the
//	               occurrence key counts by another calendar than the Gregorian one
//	STATUS         CANCELLED for a CANCELLED event, otherwise CONFIRMED
//	TRANSP         TRANSPARENT: the user is not busy
//
// A calendar without events has a VTIMEZONE of UTC, because RFC 5545 wants a component. It shows nothing.
//
// Recurrence rules (RRULE) are not used, because they cannot express the policies for leap
// days and gaps. The UID is not the event's id, because an occurrence that is not stored has none.
//
// # Secrecy
//
// The URL is the secret: calendar programs send no other credentials. See [Links].
package icalendar
