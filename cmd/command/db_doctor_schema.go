package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// schema compares the schema with what the migrations of this release make.
func (p *patient) schema(ctx context.Context) ([]finding, error) {
	v, err := p.store.SchemaVersion(ctx)
	if _, ok := errors.AsType[*postgres.EncodingError](err); ok {
		return nil, nil // which the settings say
	}
	if err != nil {
		return nil, err
	}
	findings := []finding{{Severity: fine, Text: versionText(v)}}
	switch {
	case v.Found < v.Known:
		findings[0].Severity, findings[0].Advice = broken, "almanac migrate up"
		return findings, nil // what a migration would bring is no difference
	case v.Found > v.Known:
		findings[0].Severity = notice
	}
	differences, err := p.store.Examine(ctx)
	for _, d := range differences {
		findings = append(findings, differenceFinding(d, v))
	}
	if err == nil && len(differences) == 0 {
		findings = append(findings, finding{Severity: fine, Text: "every table, column, constraint, index, view, function and trigger is as the migrations make it"})
	}
	return findings, err
}

func differenceFinding(d postgres.Difference, v postgres.SchemaVersion) finding {
	f := finding{Severity: broken, Text: d.String(), Advice: fmt.Sprintf("make it what the migrations make it: almanac migrate export --schema %s says how", v.Schema)}
	switch {
	case d.Expected == "":
		f.Severity, f.Advice = notice, ""
	case v.Found > v.Known: // a newer release may have replaced it
		f.Severity, f.Advice = notice, "ask with the newer release"
	case d.Kind == postgres.KindSettings:
		f.Severity, f.Advice = notice, ""
	case d.Kind == postgres.KindTrigger && strings.HasSuffix(d.Name, "_audit"): // which no migration makes
		f.Severity, f.Advice = warns, "the trail has gaps: almanac audit off, then almanac audit on"
	case d.Kind == postgres.KindTrigger && strings.Contains(d.Name, "_outbox"): // nor these
		f.Severity, f.Advice = warns, "the outbox has gaps: switch it off and on again, and have consumers read everything anew"
	}
	return f
}

// rights are what a role may do of the work of a part.
type rights struct {
	part   string
	marked bool     // it has what only this part needs
	lacks  []string // such as "DELETE on queue"
}

// role says what this role may do.
func (p *patient) role(ctx context.Context) ([]finding, error) {
	if v, err := p.store.SchemaVersion(ctx); err != nil || v.Found == 0 {
		return nil, nil // which the schema's finding says
	}
	var name string
	var super bool
	if err := p.conn.QueryRow(ctx, statement("who", p.tables.Schema)).Scan(&name, &super); err != nil {
		return nil, err
	}
	rows, err := p.conn.Query(ctx, statement("role", p.tables.Schema), pgx.StrictNamedArgs{"schema": p.tables.Schema})
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r rights, err error) {
		err = row.Scan(&r.part, &r.marked, &r.lacks)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	return roleFindings(name, super, all), nil
}

// parts are what roles do, in words.
var parts = map[string]string{"owner": "migrate", "worker": "run a scheduler", "api": "keep users", "relay": "relay domain events", "reader": "look at events"}

func roleFindings(name string, super bool, all []rights) []finding {
	if super {
		return []finding{{Severity: notice, Text: name + " is a superuser, which no program needs", Advice: "docs/roles.sql makes roles with no more rights than their work takes"}}
	}
	var able []string
	var findings []finding
	for _, r := range all {
		switch {
		case len(r.lacks) == 0:
			able = append(able, parts[r.part])
		case r.marked:
			findings = append(findings, finding{Severity: warns, Text: fmt.Sprintf("%s may not %s: it lacks %s", name, parts[r.part], strings.Join(r.lacks, ", ")),
				Advice: "run docs/roles.sql again, as after each migration"})
		}
	}
	if len(able) > 0 {
		return append([]finding{{Severity: fine, Text: name + " may " + strings.Join(able, ", ")}}, findings...)
	}
	if len(findings) == 0 {
		findings = []finding{{Severity: broken, Text: name + " may do nothing with the tables", Advice: "make it a member of a role of docs/roles.sql"}}
	}
	return findings
}

// zones compares, for the zones that are in use, this machine's rules with those that
// events follow, and with the server's.
func (p *patient) zones(ctx context.Context) ([]finding, error) {
	rows, err := p.conn.Query(ctx, statement("zone_rules", p.tables.Schema))
	if err != nil {
		return nil, err
	}
	used, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r calendar.ZoneRules, err error) {
		err = row.Scan(&r.Zone, &r.Fingerprint, &r.Since, &r.Version)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	if len(used) == 0 {
		return []finding{{Severity: notice, Text: "no zone rules are stored yet: the first scheduler that runs stores those that events follow"}}, nil
	}
	var missing, moved, server suspects
	for _, rules := range used {
		z, err := p.data.Timezone(rules.Zone)
		if err != nil {
			missing.add(bare(oneLine(err)))
			continue
		}
		own, err := z.Rules(rules.Since)
		if err != nil {
			return nil, err
		}
		if own.Fingerprint != rules.Fingerprint {
			moved.add(fmt.Sprintf("%s (%s there, %s here)", rules.Zone, orDash(rules.Version), orDash(own.Version)))
		}
		c := compareOn(ctx, p.store, z, p.now())
		if c.State == unavailable {
			return nil, errors.New(c.Error)
		}
		if c.State != agrees {
			server.add(rules.Zone + " " + c.String())
		}
	}
	findings := missing.findings(broken, "this machine cannot plan there", "update this machine's zone data")
	findings = append(findings, moved.findings(warns, "events follow other rules than this machine's", "almanac zones reconcile --dry-run shows what would move")...)
	findings = append(findings, server.findings(warns, "the server has other zone data", "nothing is planned by it, but one of the two is old: update the zone data of both")...)
	if len(findings) == 0 {
		findings = []finding{{Severity: fine, Text: fmt.Sprintf("this machine, the server and the events agree on %s for the next %d years", counted(len(used), "zone"), comparedYears)}}
	}
	return findings, nil
}

// handlerSetting begins the names of settings that say when a program with the handler of a type ran last.
const handlerSetting = "handler "

// programs shows which handlers programs have run with, and the settings that all programs must have with the same
// value. The command has no values of its own to compare.
func (p *patient) programs(ctx context.Context) ([]finding, error) {
	stored, err := p.store.Settings(ctx)
	var findings []finding
	for _, one := range stored {
		if of, is := strings.CutPrefix(one.Name, handlerSetting); is {
			findings = append(findings, finding{Severity: fine, Text: fmt.Sprintf("a program with a handler of %s ran at %s: %s",
				printable(of), one.Since.Format(time.RFC3339), cmp.Or(one.Program, "an unknown program"))})
			continue
		}
		findings = append(findings, finding{Severity: notice, Text: fmt.Sprintf("%s: %s, stored by %s at %s",
			one.Name, cmp.Or(one.Value, "none"), cmp.Or(one.Program, "an unknown program"), one.Since.Format(time.RFC3339)),
			Advice: "give the same to every program that delivers or makes events due"})
	}
	return findings, err
}

// suspects are objects with the same problem: the first few, and how many more there are.
type suspects struct {
	first []string
	more  int
}

const fewSuspects = 3

func (s *suspects) add(text string) {
	if len(s.first) == fewSuspects {
		s.more++
		return
	}
	s.first = append(s.first, text)
}

// findings says it of each of the first, and how many there are besides.
func (s *suspects) findings(severity severity, what, advice string) []finding {
	var findings []finding
	for i, text := range s.first {
		f := finding{Severity: severity, Text: what + ": " + text}
		if last := i == len(s.first)-1; last && s.more > 0 {
			f.Text += fmt.Sprintf("; and %s more", counted(s.more, "zone"))
		}
		if i == len(s.first)-1 {
			f.Advice = advice
		}
		findings = append(findings, f)
	}
	return findings
}
