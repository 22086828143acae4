package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
)

// bench is one run of this program.
type bench struct {
	sizes
	only    *regexp.Regexp
	nodeDir string
	cluster *cluster
	report  *report
	log     io.Writer
	filling time.Duration // spent on templates so far
}

func newBench(ctx context.Context, o options, log io.Writer) (*bench, error) {
	b := &bench{sizes: o.sizes, only: o.only, nodeDir: o.nodeDir, log: log, report: &report{Began: time.Now().UTC(), Sizes: o.sizes}}
	var err error
	if b.report.Machine, err = describeMachine(); err != nil {
		return nil, err
	}
	if b.cluster, err = startCluster(ctx, o.settings); err != nil {
		return nil, err
	}
	if b.report.Versions, err = b.cluster.versions(ctx); err != nil {
		return nil, err
	}
	b.report.Server, err = b.cluster.serverSettings(ctx)
	b.logf("%s; a flush takes %.0f µs", b.cluster.server.Describe(), b.report.Machine.Flush)
	return b, err
}

// durations is the section with how long each section took.
const durations = "time"

// run measures everything that was asked for.
func (b *bench) run(ctx context.Context) error {
	defer func() { b.report.Took = time.Since(b.report.Began).Seconds() }()
	for _, s := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"throughput", b.throughput}, {"lateness", b.lateness}, {"burst", b.burst}, {"wake", b.wake}, {"claims", b.claims},
		{"horizon", b.horizon}, {"recovery", b.recovery}, {"beside", b.beside}, {"writing", b.writing}, {"processes", b.processes},
		{"fanout", b.fanout}, {"failover", b.failover}, {"idle", b.idle}, {"held", b.held}, {"dashboard", b.dashboard},
	} {
		if err := b.timed(ctx, s.name, s.measure); err != nil {
			return err
		}
	}
	return nil
}

// timed measures a section, and reports how long that took.
func (b *bench) timed(ctx context.Context, section string, measure func(context.Context) error) error {
	rows, began := len(b.report.Rows), time.Now()
	b.filling = 0
	b.cluster.copying.Store(0)
	err := measure(ctx)
	if len(b.report.Rows) == rows { // none was chosen
		return err
	}
	b.report.declare(durations, section, "how long a section of this report took").add([]reading{
		{"whole", "s", time.Since(began).Seconds()},
		{"templates", "s", b.filling.Seconds()},
		{"copies", "s", time.Duration(b.cluster.copying.Load()).Seconds()},
	})
	return err
}

// chosen reports whether a row is to be measured.
func (b *bench) chosen(section, name string) bool { return b.only.MatchString(section + "/" + name) }

func (b *bench) leaveOut(section, name, reason string) {
	b.report.LeftOut = append(b.report.LeftOut, absence{section + "/" + name, reason})
	b.logf("%s/%s is left out: %s", section, name, reason)
}

// template prepares a database to copy, and says so, since it can take a while.
func (b *bench) template(ctx context.Context, name string, fill func(context.Context, database) error) error {
	began := time.Now()
	if b.cluster.templates[name] {
		return nil
	}
	err := b.cluster.template(ctx, name, fill)
	b.filling += time.Since(began)
	b.logf("prepared %s in %.1f s", name, time.Since(began).Seconds())
	return err
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(b.log, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// entry is a row on its way: something to run once in each round.
type entry struct {
	name     string
	contract string
	lacks    string // of Almanac's contract
	run      func(ctx context.Context) ([]reading, error)
}

// rounds runs every entry once in each round, each round beginning with another:
// what the machine does meanwhile meets them all alike.
func (b *bench) rounds(ctx context.Context, section string, count int, entries []entry) error {
	rows := make([]*row, len(entries))
	for i, e := range entries {
		rows[i] = b.report.declare(section, e.name, e.contract)
		rows[i].Lacks = e.lacks
	}
	for round := range count {
		for n := range entries {
			i := (n + round) % len(entries)
			readings, err := entries[i].run(ctx)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", section, entries[i].name, err)
			}
			rows[i].add(readings)
			b.logf("%s/%s, round %d: %s", section, entries[i].name, round+1, said(readings))
		}
	}
	return nil
}

// abreast runs every entry once, all at the same time: for what mostly waits.
func (b *bench) abreast(ctx context.Context, section string, entries []entry) error {
	results, errs := make([][]reading, len(entries)), make([]error, len(entries))
	var group sync.WaitGroup
	for i, e := range entries {
		group.Go(func() { results[i], errs[i] = e.run(ctx) })
	}
	group.Wait()
	for i, e := range entries {
		if errs[i] != nil {
			return fmt.Errorf("%s/%s: %w", section, e.name, errs[i])
		}
		b.report.declare(section, e.name, e.contract).add(results[i])
		b.logf("%s/%s: %s", section, e.name, said(results[i]))
	}
	return nil
}

func said(readings []reading) string {
	parts := make([]string, len(readings))
	for i, r := range readings {
		parts[i] = strings.TrimSpace(fmt.Sprintf("%s %s %s", r.name, figure(r.value), r.unit))
	}
	return strings.Join(parts, ", ")
}
