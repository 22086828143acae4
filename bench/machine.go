package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

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

// field is the first value of a name in one of the kernel's lists, "" where there
// is none.
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
