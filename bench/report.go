package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
)

// baselines are the rows of the throughput section to which the others are compared.
const (
	baseline          = "river"
	riverSuccessor    = "river-successor"
	pgBossSuccessor   = "pg-boss-successor"
	graphileSuccessor = "graphile-worker-successor"
)

// report is what a run of this program found out; its JSON is what -out writes.
type report struct {
	Began    time.Time         `json:"began"`
	Took     float64           `json:"seconds"`
	Machine  machine           `json:"machine"`
	Versions map[string]string `json:"versions"`
	Server   map[string]string `json:"server_settings"`
	Sizes    sizes             `json:"sizes"`
	Rows     []*row            `json:"rows"`
	LeftOut  []absence         `json:"left_out,omitempty"`
}

// row is one thing that was measured.
type row struct {
	Section  string     `json:"section"`
	Name     string     `json:"name"`
	Contract string     `json:"contract,omitempty"`
	Lacks    string     `json:"lacks,omitempty"` // of Almanac's contract
	Measures []*measure `json:"measures"`
}

// measure is one figure of a row, once for each round.
type measure struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Rounds []float64 `json:"rounds"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
}

// absence says why a row is not there.
type absence struct {
	Row    string `json:"row"`
	Reason string `json:"reason"`
}

// reading is one figure of one round.
type reading struct {
	name  string
	unit  string
	value float64
}

// declare adds a row without figures, or finds it.
func (r *report) declare(section, name, contract string) *row {
	for _, row := range r.Rows {
		if row.Section == section && row.Name == name {
			return row
		}
	}
	added := &row{Section: section, Name: name, Contract: contract}
	r.Rows = append(r.Rows, added)
	return added
}

// add adds a round's figures.
func (r *row) add(readings []reading) {
	for _, x := range readings {
		i := slices.IndexFunc(r.Measures, func(m *measure) bool { return m.Name == x.name })
		if i < 0 {
			i = len(r.Measures)
			r.Measures = append(r.Measures, &measure{Name: x.name, Unit: x.unit})
		}
		m := r.Measures[i]
		m.Rounds = append(m.Rounds, x.value)
		m.Median, m.Min, m.Max = median(m.Rounds), slices.Min(m.Rounds), slices.Max(m.Rounds)
	}
}

// rate is the figure by which rows are compared, or nil.
func (r *row) rate() *measure {
	for _, m := range r.Measures {
		if m.Name == "rate" {
			return m
		}
	}
	return nil
}

// compare adds to each row of a section its ratio to the baseline of the same round.
func (r *report) compare(section, baseline string) {
	i := slices.IndexFunc(r.Rows, func(x *row) bool { return x.Section == section && x.Name == baseline })
	if i < 0 {
		return
	}
	base := r.Rows[i].rate()
	for _, row := range r.Rows {
		rate := row.rate()
		if row.Section != section || rate == nil {
			continue
		}
		for round, value := range rate.Rounds {
			row.add([]reading{{name: "x " + baseline, value: value / base.Rounds[round]}})
		}
	}
}

// timesAlone adds a section that says how many times worse than one row the others of a
// section are in the same round: how much longer they take, or how much slower they are.
func (r *report) timesAlone(section, alone string) {
	i := slices.IndexFunc(r.Rows, func(x *row) bool { return x.Section == section && x.Name == alone })
	if i < 0 {
		return
	}
	base := r.Rows[i]
	for _, x := range slices.Clone(r.Rows) {
		if x.Section != section || x == base {
			continue
		}
		times := r.declare(section+", times alone", x.Name, x.Contract)
		for n, m := range x.Measures {
			for round, value := range m.Rounds {
				ratio := value / base.Measures[n].Rounds[round]
				if m.Unit != "ms" { // a rate
					ratio = 1 / ratio
				}
				times.add([]reading{{name: m.Name, value: ratio}})
			}
		}
	}
}

// write writes the report as JSON.
func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// print writes a table for each section.
func (r *report) print(w io.Writer) error {
	var sections []string
	for _, row := range r.Rows {
		if !slices.Contains(sections, row.Section) {
			sections = append(sections, row.Section)
		}
	}
	for _, section := range sections {
		if err := r.table(w, section); err != nil {
			return err
		}
	}
	for _, a := range r.LeftOut {
		fmt.Fprintf(w, "\nleft out: %s: %s\n", a.Row, a.Reason)
	}
	return nil
}

func (r *report) table(w io.Writer, section string) error {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(x *row) bool { return x.Section != section })
	var columns, heads []string
	for _, row := range rows {
		for _, m := range row.Measures {
			if !slices.Contains(columns, m.Name) {
				columns = append(columns, m.Name)
				heads = append(heads, strings.TrimSpace(m.Name+" "+m.Unit))
			}
		}
	}
	if slices.ContainsFunc(rows, func(x *row) bool { return x.Lacks != "" }) {
		heads = append(heads, "lacks")
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "%s\t%s\n", strings.ToUpper(section), strings.Join(heads, "\t"))
	for _, row := range rows {
		cells := make([]string, len(heads))
		for _, m := range row.Measures {
			cells[slices.Index(columns, m.Name)] = m.String()
		}
		if row.Lacks != "" {
			cells[len(cells)-1] = row.Lacks
		}
		fmt.Fprintf(t, "%s\t%s\n", row.Name, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// String returns the median, and the range where there was more than one round.
func (m *measure) String() string {
	if len(m.Rounds) == 1 {
		return figure(m.Median)
	}
	return fmt.Sprintf("%s [%s..%s]", figure(m.Median), figure(m.Min), figure(m.Max))
}

// figure writes a value with three digits, or all that stand before the point.
func figure(v float64) string {
	switch {
	case v == float64(int64(v)) || v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// machine is what the figures depend on most.
type machine struct {
	System string  `json:"system"`
	CPU    string  `json:"cpu"`
	Cores  int     `json:"cores"`
	Memory string  `json:"memory"`
	Flush  float64 `json:"flush_microseconds"` // to put 8 KiB on the disk for good, the median of 200
}

func describeMachine() (machine, error) {
	m := machine{
		System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(),
		CPU: field("/proc/cpuinfo", "model name"), Memory: field("/proc/meminfo", "MemTotal"),
	}
	flush, err := timeFlush()
	m.Flush = float64(flush) / float64(time.Microsecond)
	return m, err
}

// field is the first value of a name in one of the kernel's lists, "" where there is none.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// timeFlush says what a commit costs at least, where the cluster is kept.
func timeFlush() (time.Duration, error) {
	f, err := os.CreateTemp("", "almanac-bench-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 8<<10)
	took := make([]float64, 200)
	for i := range took {
		began := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took[i] = float64(time.Since(began))
	}
	return time.Duration(median(took)), nil
}

// versions are those of everything that takes part.
func (c *cluster) versions(ctx context.Context) (map[string]string, error) {
	versions := map[string]string{"go": runtime.Version()}
	var server string
	if err := c.admin.QueryRow(ctx, "SHOW server_version").Scan(&server); err != nil {
		return nil, err
	}
	versions["postgres"] = server
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			switch d.Path {
			case "github.com/riverqueue/river", "github.com/jackc/pgx/v5":
				versions[d.Path] = d.Version
			}
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				versions["almanac"] = s.Value
			}
		}
	}
	return versions, nil
}

// serverSettings are those that decide what durability costs.
func (c *cluster) serverSettings(ctx context.Context) (map[string]string, error) {
	rows, err := c.admin.Query(ctx, `
		SELECT name, current_setting(name)
		FROM pg_settings
		WHERE name IN ('shared_buffers', 'fsync', 'synchronous_commit', 'full_page_writes', 'max_wal_size', 'wal_level', 'autovacuum')`)
	if err != nil {
		return nil, err
	}
	settings := make(map[string]string)
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		settings[name] = value
		return nil
	})
	return settings, err
}
