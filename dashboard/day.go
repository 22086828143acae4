package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// dayData is what the page of one local day shows.
type dayData struct {
	zoneFields
	Date          string // as it was sent
	Before, After string // the dates beside it; "" if they are out of range
	Year          int
	Day           localDay
	Hours         []localHour
	Shown         int
	More          bool // whether there are more events
	NoEvents      bool // whether they could not be found
}

// dayEvent is an event of an hour.
type dayEvent struct {
	almanac.Event
	At calendar.Clock
}

func (d *dashboard) dayPage(r *request) (answer, error) {
	if err := r.need(Look, uuid.Nil); err != nil {
		return answer{}, err
	}
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
	if a.status == http.StatusOK {
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
	found, err := d.reader.Find(r.Context(), data.spec(data.Day.Start, data.Day.End), almanac.Page{Limit: dayEvents})
	if data.NoEvents = err != nil; err != nil {
		return d.withoutEvents(r, err)
	}
	data.Shown, data.More = len(found.Events), found.Next != ""
	slices.SortStableFunc(found.Events, func(a, b almanac.Event) int { return a.Due.Compare(b.Due) })
	hour := 0
	for _, e := range found.Events {
		for hour < len(data.Hours)-1 && !e.Due.Before(data.Hours[hour].Until) {
			hour++
		}
		data.Hours[hour].Events = append(data.Hours[hour].Events, dayEvent{e, z.WallTime(e.Due).Clock})
	}
	return nil
}

// DatePath is the date in the path of the page.
func (d dayData) DatePath() string { return url.PathEscape(d.Date) }

// ShownText is the number of events in words.
func (d dayData) ShownText() string { return countText(d.Shown, "event") }
