package world_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/internal/calendartest"
)

// Texts that the test itself wrote.
var (
	instant = calendartest.Instant
	zone    = calendartest.Zone
)

// Instants of 2026 to the minute.
const (
	equinox       = "2026-03-20T14:46:00Z"
	summer        = "2026-06-21T08:24:00Z" // the solstice of June
	winter        = "2026-12-21T20:50:00Z" // the solstice of December
	minutesOfYear = 365 * 24 * 60
)

// drawInstant draws an instant of the years in which the formulas hold, often near an equinox.
func drawInstant(t *rapid.T) time.Time {
	seconds := rapid.OneOf(
		rapid.Int64Range(date(1950).Unix(), date(2050).Unix()),
		rapid.Int64Range(date(2026).Unix(), date(2030).Unix()),
		rapid.Map(rapid.Int64Range(-5400, 5400), func(d int64) int64 {
			return time.Date(2026, time.March, 20, 14, 46, 0, 0, time.UTC).Unix() + d
		}),
	).Draw(t, "seconds")
	return time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC()
}

func date(year int) time.Time { return time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC) }

// near fails the test unless got is within a tolerance of want.
func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s is %v, want %v ± %v", what, got, want, tolerance)
	}
}

type point struct{ x, y float64 }

// outline is a closed path as NightPath draws it.
type outline struct {
	points []point // in the order of the path, the two corners included
}

var command = regexp.MustCompile(`[A-Z][^A-Z]*`)

// parseOutline reads a path of the commands M, L, V, H and Z, and reports whether it is one
// closed figure.
func parseOutline(path string) (outline, bool) {
	var o outline
	commands := command.FindAllString(path, -1)
	closed := strings.Join(commands, "") == path && strings.HasPrefix(path, "M") &&
		strings.HasSuffix(path, "Z") && strings.Count(path, "M") == 1 && strings.Count(path, "Z") == 1
	for _, c := range commands {
		var numbers []float64
		for field := range strings.FieldsSeq(c[1:]) {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return outline{}, false
			}
			numbers = append(numbers, v)
		}
		wanted := map[byte]int{'M': 2, 'L': 2, 'V': 1, 'H': 1}[c[0]]
		if len(numbers) != wanted {
			return outline{}, false
		}
		var p point
		switch c[0] {
		case 'M', 'L':
			p = point{numbers[0], numbers[1]}
		case 'V':
			p = point{o.points[len(o.points)-1].x, numbers[0]}
		case 'H':
			p = point{numbers[0], o.points[len(o.points)-1].y}
		default:
			continue
		}
		o.points = append(o.points, p)
	}
	return o, closed && len(o.points) > 3
}

// terminator returns the points between day and night, without the corners.
func (o outline) terminator() []point { return o.points[:len(o.points)-2] }

// contains reports whether p is inside, by the number of edges to the right of p.
func (o outline) contains(p point) bool {
	inside := false
	for i, a := range o.points {
		b := o.points[(i+1)%len(o.points)]
		if (a.y > p.y) != (b.y > p.y) && p.x < a.x+(p.y-a.y)/(b.y-a.y)*(b.x-a.x) {
			inside = !inside
		}
	}
	return inside
}
