package dashboard

import (
	"cmp"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/dashboard/internal/world"
	"github.com/almanac-go/almanac/ops"
)

// The size of the map, and of its dots.
const (
	mapWidth    = world.LandWidth
	smallestDot = 1.6
	greatestDot = 16
)

// mapSteps is how many steps the slider has, and mapStep is the time between two of them.
const (
	mapSteps = 48
	mapStep  = 30 * time.Minute
)

// flashFor is how long a delivery is shown on the map.
const flashFor = 3 * time.Second

// Bounds of the lateness by which dots are coloured.
const (
	punctual = time.Second
	tardy    = time.Minute
)

// mapData is what the map shows.
type mapData struct {
	mapForm
	reading
	Night     string
	Land      string
	Grid      string
	Dots      template.HTML
	Flashes   []flash
	Offsets   []offsetRow
	Zones     []placeRow // those with the most, by the chosen area
	Placeless []placeRow
	Measured  bool
}

// mapForm is what a viewer chooses.
type mapForm struct {
	Errors   []string
	ByEvents bool // the area of dots is by pending events, and not by users
	Hour     string
	Ahead    int // steps of the slider
	Steps    int
	At       time.Time // of the map
}

type flash struct{ X, Y float64 }

// offsetRow is one row of the table beside the map: the zones with one offset.
type offsetRow struct {
	Offset  string
	Local   string
	Lit     bool
	Zones   int
	Users   ops.Count
	Pending ops.Count
}

type placeRow struct {
	Zone           string
	Users, Pending ops.Count
}

func (d *dashboard) mapPage(r *request) (answer, error) {
	now, err := r.clock()
	if err != nil {
		return answer{}, err
	}
	data := mapData{mapForm: mapForm{Steps: mapSteps}, Land: world.LandPath(), Grid: world.GraticulePath(mapWidth), Measured: d.monitor != nil}
	at := data.take(r)
	data.At = now.Add(time.Duration(data.Ahead) * mapStep)
	data.Night = world.NightPath(data.At, mapWidth)
	var s snapshot
	s, data.reading = d.lastNumbers(r)
	data.place(s.Stats.Zones, at, d.lateness())
	if d.monitor != nil && data.Ahead == 0 {
		data.Flashes = flashes(d.monitor, d.now())
	}
	a := answer{title: "Map", template: "map", live: "map", data: data}
	if len(data.Errors) > 0 {
		a.status, a.live = http.StatusBadRequest, ""
	}
	return a, nil
}

// take reads the fields of the form, and returns the reading of the wave.
func (m *mapForm) take(r *request) calendar.Clock {
	values := r.URL.Query()
	switch by := values.Get("by"); by {
	case "", "users":
	case "events":
		m.ByEvents = true
	default:
		m.Errors = append(m.Errors, "Choose users or events for the area of the dots.")
	}
	m.Hour = cmp.Or(values.Get("hour"), "09:00")
	at, err := calendar.ParseClock(m.Hour)
	if err != nil {
		m.Errors = append(m.Errors, "Enter the hour as HH:MM, such as 09:00.")
	}
	if text := values.Get("ahead"); text != "" {
		steps, err := strconv.Atoi(text)
		if err != nil || steps < 0 || steps > mapSteps {
			m.Errors = append(m.Errors, "The map can be moved ahead by 0 to 48 half hours.")
		} else {
			m.Ahead = steps
		}
	}
	return at
}

// lateness returns the greatest lateness of the last deliveries, by zone.
func (d *dashboard) lateness() map[string]time.Duration {
	late := make(map[string]time.Duration)
	if d.monitor == nil {
		return late
	}
	made, _ := d.monitor.since(0)
	for _, one := range made {
		if p, ok := world.Find(one.Zone); ok {
			zone := calendar.StoredTimezone(p.Zone).Canonical()
			late[zone] = max(late[zone], one.Lateness)
		}
	}
	return late
}

// place puts the numbers of zones on the map and into the tables. Numbers of zones that are
// names of one place are added up.
func (m *mapData) place(counts []ops.ZoneCount, at calendar.Clock, late map[string]time.Duration) {
	sums := make(map[string]placeRow)
	for _, c := range counts {
		row := placeRow{c.Zone, c.Users, c.Pending}
		if _, ok := world.Find(c.Zone); !ok {
			m.Placeless = append(m.Placeless, row)
			continue
		}
		name := calendar.StoredTimezone(c.Zone).Canonical()
		sum := sums[name]
		sums[name] = placeRow{name, plus(sum.Users, c.Users), plus(sum.Pending, c.Pending)}
	}
	lit := make(map[time.Duration]bool)
	for _, offset := range world.Front(m.At, at) {
		lit[offset] = true
	}
	groups := world.ByOffset(m.At)
	classes := make(map[string]string)
	for _, g := range groups {
		row := offsetRow{Offset: "UTC" + clockOffset(g.Offset), Local: m.At.Add(g.Offset).Format("Mon 15:04"), Lit: lit[g.Offset], Zones: len(g.Zones)}
		for _, zone := range g.Zones {
			row.Users, row.Pending = plus(row.Users, sums[zone].Users), plus(row.Pending, sums[zone].Pending)
			classes[zone] = dotClass(sums[zone], row.Lit, late[zone])
		}
		if row.Lit || row.Users.N+row.Pending.N > 0 {
			m.Offsets = append(m.Offsets, row)
		}
	}
	m.draw(sums, classes)
	for _, row := range sums {
		m.Zones = append(m.Zones, row)
	}
	slices.SortFunc(m.Zones, func(a, b placeRow) int {
		return cmp.Or(cmp.Compare(m.area(b), m.area(a)), strings.Compare(a.Zone, b.Zone))
	})
	m.Zones = m.Zones[:min(len(m.Zones), 20)]
}

// Later is how much later than now the map is.
func (m mapForm) Later() time.Duration { return time.Duration(m.Ahead) * mapStep }

// area returns the number by which the area of a dot is drawn.
func (m *mapData) area(row placeRow) int64 {
	if m.ByEvents {
		return row.Pending.N
	}
	return row.Users.N
}

// draw draws the dots of zones.
func (m *mapData) draw(sums map[string]placeRow, classes map[string]string) {
	areas := make(map[string]int64, len(sums))
	for zone, row := range sums {
		areas[zone] = m.area(row)
	}
	m.Dots = drawDots(areas, classes)
}

// drawDots draws the dots of zones, great ones first, so that small ones lie above them.
func drawDots(areas map[string]int64, classes map[string]string) template.HTML {
	var most int64
	for _, n := range areas {
		most = max(most, n)
	}
	places := world.CanonicalPlaces()
	slices.SortStableFunc(places, func(a, b world.Place) int { return cmp.Compare(areas[b.Zone], areas[a.Zone]) })
	var b strings.Builder
	for _, p := range places {
		radius := 0.0 // the style has that of an empty place
		if n := areas[p.Zone]; n > 0 {
			radius = smallestDot + (greatestDot-smallestDot)*math.Sqrt(float64(n)/float64(most))
		}
		b.WriteString(world.Dot(p, classes[p.Zone], mapWidth, radius))
	}
	return template.HTML(b.String()) // made of numbers and of escaped names
}

// dotClass returns the classes of a dot, which are short because there are hundreds: e for an
// empty place, w where the wave is, and p, s or t for punctual, slow and tardy deliveries.
func dotClass(row placeRow, lit bool, late time.Duration) string {
	class := ""
	switch {
	case row.Users.N+row.Pending.N == 0:
		class = "e"
	case late > tardy:
		class = "t"
	case late > punctual:
		class = "s"
	case late > 0:
		class = "p"
	}
	if lit {
		class += " w"
	}
	return strings.TrimSpace(class)
}

// plus adds two numbers. The sum is as certain as the less certain of them.
func plus(a, b ops.Count) ops.Count {
	return ops.Count{N: a.N + b.N, Kind: max(a.Kind, b.Kind)}
}

// flashes returns the places of the deliveries of the last seconds.
func flashes(m *Monitor, now time.Time) (all []flash) {
	made, _ := m.since(0)
	for _, one := range made {
		if p, ok := world.Find(one.Zone); ok && now.Sub(one.At) < flashFor {
			x, y := world.Project(p.Lat, p.Lon, mapWidth)
			all = append(all, flash{x, y})
		}
	}
	return all
}
