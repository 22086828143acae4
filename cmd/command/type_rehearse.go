package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// rehearse counts the events that users will have.
type rehearse struct {
	Days      string `help:"How many days to rehearse, 1 to 366 (default ${default})." placeholder:"N" default:"30"`
	afresh    `embed:""`
	Capacity  string `help:"How many events all your programs can start in a second; 0 if unknown (default ${default})." placeholder:"N" default:"0"`
	Every     string `help:"Copy one of this many users; 1 for all (default ${default})." placeholder:"N" default:"1"`
	Users     string `help:"Rehearse the users of this file instead of those of the database." placeholder:"FILE"`
	SaveUsers string `help:"Keep the copy of the users in this file." placeholder:"FILE"`
	Save      string `help:"Write the result to this file, for --compare." placeholder:"FILE"`
	Compare   string `help:"Show how the result differs from that in this file." placeholder:"FILE"`
	CSV       string `help:"Write the counts as a table to this file." name:"csv" placeholder:"FILE"`
	JSON      bool   `help:"Write JSON." name:"json"`

	Tables   tables    `embed:""`
	Handlers readyMade `embed:"" group:"Their events:"`
}

func (c *rehearse) parse(env *environment) (registry almanac.Registry, options ops.RehearseOptions, every int, err error) {
	var errTypes, errDays, errEvery, errFiles, errCapacity, errPassed, errTables error
	if registry, errTypes = c.Handlers.parse(env.host); errTypes == nil && len(registry.EventTypes()) == 0 {
		errTypes = errors.New("this command has no handlers: give --birthday or --anniversary, or use a command with your handlers")
	}
	var days int
	days, errDays = number("--days", c.Days, 1, 366)
	every, errEvery = number("--every", c.Every, 1, 1_000_000)
	capacity, err := strconv.ParseFloat(c.Capacity, 64)
	if err != nil || !(capacity >= 0) {
		errCapacity = fmt.Errorf("--capacity: %q is not a number, or negative", c.Capacity)
	}
	if c.Users != "" && (c.SaveUsers != "" || every != 1) {
		errFiles = errors.New("--users goes with neither --save-users nor --every")
	}
	if c.Users == "" {
		errTables = c.Tables.validate(env)
	}
	options = ops.RehearseOptions{For: time.Duration(days) * 24 * time.Hour, RollOut: c.RollOut, Capacity: capacity}
	switch {
	case c.Passed != "" && !c.RollOut:
		errPassed = errors.New("--passed: goes with --roll-out only")
	case c.Passed != "":
		options.Passed, errPassed = passedRule(c.Passed)
	}
	return registry, options, every, misused(errTypes, errDays, errEvery, errCapacity, errPassed, errFiles, errTables)
}

// afresh says whether the pending events are planned again first.
type afresh struct {
	RollOut bool   `help:"Plan the pending events again first, as a roll-out would."`
	Passed  string `help:"With --roll-out, an event whose new time has passed: as --passed of roll-out (default edit)." placeholder:"RULE" default:""`
}

// noStore is the repository of a scheduler that only rehearses.
type noStore struct{ almanac.Repository }

// Run copies the users, closes the database, and rehearses the copy.
func (c *rehearse) Run(ctx context.Context, env *environment) error {
	registry, options, every, err := c.parse(env)
	if err != nil {
		return err
	}
	scheduler, err := almanac.NewScheduler(noStore{}, registry, quietly(env.host.Options)...)
	if err != nil {
		return err
	}
	var was ops.RehearseResult
	if c.Compare != "" {
		if was, err = readRehearsal(c.Compare); err != nil {
			return err
		}
	}
	show := newProgress(env.errs, new(input))
	show.things = "users"
	shown := func(users int) { show.update(tally{Created: users}) }
	options.Progress = shown
	users, closing, err := c.users(ctx, env, registry.EventTypes(), ops.CopyUsersOptions{Every: every, Progress: shown})
	if err != nil {
		show.end()
		return err
	}
	defer closing()
	is, err := ops.Rehearse(ctx, scheduler, users, options)
	show.end()
	if err != nil {
		return err
	}
	return c.report(env, was, is)
}

// users returns a copy of the users, from a file or from the database.
func (c *rehearse) users(ctx context.Context, env *environment, types []string, o ops.CopyUsersOptions) (io.Reader, func(), error) {
	if c.Users != "" {
		file, err := os.Open(c.Users)
		if err != nil {
			return nil, nil, err
		}
		return file, func() { _ = file.Close() }, nil
	}
	file, err := c.newCopy()
	if err != nil {
		return nil, nil, err
	}
	closing := func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}
	if err = c.copyTo(ctx, env, types, file, o); err == nil {
		err = c.keep(file)
	}
	if err != nil {
		closing()
		return nil, nil, err
	}
	return file, closing, nil
}

// newCopy creates the file of the copy, which only its owner may read. A copy to keep has another name until it is complete, and
// other copies have none if the system allows it: so a command that is killed leaves no users behind.
func (c *rehearse) newCopy() (*os.File, error) {
	if c.SaveUsers == "" {
		file, err := os.CreateTemp("", "rehearse-*.jsonl.gz")
		if err == nil {
			_ = os.Remove(file.Name()) // Windows refuses, and closing removes it
		}
		return file, err
	}
	if _, err := os.Lstat(c.SaveUsers); err == nil {
		return nil, &fs.PathError{Op: "create", Path: c.SaveUsers, Err: fs.ErrExist}
	}
	return os.CreateTemp(filepath.Dir(c.SaveUsers), filepath.Base(c.SaveUsers)+".*.part")
}

// keep gives a complete copy its name. It writes over no file.
func (c *rehearse) keep(file *os.File) error {
	if c.SaveUsers == "" {
		return nil
	}
	if err := file.Sync(); err != nil {
		return err
	}
	err := os.Link(file.Name(), c.SaveUsers)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(file.Name(), c.SaveUsers) // a file system without links
}

func (c *rehearse) copyTo(ctx context.Context, env *environment, types []string, file *os.File, o ops.CopyUsersOptions) error {
	store, closing, err := c.Tables.open(ctx, env, 1)
	if err != nil {
		return err
	}
	defer closing()
	if err := sayWithout(ctx, env, store, types); err != nil {
		return err
	}
	if _, err := ops.CopyUsers(ctx, store, types, file, o); err != nil {
		return err
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// sayWithout says which types have events in the database, and no handler in this command.
func sayWithout(ctx context.Context, env *environment, store *postgres.Store, types []string) error {
	stats, err := store.Stats(ctx)
	if err != nil {
		return err
	}
	var without []string
	for _, one := range stats.Events {
		if !slices.Contains(types, one.Type) {
			without = append(without, printable(one.Type))
		}
	}
	if slices.Sort(without); len(without) > 0 {
		fmt.Fprintf(env.errs, "left out, because this command has no handler of the type: %s\n", strings.Join(slices.Compact(without), ", "))
	}
	return nil
}

func readRehearsal(name string) (r ops.RehearseResult, err error) {
	text, err := os.ReadFile(name)
	if err == nil {
		if err = json.Unmarshal(text, &r); err != nil {
			err = fmt.Errorf("%s is no result of a rehearsal: %w", name, err)
		}
	}
	return r, err
}

// rehearsalReport is a result with how it differs from another one.
type rehearsalReport struct {
	ops.RehearseResult
	Difference *ops.RehearseDifference `json:"difference,omitempty"`
}

// report writes the result, and its files.
func (c *rehearse) report(env *environment, was, is ops.RehearseResult) error {
	if c.Save != "" {
		if err := writeFile(c.Save, func(w io.Writer) error { return json.NewEncoder(w).Encode(is) }); err != nil {
			return err
		}
	}
	if c.CSV != "" {
		if err := writeFile(c.CSV, is.WriteCSV); err != nil {
			return err
		}
	}
	report := rehearsalReport{RehearseResult: is}
	var incomparable error
	if c.Compare != "" {
		diff, err := ops.CompareRehearsals(was, is)
		if err == nil {
			report.Difference = &diff
		} else {
			incomparable = fmt.Errorf("--compare %s: %w", c.Compare, err)
		}
	}
	if err := env.report(c.JSON, report, func() error { return report.write(env) }); err != nil {
		return err
	}
	if incomparable != nil {
		return incomparable
	}
	if is.RefusedUsers > 0 {
		return fmt.Errorf("an event of %s could not be planned", counted(is.RefusedUsers, "user"))
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func (r rehearsalReport) write(env *environment) error {
	for _, one := range r.Refused {
		fmt.Fprintf(env.errs, "user %s: %s\n", one.UserID, printable(one.Error))
	}
	table := tabwriter.NewWriter(env.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DAY\tTYPE\tEVENTS")
	for _, d := range r.Days() {
		fmt.Fprintf(table, "%s\t%s\t%d\n", d.Date, printable(d.Type), d.Events)
	}
	fmt.Fprintln(table, "\nLANE\tEVENTS\tIN AN HOUR\tIN A MINUTE\tIN A SECOND\tRATE\tLONGEST WAIT\tLEFT FOR THE NEXT DAY")
	for _, p := range r.Peaks {
		name, rate, wait, left := p.Lane, "-", "-", "-"
		if name == "" {
			name = "(all)"
		}
		if p.Limits.Rate > 0 {
			rate, wait = strconv.FormatFloat(p.Limits.Rate, 'f', -1, 64), waitText(p)
		}
		if p.Limits.Daily > 0 {
			left = strconv.Itoa(p.Left)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(name), p.Events, mostText(p.Hour), mostText(p.Minute), mostText(p.Second), rate, wait, left)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	r.writeDifference(env)
	for _, what := range r.Merged {
		fmt.Fprintln(env.errs, merged[what])
	}
	sample := ""
	if r.Every > 1 {
		sample = fmt.Sprintf(", one of %d, so each event counts %d times", r.Every, r.Every)
	}
	fmt.Fprintf(env.errs, "%s from %s to %s: %d delivered, %d failed, %d cancelled%s\n", counted(r.Users, "user"),
		r.From.Format(time.RFC3339), r.Until.Format(time.RFC3339), r.Delivered, r.Failed, r.Cancelled, sample)
	return nil
}

// merged says what a result leaves out, by the texts of ops.RehearseResult.Merged.
var merged = map[string]string{
	"lane":   "there are too many different counts, so they do not distinguish lanes",
	"zone":   "there are too many different counts, so they do not distinguish zones",
	"peaks":  "there are more than 40 lanes without limits, so only lanes with limits have peaks",
	"limits": "there are more than 40 lanes with limits, so the peaks of further lanes do not know their limits",
}

func mostText(m ops.RehearseMost) string {
	if m.Events == 0 {
		return "-"
	}
	return fmt.Sprintf("%d at %s", m.Events, m.At.Format("2006-01-02T15:04:05Z"))
}

func waitText(p ops.RehearsePeak) string {
	if p.Wait == 0 {
		return "0s"
	}
	return fmt.Sprintf("%s, from %s to %s", p.Wait.Round(time.Second), p.WaitFrom.Format("2006-01-02T15:04:05Z"), p.WaitUntil.Format("2006-01-02T15:04:05Z"))
}

// writeDifference writes how the result differs from another one.
func (r rehearsalReport) writeDifference(env *environment) {
	switch {
	case r.Difference == nil:
	case r.Difference.IsEmpty():
		fmt.Fprintln(env.out, "\nthe same events at the same times")
	default:
		fmt.Fprintln(env.out)
		for _, t := range r.Difference.Types {
			fmt.Fprintf(env.out, "%s: %s before, %d now", printable(t.Type), counted(t.Was, "event"), t.Is)
			if t.Moved > 0 {
				fmt.Fprintf(env.out, "; %d or more of them moved to another day", t.Moved)
			}
			fmt.Fprintln(env.out)
		}
		for _, d := range r.Difference.Days {
			change := fmt.Sprintf("%+d", d.Is-d.Was)
			if d.Is == d.Was {
				change = "other events or other times"
			}
			fmt.Fprintf(env.out, "%s %s: %d before, %d now (%s)\n", d.Date, printable(d.Type), d.Was, d.Is, change)
		}
	}
}
