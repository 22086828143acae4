package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// optOutUser stores that a user refuses events.
type optOutUser struct {
	whatIsRefused
	Until  string `help:"The first day, in the user's zone, on which the events are owed again." placeholder:"YYYY-MM-DD"`
	Reason string `help:"Why." placeholder:"TEXT"`
	Force  bool   `help:"Store the opt-out also when no event of the type is known."`
}

// Run opts out.
func (c *optOutUser) Run(ctx context.Context, env *environment) error {
	ask := optChange{out: true, force: c.Force, what: almanac.OptOut{Reason: c.Reason}}
	var err error
	if c.Until != "" {
		if ask.what.Until, err = calendar.ParseDate(c.Until); err != nil {
			return misused(fmt.Errorf("--until: %w", err))
		}
	}
	return c.change(ctx, env, ask)
}

// optInUser removes an opt-out.
type optInUser struct {
	whatIsRefused
}

// Run opts in.
func (c *optInUser) Run(ctx context.Context, env *environment) error {
	return c.change(ctx, env, optChange{})
}

// whatIsRefused says who refuses what.
type whatIsRefused struct {
	oneUser
	Type    string `help:"Only events of this type." placeholder:"TYPE"`
	Channel string `help:"Only events of this channel." placeholder:"NAME"`
	JSON    bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// optChange says what is done to an opt-out.
type optChange struct {
	out   bool           // it is stored; otherwise it is removed
	force bool           // also if its type is not known
	what  almanac.OptOut // without its type and channel
}

func (c *whatIsRefused) change(ctx context.Context, env *environment, ask optChange) error {
	registry, err := env.registry()
	if err := misused(err, c.oneUser.validate(), c.Tables.validate(env)); err != nil {
		return err
	}
	pool, store, err := c.Tables.opened(ctx, env, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	u, err := c.find(ctx, store)
	if err != nil {
		return err
	}
	what := ask.what
	what.Type, what.Channel = c.Type, almanac.Channel(c.Channel)
	had := slices.ContainsFunc(u.OptOuts, func(o almanac.OptOut) bool { return o.Type == what.Type && o.Channel == what.Channel })
	report := optOutReport{what: what, had: had}
	if ask.out && !ask.force && !report.had {
		if err := c.check(ctx, env, pool); err != nil {
			return err
		}
	}
	scheduler, err := env.operatorOn(store)
	if err != nil {
		return err
	}
	do := scheduler.OptIn
	if ask.out {
		do = scheduler.OptOut
	}
	done, err := do(ctx, u.ID, what)
	if err != nil {
		return err
	}
	if err := report.fill(ctx, store, done, registry); err != nil {
		return err
	}
	report.Unplanned = (!ask.out || what.Until != calendar.Date{}) && report.unplanned(registry)
	report.keepRefused(done.User)
	return env.report(c.JSON, report, func() error { return report.write(env, ask) })
}

// check refuses a type that nothing knows: a user who says no must not get events because the
// type was misspelt.
func (c *whatIsRefused) check(ctx context.Context, env *environment, pool *pgxpool.Pool) error {
	if c.Type == "" {
		return nil
	}
	unknown, err := c.Tables.unknownType(ctx, env, pool, c.Type)
	if err != nil || unknown == "" {
		return err
	}
	return errors.New(unknown + "; --force stores the opt-out nevertheless")
}

// optOutReport is what there is to say about a user's opt-outs.
type optOutReport struct {
	ID        uuid.UUID        `json:"id"`
	OptOuts   []almanac.OptOut `json:"optOuts"`
	Removed   int              `json:"removed"`   // pending events
	Moved     int              `json:"moved"`     // pending events that a handler plans for another time now
	Cancelled int              `json:"cancelled"` // events that waited for another attempt
	Added     int              `json:"added"`     // events that are owed again
	InFlight  int              `json:"inFlight"`  // events that were claimed before, and stay
	LeftAlone int              `json:"leftAlone"` // pending events that the opt-out is about, of types without a handler here
	Unplanned bool             `json:"unplanned"` // the user is owed events again that this command has no handler of

	what almanac.OptOut  // that was stored or removed
	had  bool            // the user had it before
	left []almanac.Event // those that LeftAlone counts, and after keepRefused those of them that are not owed
}

func (r *optOutReport) fill(ctx context.Context, store *postgres.Store, done almanac.UpdateUserResult, registry almanac.Registry) error {
	left, err := leftAlone(ctx, store, done.User.ID, registry)
	r.left = slices.DeleteFunc(left, func(e almanac.Event) bool {
		return r.what.Type != "" && r.what.Type != e.Type || slices.Contains(done.Skipped, e.ID)
	})
	r.ID, r.OptOuts = done.User.ID, append([]almanac.OptOut{}, done.User.OptOuts...)
	r.Removed, r.Moved, r.Cancelled, r.Added = len(done.Removed), len(done.Moved), len(done.Cancelled), len(done.Added)
	r.InFlight, r.LeftAlone = len(done.Skipped), len(r.left)
	return err
}

// keepRefused keeps the events that are refused at their attempt. Those from the end of an opt-out on are owed.
func (r *optOutReport) keepRefused(u almanac.User) {
	r.left = slices.DeleteFunc(r.left, func(e almanac.Event) bool {
		from, owed := u.OwedFrom(e.Type)
		return owed && !e.Wall.Date.Before(from)
	})
}

// unplanned reports whether the removed opt-out, or one with an end in its place, leaves something to plan to another program. An
// opt-out of a channel had kept nothing from being planned.
func (r *optOutReport) unplanned(registry almanac.Registry) bool {
	known := registry.EventTypes()
	elsewhere := r.what.Type == "" && len(known) == 0 || r.what.Type != "" && !slices.Contains(known, r.what.Type) && r.LeftAlone == 0
	return r.had && r.what.Channel == "" && !refusesType(r.OptOuts, r.what.Type) && elsewhere
}

// write writes the opt-outs and what happened to events, and to standard error what is left to
// other programs.
func (r *optOutReport) write(env *environment, ask optChange) error {
	if len(r.OptOuts) == 0 {
		if _, err := fmt.Fprintf(env.out, "%s refuses nothing\n", r.ID); err != nil {
			return err
		}
	}
	for _, o := range r.OptOuts {
		if _, err := fmt.Fprintf(env.out, "%s refuses %s\n", r.ID, printable(optOutText(o))); err != nil {
			return err
		}
	}
	stay := r.InFlight + r.LeftAlone
	if _, err := fmt.Fprintf(env.out, "%s removed, %d moved, %d cancelled, %d added; %d %s\n", counted(r.Removed, "event"), r.Moved, r.Cancelled, r.Added,
		stay, numbered(stay, "stays as it is", "stay as they are")); err != nil {
		return err
	}
	for _, text := range r.notes(ask) {
		fmt.Fprintln(env.errs, printable(text))
	}
	return nil
}

// notes say what is left to other programs, and why an opt-in changed nothing.
func (r *optOutReport) notes(ask optChange) (texts []string) {
	if n := len(r.left); n > 0 && ask.out && r.what.Channel == "" {
		types := typesOf(r.left)
		texts = append(texts, counted(n, "pending event")+" of "+types+numbered(n, " stays until it is due", " stay until they are due")+
			", because this command has no handler of "+types+": the program that delivers ends "+numbered(n, "it", "them")+" as CANCELLED")
	}
	if !ask.out && !r.had {
		texts = append(texts, "the user had no opt-out of "+optOutText(r.what)+", so nothing is changed")
	}
	if r.Unplanned {
		none := "no handlers"
		if r.what.Type != "" {
			none = "no handler of " + r.what.Type
		}
		texts = append(texts, "nothing is planned, because this command has "+none+
			": a program that has it plans the next event by Reschedule or Backfill, and a command with handlers by users reschedule")
	}
	return texts
}

// refusesType reports whether opt-outs without an end refuse a type by all channels, or with the type "" all types.
func refusesType(all []almanac.OptOut, eventType string) bool {
	return slices.ContainsFunc(all, func(o almanac.OptOut) bool {
		return o.Channel == "" && o.Until == calendar.Date{} && (o.Type == "" || o.Type == eventType)
	})
}

// optOutFacts says since when an opt-out is stored, by whom and why.
func optOutFacts(o almanac.OptOut) (facts string) {
	if !o.Since.IsZero() {
		facts += ", since " + instantText(o.Since)
	}
	if o.Author != "" {
		facts += ", by " + o.Author
	}
	if o.Reason != "" {
		facts += ": " + o.Reason
	}
	return facts
}

// optOutText says what an opt-out refuses, and until when.
func optOutText(o almanac.OptOut) string {
	what := "everything"
	if o.Type != "" {
		what = o.Type
	}
	if o.Channel != "" {
		what += " by " + string(o.Channel)
	}
	if o.Until != (calendar.Date{}) {
		what += " until " + o.Until.String()
	}
	return what
}
