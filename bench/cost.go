package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// costs is the section with what an event of the throughput section costs.
const costs = "cost"

// usage is what was used up by a moment, or between two.
type usage struct {
	program   time.Duration // processor time of the program that works
	server    time.Duration // processor time of all processes of the server; zero where the kernel has no /proc
	log       int64         // bytes of write-ahead log
	allocated uint64        // objects on the heap of this program; zero for a program in Node.js
}

func (u usage) since(before usage) usage {
	return usage{u.program - before.program, u.server - before.server, u.log - before.log, u.allocated - before.allocated}
}

// readings are the costs of one of so many events.
func (u usage) readings(events int) []reading {
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / float64(events) }
	list := []reading{{"program", "µs", micros(u.program)}}
	if u.server > 0 {
		list = append(list, reading{"server", "µs", micros(u.server)}, reading{"both", "µs", micros(u.program + u.server)})
	}
	list = append(list, reading{"log", "bytes", float64(u.log) / float64(events)})
	if u.allocated > 0 {
		list = append(list, reading{"allocations", "", float64(u.allocated) / float64(events)})
	}
	return list
}

// gauge reads what this program and a server use.
type gauge struct {
	admin      *pgxpool.Pool
	postmaster int // its process
}

func newGauge(ctx context.Context, admin *pgxpool.Pool) (*gauge, error) {
	var backend int
	if err := admin.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return nil, err
	}
	g := &gauge{admin: admin}
	if s, ok := statOf(strconv.Itoa(backend)); ok {
		g.postmaster = s.parent
	}
	return g, nil
}

func (g *gauge) read(ctx context.Context) (usage, error) {
	var u usage
	err := g.admin.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").Scan(&u.log)
	if err != nil {
		return u, fmt.Errorf("position of the log: %w", err)
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return u, err
	}
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	u.program, u.allocated, u.server = time.Duration(used.Utime.Nano()+used.Stime.Nano()), heap.Mallocs, g.served()
	return u, nil
}

// served is the processor time of the server: of its processes, and of those that have ended.
func (g *gauge) served() time.Duration {
	if g.postmaster == 0 {
		return 0
	}
	whole, ok := statOf(strconv.Itoa(g.postmaster))
	if !ok {
		return 0
	}
	total := whole.used + whole.ended
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if s, ok := statOf(filepath.Base(name)); ok && s.parent == g.postmaster {
			total += s.used
		}
	}
	return total
}

// stat is what the kernel says of a process.
type stat struct {
	parent int
	used   time.Duration // by itself
	ended  time.Duration // by children that have ended
}

// statOf reads /proc/PID/stat. It returns false for a process that has ended, and where there
// is no /proc.
func statOf(pid string) (stat, bool) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return stat{}, false
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may contain anything
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return stat{}, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return n
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	return stat{int(number(1)), time.Duration(number(11)+number(12)) * tick, time.Duration(number(13)+number(14)) * tick}, true
}
