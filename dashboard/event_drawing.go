package dashboard

import (
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// drawnSpan is how much time a drawing shows on each side of the target.
const drawnSpan = 3 * time.Hour

// The places of a drawing in its box.
const (
	drawnLeft, drawnRight = 64.0, 468.0
	drawnTop, drawnBottom = 10.0, 250.0
)

// eventDrawing is local time over UTC around the target of an event. The units are those of
// the box.
type eventDrawing struct {
	Lines  []eventLine  // the local time
	Jumps  []eventLine  // changes of clocks
	Bands  []eventBand  // local times that are skipped or shown twice
	X, Y   float64      // of the target
	AskedY float64      // of the wall time that was asked for; zero if it is outside
	Across []eventTick  // hours of UTC
	Up     []eventTick  // hours of local time
	Clocks []eventClock // the drawing as a table
}

type eventLine struct{ X1, Y1, X2, Y2 float64 }

type eventBand struct {
	Y, Height float64
	Gap       bool // clocks skip it; otherwise they show it twice
}

type eventTick struct {
	At   float64
	Text string
}

// eventClock is a row of the table of a drawing.
type eventClock struct {
	UTC   time.Time
	Local calendar.WallTime
	Note  string
}

// eventPiece is a time in which clocks keep their offset.
type eventPiece struct {
	from, until time.Time
	offset      time.Duration
}

// labels returns the local times at both ends, with the label UTC.
func (p eventPiece) labels() (from, until time.Time) {
	return p.from.Add(p.offset), p.until.Add(p.offset)
}

// eventScale translates times to the box.
type eventScale struct{ from, until, low, high time.Time }

func (s eventScale) x(at time.Time) float64 {
	return drawnLeft + (drawnRight-drawnLeft)*float64(at.Sub(s.from))/float64(s.until.Sub(s.from))
}

func (s eventScale) y(label time.Time) float64 {
	return drawnBottom - (drawnBottom-drawnTop)*float64(label.Sub(s.low))/float64(s.high.Sub(s.low))
}

// drawEvent draws the clocks of a zone around an instant.
func drawEvent(z calendar.Timezone, at time.Time, asked calendar.WallTime) eventDrawing {
	at = at.UTC().Truncate(time.Second)
	s := eventScale{from: at.Add(-drawnSpan), until: at.Add(drawnSpan)}
	pieces, changes := piecesOf(z, s.from, s.until)
	label := z.WallTime(at).Labelled()
	s.low, s.high = label, label
	reach := func(label time.Time) {
		if label.Before(s.low) {
			s.low = label
		}
		if label.After(s.high) {
			s.high = label
		}
	}
	for _, p := range pieces {
		low, high := p.labels()
		reach(low)
		reach(high)
	}
	near := asked.Labelled().Sub(label).Abs() < 36*time.Hour // a stored wall time can be far off
	if near {
		reach(asked.Labelled())
	}
	d := eventDrawing{X: s.x(at), Y: s.y(label), Clocks: clockTable(z, s, changes)}
	if near {
		d.AskedY = s.y(asked.Labelled())
	}
	for _, p := range pieces {
		low, high := p.labels()
		d.Lines = append(d.Lines, eventLine{s.x(p.from), s.y(low), s.x(p.until), s.y(high)})
	}
	for _, c := range changes {
		from, to := s.y(c.From().Labelled()), s.y(c.To().Labelled())
		d.Jumps = append(d.Jumps, eventLine{s.x(c.At), from, s.x(c.At), to})
		d.Bands = append(d.Bands, eventBand{Y: min(from, to), Height: max(from, to) - min(from, to), Gap: c.Width() > 0})
	}
	d.ticks(s)
	return d
}

// piecesOf returns the times between changes of clocks, and the changes.
func piecesOf(z calendar.Timezone, from, until time.Time) (pieces []eventPiece, changes []calendar.Change) {
	p := eventPiece{from: from, offset: z.WallTime(from).Labelled().Sub(from)}
	for c, ok := z.NextChange(from); ok && c.At.Before(until); c, ok = z.NextChange(c.At) {
		p.until = c.At
		pieces, changes = append(pieces, p), append(changes, c)
		p = eventPiece{from: c.At, offset: c.After}
	}
	p.until = until
	return append(pieces, p), changes
}

// ticks marks whole hours on both axes.
func (d *eventDrawing) ticks(s eventScale) {
	for t := s.from.Truncate(time.Hour).Add(time.Hour); t.Before(s.until); t = t.Add(time.Hour) {
		d.Across = append(d.Across, eventTick{s.x(t), t.Format("15:04")})
	}
	step := time.Hour
	if s.high.Sub(s.low) > 10*time.Hour {
		step = 6 * time.Hour
	}
	for t := s.low.Truncate(step).Add(step); t.Before(s.high); t = t.Add(step) {
		d.Up = append(d.Up, eventTick{s.y(t), t.Format("15:04")})
	}
}

// clockTable returns the table of a drawing: each hour, and each change of clocks.
func clockTable(z calendar.Timezone, s eventScale, changes []calendar.Change) (rows []eventClock) {
	for t := s.from.Truncate(time.Hour).Add(time.Hour); t.Before(s.until); t = t.Add(time.Hour) {
		row := eventClock{UTC: t, Local: z.WallTime(t)}
		for _, c := range changes {
			switch {
			case c.At.Equal(t):
				row.Note = c.String()
			case c.At.After(t.Add(-time.Hour)) && c.At.Before(t):
				rows = append(rows, eventClock{c.At, c.To(), c.String()})
			}
		}
		rows = append(rows, row)
	}
	return rows
}
