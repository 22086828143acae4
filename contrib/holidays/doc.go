// Package holidays has work calendars of countries and regions, by their ISO 3166 codes: the week, the
// public holidays, and the working days of exchanged weekends. [Calendar] returns one, and [Codes]
// lists all. [Register] adds calendars from files that a host has made or downloaded.
//
// If users can choose a calendar, the handler names [All] in its WorkCalendars. Otherwise its planned events do
// not follow a new release of a calendar.
//
// Each calendar is a file of days, and its texts are English. The files are made from the data of
// vacanza/holidays. The README says how to make a file for another country. Tests compare three
// years of each calendar with a second list. Past its end, a calendar follows the week alone:
// see [calendar.WorkCalendarOptions].
//
// A calendar has the holidays of a whole country or region. It lacks the holidays of towns and of
// parts of a region, such as Assumption Day in most of Bavaria.
package holidays
