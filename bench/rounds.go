package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

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
