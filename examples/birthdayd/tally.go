package main

import (
	"slices"
	"time"
)

// tally counts the greetings of the users of this run.
type tally struct {
	users   int // how many users there are
	next    int // how many of them have next year's event
	refused int64
	repeats int
	early   int
	late    []time.Duration
	zones   map[string]bool
}

func (t *tally) add(g greeting) {
	if !g.ours {
		return
	}
	if g.repeat {
		t.repeats++
		return
	}
	if g.late < 0 {
		t.early++
	}
	t.late = append(t.late, g.late)
	if t.zones == nil {
		t.zones = make(map[string]bool)
	}
	t.zones[g.event.Zone] = true
}

func (t *tally) complete() bool { return len(t.late) >= t.users && t.next >= t.users }

// quantile returns the lateness that the given share of greetings did not exceed.
func (t *tally) quantile(share float64) time.Duration {
	if len(t.late) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.late))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}
