package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
)

// broadcastReport is a broadcast.
type broadcastReport struct {
	Name      string                `json:"name"`
	Type      string                `json:"type"`
	State     string                `json:"state"`
	At        string                `json:"at,omitempty"`
	Instant   *time.Time            `json:"instant,omitempty"`
	Passed    string                `json:"passed"`
	CreatedAt time.Time             `json:"createdAt"`
	EndedAt   *time.Time            `json:"endedAt,omitempty"`
	Steps     []broadcastStepReport `json:"steps"`
}

type broadcastStepReport struct {
	Action string    `json:"action"`
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

func broadcastReportOf(s broadcast.Status) broadcastReport {
	r := broadcastReport{
		Name: s.Name, Type: s.Type, State: string(s.State), Instant: unlessZero(s.Instant), Passed: string(s.Passed), CreatedAt: s.CreatedAt, EndedAt: unlessZero(s.EndedAt),
		Steps: mapped(s.Steps, func(step broadcast.Step) broadcastStepReport {
			return broadcastStepReport{string(step.Action), step.At, step.By, step.Reason}
		}),
	}
	if s.Instant.IsZero() {
		r.At = s.At.String()
	}
	return r
}

// when says when the broadcast is due.
func (r broadcastReport) when() string {
	if r.Instant != nil {
		return instantText(*r.Instant)
	}
	return r.At
}

// listBroadcasts lists broadcasts.
type listBroadcasts struct {
	Limit string `help:"How many to list (default ${default})." short:"n" placeholder:"N" default:"50"`
	After string `help:"Continue after the broadcast of this name." placeholder:"NAME"`
	Form  form   `embed:""`

	Tables tables `embed:""`
}

// Run lists.
func (c *listBroadcasts) Run(ctx context.Context, env *environment) error {
	limit, err := number("--limit", c.Limit, 1, 1000)
	if err := misused(err, c.Form.validate(), c.Tables.validate(env)); err != nil {
		return err
	}
	return c.Tables.useSender(ctx, env, "", func(sender *broadcast.Sender) error {
		found, err := sender.List(ctx, c.After, limit)
		if err != nil {
			return err
		}
		name := func(r broadcastReport) string { return r.Name }
		kind := func(r broadcastReport) string { return r.Type }
		state := func(r broadcastReport) string { return r.State }
		created := func(r broadcastReport) string { return instantText(r.CreatedAt) }
		err = list[broadcastReport]{
			form: c.Form, none: "there are no broadcasts", line: func(r broadcastReport) any { return r },
			columns: []column[broadcastReport]{
				{"NAME", name, span{rank: 1, least: 12}, nil}, {"TYPE", kind, span{rank: 3}, nil}, {"STATE", state, span{rank: 2}, nil},
				{"WHEN", broadcastReport.when, span{rank: 4}, nil}, {"CREATED", created, span{rank: 5}, nil},
			},
			fields: []field[broadcastReport]{{"name", name}, {"type", kind}, {"state", state}, {"when", broadcastReport.when}, {"created", created}},
		}.write(env, mapped(found, broadcastReportOf), true)
		if err == nil && len(found) == limit {
			fmt.Fprintf(env.errs, "there may be more: go on with --after %s\n", shellWord(found[limit-1].Name))
		}
		return err
	})
}

// broadcastZone is a zone of a broadcast. Counts that only a stored broadcast has are missing in a dry run.
type broadcastZone struct {
	Zone    string     `json:"zone"`
	Local   string     `json:"local,omitempty"`
	Due     *time.Time `json:"due,omitempty"`
	Late    bool       `json:"late,omitempty"`
	Skipped bool       `json:"skipped,omitempty"`
	Users   int        `json:"users"`
	*broadcastCounts
}

type broadcastCounts struct {
	Stored    int  `json:"stored"`
	Delivered int  `json:"delivered"`
	Failed    int  `json:"failed"`
	Cancelled int  `json:"cancelled"`
	OptedOut  int  `json:"optedOut"`
	Refused   int  `json:"refused"`
	Read      bool `json:"read"` // whether all users were read, once at least
}

func broadcastZoneOf(z broadcast.Zone, users int) broadcastZone {
	r := broadcastZone{Zone: z.Name, Due: unlessZero(z.Due), Late: z.Late, Skipped: z.Skipped, Users: users}
	if !z.Skipped {
		r.Local = z.At.String()
	}
	return r
}

func broadcastCountsOf(z broadcast.ZoneProgress) *broadcastCounts {
	return &broadcastCounts{z.Stored, z.Delivered, z.Failed, z.Cancelled, z.OptedOut, z.Refused, z.Read}
}

// broadcastZones is the table of the zones of a broadcast.
func broadcastZones(rows []broadcastZone) list[broadcastZone] {
	count := func(of func(broadcastCounts) int) func(broadcastZone) string {
		return func(r broadcastZone) string { return fmt.Sprint(of(*r.broadcastCounts)) }
	}
	l := list[broadcastZone]{none: "no users", columns: []column[broadcastZone]{
		{"ZONE", func(r broadcastZone) string { return r.Zone }, span{rank: 1, least: 12}, nil},
		{"LOCAL", func(r broadcastZone) string { return orDash(r.Local) }, span{rank: 4}, nil},
		{"DUE", broadcastDue, span{rank: 2}, nil},
		{"USERS", func(r broadcastZone) string { return fmt.Sprint(r.Users) }, span{rank: 3}, nil},
	}}
	if len(rows) > 0 && rows[0].broadcastCounts != nil {
		l.columns = append(l.columns,
			column[broadcastZone]{"STORED", count(func(c broadcastCounts) int { return c.Stored }), span{rank: 5}, nil},
			column[broadcastZone]{"DELIVERED", count(func(c broadcastCounts) int { return c.Delivered }), span{rank: 6}, nil},
			column[broadcastZone]{"FAILED", count(func(c broadcastCounts) int { return c.Failed }), span{rank: 7}, nil},
			column[broadcastZone]{"CANCELLED", count(func(c broadcastCounts) int { return c.Cancelled }), span{rank: 8}, nil},
			column[broadcastZone]{"OPTED OUT", count(func(c broadcastCounts) int { return c.OptedOut }), span{rank: 9}, nil},
			column[broadcastZone]{"REFUSED", count(func(c broadcastCounts) int { return c.Refused }), span{rank: 10}, nil})
	}
	return l
}

func broadcastDue(r broadcastZone) string {
	switch {
	case r.Skipped:
		return "left out"
	case r.Late:
		return "at once"
	case r.Due == nil:
		return "-"
	}
	return instantText(*r.Due)
}

// showBroadcast shows a broadcast.
type showBroadcast struct {
	Name string `arg:"" help:"The name of the broadcast."`
	JSON bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

type progressReport struct {
	broadcastReport
	Due int `json:"due"` // of the stored events, those that are due or have been
	// Withdrawn is how many events were removed, because their users opted out or were deleted. It is known when the broadcast has ended.
	Withdrawn int             `json:"withdrawn"`
	Total     broadcastZone   `json:"total"`
	Zones     []broadcastZone `json:"zones"`
}

// Run shows it.
func (c *showBroadcast) Run(ctx context.Context, env *environment) error {
	if err := misused(c.Tables.validate(env)); err != nil {
		return err
	}
	return c.Tables.useSender(ctx, env, "", func(sender *broadcast.Sender) error {
		p, err := sender.Progress(ctx, c.Name)
		if err != nil {
			return noBroadcast(c.Name, err)
		}
		all := p.Total()
		r := progressReport{broadcastReport: broadcastReportOf(p.Status), Due: p.Due(), Withdrawn: p.Withdrawn(), Total: broadcastZone{Users: all.Users, broadcastCounts: broadcastCountsOf(all)}}
		r.Zones = mapped(p.Zones, func(z broadcast.ZoneProgress) broadcastZone {
			report := broadcastZoneOf(z.Zone, z.Users)
			report.broadcastCounts = broadcastCountsOf(z)
			return report
		})
		return env.report(c.JSON, r, func() error { return r.write(env) })
	})
}

func (r progressReport) write(env *environment) error {
	t := r.Total
	fmt.Fprintf(env.out, "%s: %s of type %s, at %s, passed: %s\n", printable(r.Name), r.State, printable(r.Type), r.when(), r.Passed)
	for _, step := range r.Steps {
		fmt.Fprintf(env.out, "%s %s by %s%s\n", instantText(step.At), step.Action, orDash(printable(step.By)), prefixed(": ", printable(step.Reason)))
	}
	if err := broadcastZones(r.Zones).write(env, r.Zones, true); err != nil {
		return err
	}
	reading, state := "", broadcast.State(r.State)
	switch {
	case !t.Read && state == broadcast.Stopped:
		reading = ", and more to read after a resume"
	case !t.Read:
		reading = ", and more to read"
	case state == broadcast.Storing:
		reading = ", which is all of them, and another reading follows"
	}
	withdrawn := ""
	if r.Withdrawn > 0 {
		withdrawn = fmt.Sprintf(", %d withdrawn", r.Withdrawn)
	}
	return writeText(env, fmt.Sprintf("%s read%s; %s stored, %d due; %d delivered, %d failed, %d cancelled%s; %d opted out, %d refused\n",
		counted(t.Users, "user"), reading, counted(t.Stored, "event"), r.Due, t.Delivered, t.Failed, t.Cancelled, withdrawn, t.OptedOut, t.Refused))
}

// prefixed puts a prefix before a text that is not empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// noBroadcast says which broadcast is not there.
func noBroadcast(name string, err error) error {
	if errors.Is(err, almanac.ErrNotFound) {
		return fmt.Errorf("there is no broadcast %q", name)
	}
	return err
}
