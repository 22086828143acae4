package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// broadcasts are commands about broadcasts.
type broadcasts struct {
	Start  startBroadcast  `cmd:"" help:"Send one event to each of many users, at a time of their day."`
	List   listBroadcasts  `cmd:"" help:"List broadcasts, the newest first."`
	Show   showBroadcast   `cmd:"" help:"Show a broadcast, and how far it is in each zone."`
	Stop   stopBroadcast   `cmd:"" help:"Stop a broadcast, and cancel what is pending."`
	Resume resumeBroadcast `cmd:"" help:"Continue a stopped broadcast."`
}

// startBroadcast starts a broadcast, or shows whom it would reach.
type startBroadcast struct {
	Name    string `arg:"" help:"The name, which is used for ever."`
	Type    string `help:"The type of the events; required." placeholder:"TYPE" default:""`
	At      string `help:"The wall time in the zone of each user, such as 2026-11-03T10:00." placeholder:"TIME" default:""`
	Instant string `help:"The time for all, instead of --at: RFC 3339." placeholder:"INSTANT" default:""`
	Passed  string `help:"Where the time has passed: ${passed}; required." placeholder:"RULE" default:""`
	Payload string `help:"The JSON value to deliver (default: made by the handler)." placeholder:"JSON" default:""`

	Audience  toUsers `embed:"" group:"To whom (by default to all users):"`
	Newcomers bool    `help:"Also to users who are created before their time has come."`
	sending   `embed:""`
	JSON      bool `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// sending says whether a broadcast is sent.
type sending struct {
	DryRun bool `help:"Send nothing; show when and to how many users."`
	Yes    bool `help:"Send it."`
	Force  bool `help:"Also of a type that is not known."`
}

// toUsers selects the users of a broadcast.
type toUsers struct {
	Locale     string   `help:"Users with this locale, or with a more special one." placeholder:"LOCALE" default:""`
	Zone       []string `help:"Users of this time zone. May be repeated." placeholder:"ZONE"`
	Attributes string   `help:"Users with these attributes, a JSON object." placeholder:"JSON" default:""`
	Users      string   `help:"The users of a file, or - for standard input: an id or an external id on each line." placeholder:"FILE" default:""`
}

func (c *startBroadcast) parse(env *environment) (b broadcast.Broadcast, err error) {
	b = broadcast.Broadcast{
		Name: c.Name, Type: c.Type, Passed: broadcast.Passed(c.Passed), Newcomers: c.Newcomers,
		Audience: broadcast.Audience{Locale: c.Audience.Locale, Zones: c.Audience.Zone, Listed: c.Audience.Users != ""},
	}
	var errAt, errInstant, errYes, errPayload error
	if c.At != "" {
		b.At, errAt = calendar.ParseWallTime(c.At)
	}
	if c.Instant != "" {
		b.Instant, errInstant = ops.ParseInstant(c.Instant, "")
	}
	if c.Payload != "" {
		if b.Payload = json.RawMessage(c.Payload); !json.Valid(b.Payload) {
			errPayload = errors.New("--payload: is not JSON")
		}
	}
	if c.Audience.Attributes != "" {
		b.Audience.Attributes = json.RawMessage(c.Audience.Attributes)
	}
	if c.DryRun == c.Yes {
		errYes = errors.New("either --dry-run or --yes is required")
	}
	err = errors.Join(about("--at", errAt), about("--instant", errInstant), errPayload, errYes)
	if err == nil {
		err = byFlag(b.Check())
	}
	return b, misused(err, c.Tables.validate(env))
}

// byFlag names the flags of the fields of a broadcast that are wrong.
func byFlag(err error) error {
	var invalid *almanac.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var errs []error
	for _, f := range invalid.Fields {
		flag := "--" + f.Field
		switch f.Field {
		case "name":
			flag = "<name>"
		case "zones":
			flag = "--zone"
		}
		errs = append(errs, fmt.Errorf("%s: %s", flag, f.Problem))
	}
	return errors.Join(errs...)
}

// Run starts it. The command stores what the broadcast is; programs that run a sender store its events.
func (c *startBroadcast) Run(ctx context.Context, env *environment) error {
	b, err := c.parse(env)
	if err != nil {
		return err
	}
	return c.Tables.useSender(ctx, env, b.Type, func(sender *broadcast.Sender) error {
		if !c.Force {
			if err := c.Tables.checkType(ctx, env, b.Type); err != nil {
				return fmt.Errorf("%w; --force sends it nevertheless", err)
			}
		}
		if c.DryRun {
			return c.preview(ctx, env, sender, b)
		}
		done, err := sender.Start(ctx, b)
		if err != nil {
			return err
		}
		var listed listedUsers
		if c.Audience.Users != "" && done.State == broadcast.Collecting {
			if listed, err = c.list(ctx, env, sender); err != nil {
				return fmt.Errorf("the broadcast is stored, but not the list of its users, so nothing is sent; run this again: %w", err)
			}
			if done.Status, err = sender.Complete(ctx, c.Name); err != nil {
				return err
			}
		}
		report := startReport{broadcastReportOf(done.Status), done.Existed, listed}
		return env.report(c.JSON, report, func() error { return report.write(env) })
	})
}

// startReport is what there is to say about a started broadcast.
type startReport struct {
	broadcastReport
	Existed bool `json:"existed"`
	listedUsers
}

func (r startReport) write(env *environment) error {
	text := printable(r.Name) + " is " + r.State
	if r.Existed {
		text += ", and was stored before"
	}
	if r.Listed > 0 {
		text += "; " + counted(r.Listed, "user") + " in its list"
	}
	if n := len(r.Unknown); n > 0 {
		fmt.Fprintf(env.errs, "%s of no user left out, such as %s\n", counted(n, "id"), printable(r.Unknown[0]))
	}
	return writeText(env, text+"\n")
}

// listedUsers counts the users of a list.
type listedUsers struct {
	Listed  int      `json:"listed,omitempty"`
	Unknown []string `json:"unknown,omitempty"` // ids of no user
}

// listStep is how many users are added to a list at a time.
const listStep = 5000

// list adds the users of a file to the list of the broadcast.
func (c *startBroadcast) list(ctx context.Context, env *environment, sender *broadcast.Sender) (done listedUsers, err error) {
	in, err := openInput(ctx, env.in, c.Audience.Users)
	if err != nil {
		return done, err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return done, err
	}
	var ids []uuid.UUID
	var external []string
	flush := func() error {
		added, err := sender.AddUsers(ctx, c.Name, ids, external)
		done.Listed += added.Added
		for _, id := range added.Unknown {
			done.Unknown = append(done.Unknown, id.String())
		}
		done.Unknown = append(done.Unknown, added.UnknownExternalIDs...)
		ids, external = nil, nil
		return err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if id, ok := parseID(line); ok {
			ids = append(ids, id)
		} else {
			external = append(external, line)
		}
		if len(ids)+len(external) == listStep {
			if err := flush(); err != nil {
				return done, err
			}
		}
	}
	return done, flush()
}

// preview shows whom a broadcast would reach, and when.
func (c *startBroadcast) preview(ctx context.Context, env *environment, sender *broadcast.Sender, b broadcast.Broadcast) error {
	p, err := sender.Preview(ctx, b)
	if err != nil {
		return err
	}
	report := broadcastPreview{Users: p.Users, Late: p.Late, LeftOut: p.LeftOut, First: unlessZero(p.First), Last: unlessZero(p.Last), Stored: p.Stored}
	report.Zones = mapped(p.Zones, func(z broadcast.ZonePreview) broadcastZone { return broadcastZoneOf(z.Zone, z.Users) })
	return env.report(c.JSON, report, func() error {
		if p.Stored != "" {
			return writeText(env, fmt.Sprintf("%s is %s, and is stored already: a start would change nothing\n", b.Name, p.Stored))
		}
		text := "would send to " + counted(p.Users, "user") + ", including those who have opted out"
		if report.First != nil {
			text += fmt.Sprintf(", first at %s, last at %s", instantText(p.First), instantText(p.Last))
		}
		if p.Late > 0 {
			text += fmt.Sprintf("; the time has passed for %d of them, who would get theirs at once", p.Late)
		}
		if p.LeftOut > 0 {
			text += fmt.Sprintf("; %s left out, because the time has passed", counted(p.LeftOut, "user"))
		}
		if err := broadcastZones(report.Zones).write(env, report.Zones, true); err != nil {
			return err
		}
		return writeText(env, text+"\n")
	})
}

type broadcastPreview struct {
	Users   int             `json:"users"`
	Late    int             `json:"late"`
	LeftOut int             `json:"leftOut"`
	First   *time.Time      `json:"first,omitempty"`
	Last    *time.Time      `json:"last,omitempty"`
	Zones   []broadcastZone `json:"zones"`
	Stored  broadcast.State `json:"stored,omitempty"`
}

// useSender opens a sender for do. A command without handlers of a host plans nothing itself, so any type will do.
func (t *tables) useSender(ctx context.Context, env *environment, eventType string, do func(*broadcast.Sender) error) error {
	store, closing, err := t.open(ctx, env, 1)
	if err != nil {
		return err
	}
	defer closing()
	registry := env.host.Registry
	if registry == nil {
		if registry, err = almanac.NewRegistry(almanac.OneOff{Type: eventType}); err != nil {
			return err
		}
	}
	scheduler, err := almanac.NewScheduler(store, registry, quietly(env.host.Options)...)
	if err != nil {
		return err
	}
	sender, err := broadcast.New(scheduler, store)
	if err != nil {
		return err
	}
	return do(sender)
}

// stopBroadcast stops a broadcast.
type stopBroadcast struct {
	Name   string `arg:"" help:"The name of the broadcast."`
	Reason string `help:"The reason, stored with the broadcast and with each cancelled event." placeholder:"TEXT"`
	JSON   bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// Run stops it.
func (c *stopBroadcast) Run(ctx context.Context, env *environment) error {
	return c.Tables.step(ctx, env, c.JSON, func(sender *broadcast.Sender) (broadcast.Status, error) {
		is, err := sender.Stop(ctx, c.Name, c.Reason)
		if errors.Is(err, broadcast.ErrStillClaimed) {
			err = errors.New("the broadcast is stopped, but claims of its events did not end within seconds; stop it again to be sure")
		}
		return is, noBroadcast(c.Name, err)
	})
}

// resumeBroadcast continues a stopped broadcast.
type resumeBroadcast struct {
	Name string `arg:"" help:"The name of the broadcast."`
	JSON bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// Run continues it.
func (c *resumeBroadcast) Run(ctx context.Context, env *environment) error {
	return c.Tables.step(ctx, env, c.JSON, func(sender *broadcast.Sender) (broadcast.Status, error) {
		is, err := sender.Resume(ctx, c.Name)
		return is, noBroadcast(c.Name, err)
	})
}

// step does an action to a broadcast.
func (t *tables) step(ctx context.Context, env *environment, asJSON bool, do func(*broadcast.Sender) (broadcast.Status, error)) error {
	if err := misused(t.validate(env)); err != nil {
		return err
	}
	return t.useSender(ctx, env, "", func(sender *broadcast.Sender) error {
		is, err := do(sender)
		if err != nil {
			return err
		}
		return env.report(asJSON, broadcastReportOf(is), func() error {
			return writeText(env, printable(is.Name)+" is "+string(is.State)+"\n")
		})
	})
}
