package main

import (
	"context"
	"fmt"
	"strings"
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

func said(readings []reading) string {
	parts := make([]string, len(readings))
	for i, r := range readings {
		parts[i] = strings.TrimSpace(fmt.Sprintf("%s %s %s", r.name, figure(r.value), r.unit))
	}
	return strings.Join(parts, ", ")
}
