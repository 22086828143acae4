package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// zones compares, for the zones that are in use, this machine's rules with those that
// events follow, and with the server's.
func (p *patient) zones(ctx context.Context) ([]finding, error) {
	if err := p.store.Verify(ctx); errors.Is(err, almanac.ErrOutdated) {
		return nil, nil // which the schema's finding says
	}
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

// programs shows the settings that all programs must have with the same value. The command
// has no values of its own to compare.
func (p *patient) programs(ctx context.Context) ([]finding, error) {
	if err := p.store.Verify(ctx); errors.Is(err, almanac.ErrOutdated) {
		return nil, nil // which the schema's finding says
	}
	stored, err := p.store.Settings(ctx)
	var findings []finding
	for _, one := range stored {
		findings = append(findings, finding{Severity: notice, Text: fmt.Sprintf("%s: %s, stored by %s at %s",
			one.Name, cmp.Or(one.Value, "none"), cmp.Or(one.Program, "an unknown program"), one.Since.Format(time.RFC3339)),
			Advice: "give the same to every program that delivers or makes events due"})
	}
	return findings, err
}

// suspects are things that have the same wrong with them: the first few, and how many
// more.
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
