package dashboard

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// nowData is what the first page shows.
type nowData struct {
	reading
	Numbers snapshot
	Retries retriesData
	Health  []condition
	Held    int // events that this process holds
	Workers int
	Wave    wave
	Totals  []typeRow
	measured
	clocks
}

// measured is what the Monitor of this process has.
type measured struct {
	Measured   bool // whether there is a Monitor
	Lateness   []lateRow
	Rates      []rates
	Throughput throughput
}

// DelayedUntil bounds a list of the events that wait for another attempt.
func (n nowData) DelayedUntil() string { return n.Numbers.Stats.At.Format(time.RFC3339) }

// AtMost is how far the clocks that agree can be apart, in whole milliseconds.
func (c clocks) AtMost() time.Duration {
	return max(time.Millisecond, c.Within.Truncate(time.Millisecond)+time.Millisecond)
}

// clocks compares the clocks and the zone data of this process with those of the database.
type clocks struct {
	Skew    time.Duration // how much this machine's clock is ahead of the database's
	Within  time.Duration // how exactly that is known
	Skewed  bool
	Release string // of this program's zone data
	Stored  string // the newest release by which the database's instants were found
}

// condition is one line of the health of this process.
type condition struct {
	Good bool
	Text string
}

// lateRow has the lateness of one span.
type lateRow struct {
	lateness
	Plot string // the path of the histogram, in a box of plotWidth by plotHeight
}

// typeRow has the numbers of one type.
type typeRow struct {
	Type                                              string
	Pending, Processing, Completed, Failed, Cancelled ops.Count
	Paused                                            bool
}

// retriesNow is how many groups of retries the first page shows.
const retriesNow = 5

// clockTolerance is the largest difference between the clocks of process and database that is not shown.
const clockTolerance = 2 * time.Second

func (d *dashboard) nowPage(r *request) (answer, error) {
	texts, err := r.mayDo(SeePayloads, uuid.Nil)
	if err != nil {
		return answer{}, err
	}
	data := nowData{measured: measured{Measured: d.monitor != nil}}
	var s snapshot
	s, data.reading = d.lastNumbers(r)
	if !data.None {
		data.Numbers = s
		data.Retries = retriesShown(s.Retries, texts, retriesNow)
		if data.Wave = waveOf(s.Stats.Wave); data.Wave.Total.N == 0 {
			data.Wave.Next = d.nextDue(r.Context())
		}
		data.Totals = totals(s)
		data.Skew, data.Within = s.Skew()
		data.Skewed = data.Skew.Abs() > clockTolerance+data.Within
		for _, rules := range s.Book.Rules {
			data.Stored = max(data.Stored, rules.Version)
		}
	}
	data.Release = releaseHere(d.now())
	health := d.scheduler.Health()
	data.Health = append(d.conditions(r), troubles(health, texts)...)
	data.Held, data.Workers = health.Held, health.Workers
	if d.monitor != nil {
		for _, span := range []time.Duration{5 * time.Minute, time.Hour, 24 * time.Hour} {
			late, rates := d.monitor.span("", span)
			data.Lateness = append(data.Lateness, lateRow{late, plot(late)})
			data.Rates = append(data.Rates, rates)
		}
		data.Throughput = throughputOf(d.monitor.fiveMinutes(throughputBars), d.now())
	}
	return answer{title: "Now", template: "now", live: "now", data: data}, nil
}

// conditions says whether this process works, and why not.
func (d *dashboard) conditions(r *request) []condition {
	err := d.health(r.Context())
	if err == nil {
		return []condition{{true, "This process is healthy."}}
	}
	if errors.Is(err, almanac.ErrNotRunning) {
		return []condition{{false, "This process delivers no events: Run is not active."}}
	}
	causes := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		causes = joined.Unwrap()
	}
	var all []condition
	for _, one := range causes {
		all = append(all, condition{false, one.Error()})
	}
	return all
}

// totals returns a row for each type.
func totals(s snapshot) []typeRow {
	var rows []typeRow
	for _, one := range s.Stats.Events {
		if len(rows) == 0 || rows[len(rows)-1].Type != one.Type {
			rows = append(rows, typeRow{Type: one.Type, Paused: pausesData{Paused: s.Paused}.paused(one.Type)})
		}
		row := &rows[len(rows)-1]
		switch one.Status {
		case almanac.Pending:
			row.Pending = one.Count
		case almanac.Processing:
			row.Processing = one.Count
		case almanac.Completed:
			row.Completed = one.Count
		case almanac.Failed:
			row.Failed = one.Count
		case almanac.Cancelled:
			row.Cancelled = one.Count
		}
	}
	return rows
}

// wave is what becomes due in the next 48 hours, as bars of a quarter hour.
type wave struct {
	Bars  []bar
	Total ops.Count
	Most  ops.Count
	Hours []hourMark
	Next  time.Time // when the next event is due, if none is due in the wave; zero if there is none, or if it is not known
}

// bar is a quarter hour. X, Y, Width and Height are in the units of the drawing.
type bar struct {
	From                time.Time
	Count               ops.Count
	X, Y, Width, Height float64
}

type hourMark struct {
	X    float64
	Text string
}

// The size of the drawing of a wave.
const (
	waveWidth  = 768
	waveHeight = 120
)

func waveOf(counts []ops.QuarterCount) wave {
	var w wave
	for _, c := range counts {
		w.Total.N += c.Count.N
		w.Total.Kind = max(w.Total.Kind, c.Count.Kind)
		if c.Count.N > w.Most.N {
			w.Most = c.Count
		}
	}
	width := float64(waveWidth) / float64(max(1, len(counts)))
	for i, c := range counts {
		height := 0.0
		if c.Count.N > 0 {
			height = max(1, waveHeight*float64(c.Count.N)/float64(w.Most.N))
		}
		w.Bars = append(w.Bars, bar{c.From, c.Count, width * float64(i), waveHeight - height, width * 0.8, height})
		if x := width * float64(i); c.From.Minute() == 0 && c.From.Hour()%6 == 0 && x < waveWidth-80 { // room for the text
			w.Hours = append(w.Hours, hourMark{width * float64(i), c.From.UTC().Format("Mon 15:04")})
		}
	}
	return w
}

// The size of the drawing of a histogram.
const (
	plotWidth  = 202
	plotHeight = 40
)

// plot returns the outline of a histogram of lateness. The axis of lateness is logarithmic.
func plot(l lateness) string {
	most := 0
	for _, n := range l.Histogram {
		most = max(most, n)
	}
	if most == 0 {
		return ""
	}
	path := fmt.Sprintf("M0 %d", plotHeight)
	for _, n := range l.Histogram {
		path += fmt.Sprintf("V%.1fh2", plotHeight*(1-float64(n)/float64(most)))
	}
	return path + fmt.Sprintf("V%dZ", plotHeight)
}
