package main

import (
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// charted is a report with figures for every picture; some lie so near to each other that their
// labels would overlap.
func charted() *report {
	r := &report{Machine: machine{Cores: 2, Flush: 96}, Versions: map[string]string{"go": "go1.26.0", "postgres": "15.18 (Debian 15.18-0+deb12u1)", "github.com/riverqueue/river": "v0.51.0", "pg-boss": "12.33.6 on node v22.23.3", "graphile-worker": "0.18.0 on node v22.23.3"}}
	for row, rates := range map[string][]float64{
		"almanac": {20_000, 30_000, 25_000}, pgBossSuccessor: {29_000, 31_000, 28_000}, riverSuccessor: {1300, 1400, 1350}, graphileSuccessor: {1500}, "seeds": {0.5},
	} {
		for _, rate := range rates {
			r.declare("throughput", row, "").add([]reading{{"rate", "events/s", rate}})
		}
	}
	for row, late := range map[string][4]float64{"almanac": {0.36, 0.66, 1.56, 4.37}, baseline: {13.9, 500, 814, 1089}, "river-defaults": {491, 994, 1047, 1094}} {
		r.declare("lateness", row, "").add([]reading{{"p50", "ms", late[0]}, {"p95", "ms", late[1]}, {"p99", "ms", late[2]}, {"max", "ms", late[3]}})
	}
	for _, size := range []string{"1000", "10000", "100000", "1000000", "10000000"} {
		for round := range 3 {
			grown := float64(len(size)+round) / 2
			r.declare("claims", size+" rows", "").add([]reading{{"p50", "ms", grown}, {"p95", "ms", grown + 0.01}})
		}
	}
	return r
}

// element is a part of a picture.
type element struct {
	kind string
	at   map[string]string
	text string
}

func (e element) number(t *testing.T, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(e.at[name], 64)
	require.NoError(t, err, "%s of %v", name, e)
	return v
}

// box is the room that a text takes, at most.
func (e element) box(t *testing.T) (left, top, right, bottom float64) {
	t.Helper()
	size := e.number(t, "font-size")
	wide := 0.56 * size * float64(utf8.RuneCountInString(e.text))
	left = e.number(t, "x")
	switch e.at["text-anchor"] {
	case "middle":
		left -= wide / 2
	case "end":
		left -= wide
	}
	y := e.number(t, "y")
	return left, y - 0.8*size, left + wide, y + 0.2*size
}

func elements(t *testing.T, picture string) (list []element) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return list
		}
		require.NoError(t, err, "%s", picture)
		switch token := token.(type) {
		case xml.StartElement:
			e := element{token.Name.Local, map[string]string{}, ""}
			for _, a := range token.Attr {
				e.at[a.Name.Local] = a.Value
			}
			list = append(list, e)
		case xml.CharData:
			if n := len(list) - 1; n >= 0 {
				list[n].text += strings.TrimRight(string(token), "\n")
			}
		}
	}
}

func ofKind(list []element, kind, class string) (found []element) {
	for _, e := range list {
		if e.kind == kind && e.at["class"] == class {
			found = append(found, e)
		}
	}
	return found
}

// A picture can be read: no text is cut off, and none covers another.
func TestTextsOfPicturesHaveRoom(t *testing.T) {
	t.Parallel()
	files, err := charted().drawn()
	require.NoError(t, err)
	require.Len(t, files, 6)
	for name, picture := range files {
		list := elements(t, picture)
		require.Equal(t, "svg", list[0].kind)
		require.NotEmpty(t, ofKind(list, "title", "")[0].text)
		require.NotEmpty(t, ofKind(list, "desc", "")[0].text)
		var wide, high float64
		view := strings.Fields(list[0].at["viewBox"])
		require.Len(t, view, 4)
		wide, err = strconv.ParseFloat(view[2], 64)
		require.NoError(t, err)
		high, err = strconv.ParseFloat(view[3], 64)
		require.NoError(t, err)
		texts := ofKind(list, "text", "")
		require.Greater(t, len(texts), 10)
		for i, e := range texts {
			left, top, right, bottom := e.box(t)
			require.True(t, 0 <= left && 0 <= top && right <= wide && bottom <= high, "%s: %q leaves the picture: %v %v %v %v", name, e.text, left, top, right, bottom)
			for _, other := range texts[:i] {
				l, u, r, d := other.box(t)
				require.False(t, left < r && l < right && top < d && u < bottom, "%s: %q and %q overlap", name, e.text, other.text)
			}
		}
	}
}

func TestBarsAreAsLongAsTheirFigures(t *testing.T) {
	t.Parallel()
	r := charted()
	files, err := r.drawn()
	require.NoError(t, err)
	list := elements(t, files["throughput-light.svg"])
	bars := ofKind(list, "rect", "bar")
	require.Len(t, bars, len(sameWork()))
	var told string
	for _, e := range ofKind(list, "desc", "") {
		told = e.text
	}
	for i, want := range []float64{29_000, 25_000, 1500, 1350, 0.5} { // the longest first
		require.InDelta(t, want/29_000*bars[0].number(t, "width"), bars[i].number(t, "width"), 0.01)
		require.Contains(t, told, thousands(want))
	}
}

// Points stand where the axis says: two decades have the same distance as two others.
func TestPointsOfLatenessAreOnALogarithmicAxis(t *testing.T) {
	t.Parallel()
	r := &report{Versions: map[string]string{}}
	r.declare("lateness", "almanac", "").add([]reading{{"p50", "ms", 0.1}, {"p95", "ms", 1}, {"p99", "ms", 10}, {"max", "ms", 50}})
	p, err := r.latenessPicture()
	require.NoError(t, err)
	dots := ofKind(elements(t, p.render(palettes()[0], nil)), "circle", "dot")
	require.Len(t, dots, 4)
	var at []float64
	for _, d := range dots {
		at = append(at, d.number(t, "cy"))
	}
	require.Positive(t, at[0]-at[1])
	require.InDelta(t, at[0]-at[1], at[1]-at[2], 0.02)
	require.InDelta(t, math.Log10(5)*(at[0]-at[1]), at[2]-at[3], 0.02)
}

func TestPointsOfClaimsAreOnALinearAxis(t *testing.T) {
	t.Parallel()
	r := &report{Versions: map[string]string{}}
	for i, ms := range []float64{1, 2, 4} {
		r.declare("claims", strconv.Itoa(1000*(i+1))+" rows", "").add([]reading{{"p50", "ms", ms}, {"p95", "ms", 2 * ms}})
	}
	p, err := r.claimsPicture()
	require.NoError(t, err)
	dots := ofKind(elements(t, p.render(palettes()[0], nil)), "circle", "dot")
	require.Len(t, dots, 6)
	one := dots[0].number(t, "cy") - dots[1].number(t, "cy") // a millisecond
	require.Positive(t, one)
	for i, ms := range []float64{1, 2, 4, 2, 4, 8} {
		require.InDelta(t, dots[0].number(t, "cy")-(ms-1)*one, dots[i].number(t, "cy"), 0.03)
	}
}

func TestAReportWithoutRowsHasNoPictures(t *testing.T) {
	t.Parallel()
	_, err := (&report{}).drawn()
	require.ErrorIs(t, err, errNoRows)
}

// The pictures of the documents are those of the figures that are kept beside them.
func TestPicturesOfTheDocumentsAreOfTheirFigures(t *testing.T) {
	t.Parallel()
	const dir = "../docs/pictures"
	r, err := readReport(filepath.Join(dir, keptReport))
	require.NoError(t, err)
	files, err := r.drawn()
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s: draw it again with make pictures", name)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	entries = slices.DeleteFunc(entries, os.DirEntry.IsDir) // dashboard has pictures of pages
	require.Len(t, entries, len(files)+1)

	again := t.TempDir()
	require.NoError(t, r.illustrate(again))
	want, err := os.ReadFile(filepath.Join(dir, keptReport))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(again, keptReport))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
