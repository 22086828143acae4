package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// calendarDays is how far ahead the doctor looks for events that looked past the end of a calendar. Most
// events that are due later get a newer release in time.
const calendarDays = 60

// lookedPast is the events that looked past the end of a calendar.
type lookedPast struct {
	calendar, release string
	end               time.Time // the zero time if no program has stored the calendar
	events            int
	provisional       bool      // an event looked past the end, also if that is not stored
	first             time.Time // when the first is due
}

// calendars looks for events that are due soon and have looked past the end of a work calendar, and for
// calendars that no program has stored.
func (p *patient) calendars(ctx context.Context) ([]finding, error) {
	stored, err := p.storedCalendars(ctx)
	if err != nil {
		return nil, err
	}
	past, err := p.past(ctx, stored)
	if err != nil {
		return nil, err
	}
	settings, err := p.store.Settings(ctx)
	if err != nil {
		return nil, err
	}
	ran := len(stored) > 0 || slices.ContainsFunc(settings, func(one almanac.Setting) bool { return strings.HasPrefix(one.Name, handlerSetting) })
	var findings []finding
	for _, name := range slices.Sorted(maps.Keys(past)) {
		of := past[name]
		switch {
		case of.end.IsZero() && !ran: // the first program that runs stores its calendars
			findings = append(findings, finding{Severity: fine, Text: fmt.Sprintf("%s looked up %s, whose releases are stored when the first program runs", counted(of.events, "event"), name)})
			continue
		case of.end.IsZero():
			bad := notice
			if of.provisional {
				bad = warns
			}
			named, advice := "named", "name it in Execution of its handler, so that a new release plans the events again"
			if strings.HasPrefix(name, "system:") {
				named, advice = "registered", "register it in the programs that run, so that a new release plans the events again"
			}
			findings = append(findings, finding{Severity: bad, Text: fmt.Sprintf("%s looked up %s, which no program has %s", counted(of.events, "event"), name, named), Advice: advice})
			continue
		}
		findings = append(findings, finding{Severity: warns,
			Text: fmt.Sprintf("%s looked past the end of %s, %s, in release %s; the first is due at %s", counted(of.events, "event"), name,
				of.end.Format(time.DateOnly), of.release, of.first.UTC().Format(time.RFC3339)),
			Advice: "deploy a newer release of the calendar, which plans them again"})
	}
	if len(findings) == 0 && len(stored) > 0 {
		findings = []finding{{Severity: fine, Text: fmt.Sprintf("no event of the next %d days looked past the end of one of %s", calendarDays, counted(len(stored), "calendar"))}}
	}
	return findings, nil
}

func (p *patient) storedCalendars(ctx context.Context) (map[string]lookedPast, error) {
	rows, err := p.conn.Query(ctx, statement("calendars", p.tables.Schema))
	if err != nil {
		return nil, err
	}
	stored := make(map[string]lookedPast)
	var of lookedPast
	_, err = pgx.ForEachRow(rows, []any{&of.calendar, &of.release, &of.end}, func() error { stored[of.calendar] = of; return nil })
	return stored, err
}

// past returns the calendars past whose end events looked, and those that are not stored, by name.
func (p *patient) past(ctx context.Context, stored map[string]lookedPast) (map[string]lookedPast, error) {
	rows, err := p.conn.Query(ctx, statement("consulted", p.tables.Schema), pgx.StrictNamedArgs{"until": p.now().AddDate(0, 0, calendarDays)})
	if err != nil {
		return nil, err
	}
	past := make(map[string]lookedPast)
	var text string
	var events int
	var first time.Time
	_, err = pgx.ForEachRow(rows, []any{&text, &events, &first}, func() error {
		consulted, err := calendar.ParseConsulted(text)
		if err != nil {
			return nil // it is of another program
		}
		for name := range consulted.Releases() {
			of, known := stored[name]
			if known && (!consulted.Provisional || strings.HasPrefix(name, "system:") || !calendar.DateOf(of.end).Before(consulted.Until)) {
				continue
			}
			if was, more := past[name]; more {
				of = was
			}
			if of.events == 0 || first.Before(of.first) {
				of.first = first
			}
			of.events += events
			of.provisional = of.provisional || consulted.Provisional && !strings.HasPrefix(name, "system:")
			past[name] = of
		}
		return nil
	})
	return past, err
}

// releases looks for releases that wait for an operator.
func (p *patient) releases(ctx context.Context) ([]finding, error) {
	book, err := p.store.ZoneRules(ctx)
	if err != nil {
		return nil, err
	}
	type group struct {
		names  []string
		events int
		first  almanac.Quarantine
	}
	groups := make(map[string]*group)
	for _, q := range book.Quarantines {
		if !q.Waits() {
			continue
		}
		release := "release " + q.Release + " of zone rules"
		if q.Calendar {
			release = "release " + q.Release + " of a calendar"
		}
		g := groups[release]
		if g == nil {
			g = &group{first: q}
			groups[release] = g
		}
		if g.names, g.events = append(g.names, q.Name), g.events+q.Events; q.FirstAt.Before(g.first.FirstAt) {
			g.first = q
		}
	}
	var findings []finding
	for _, release := range slices.Sorted(maps.Keys(groups)) {
		g := groups[release]
		findings = append(findings, finding{Severity: warns,
			Text: fmt.Sprintf("%s waits for an operator since %s: it would change %s, of %s; if it is right, the first starts at a wrong time at %s",
				release, g.first.Since.UTC().Format(time.RFC3339), counted(g.events, "event"), strings.Join(g.names, ", "), g.first.FirstAt.UTC().Format(time.RFC3339)),
			Advice: "almanac zones reconcile accepts it where the program has it, and with --trust refuses it where it has the one before"})
	}
	return findings, nil
}
