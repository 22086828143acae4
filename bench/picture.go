package main

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// keptReport is the file of the pictures' figures, beside them.
const keptReport = "bench.json"

// palette is the colours of a picture on a light or on a dark page.
type palette struct {
	name                     string
	ground, ink, muted, grid string
	ours, others             string
}

func palettes() []palette {
	return []palette{
		{"light", "#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#0969da", "#9aa4af"},
		{"dark", "#0d1117", "#e6edf3", "#9198a1", "#30363d", "#4493f8", "#6e7781"},
	}
}

// picture is a chart of a report.
type picture struct {
	name   string
	title  string // what it shows, also for those who cannot see it
	told   string // its figures in words, for the same
	height float64
	draw   func(c *canvas)
}

// pictures are the charts that a report has figures for. It fails if the report lacks a section.
func (r *report) pictures() ([]picture, error) {
	var list []picture
	for _, one := range []func() (picture, error){r.throughputPicture, r.latenessPicture, r.claimsPicture} {
		p, err := one()
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// drawn returns the charts as files, by name.
func (r *report) drawn() (map[string]string, error) {
	list, err := r.pictures()
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for _, p := range list {
		for _, colours := range palettes() {
			files[p.name+"-"+colours.name+".svg"] = p.render(colours, r.conditions())
		}
	}
	return files, nil
}

// kept returns the part of a report that the pictures show.
func (r *report) kept() *report {
	k := &report{Began: r.Began, Machine: r.Machine, Versions: r.Versions}
	for _, row := range r.Rows {
		if row.Section == "throughput" || row.Section == "lateness" || row.Section == "claims" {
			k.Rows = append(k.Rows, row)
		}
	}
	return k
}

// illustrate writes the pictures and what they show into a directory.
func (r *report) illustrate(dir string) error {
	files, err := r.drawn()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return r.kept().write(filepath.Join(dir, keptReport))
}

// readReport reads what write wrote.
func readReport(path string) (*report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r report
	return &r, json.Unmarshal(text, &r)
}

// conditions are the lines below a picture: the machine, and the versions of what it shows.
func (r *report) conditions() []string {
	first := fmt.Sprintf("%d cores shared by server and programs, %s, PostgreSQL %s, a flush takes %s ms",
		r.Machine.Cores, r.Began.Format("2 January 2006"), r.release("postgres"), figure(r.Machine.Flush/1000))
	var peers []string
	for _, p := range []struct{ name, key string }{
		{"River", "github.com/riverqueue/river"}, {"pg-boss", "pg-boss"}, {"graphile-worker", "graphile-worker"},
	} {
		if v := r.release(p.key); v != "" {
			peers = append(peers, p.name+" "+v)
		}
	}
	return []string{first, strings.Join(append(peers, r.Versions["go"]), ", ")}
}

// release is the version of something, without the name of the package that it came in.
func (r *report) release(key string) string {
	version, _, _ := strings.Cut(r.Versions[key], " ")
	return version
}

// rowsOf returns a section's rows, by name. Rows that are not there are left out.
func (r *report) rowsOf(section string, names ...string) []*row {
	var found []*row
	for _, name := range names {
		i := slices.IndexFunc(r.Rows, func(x *row) bool { return x.Section == section && x.Name == name })
		if i >= 0 {
			found = append(found, r.Rows[i])
		}
	}
	return found
}

// measure returns a figure of a row. It fails if the row lacks it.
func (r *row) measure(name string) (*measure, error) {
	i := slices.IndexFunc(r.Measures, func(m *measure) bool { return m.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s/%s has no %s", r.Section, r.Name, name)
	}
	return r.Measures[i], nil
}

// What all pictures have in common, in the units of their view box.
const (
	width    = 720.0
	margin   = 24.0
	large    = 16 // sizes of letters
	medium   = 14
	small    = 12
	heading  = 62.0 // above the chart
	footing  = 56.0 // below it, for the conditions
	typeface = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
)

// canvas is a picture that is being drawn.
type canvas struct {
	strings.Builder
	palette
}

// render draws a picture with its frame.
func (p picture) render(colours palette, conditions []string) string {
	c := &canvas{palette: colours}
	height := heading + p.height + footing
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" aria-labelledby="title told" font-family="%s">`+"\n",
		number(width), number(height), typeface)
	fmt.Fprintf(c, "<title id=\"title\">%s</title>\n<desc id=\"told\">%s</desc>\n", escaped(p.title), escaped(p.told))
	fmt.Fprintf(c, `<rect width="%s" height="%s" rx="6" fill="%s"/>`+"\n", number(width), number(height), c.ground)
	c.text(label{x: margin, y: 34, size: large, fill: c.ink, bold: true}, p.title)
	p.draw(c)
	for i, line := range conditions {
		c.text(label{x: margin, y: heading + p.height + 26 + 16*float64(i), size: small, fill: c.muted}, line)
	}
	c.WriteString("</svg>\n")
	return c.String()
}

// label is where a text stands and how it looks.
type label struct {
	x, y   float64
	anchor string // "" is its start
	size   int
	fill   string
	bold   bool
}

func (c *canvas) text(l label, text string) {
	weight := ""
	if l.bold {
		weight = ` font-weight="600"`
	}
	l.anchor = cmp.Or(l.anchor, "start")
	fmt.Fprintf(c, `<text x="%s" y="%s" text-anchor="%s" font-size="%d"%s fill="%s">%s</text>`+"\n",
		number(l.x), number(l.y), l.anchor, l.size, weight, l.fill, escaped(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke string, wide float64) {
	fmt.Fprintf(c, `<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" stroke-width="%s"/>`+"\n",
		number(x1), number(y1), number(x2), number(y2), stroke, number(wide))
}

// bar is a value's, as long as the value says.
func (c *canvas) bar(x, y, long, high float64, fill string) {
	fmt.Fprintf(c, `<rect class="bar" x="%s" y="%s" width="%s" height="%s" rx="2" fill="%s"/>`+"\n",
		number(x), number(y), number(long), number(high), fill)
}

// curve joins points, and marks each.
func (c *canvas) curve(points [][2]float64, stroke string) {
	var path []string
	for _, p := range points {
		path = append(path, number(p[0])+","+number(p[1]))
	}
	fmt.Fprintf(c, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), stroke)
	for _, p := range points {
		fmt.Fprintf(c, `<circle class="dot" cx="%s" cy="%s" r="4" fill="%s"/>`+"\n", number(p[0]), number(p[1]), stroke)
	}
}

// number writes a position, to a hundredth.
func number(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

// thousands writes a count with commas.
func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// roundStep is a step of 1, 2 or 5 times a power of ten of which at most count fit below a value.
func roundStep(most float64, count int) float64 {
	for step := 1e-3; ; step *= 10 {
		for _, times := range []float64{1, 2, 5} {
			if most/(times*step) <= float64(count) {
				return times * step
			}
		}
	}
}

// apart moves heights that are nearer than a gap, downwards, in their order from the top.
func apart(heights []float64, gap float64) []float64 {
	order := make([]int, len(heights))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if heights[a] < heights[b] {
			return -1
		}
		return 1
	})
	moved := slices.Clone(heights)
	for n := 1; n < len(order); n++ {
		moved[order[n]] = max(moved[order[n]], moved[order[n-1]]+gap)
	}
	return moved
}

var errNoRows = errors.New("the report has no rows of the section")
