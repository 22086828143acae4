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
	clocksTop, clocksBottom   = 14, 40
	// clocksAround is how much time it shows before and after its instant.
	clocksAround = 3 * time.Hour
)

// clockDrawing draws local time over UTC around an instant.
type clockDrawing struct {
	Lines, Jumps []clockLine // the local time, and its changes
	Bands        []clockBand
	Asked        float64 // where the wall time that was asked for is; zero if it is outside
	Dots         []clockDot
	Across, Up   []clockTick // instants and wall times
	Parts        []clockPart // the lines as a table
}

type clockLine struct{ X1, Y1, X2, Y2 float64 }

// clockBand is the span of wall times of a gap or a fold.
type clockBand struct {
	Y, Height float64
	Gap       bool // clocks skip it; otherwise they show it twice
}

// clockDot is an instant in a drawing.
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

// namedInstant is an instant that a drawing is to show.
type namedInstant struct {
	At   time.Time
	Text string
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

// reach makes room for a wall time.
func (s *clockScale) reach(w calendar.WallTime) {
	label := w.Labelled()
	if label.Before(s.low) {
		s.low = label
	}
	if label.After(s.high) {
		s.high = label
	}
}

// drawClocks draws what the clocks of a zone show around an instant, the wall time that was
// asked for, and instants with their names.
func drawClocks(z calendar.Timezone, asked calendar.WallTime, around time.Time, instants []namedInstant) clockDrawing {
	half := clocksAround
	if c, ok := z.NextChange(around.Add(-time.Second)); ok && c.At.Equal(around) {
		half = max(half, 2*c.Width().Abs()).Truncate(time.Hour)
	}
	s := clockScale{from: around.Add(-half), until: around.Add(half)}
	s.low = z.WallTime(around).Labelled()
	s.high = s.low
	changes := changesIn(z, s.from, s.until)
	d := clockDrawing{Parts: partsOf(z, s.from, s.until, changes)}
	for _, p := range d.Parts {
		s.reach(p.Wall)
		s.reach(p.Last)
	}
	near := asked.Labelled().Sub(z.WallTime(around).Labelled()).Abs() < 36*time.Hour // a stored wall time can be far off
	if near {
		s.reach(asked)
		d.Asked = s.y(asked.Labelled())
	}
	for _, p := range d.Parts {
		d.Lines = append(d.Lines, clockLine{s.x(p.From), s.y(p.Wall.Labelled()), s.x(p.Until), s.y(p.Last.Labelled())})
	}
	for _, c := range changes {
		from, to := s.y(c.From().Labelled()), s.y(c.To().Labelled())
		d.Jumps = append(d.Jumps, clockLine{s.x(c.At), from, s.x(c.At), to})
		d.Bands = append(d.Bands, clockBand{min(from, to), max(from, to) - min(from, to), c.Width() > 0})
	}
	for _, one := range instants {
		d.Dots = append(d.Dots, clockDot{s.x(one.At), s.y(z.WallTime(one.At).Labelled()), one.Text})
	}
	d.Across, d.Up = ticks(s.from, s.until, s.x), ticks(s.low, s.high, s.y)
	return d
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

// ticks are whole hours, at most eight.
func ticks(from, until time.Time, place func(time.Time) float64) []clockTick {
	step := time.Hour
	for until.Sub(from) > 8*step {
		step *= 2
	}
	var ticks []clockTick
	for at := from.Truncate(step); !at.After(until); at = at.Add(step) {
		if !at.Before(from) {
			ticks = append(ticks, clockTick{place(at), at.UTC().Format("Mon 15:04")})
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
