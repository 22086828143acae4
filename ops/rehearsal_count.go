package ops

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// tally are the counts of some users.
type tally struct {
	RehearseTotals
	users   int
	cells   cells
	seconds map[laneSecond]int
	refused []RehearseRefusal
}

// laneSecond is a second of a lane, as the Unix time.
type laneSecond struct {
	lane   string // "" for all events
	second int64
}

// count adds a delivered event that counts n times.
func (t *tally) count(e almanac.Event, channel almanac.Channel, n int) {
	t.Delivered += n
	lane := cmp.Or(e.Lane, e.Type)
	day := calendar.StoredTimezone(e.Zone).WallTime(e.UpdatedAt).Date
	key := cell{day, e.Type, e.Zone, channel, lane}
	in := t.cells[key]
	in.events += n
	in.digest += hashOfEvent(e)
	t.cells[key] = in
	second := e.UpdatedAt.Unix()
	t.seconds[laneSecond{"", second}] += n
	t.seconds[laneSecond{lane, second}] += n
	if containing, _, inner := strings.Cut(lane, "/"); inner {
		t.seconds[laneSecond{containing, second}] += n
	}
}

// cell identifies a count.
type cell struct {
	date            calendar.Date
	eventType, zone string
	channel         almanac.Channel
	lane            string
}

type counted struct {
	events int
	digest uint64
}

// cells are the counts of a rehearsal.
type cells map[cell]counted

// maxCells limits the memory of the counts to about 200 MB.
const maxCells = 1_000_000

func (c cells) add(more cells) {
	for key, n := range more {
		c.plus(key, n)
	}
}

func (c cells) plus(key cell, n counted) {
	is := c[key]
	c[key] = counted{is.events + n.events, is.digest + n.digest}
}

// merge leaves fields out while there are too many counts, as merged says and then says more. Whether it does depends
// on all users, and not on their order.
func (c cells) merge(merged []string) []string {
	for _, one := range []struct {
		field string
		clear func(*cell)
	}{{"lane", func(k *cell) { k.lane = "" }}, {"zone", func(k *cell) { k.zone = "" }}} {
		if !slices.Contains(merged, one.field) {
			if len(c) <= maxCells {
				break
			}
			merged = append(merged, one.field)
		}
		c.without(one.clear)
	}
	return merged
}

// without merges the counts that differ only in a field.
func (c cells) without(clear func(*cell)) {
	for key, n := range c {
		to := key
		if clear(&to); to != key {
			delete(c, key)
			c.plus(to, n)
		}
	}
}

// counts returns the counts in order.
func (c cells) counts() []RehearseCount {
	list := make([]RehearseCount, 0, len(c))
	for key, n := range c {
		list = append(list, RehearseCount{key.date, key.eventType, key.zone, key.channel, key.lane, n.events, n.digest})
	}
	sortBy(list, func(a, b RehearseCount) int {
		return cmp.Or(compareDates(a.Date, b.Date), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Lane, b.Lane))
	})
	return list
}

func compareDates(a, b calendar.Date) int {
	return cmp.Or(cmp.Compare(a.Year, b.Year), cmp.Compare(a.Month, b.Month), cmp.Compare(a.Day, b.Day))
}

func compareSeries(a, b almanac.Series) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Detached, b.Detached))
}

func sortBy[T any](list []T, compare func(a, b T) int) { slices.SortFunc(list, compare) }

// WriteCSV writes the counts as a table (RFC 4180): date, type, zone, channel, lane, events. The first row has these names.
func (r RehearseResult) WriteCSV(w io.Writer) error {
	to := csv.NewWriter(w)
	_ = to.Write([]string{"date", "type", "zone", "channel", "lane", "events"}) // Error returns what goes wrong
	for _, c := range r.Counts {
		_ = to.Write([]string{c.Date.String(), c.Type, c.Zone, string(c.Channel), c.Lane, strconv.Itoa(c.Events)})
	}
	to.Flush()
	return to.Error()
}

// RehearseDay is how many events of all zones, channels and lanes are delivered on a local day.
type RehearseDay struct {
	Date   calendar.Date `json:"date"`
	Type   string        `json:"type"`
	Events int           `json:"events"`
	digest uint64
}

// Days returns the counts by local day and type, in order. Days without events are left out.
func (r RehearseResult) Days() []RehearseDay {
	var days []RehearseDay
	for _, c := range r.Counts {
		if last := len(days) - 1; last >= 0 && days[last].Date == c.Date && days[last].Type == c.Type {
			days[last].Events += c.Events
			days[last].digest += c.Digest
			continue
		}
		days = append(days, RehearseDay{c.Date, c.Type, c.Events, c.Digest})
	}
	return days
}
