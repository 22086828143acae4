package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// dayData is what the page of one local day shows.
type dayData struct {
	zoneFields
	Date          string // as it was sent
	Before, After string // the dates beside it; "" if they are out of range
	Year          int
	reading       // of the counts
	Day           localDay
	Hours         []localHour
	Total         ops.Count // events of the day
	Listed        int       // of them; the others are counted only
	Unlisted      bool      // whether they could not be listed in time
}

// dayEvent is an event of an hour.
type dayEvent struct {
	almanac.Event
	At calendar.Clock
}

func (d *dashboard) dayPage(r *request) (answer, error) {
	fields, z := zoneFieldsOf(r)
	data := dayData{zoneFields: fields, Date: r.PathValue("date")}
	date, err := calendar.ParseDate(data.Date)
	switch {
	case err != nil:
		data.refuse("date", sentenceOf(err))
	case date.Year < firstYear || date.Year > lastYear:
		data.refuse("date", fmt.Sprintf("The date is not in the years %d to %d.", firstYear, lastYear))
	default:
		data.Year = date.Year
	}
	a := answer{title: "Day", template: "day", status: data.status()}
	if a.status == 0 {
		if err := d.fillDay(r, &data, z, date); err != nil {
			return answer{}, err
		}
		a.title = fmt.Sprintf("%s %s in %s", calendar.WallTime{Date: date}.Labelled().Weekday(), date, data.Zone)
	}
	a.data = data
	return a, nil
}

// fillDay finds the hours of a day and the events in them.
func (d *dashboard) fillDay(r *request, data *dayData, z calendar.Timezone, date calendar.Date) error {
	if before := dateAfter(date, -1); before.Year >= firstYear {
		data.Before = before.String()
	}
	if after := dateAfter(date, 1); after.Year <= lastYear {
		data.After = after.String()
	}
	days, _, err := daysOf(z, date, 1)
	if err != nil {
		return err
	}
	data.Day = days[0]
	if data.Hours = hoursOf(z, data.Day); data.Day.Missing() {
		return nil
	}
	quarters, err := d.countDue(r, &data.reading, data.zoneFields, data.Day)
	if err != nil {
		return err
	}
	data.count(quarters)
	if data.None || data.Total.N > 0 {
		return d.listDay(r, data, z, listed(data.Day, quarters))
	}
	return nil
}

// count adds the counts to the hours. Hours with a change of clocks between two quarter hours share one.
func (d *dayData) count(quarters []ops.QuarterCount) {
	for _, q := range quarters {
		hour := d.hourAt(q.From)
		hour.Count, d.Total = plus(hour.Count, q.Count), plus(d.Total, q.Count)
	}
}

// hourAt returns the last hour that has begun at an instant.
func (d *dayData) hourAt(at time.Time) *localHour {
	i := 0
	for i < len(d.Hours)-1 && !at.Before(d.Hours[i].Until) {
		i++
	}
	return &d.Hours[i]
}

// listed returns the part of a day that has the first dayEvents events. The search need not look at the rest of
// the day, where other zones may have many.
func listed(day localDay, quarters []ops.QuarterCount) localDay {
	const quarter = 15 * time.Minute
	n := int64(0)
	for i, q := range quarters {
		if i == 0 && q.From.After(day.Start) {
			day.Start = q.From
		}
		if n += q.Count.N; n >= dayEvents || i == len(quarters)-1 {
			if end := q.From.Add(quarter); end.Before(day.End) {
				day.End = end
			}
			break
		}
	}
	return day
}

// listDay finds events of a part of the day.
func (d *dashboard) listDay(r *request, data *dayData, z calendar.Timezone, part localDay) error {
	ctx, cancel := context.WithTimeout(r.Context(), daysWait)
	defer cancel()
	found, err := d.reader.Find(ctx, data.spec(part.Start, part.End), almanac.Page{Limit: dayEvents})
	if data.Unlisted = err != nil; err != nil {
		return d.withoutEvents(r, err)
	}
	data.Listed = len(found.Items)
	slices.SortStableFunc(found.Items, func(a, b almanac.Event) int { return a.Due.Compare(b.Due) })
	for _, e := range found.Items {
		hour := data.hourAt(e.Due)
		hour.Events = append(hour.Events, dayEvent{e, z.WallTime(e.Due).Clock})
	}
	return nil
}

// DatePath is the date in the path of the page.
func (d dayData) DatePath() string { return url.PathEscape(d.Date) }

// EventsLink is the query of a list of the day's events.
func (d dayData) EventsLink() string {
	return query("zone", d.Zone, "type", d.Type, "from", d.Day.Start.Format(time.RFC3339), "until", d.Day.End.Format(time.RFC3339), "order", "oldest")
}

// Some reports whether the page lists a part of the events only.
func (d dayData) Some() bool { return !d.None && int64(d.Listed) < d.Total.N }
