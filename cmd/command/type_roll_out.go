package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// rollOutType replans the pending events of a type for all users.
type rollOutType struct {
	Type   string `arg:"" help:"The type, such as BIRTHDAY."`
	DryRun bool   `help:"Change nothing; show what would change."`
	Yes    bool   `help:"Store the changes."`
	Passed string `help:"An event whose new time has passed: edit (by the rule of an edit), now, skip, or now if it passed at most this long ago, such as 24h (default ${default})." placeholder:"RULE" default:"edit"`
	Rate   string `help:"The most users to process in a second; 0 for no limit (default ${default})." placeholder:"N" default:"0"`
	After  string `help:"Continue after the end of an interrupted roll-out." placeholder:"CURSOR"`
	JSON   bool   `help:"Write JSON." name:"json"`

	Tables   tables    `embed:""`
	Handlers readyMade `embed:"" group:"Their events:"`
}

// rollOutConnections are those of the four edits that a roll-out has in progress at a time.
const rollOutConnections = 4

func (c *rollOutType) parse(env *environment) (registry almanac.Registry, options ops.RollOutOptions, err error) {
	var errType, errPassed, errRate, errAfter, errYes error
	registry, errType = c.Handlers.handles(env.host, c.Type)
	options = ops.RollOutOptions{DryRun: c.DryRun, After: almanac.Cursor(c.After)}
	options.Passed, errPassed = passedRule(c.Passed)
	options.Rate, errRate = number("--rate", c.Rate, 0, maxListed)
	if _, _, err := (almanac.Page{After: options.After}).Bounds(); err != nil {
		errAfter = fmt.Errorf("--after: %q is not where a roll-out ended", c.After)
	}
	if c.DryRun == c.Yes {
		errYes = errors.New("either --dry-run or --yes is required")
	}
	return registry, options, misused(errType, errYes, errPassed, errRate, errAfter, c.Tables.validate(env))
}

// passedRule returns the option that a text means.
func passedRule(text string) (time.Duration, error) {
	switch text {
	case "edit":
		return 0, nil
	case "now":
		return almanac.PassedNow, nil
	case "skip":
		return almanac.PassedSkip, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--passed: %q is none of edit, now and skip, and no duration such as 24h", text)
	}
	return d, nil
}

// Run replans the events. Before it stores changes, it counts them in a dry run.
func (c *rollOutType) Run(ctx context.Context, env *environment) error {
	registry, options, err := c.parse(env)
	if err != nil {
		return err
	}
	store, closing, err := c.Tables.open(ctx, env, rollOutConnections)
	if err != nil {
		return err
	}
	defer closing()
	scheduler, err := almanac.NewScheduler(store, registry, quietly(env.host.Options)...)
	if err != nil {
		return err
	}
	show := newProgress(env.errs, new(input))
	begun := show.begun
	show.things = "users of the dry run"
	options.Progress = func(done ops.RollOutResult) {
		show.update(tally{Created: done.Users, Refused: done.RefusedUsers})
	}
	report := rollOutReport{Type: c.Type, DryRun: c.DryRun}
	dry := options
	dry.DryRun = true
	result, err := ops.RollOut(ctx, scheduler, c.Type, dry)
	report.Would = rollOutCountsOf(result.RollOutCounts)
	if !c.DryRun && err == nil {
		show.restart("users rolled out")
		result, err = ops.RollOut(ctx, scheduler, c.Type, options)
		done := rollOutCountsOf(result.RollOutCounts)
		report.Done = &done
	}
	show.end()
	report.add(result, err)
	if report.Done == nil && !c.DryRun {
		report.Next = c.After // no user was processed
	}
	report.Seconds = time.Since(begun).Seconds()
	return cmp.Or(err, env.report(c.JSON, report, func() error { return report.write(env) }), report.verdict())
}

// rollOutCounts are [ops.RollOutCounts] as JSON.
type rollOutCounts struct {
	Users     int `json:"users"`
	Unchanged int `json:"unchanged"`
	Refreshed int `json:"refreshed"` // the same time, other content
	rollOutMoved
	Added     int `json:"added"`
	Removed   int `json:"removed"`
	Passed    int `json:"passed"`    // of those removed, their new time has passed
	Cancelled int `json:"cancelled"` // before another attempt, because their user refuses them
	SameDay   int `json:"sameDay"`
	LeftOut   int `json:"leftOut"`
	InFlight  int `json:"inFlight"`
}

// rollOutMoved are the events that move.
type rollOutMoved struct {
	Moved  int            `json:"moved"`
	By     []rollOutMoves `json:"by"` // how far they move
	DueNow int            `json:"dueNow"`
}

// rollOutMoves are the events that move by at most so long.
type rollOutMoves struct {
	UpTo    int64 `json:"upToSeconds,omitempty"` // without a bound if it is missing
	Earlier int   `json:"earlier"`
	Later   int   `json:"later"`
}

func rollOutCountsOf(c ops.RollOutCounts) rollOutCounts {
	counts := rollOutCounts{
		Users: c.Users, Unchanged: c.Unchanged, Refreshed: c.Refreshed, rollOutMoved: rollOutMoved{c.Moved(), []rollOutMoves{}, c.DueNow},
		Added: c.Added, Removed: c.Removed, Passed: c.Passed, Cancelled: c.Cancelled, SameDay: c.SameDay, LeftOut: c.LeftOut, InFlight: c.InFlight,
	}
	bounds := ops.MoveBounds()
	for i, bound := range bounds {
		if i == len(bounds)-1 {
			bound = 0
		}
		if c.Earlier[i]+c.Later[i] > 0 {
			counts.By = append(counts.By, rollOutMoves{int64(bound / time.Second), c.Earlier[i], c.Later[i]})
		}
	}
	return counts
}

// rollOutReport is what there is to say about a roll-out.
type rollOutReport struct {
	Type         string           `json:"type"`
	DryRun       bool             `json:"dryRun"`
	Complete     bool             `json:"complete"` // all users were processed
	Would        rollOutCounts    `json:"would"`    // by the dry run
	Done         *rollOutCounts   `json:"done,omitempty"`
	Examples     []rollOutExample `json:"examples"`
	Refused      []refusedUser    `json:"refused"`
	RefusedUsers int              `json:"refusedUsers"`
	Next         string           `json:"next,omitempty"` // where to continue, if not complete
	Seconds      float64          `json:"seconds"`
	Error        string           `json:"error,omitempty"` // why it is not complete
}

// rollOutExample is an event that is changed.
type rollOutExample struct {
	User uuid.UUID `json:"user"`
	Key  string    `json:"key"`
	Was  string    `json:"was,omitempty"`
	Is   string    `json:"is,omitempty"`
}

func rollOutExampleOf(one ops.RollOutExample) rollOutExample {
	e := one.Is
	if e.ID == uuid.Nil {
		e = one.Was
	}
	return rollOutExample{e.UserID, e.OccurrenceKey, dueText(one.Was), dueText(one.Is)}
}

func dueText(e almanac.Event) string {
	if e.ID == uuid.Nil {
		return ""
	}
	return e.Due.UTC().Format(time.RFC3339)
}

func (r *rollOutReport) add(result ops.RollOutResult, err error) {
	r.Complete, r.RefusedUsers = err == nil, result.RefusedUsers
	r.Examples, r.Refused = mapped(result.Examples, rollOutExampleOf), mapped(result.Refused, refusedUserOf)
	if err != nil {
		r.Next, r.Error = string(result.Next), bare(err.Error())
	}
}

func (r rollOutReport) write(env *environment) error {
	for _, one := range r.Refused {
		fmt.Fprintf(env.errs, "refused %s: %s\n", one.ID, printable(one.Reason))
	}
	table := tabwriter.NewWriter(env.out, 0, 0, 2, ' ', 0)
	head, done := "", rollOutCounts{}
	if r.Done != nil {
		head, done = "\tDONE", *r.Done
	}
	fmt.Fprintln(table, "EVENTS OF "+printable(r.Type)+"\tWOULD"+head)
	row := func(name string, would, did int, always bool) {
		switch {
		case would+did == 0 && !always:
		case r.Done == nil:
			fmt.Fprintf(table, "%s\t%d\n", name, would)
		default:
			fmt.Fprintf(table, "%s\t%d\t%d\n", name, would, did)
		}
	}
	row("unchanged", r.Would.Unchanged, done.Unchanged, true)
	row("other content, same time", r.Would.Refreshed, done.Refreshed, false)
	row("moved", r.Would.Moved, done.Moved, true)
	row("  due now", r.Would.DueNow, done.DueNow, false)
	row("added", r.Would.Added, done.Added, true)
	row("removed", r.Would.Removed, done.Removed, true)
	row("  new time passed", r.Would.Passed, done.Passed, false)
	row("cancelled, as refused", r.Would.Cancelled, done.Cancelled, false)
	row("two on one day", r.Would.SameDay, done.SameDay, false)
	row("left out as used", r.Would.LeftOut, done.LeftOut, false)
	row("in flight, kept", r.Would.InFlight, done.InFlight, false)
	row("users", r.Would.Users, done.Users, true)
	if err := table.Flush(); err != nil {
		return err
	}
	r.writeMoves(env)
	switch {
	case r.Done == nil && !r.DryRun && r.Next == "":
		fmt.Fprintln(env.errs, "nothing was stored: begin again")
	case r.Next != "":
		fmt.Fprintf(env.errs, "not done to the end: go on with --after %s\n", shellWord(r.Next))
	}
	return nil
}

// writeMoves writes how far events move, and the examples.
func (r rollOutReport) writeMoves(env *environment) {
	counts := r.Would
	if r.Done != nil {
		counts = *r.Done
	}
	for _, by := range counts.By {
		far := "by more"
		if by.UpTo > 0 {
			far = "by up to " + (time.Duration(by.UpTo) * time.Second).String()
		}
		fmt.Fprintf(env.out, "%s: %d earlier, %d later\n", far, by.Earlier, by.Later)
	}
	for _, e := range r.Examples {
		fmt.Fprintf(env.out, "such as user %s, %s: %s -> %s\n", e.User, printable(e.Key), orDash(e.Was), orDash(e.Is))
	}
}

// verdict is an error if a user was refused.
func (r rollOutReport) verdict() error {
	if r.RefusedUsers == 0 {
		return nil
	}
	return errors.New(counted(r.RefusedUsers, "user") + " refused")
}
