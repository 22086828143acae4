package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// yearsAhead is for how many years the page of a zone shows changes of clocks.
const yearsAhead = 10

// zoneData is what the page of one zone shows.
type zoneData struct {
	zoneRow
	Canonical string // the present name of the same place, if it is another one
	reading
	Horizon time.Time // the end of the changes
	Changes []clockChange
	Drawing offsetDrawing
	May     bool // whether the viewer may reconcile
}

// Zone is the name, as other pages call it.
func (z zoneData) Zone() string { return z.Name }

// Prints are the fingerprints here and stored.
func (z zoneData) Prints() []string {
	return []string{fmt.Sprintf("%016x", uint64(z.Fingerprinted[0])), fmt.Sprintf("%016x", uint64(z.Fingerprinted[1]))}
}

func (d *dashboard) zonePage(r *request) (answer, error) {
	name := r.PathValue("name")
	z, err := calendar.LoadTimezone(name)
	if err == nil {
		name = z.String()
	}
	now, errClock := r.clock()
	if errClock != nil {
		return answer{}, errClock
	}
	s, of := d.lastNumbers(r)
	data := zoneData{reading: of, Horizon: now.AddDate(yearsAhead, 0, 0)}
	if data.zoneRow = rowOf(name, s, now); err != nil && !data.Rules && data.Users.N+data.Pending.N == 0 {
		if of.Loading { // users may have a zone that only newer data has
			return answer{}, refused(http.StatusServiceUnavailable, "The zones of users are being read. Reload the page in a moment.")
		}
		return answer{}, refused(http.StatusNotFound, sentenceOf(err))
	}
	if canonical := z.Canonical(); canonical != name {
		data.Canonical = canonical
	}
	if data.May, err = r.mayDo(Reconcile, uuid.Nil); err != nil {
		return answer{}, err
	}
	for _, c := range changesIn(z, now, data.Horizon) {
		if c.At.After(now) {
			data.Changes = append(data.Changes, c)
		}
	}
	data.Drawing = drawOffsets(z, data.Changes, now, data.Horizon)
	return answer{title: name, template: "zone", data: data}, nil
}

// rowOf returns what is known about one zone.
func rowOf(name string, s snapshot, now time.Time) zoneRow {
	row := zoneRow{Name: name, zoneStanding: bookOf(s.Book).standing(name, now)}
	i := slices.IndexFunc(s.Stats.Zones, func(c ops.ZoneCount) bool { return c.Zone == name })
	if i >= 0 {
		row.Users, row.Pending = s.Stats.Zones[i].Users, s.Stats.Zones[i].Pending
	}
	row.Clock, row.Offset, row.Next = clocksOf(name, now)
	return row
}
