package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/almanac-go/almanac/calendar"
)

// zonesOf returns the zones of a country. That a code is none is the caller's mistake.
func zonesOf(country string) (zones []calendar.Timezone, mistake, failure error) {
	zones, err := calendar.ZonesOf(country)
	if bad, ok := errors.AsType[*calendar.InputError](err); ok {
		return nil, fmt.Errorf("--country: %s", bad.Problems[0].Problem), nil
	}
	return zones, nil, err
}

// parseZones sets the zone, or the zones of the country, and refuses what has no meaning with a country.
func (w *when) parseZones(q *question) (mistake, failure error) {
	if w.Country == "" {
		if w.Zone == "" {
			return errors.New("--zone or --country is required"), nil
		}
		q.zone, mistake, failure = findZone("--zone", calendar.OwnZoneData(), w.Zone)
		return mistake, failure
	}
	q.zones, mistake, failure = zonesOf(w.Country)
	if len(q.zones) > 0 {
		q.zone = q.zones[0]
	}
	without := func(flag string, given bool) {
		if given {
			mistake = errors.Join(mistake, fmt.Errorf("--%s: has no meaning with --country", flag))
		}
	}
	without("zone", w.Zone != "")
	without("spread", w.Window.Spread != "")
	without("gap", w.Policies.Gap != "forward")
	without("fold", w.Policies.Fold != "first")
	if w.Days.Hours == "" && w.Quiet == "" {
		mistake = errors.Join(mistake, errors.New("--country: needs --hours or --quiet"))
	}
	return mistake, failure
}

// answerForCountry finds the occurrences for all zones of the country. Those before an error are in the answer.
func (q question) answerForCountry() (answer, error) {
	a := answer{From: q.from.String(), Occurrences: []occurrence{}}
	var after, last calendar.WallTime
	for len(a.Occurrences) < q.count {
		slot, err := q.rule.After(after, q.policies)
		if errors.Is(err, calendar.ErrNoOccurrence) {
			q.leaveOut(&a, last, forever)
			return a, nil
		}
		var at calendar.SharedTime
		if err == nil {
			at, err = calendar.InAllZones(q.zones, slot.Wall, q.within.Window)
		}
		if err != nil {
			a.Error = bare(err.Error())
			return a, err
		}
		own := unmoved(slot.Wall, slot.Move)
		q.leaveOut(&a, last, own)
		after, last = slot.Wall, own
		a.Occurrences = append(a.Occurrences, q.sharedBy(slot, at))
	}
	return a, nil
}

// sharedBy returns what is shown of a slot in all zones.
func (q question) sharedBy(slot calendar.Slot, at calendar.SharedTime) occurrence {
	o := calendar.Occurrence{
		Key: slot.Key, Nominal: slot.Nominal, Wall: slot.Wall, Named: slot.Named, DayReason: slot.DayReason,
		Announces: slot.Announces, Move: slot.Move, Consulted: slot.Consulted,
	}
	o.Resolution.Reading = calendar.ShownOnce // Wall is of no zone
	shown := occurrenceOf(o)
	shown.Zone, shown.Shown, shown.Instant = at.Zone.String(), at.Wall.String(), at.Instant
	shown.Offset = offsetText(offsetAt(at.Zone, at.Instant))
	if q.system != nil {
		shown.Day = dayBy(q.system, slot.Wall.Date)
	}
	shared := q.inAll(slot, at)
	if shown.Reason == "exact" {
		shown.Reason = shared
	} else {
		shown.Reason += "; " + shared
	}
	return shown
}

// inAll says whether a time is in the hours in all zones.
func (q question) inAll(slot calendar.Slot, at calendar.SharedTime) string {
	all := fmt.Sprintf("all %d zones", len(q.zones))
	if len(q.zones) == 1 {
		all = "the only zone"
	}
	switch {
	case at.Open && at.Wall == slot.Wall:
		return "open in " + all
	case at.Open:
		return "the first time that is open in " + all
	case at.Outside == 0:
		return "never open in " + all
	}
	return fmt.Sprintf("never open in %s, at most %s outside", all, strings.TrimPrefix(moveText(int64(at.Outside.Seconds())), "+"))
}
