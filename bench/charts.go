package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// sameWork are the rows of the throughput section that end an event and store its unique successor,
// with what a reader should know of each.
func sameWork() []struct{ row, name, note string } {
	return []struct{ row, name, note string }{
		{"almanac", "Almanac", "successor in the transaction that ends the event"},
		{pgBossSuccessor, "pg-boss", "5,000 jobs end as one, successors in a transaction of their own"},
		{riverSuccessor, "River", "successor in the transaction that ends the job"},
		{graphileSuccessor, "graphile-worker", "successor in a transaction of its own"},
		{"seeds", "A loop in plain SQL", "successor in the transaction that ends the event"},
	}
}

// throughputPicture has a bar for each system that does the same work.
func (r *report) throughputPicture() (picture, error) {
	type bar struct {
		name, note string
		rate       *measure
	}
	var bars []bar
	for _, s := range sameWork() {
		for _, row := range r.rowsOf("throughput", s.row) {
			rate, err := row.measure("rate")
			if err != nil {
				return picture{}, err
			}
			bars = append(bars, bar{s.name, s.note, rate})
		}
	}
	if len(bars) == 0 {
		return picture{}, fmt.Errorf("%w throughput", errNoRows)
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Compare(b.rate.Median, a.rate.Median) })
	most := 0.0
	var told []string
	for _, b := range bars {
		most = max(most, b.rate.Max)
		told = append(told, fmt.Sprintf("%s %s, range %s to %s", b.name, thousands(b.rate.Median), thousands(b.rate.Min), thousands(b.rate.Max)))
	}
	const high, pitch, valueRoom = 16.0, 48.0, 90.0
	scale := (width - 2*margin - valueRoom) / most
	bottom := heading + pitch*float64(len(bars)) + 4
	return picture{
		name: "throughput", title: "Events a second, each ended and its unique successor stored",
		told:   "Median rates. " + strings.Join(told, "; ") + ".",
		height: bottom - heading + 20,
		draw: func(c *canvas) {
			for tick, step := 0.0, roundStep(most, 6); tick <= most; tick += step {
				x := margin + tick*scale
				c.line(x, heading, x, bottom, c.grid, 1)
				anchor := "middle"
				if tick == 0 {
					anchor = "start"
				}
				c.text(label{x: x, y: bottom + 16, anchor: anchor, size: small, fill: c.muted}, thousands(tick))
			}
			c.text(label{x: width - margin, y: bottom + 16, anchor: "end", size: small, fill: c.muted}, "events/s")
			for i, b := range bars {
				top := heading + pitch*float64(i)
				c.text(label{x: margin, y: top + 14, size: medium, fill: c.ink, bold: true}, b.name)
				c.text(label{x: margin + 170, y: top + 14, size: small, fill: c.muted}, b.note)
				fill := c.others
				if b.name == "Almanac" {
					fill = c.ours
				}
				y := top + 22
				c.bar(margin, y, b.rate.Median*scale, high, fill)
				c.line(margin+b.rate.Min*scale, y+high/2, margin+b.rate.Max*scale, y+high/2, c.ink, 1.5)
				c.text(label{x: margin + b.rate.Max*scale + 8, y: y + 13, size: medium, fill: c.ink}, thousands(b.rate.Median))
			}
		},
	}, nil
}

// quantiles are the columns of the picture of lateness.
func quantiles() []struct{ measure, name string } {
	return []struct{ measure, name string }{{"p50", "half"}, {"p95", "95 %"}, {"p99", "99 %"}, {"max", "all"}}
}

// latenessPicture has a curve for each system: by when how many events had started.
func (r *report) latenessPicture() (picture, error) {
	names := map[string]string{"almanac": "Almanac", baseline: "River", "river-defaults": "River, defaults"}
	rows := r.rowsOf("lateness", "almanac", baseline, "river-defaults")
	if len(rows) == 0 {
		return picture{}, fmt.Errorf("%w lateness", errNoRows)
	}
	late := make([][]float64, len(rows))
	least, most := math.Inf(1), 0.0
	var told []string
	for i, row := range rows {
		for _, q := range quantiles() {
			m, err := row.measure(q.measure)
			if err != nil {
				return picture{}, err
			}
			v := max(m.Median, 0.01) // what is early has no place on the axis
			late[i] = append(late[i], v)
			least, most = min(least, v), max(most, v)
		}
		told = append(told, fmt.Sprintf("%s: half within %s ms, 95 %% within %s, 99 %% within %s, all within %s",
			names[row.Name], figure(late[i][0]), figure(late[i][1]), figure(late[i][2]), figure(late[i][3])))
	}
	const tall, left, pitch = 260.0, 110.0, 150.0
	lowest, highest := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most*1.3))
	top, bottom := heading+10, heading+tall
	at := func(v float64) float64 { return bottom - (math.Log10(v)-lowest)/(highest-lowest)*(bottom-top) }
	return picture{
		name: "lateness", title: "How late events start: 2,000 over a minute",
		told: strings.Join(told, ". ") + ".", height: tall + 24,
		draw: func(c *canvas) {
			for power := lowest; power <= highest; power++ {
				y := at(math.Pow(10, power))
				c.line(margin+50, y, 580, y, c.grid, 1)
				c.text(label{x: margin + 42, y: y + 4, anchor: "end", size: small, fill: c.muted}, decade(power))
			}
			for n, q := range quantiles() {
				x := left + pitch*float64(n)
				c.text(label{x: x, y: bottom + 20, anchor: "middle", size: small, fill: c.muted}, q.name+" within")
				heights := make([]float64, len(rows))
				for i := range rows {
					heights[i] = at(late[i][n]) - 9
				}
				for i, y := range apart(heights, 17) {
					c.text(label{x: x, y: y, anchor: "middle", size: small, fill: c.ink, bold: i == 0}, inTime(late[i][n]))
				}
			}
			ends := make([]float64, len(rows))
			for i := range rows {
				points := make([][2]float64, len(late[i]))
				for n, v := range late[i] {
					points[n] = [2]float64{left + pitch*float64(n), at(v)}
				}
				stroke := c.others
				if rows[i].Name == "almanac" {
					stroke = c.ours
				}
				c.curve(points, stroke)
				ends[i] = points[len(points)-1][1] + 5
			}
			for i, y := range apart(ends, 19) {
				c.text(label{x: left + 3*pitch + 34, y: y, size: medium, fill: c.ink, bold: i == 0}, names[rows[i].Name])
			}
		},
	}, nil
}

// inTime writes milliseconds, or seconds from a thousand on.
func inTime(ms float64) string {
	if ms >= 1000 {
		return figure(ms/1000) + " s"
	}
	return figure(ms) + " ms"
}

// decade writes a power of ten milliseconds.
func decade(power float64) string {
	if power >= 3 {
		return strconv.FormatFloat(math.Pow(10, power-3), 'f', -1, 64) + " s"
	}
	return strconv.FormatFloat(math.Pow(10, power), 'g', 6, 64) + " ms"
}

// claimsPicture has how long a claim takes before tables of several sizes.
func (r *report) claimsPicture() (picture, error) {
	var rows []*row
	var sizes []int
	for _, row := range r.Rows {
		var size int
		if n, err := fmt.Sscanf(row.Name, "%d rows", &size); row.Section == "claims" && err == nil && n == 1 {
			rows, sizes = append(rows, row), append(sizes, size)
		}
	}
	if len(rows) == 0 {
		return picture{}, fmt.Errorf("%w claims", errNoRows)
	}
	curves := map[string][]*measure{}
	most := 0.0
	var told []string
	for i, row := range rows {
		for _, q := range []string{"p50", "p95"} {
			m, err := row.measure(q)
			if err != nil {
				return picture{}, err
			}
			curves[q] = append(curves[q], m)
			most = max(most, m.Max)
		}
		told = append(told, fmt.Sprintf("%s rows: half within %s ms, 95 %% within %s ms", thousands(float64(sizes[i])), figure(curves["p50"][i].Median), figure(curves["p95"][i].Median)))
	}
	const tall, left = 250.0, 110.0
	step := roundStep(most*1.15, 6)
	highest := step * math.Ceil(most*1.15/step)
	top, bottom := heading+10, heading+tall
	at := func(v float64) float64 { return bottom - v/highest*(bottom-top) }
	pitch := 480.0
	if len(rows) > 1 {
		pitch /= float64(len(rows) - 1)
	}
	return picture{
		name: "claims", title: "Time of a claim of 100 events, by rows in the tables",
		told: strings.Join(told, ". ") + ".", height: tall + 24,
		draw: func(c *canvas) {
			for tick := 0.0; tick <= highest+step/2; tick += step {
				c.line(margin+50, at(tick), left+490, at(tick), c.grid, 1)
				c.text(label{x: margin + 42, y: at(tick) + 4, anchor: "end", size: small, fill: c.muted}, strconv.FormatFloat(tick, 'g', 3, 64)+" ms")
			}
			for i, size := range sizes {
				c.text(label{x: left + pitch*float64(i), y: bottom + 20, anchor: "middle", size: small, fill: c.muted}, thousands(float64(size)))
			}
			c.text(label{x: width - margin, y: bottom + 20, anchor: "end", size: small, fill: c.muted}, "rows")
			for q, curve := range [][]*measure{curves["p50"], curves["p95"]} { // the latter is drawn over the former
				stroke, above := c.ours, -10.0
				if q == 0 {
					stroke, above = c.others, 20
				}
				points := make([][2]float64, len(curve))
				for i, m := range curve {
					x := left + pitch*float64(i)
					points[i] = [2]float64{x, at(m.Median)}
					c.line(x, at(m.Min), x, at(m.Max), stroke, 1.5)
					edge := m.Max
					if q == 0 {
						edge = m.Min
					}
					c.text(label{x: x, y: min(at(edge)+above, bottom-3), anchor: "middle", size: small, fill: c.ink, bold: q == 1}, strconv.FormatFloat(m.Median, 'f', 1, 64))
				}
				c.curve(points, stroke)
			}
			last := len(rows) - 1
			ends := apart([]float64{at(curves["p95"][last].Median) + 5, at(curves["p50"][last].Median) + 5}, 19)
			c.text(label{x: left + 480 + 18, y: ends[0], size: medium, fill: c.ink, bold: true}, "95 % within")
			c.text(label{x: left + 480 + 18, y: ends[1], size: medium, fill: c.ink}, "half within")
		},
	}, nil
}
