package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// The size of a drawing of clocks, and the room for its labels.
const (
	clocksWidth, clocksHeight = 640, 300
	clocksLeft, clocksRight   = 70, 34
	clocksTop, clocksBottom   = 14, 34
)

// clockDrawing draws local time over UTC around an instant.
type clockDrawing struct {
	Lines  []string // paths, one for each offset
	Bands  []clockBand
	Asked  float64 // where the wall time is
	Dots   []clockDot
	Across []clockTick // instants
	Up     []clockTick // wall times
	Parts  []clockPart // the lines as a table
}

// clockBand is the span of wall times of a gap or a fold.
type clockBand struct {
	Y, Height float64
	Text      string
}

// clockDot is an instant that policies choose.
type clockDot struct {
	X, Y float64
	Text string
}

type clockTick struct {
	Pos  float64
	Text string
}

// clockPart is a time without changes of clocks.
type clockPart struct {
	From, Until time.Time
	Wall, Last  calendar.WallTime // what clocks show at From, and when they reach Until
	Offset      string
}

// clockScale says where instants and wall times are. Wall times are labelled UTC.
type clockScale struct {
	from, until time.Time // across
	low, high   time.Time // up
}

func (s clockScale) x(at time.Time) float64 {
	share := float64(at.Sub(s.from)) / float64(s.until.Sub(s.from))
	return clocksLeft + share*(clocksWidth-clocksLeft-clocksRight)
}

func (s clockScale) y(label time.Time) float64 {
	share := float64(label.Sub(s.low)) / float64(s.high.Sub(s.low))
	return clocksHeight - clocksBottom - share*(clocksHeight-clocksTop-clocksBottom)
}

// drawClocks draws what the clocks of a zone show around an instant, the wall time that was
// asked for, and the instants of the rows.
func drawClocks(z calendar.Timezone, wall calendar.WallTime, around time.Time, rows []policyRow) clockDrawing {
	half := 3 * time.Hour
	if c, ok := z.NextChange(around.Add(-time.Second)); ok && c.At.Equal(around) {
		half = max(half, 2*c.Width().Abs()).Truncate(time.Hour)
	}
	s := clockScale{from: around.Add(-half), until: around.Add(half)}
	changes := changesIn(z, s.from, s.until)
	drawing := clockDrawing{Parts: partsOf(z, s.from, s.until, changes)}
	s.low, s.high = wall.Labelled(), wall.Labelled()
	for _, p := range drawing.Parts {
		for _, w := range []calendar.WallTime{p.Wall, p.Last} {
			if label := w.Labelled(); label.Before(s.low) {
				s.low = label
			} else if label.After(s.high) {
				s.high = label
			}
		}
	}
	for _, p := range drawing.Parts {
		drawing.Lines = append(drawing.Lines, fmt.Sprintf("M%.1f %.1fL%.1f %.1f",
			s.x(p.From), s.y(p.Wall.Labelled()), s.x(p.Until), s.y(p.Last.Labelled())))
	}
	for _, c := range changes {
		top, bottom := c.To().Labelled(), c.From().Labelled()
		if c.Width() < 0 {
			top, bottom = bottom, top
		}
		drawing.Bands = append(drawing.Bands, clockBand{s.y(top), s.y(bottom) - s.y(top), c.Text()})
	}
	drawing.Asked = s.y(wall.Labelled())
	drawing.Dots = s.dots(rows)
	drawing.Across, drawing.Up = s.ticks(s.from, s.until, s.x), s.ticks(s.low, s.high, s.y)
	return drawing
}

// partsOf cuts a span of time at changes of clocks.
func partsOf(z calendar.Timezone, from, until time.Time, changes []clockChange) []clockPart {
	var parts []clockPart
	for _, c := range append(slices.Clone(changes), clockChange{calendar.Change{At: until}}) {
		if !c.At.After(from) {
			continue
		}
		wall := z.WallTime(from)
		last := calendar.WallTimeOf(wall.Labelled().Add(c.At.Sub(from)))
		parts = append(parts, clockPart{from, c.At, wall, last, clockOffset(wall.Labelled().Sub(from.Truncate(time.Second)))})
		from = c.At
	}
	return parts
}

// dots places the instants of rows. Policies with the same instant share a dot.
func (s clockScale) dots(rows []policyRow) []clockDot {
	var dots []clockDot
	seen := make(map[time.Time]int)
	for _, row := range rows {
		name := row.Policy[strings.LastIndex(row.Policy, " ")+1:]
		if row.Policy == "every policy" {
			name = row.Shown.Clock.String()
		}
		if i, ok := seen[row.At]; ok {
			dots[i].Text += ", " + name
			continue
		}
		if !row.At.IsZero() {
			seen[row.At] = len(dots)
			dots = append(dots, clockDot{s.x(row.At), s.y(row.Shown.Labelled()), name})
		}
	}
	return dots
}

// ticks are whole hours, at most eight.
func (s clockScale) ticks(from, until time.Time, place func(time.Time) float64) []clockTick {
	step := time.Hour
	for until.Sub(from) > 8*step {
		step *= 2
	}
	var ticks []clockTick
	for at := from.Truncate(step); !at.After(until); at = at.Add(step) {
		if !at.Before(from) {
			ticks = append(ticks, clockTick{place(at), at.UTC().Format("02 15:04")})
		}
	}
	return ticks
}

// The size of a drawing of offsets, and the room for its labels.
const (
	offsetsWidth, offsetsHeight = 640, 120
	offsetsLeft                 = 60
	offsetsBottom               = 24
)

// offsetDrawing draws the offset of a zone from UTC over time.
type offsetDrawing struct {
	Path string
	Xs   []clockTick // years
	Ys   []clockTick // offsets
}

// drawOffsets draws the offsets between two instants. Changes lie between them.
func drawOffsets(z calendar.Timezone, changes []clockChange, from, until time.Time) offsetDrawing {
	first := z.WallTime(from).Labelled().Sub(from.Truncate(time.Second))
	offsets := []time.Duration{first}
	for _, c := range changes {
		offsets = append(offsets, c.After)
	}
	low, high := slices.Min(offsets), slices.Max(offsets)
	x := func(at time.Time) float64 {
		return offsetsLeft + (offsetsWidth-offsetsLeft)*float64(at.Sub(from))/float64(until.Sub(from))
	}
	y := func(offset time.Duration) float64 {
		if high == low {
			return (offsetsHeight - offsetsBottom) / 2
		}
		return 12 + (offsetsHeight-offsetsBottom-24)*float64(high-offset)/float64(high-low)
	}
	var path strings.Builder
	fmt.Fprintf(&path, "M%d %.1f", offsetsLeft, y(first))
	for _, c := range changes {
		fmt.Fprintf(&path, "H%.1fV%.1f", x(c.At), y(c.After))
	}
	fmt.Fprintf(&path, "H%d", offsetsWidth)
	drawing := offsetDrawing{Path: path.String()}
	slices.Sort(offsets)
	for _, offset := range slices.Compact(offsets) {
		drawing.Ys = append(drawing.Ys, clockTick{y(offset), clockOffset(offset)})
	}
	for year := from.UTC().Year() + 1; year <= until.UTC().Year(); year++ {
		drawing.Xs = append(drawing.Xs, clockTick{x(time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC)), fmt.Sprint(year)})
	}
	return drawing
}
