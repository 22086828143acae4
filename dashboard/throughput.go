package dashboard

import "time"

// throughputBars is how many bars of five minutes the drawing of the throughput has.
const throughputBars = 24

// The size of the drawing of the throughput.
const (
	throughputWidth  = waveWidth
	throughputHeight = waveHeight
)

// throughput is what this process has done in the last two hours, by five minutes.
type throughput struct {
	Bars      []throughputBar
	Completed int
	Refused   int
	Most      int // of a bar
	Hours     []hourMark
}

// throughputBar is five minutes. Its sizes are in the units of the drawing. The refused attempts stand on the
// completed events.
type throughputBar struct {
	From               time.Time
	Completed, Refused int // Refused are attempts that failed
	X, Width           float64
	CompletedY         float64
	RefusedY           float64
	CompletedHeight    float64
	RefusedHeight      float64
}

// throughputOf draws the outcomes of the last five minutes, oldest first. The last of them are of now.
func throughputOf(all []rates, now time.Time) (t throughput) {
	for _, r := range all {
		t.Completed += r.Completed
		t.Refused += r.Refused
		t.Most = max(t.Most, r.Completed+r.Refused)
	}
	const width = float64(throughputWidth) / throughputBars
	for i, r := range all {
		bar := throughputBar{From: now.UTC().Truncate(r.Span).Add(time.Duration(i-len(all)+1) * r.Span), Completed: r.Completed, Refused: r.Refused,
			X: width * float64(i), Width: width * 0.8}
		bar.CompletedHeight, bar.RefusedHeight = t.height(bar.Completed), t.height(bar.Refused)
		bar.CompletedY = throughputHeight - bar.CompletedHeight
		bar.RefusedY = bar.CompletedY - bar.RefusedHeight
		t.Bars = append(t.Bars, bar)
		if bar.From.Minute()%30 == 0 && bar.X < throughputWidth-60 { // room for the text
			t.Hours = append(t.Hours, hourMark{bar.X, bar.From.Format("15:04")})
		}
	}
	return t
}

// height returns the height of a number in the drawing.
func (t throughput) height(n int) float64 {
	if n == 0 {
		return 0
	}
	return throughputHeight * float64(n) / float64(t.Most)
}
