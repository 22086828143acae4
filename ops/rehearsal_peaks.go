package ops

import (
	"maps"
	"slices"
	"time"

	"github.com/almanac-go/almanac"
)

// RehearsePeak has the peaks of a lane, and how long its Rate and its Daily delay events. Places and the limits of the
// lane that contains it are ignored.
type RehearsePeak struct {
	Lane   string `json:"lane"` // "" for all events; otherwise also the events of the lanes in it
	Events int    `json:"events"`
	// Second, Minute and Hour are when most events become available. Minutes and seconds begin at full ones, and an hour
	// at a full minute. Second is zero if there are more than a million different seconds, as when types are spread.
	Second RehearseMost `json:"second"`
	Minute RehearseMost `json:"minute"`
	Hour   RehearseMost `json:"hour"`
	// Limits are those of the lane when users were copied. That of all events has the Capacity as its Rate.
	Limits almanac.Lane `json:"limits"`
	// Wait is how long the last event of the worst backlog waits, if Rate events start in each second, after Burst at
	// once. The backlog begins at WaitFrom and has gone at WaitUntil. Zero means that no event waits, or no Rate.
	Wait      time.Duration `json:"waitNanoseconds"`
	WaitFrom  time.Time     `json:"waitFrom,omitzero"`
	WaitUntil time.Time     `json:"waitUntil,omitzero"`
	// Left is the largest number of events that Limits.Daily leaves to the next day, at midnight UTC after LeftOn.
	Left   int       `json:"left"`
	LeftOn time.Time `json:"leftOn,omitzero"`
}

// RehearseMost is the time in which most events become available, and how many.
type RehearseMost struct {
	Events int       `json:"events"`
	At     time.Time `json:"at,omitzero"` // when it begins, UTC
}

const (
	maxLoads   = 40        // lanes with limits, and as many without, whose peaks are kept: at most 2 MB each
	maxSeconds = 1_000_000 // of all lanes
)

// loads are the events of lanes by the time at which they become available.
type loads struct {
	first   int64 // the Unix time at which the first minute begins
	minutes int
	limits  map[string]almanac.Lane // by name, at most maxLoads
	of      map[string]*load
	seconds map[loadSecond]int // nil if there are too many
	others  int                // lanes without limits
	given   bool               // the lanes without limits are given up
	lost    bool               // some lanes with limits are counted as lanes without limits
}

// load has the events of a lane.
type load struct {
	events  int
	minutes []uint32
}

type loadSecond struct {
	load   *load
	second int64
}

func newLoads(head copyHead, until time.Time) loads {
	first := head.At.Truncate(time.Minute)
	l := loads{
		first: first.Unix(), minutes: int(until.Sub(first)/time.Minute) + 1,
		limits: make(map[string]almanac.Lane), of: make(map[string]*load), seconds: make(map[loadSecond]int),
	}
	for _, lane := range head.Lanes {
		switch {
		case !lane.Limited():
		case len(l.limits) < maxLoads:
			l.limits[lane.Name] = lane
		default:
			l.lost = true
		}
	}
	return l
}

// lane returns the load of a lane, or nil if it is not kept.
func (l *loads) lane(name string) *load {
	is := l.of[name]
	_, limited := l.limits[name]
	if is != nil || l.given && !limited && name != "" {
		return is
	}
	is = &load{minutes: make([]uint32, l.minutes)}
	l.of[name] = is
	if limited || name == "" {
		return is
	}
	if l.others++; l.others > maxLoads && !l.given {
		l.given = true
		maps.DeleteFunc(l.of, func(name string, _ *load) bool { _, limited := l.limits[name]; return name != "" && !limited })
		is = l.of[name]
	}
	return is
}

func (l *loads) add(seconds map[laneSecond]int) {
	for at, n := range seconds {
		is := l.lane(at.lane)
		if is == nil {
			continue
		}
		is.events += n
		is.minutes[min(max(at.second-l.first, 0)/60, int64(l.minutes-1))] += uint32(n)
		if l.seconds != nil {
			l.seconds[loadSecond{is, at.second}] += n
		}
	}
	if len(l.seconds) > maxSeconds {
		l.seconds = nil
	}
}

// peaks returns the peaks in the order of lanes.
func (l *loads) peaks(capacity float64) []RehearsePeak {
	bySecond := make(map[*load]map[int64]int)
	for at, n := range l.seconds {
		if bySecond[at.load] == nil {
			bySecond[at.load] = make(map[int64]int)
		}
		bySecond[at.load][at.second] += n
	}
	var list []RehearsePeak
	for _, name := range slices.Sorted(maps.Keys(l.of)) {
		is := l.of[name]
		p := RehearsePeak{Lane: name, Events: is.events, Limits: l.limits[name], Minute: l.most(is, 1), Hour: l.most(is, 60)}
		if name == "" {
			p.Limits = almanac.Lane{Rate: capacity}
		}
		arrivals := l.spreadArrivals(is)
		if l.seconds != nil {
			arrivals = arrivals[:0]
			for _, second := range slices.Sorted(maps.Keys(bySecond[is])) {
				n := bySecond[is][second]
				arrivals = append(arrivals, arrival{float64(second), float64(n)})
				if n > p.Second.Events {
					p.Second = RehearseMost{n, time.Unix(second, 0).UTC()}
				}
			}
		}
		p.wait(arrivals)
		l.left(is, &p)
		list = append(list, p)
	}
	return list
}

// most returns the window of some minutes in which most events become available.
func (l *loads) most(is *load, width int) (most RehearseMost) {
	sum := 0
	for i, n := range is.minutes {
		sum += int(n)
		if i >= width {
			sum -= int(is.minutes[i-width])
		}
		if sum > most.Events {
			most = RehearseMost{sum, l.minute(first(is.minutes, max(0, i-width+1)))}
		}
	}
	return most
}

// first returns the first minute from i on that has events.
func first(minutes []uint32, i int) int {
	for minutes[i] == 0 {
		i++
	}
	return i
}

func (l *loads) minute(i int) time.Time { return time.Unix(l.first+60*int64(i), 0).UTC() }

// arrival are events that become available at once.
type arrival struct{ at, n float64 } // at is the Unix time

// spreadArrivals returns the events of each minute as if they came evenly.
func (l *loads) spreadArrivals(is *load) (list []arrival) {
	if l.seconds != nil {
		return nil
	}
	for i, n := range is.minutes {
		for second := range 60 {
			if n > 0 {
				list = append(list, arrival{float64(l.first + 60*int64(i) + int64(second)), float64(n) / 60})
			}
		}
	}
	return list
}

// wait sets the worst backlog, by the rate.
func (p *RehearsePeak) wait(arrivals []arrival) {
	rate := p.Limits.Rate
	if rate <= 0 {
		return
	}
	var backlog, before, from, worst float64
	for _, a := range arrivals {
		if backlog -= (a.at - before) * rate; backlog <= 0 {
			backlog, from = 0, a.at
		}
		backlog, before = backlog+a.n, a.at
		if wait := (backlog - float64(max(p.Limits.Burst, 1))) / rate; wait > worst {
			worst = wait
			p.Wait, p.WaitFrom, p.WaitUntil = seconds(wait), unixTime(from), unixTime(a.at+wait)
		} else if from == float64(p.WaitFrom.Unix()) && p.Wait > 0 && wait > 0 { // the same backlog goes on
			p.WaitUntil = unixTime(a.at + wait)
		}
	}
}

func unixTime(s float64) time.Time { return time.UnixMilli(int64(s * 1000)).UTC() }

// left sets how many events the limit of a day leaves to the next day.
func (l *loads) left(is *load, p *RehearsePeak) {
	if p.Limits.Daily == 0 {
		return
	}
	waiting := 0
	for i, n := range is.minutes {
		waiting += int(n)
		if next := l.minute(i + 1); next.Equal(next.Truncate(day)) {
			if waiting = max(0, waiting-p.Limits.Daily); waiting > p.Left {
				p.Left, p.LeftOn = waiting, next.Add(-day)
			}
		}
	}
}
