package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

const (
	firstYear, lastYear = 1900, 2100
	// dayEvents is how many events the page of a day lists.
	dayEvents = 400
	// daysWait is how long the pages of a year and of a day wait for the counts of events, and again for a list.
	daysWait = 150 * time.Millisecond
)

// zoneFields are the fields of the pages of days.
type zoneFields struct {
	Zone, Type string
	Suggestion string // the nearest zone to a wrong one, or ""
	complaints
}

// zoneFieldsOf reads the zone and the type of a form. The zone is UTC by default.
func zoneFieldsOf(r *request) (zoneFields, calendar.Timezone) {
	f := zoneFields{Zone: strings.TrimSpace(r.FormValue("zone")), Type: strings.TrimSpace(r.FormValue("type"))}
	f.Zone = cmp.Or(f.Zone, "UTC")
	if strings.ContainsRune(f.Type, 0) || !utf8.ValidString(f.Type) {
		f.refuse("type", "The type has characters that no type has.")
	}
	z, sentence, suggestion := loadZone(f.Zone)
	if f.Suggestion = suggestion; sentence != "" {
		f.refuse("zone", sentence)
		return f, z
	}
	f.Zone = z.String()
	return f, z
}

// loadZone returns the zone of a name, or says why there is none and which one is meant.
func loadZone(name string) (z calendar.Timezone, sentence, suggestion string) {
	z, err := calendar.LoadTimezone(name)
	if err == nil {
		return z, "", ""
	}
	if invalid, ok := errors.AsType[*calendar.InvalidTimezoneError](err); ok {
		suggestion = invalid.Suggestion
	}
	return z, sentenceOf(err), suggestion
}

// sentenceOf returns an error of package calendar as a sentence.
func sentenceOf(err error) string {
	text := strings.TrimPrefix(err.Error(), "calendar: ")
	if strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// spec selects the events of the zone and type that are due in a span of time.
func (f zoneFields) spec(from, until time.Time) almanac.Spec {
	all := almanac.And{almanac.DueBetween{From: from, Until: until}, almanac.InZone{f.Zone}}
	if f.Type != "" {
		all = append(all, almanac.OfType(f.Type))
	}
	return all
}

// calendarData is what the page of a year shows.
type calendarData struct {
	zoneFields
	calendarYear
	reading      // of the counts
	Weeks    int // of the half that has more
	Squares  []daySquare
	Months   []monthLabel
	Rows     []monthRow // the same as a table
	Changes  []clockChange
	Total    ops.Count // events of the year
	Most     ops.Count // events of the day that has most
	HasToday bool      // whether today is a day of this year
}

// calendarYear is the year of the page.
type calendarYear struct {
	Year          string // as it was sent
	Before, After int    // the years beside it; 0 if they are out of range
}

// daySquare is a day in the drawing of a year.
type daySquare struct {
	localDay
	X, Y, Shade int
	Count       ops.Count
	Today       bool
}

// The drawing of a year: one half above the other, of squares of 24 units, which are 24 pixels or more.
const (
	pitch      = 26
	daysLeft   = 36 // room for the names of weekdays
	daysTop    = 18 // room for the names of months
	halfHeight = daysTop + 7*pitch + 12
	mostShades = 4
)

// Title names the day for a pointer and for a screen reader.
func (s daySquare) Title() string {
	text := fmt.Sprintf("%s %s", s.Weekday(), s.Date)
	if note := s.Note(); note != "" {
		text += ": " + note
	}
	if s.Count.N > 0 {
		text += "; " + eventsText(s.Count)
	}
	return text
}

// Weekday is the short name of the day of the week.
func (s daySquare) Weekday() string {
	return calendar.WallTime{Date: s.Date}.Labelled().Weekday().String()[:3]
}

// Even reports whether the day is in an even month, whose squares have another ground.
func (s daySquare) Even() bool { return s.Date.Month%2 == 0 }

// MarkX and MarkY are where the mark of the day stands.
func (s daySquare) MarkX() int { return s.X + 12 }
func (s daySquare) MarkY() int { return s.Y + 17 }

func countText(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}

// eventsText is a number of events in words.
func eventsText(c ops.Count) string {
	if c.N == 1 {
		return c.String() + " event"
	}
	return c.String() + " events"
}

type monthLabel struct {
	X, Y  int
	Name  string
	First calendar.Date
}

type weekdayLabel struct {
	Y    int
	Name string
}

// monthRow is a month of the table.
type monthRow struct {
	Name string
	Days []daySquare
}

func (d *dashboard) calendarPage(r *request) (answer, error) {
	fields, z := zoneFieldsOf(r)
	data := calendarData{zoneFields: fields, calendarYear: calendarYear{Year: strings.TrimSpace(r.FormValue("year"))}}
	now, err := r.clock()
	if err != nil {
		return answer{}, err
	}
	data.Year = cmp.Or(data.Year, strconv.Itoa(z.WallTime(now).Date.Year))
	year, err := strconv.Atoi(data.Year)
	if err != nil || year < firstYear || year > lastYear {
		data.refuse("year", fmt.Sprintf("The year is not a number from %d to %d.", firstYear, lastYear))
	}
	a := answer{title: "Calendar", template: "calendar", status: data.status()}
	if a.status == 0 {
		if err := d.fillYear(r, &data, z, year); err != nil {
			return answer{}, err
		}
		data.frame(now)
		a.title = fmt.Sprintf("%d in %s", year, data.Zone)
	}
	a.data = data
	return a, nil
}

// fillYear finds the days of a year and the events in them.
func (d *dashboard) fillYear(r *request, data *calendarData, z calendar.Timezone, year int) error {
	if data.Before = year - 1; data.Before < firstYear {
		data.Before = 0
	}
	if data.After = year + 1; data.After > lastYear {
		data.After = 0
	}
	first := calendar.Date{Year: year, Month: time.January, Day: 1}
	days, changes, err := daysOf(z, first, time.Date(year, time.December, 31, 0, 0, 0, 0, time.UTC).YearDay())
	if err != nil {
		return err
	}
	data.Changes = changes
	quarters, err := d.countDue(r, &data.reading, data.zoneFields, localDay{Start: days[0].Start, End: days[len(days)-1].End})
	data.draw(days, quarters)
	return err
}

// countDue counts the events of a zone and type that are due in a span of time, if that takes no longer than
// daysWait. Otherwise the reading says that there are no numbers. The error means that there is no viewer any more.
func (d *dashboard) countDue(r *request, of *reading, f zoneFields, span localDay) ([]ops.QuarterCount, error) {
	ctx, cancel := context.WithTimeout(r.Context(), daysWait)
	defer cancel()
	counts, err := d.reader.DueCounts(ctx, ops.DueCountsRequest{Zone: f.Zone, Type: f.Type, From: span.Start, Until: span.End})
	if err != nil {
		of.None = true
		return nil, d.withoutEvents(r, err)
	}
	of.Counted = counts.At
	return counts.Quarters, nil
}

// frame marks the square of today, if it is a day of the year.
func (c *calendarData) frame(now time.Time) {
	for i := range c.Squares {
		s := &c.Squares[i]
		s.Today = !now.Before(s.Start) && now.Before(s.End)
		c.HasToday = c.HasToday || s.Today
	}
}

// withoutEvents logs why events could not be found or counted, unless that took too long: then nothing is
// wrong with the database. The page shows the rest. The error means that there is no viewer any more.
func (d *dashboard) withoutEvents(r *request, err error) error {
	if r.Context().Err() != nil {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	d.log.ErrorContext(r.Context(), "Dashboard found no events", slog.String("route", r.Pattern), slog.Any("error", err))
	return nil
}

// draw places the days of a year: each half with its weeks from left to right, Monday first.
func (c *calendarData) draw(days []localDay, quarters []ops.QuarterCount) {
	counts := make([]ops.Count, len(days))
	for _, q := range quarters {
		// The first day that ends after the quarter hour has begun.
		i, _ := slices.BinarySearchFunc(days, q.From, func(d localDay, from time.Time) int {
			if d.End.After(from) {
				return 1
			}
			return -1
		})
		if i < len(days) {
			counts[i], c.Total = plus(counts[i], q.Count), plus(c.Total, q.Count)
			if counts[i].N > c.Most.N {
				c.Most = counts[i]
			}
		}
	}
	var place, top int // of the day in its half: whole weeks, and days since Monday
	for i, day := range days {
		if day.Date.Day == 1 && day.Date.Month%6 == 1 {
			place = (int(calendar.WallTime{Date: day.Date}.Labelled().Weekday()) + 6) % 7
			top = int(day.Date.Month) / 7 * halfHeight
		}
		s := daySquare{localDay: day, X: daysLeft + place/7*pitch, Y: top + daysTop + place%7*pitch, Count: counts[i]}
		c.Weeks = max(c.Weeks, place/7+1)
		place++
		if s.Count.N > 0 {
			s.Shade = int(min(mostShades, 1+mostShades*(s.Count.N-1)/c.Most.N))
		}
		if day.Date.Day == 1 {
			name := day.Date.Month.String()
			x := s.X
			if place > 7 && s.Y > top+daysTop { // the column begins with days of the month before
				x += pitch
			}
			c.Months = append(c.Months, monthLabel{x, top + 12, name[:3], day.Date})
			c.Rows = append(c.Rows, monthRow{Name: name})
		}
		c.Squares = append(c.Squares, s)
		c.Rows[len(c.Rows)-1].Days = append(c.Rows[len(c.Rows)-1].Days, s)
	}
}

// Width and Height are the size of the drawing.
func (c calendarData) Width() int  { return daysLeft + c.Weeks*pitch }
func (c calendarData) Height() int { return halfHeight + daysTop + 7*pitch }

// Weekdays are the labels of the rows.
func (c calendarData) Weekdays() []weekdayLabel {
	var labels []weekdayLabel
	for _, top := range []int{0, halfHeight} {
		for i, name := range []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} {
			labels = append(labels, weekdayLabel{top + daysTop + i*pitch + 16, name})
		}
	}
	return labels
}

// Path is the zone in the path of its page.
func (f zoneFields) Path() string { return (&url.URL{Path: f.Zone}).EscapedPath() }

// Link is the query of the links to days.
func (f zoneFields) Link() string { return query("zone", f.Zone, "type", f.Type) }
