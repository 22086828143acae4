package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// pauseType pauses a lane.
type pauseType struct {
	pausing
	Reason string `help:"Why." placeholder:"TEXT"`
	Until  string `help:"When the pause ends: RFC 3339, or a date or a wall time in UTC. By default it lasts until resume." placeholder:"INSTANT"`
	Force  bool   `help:"Pause it also when no event of the lane is known."`
}

// Run pauses.
func (c *pauseType) Run(ctx context.Context, env *environment) error {
	p, err := almanac.Pause{Lane: c.Lane, Reason: c.Reason}, error(nil)
	if c.Until != "" {
		p.Until, err = ops.ParseInstant(c.Until, "UTC")
	}
	if err := misused(about("--until", err), c.validate(env)); err != nil {
		return err
	}
	conn, store, err := c.Tables.dial(ctx, env, statementLimit)
	if err != nil {
		return err
	}
	defer disconnect(ctx, conn)
	if err := store.Verify(ctx); err != nil {
		return err
	}
	scheduler, err := env.operatorOn(store)
	if err != nil {
		return err
	}
	since, already, err := c.since(ctx, scheduler)
	if err != nil {
		return err
	}
	if p, err = p.Checked(); err == nil && !c.Force && !already {
		err = c.check(ctx, env, conn)
	}
	if err != nil {
		return err
	}
	// The scheduler refuses types without a handler as unsupported.
	if err = scheduler.Pause(ctx, p); errors.Is(err, almanac.ErrUnsupportedEventType) {
		err = store.Pause(ctx, p)
	}
	if err != nil {
		return err
	}
	report, text := map[string]any{"lane": c.Lane, "paused": true}, printable(c.Lane)+" is paused"
	if already {
		text += ", since " + instantText(since)
	}
	if !p.Until.IsZero() {
		report["until"], text = p.Until, text+", until "+instantText(p.Until)
	}
	return env.report(c.JSON, report, func() error { return writeText(env, text+"\n") })
}

// check refuses a lane that nothing knows.
func (c *pauseType) check(ctx context.Context, env *environment, conn *pgx.Conn) error {
	unknown, err := c.Tables.unknownLane(ctx, env, conn, c.Lane)
	if err != nil || unknown == "" {
		return err
	}
	return errors.New(unknown + "; --force pauses it nevertheless")
}

// resumeType lets events of a lane be delivered again.
type resumeType struct {
	pausing
}

// Run resumes.
func (c *resumeType) Run(ctx context.Context, env *environment) error {
	if err := c.validate(env); err != nil {
		return err
	}
	pool, store, err := c.Tables.opened(ctx, env, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	scheduler, err := env.operatorOn(store)
	if err != nil {
		return err
	}
	since, was, err := c.since(ctx, scheduler)
	if err != nil {
		return err
	}
	if err := scheduler.Resume(ctx, c.Lane); err != nil {
		return err
	}
	report := map[string]any{"lane": c.Lane, "paused": false}
	text := printable(c.Lane) + " was not paused"
	if was {
		report["since"] = since
		text = fmt.Sprintf("%s was paused since %s; it is not paused any more", printable(c.Lane), instantText(since))
	} else if err := c.Tables.hintLane(ctx, env, pool, c.Lane); err != nil {
		return err
	}
	return env.report(c.JSON, report, func() error { return writeText(env, text+"\n") })
}

// pausing is about a lane.
type pausing struct {
	Lane string `arg:"" help:"A type, such as BIRTHDAY, or another lane, such as crm/tenant-7."`
	JSON bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

func (p *pausing) validate(env *environment) error {
	var errLane error
	if p.Lane == "" {
		errLane = errors.New("<lane> is required")
	}
	return misused(errLane, p.Tables.validate(env))
}

// since returns since when the lane is paused, if it is.
func (p *pausing) since(ctx context.Context, scheduler almanac.Scheduler) (since time.Time, is bool, err error) {
	paused, err := scheduler.Paused(ctx)
	for _, one := range paused {
		if one.Lane == p.Lane {
			return one.Since.UTC(), true, err
		}
	}
	return time.Time{}, false, err
}

// listPauses lists what is paused.
type listPauses struct {
	JSON bool `help:"Write JSON." name:"json"`
	CSV  bool `help:"Write comma-separated values, with a header." name:"csv"`

	Tables tables `embed:""`
}

type pauseReport struct {
	Lane   string     `json:"lane"`
	Since  time.Time  `json:"since"`           // UTC
	Until  *time.Time `json:"until,omitempty"` // UTC; missing if the pause lasts until resume
	Author string     `json:"author,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

func pauseReportOf(p almanac.Pause) pauseReport {
	return pauseReport{p.Lane, p.Since.UTC(), unlessZero(p.Until), p.Author, p.Reason}
}

// Run lists.
func (c *listPauses) Run(ctx context.Context, env *environment) error {
	return c.Tables.use(ctx, env, (&form{c.JSON, c.CSV}).validate(), func(store *postgres.Store) error {
		paused, err := store.Paused(ctx)
		if err != nil {
			return err
		}
		return c.write(env, mapped(paused, pauseReportOf))
	})
}

func (c *listPauses) write(env *environment, reports []pauseReport) error {
	if c.JSON {
		return writeJSON(env.out, reports)
	}
	lane, since := func(r pauseReport) string { return r.Lane }, func(r pauseReport) string { return instantText(r.Since) }
	author, reason := func(r pauseReport) string { return r.Author }, func(r pauseReport) string { return r.Reason }
	until := func(r pauseReport) string {
		if r.Until == nil {
			return ""
		}
		return instantText(*r.Until)
	}
	return list[pauseReport]{
		form: form{CSV: c.CSV}, none: "nothing is paused",
		columns: []column[pauseReport]{
			{"LANE", lane, span{rank: 1, least: 12}, nil}, {"SINCE", since, span{rank: 2}, nil}, {"UNTIL", until, span{rank: 3}, nil},
			{"AUTHOR", author, span{rank: 5, least: 12}, nil}, {"REASON", reason, span{rank: 4, least: 12}, nil},
		},
		fields: []field[pauseReport]{{"lane", lane}, {"since", since}, {"until", until}, {"author", author}, {"reason", reason}},
	}.write(env, reports, true)
}

// knownLimit is how many events a search for types looks at, of those that no index finds by type.
const knownLimit = 10_000

// querier is a connection, or a pool of connections.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// unknownType says that neither a handler of this command nor the database knows a type,
// which may be misspelt. It returns "" for a known type.
func (t *tables) unknownType(ctx context.Context, env *environment, database querier, eventType string) (string, error) {
	registry, err := env.registry()
	if err != nil || slices.Contains(registry.EventTypes(), eventType) {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	rows, err := database.Query(ctx, statement("known_types", t.Schema), pgx.StrictNamedArgs{"most": knownLimit})
	if err != nil {
		return "", err
	}
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || slices.Contains(known, eventType) {
		return "", err
	}
	known = append(known, registry.EventTypes()...)
	slices.Sort(known)
	return fmt.Sprintf("the type %q is not known: no program has run with a handler of it, and no event of it is pending, in flight or among the last %d that ended; %s",
		eventType, knownLimit, typesText(slices.Compact(known), eventType)), nil
}

// unknownLane says that a name is neither a known type nor that of a lane in one, nor that of one with settings or pending events.
func (t *tables) unknownLane(ctx context.Context, env *environment, database querier, name string) (string, error) {
	eventType, _, within := strings.Cut(name, "/")
	unknown, err := t.unknownType(ctx, env, database, eventType)
	if err != nil || unknown == "" {
		return "", err
	}
	rows, err := database.Query(ctx, statement("known_lane", t.Schema), pgx.StrictNamedArgs{"name": name})
	if err != nil {
		return "", err
	}
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(known) > 0 {
		return "", err
	}
	if within {
		unknown = fmt.Sprintf("the lane %q is not known: it has no settings and no pending event, and %s", name, unknown)
	}
	return unknown, nil
}

// hintLane writes to standard error that a lane is not known, if so.
func (t *tables) hintLane(ctx context.Context, env *environment, database querier, name string) error {
	unknown, err := t.unknownLane(ctx, env, database, name)
	if err == nil && unknown != "" {
		fmt.Fprintln(env.errs, printable(unknown))
	}
	return err
}

// checkType returns an error if a type is not known: it may be misspelt.
func (t *tables) checkType(ctx context.Context, env *environment, eventType string) error {
	conn, _, err := t.dial(ctx, env, statementLimit)
	if err != nil {
		return err
	}
	defer disconnect(ctx, conn)
	unknown, err := t.unknownType(ctx, env, conn, eventType)
	if err == nil && unknown != "" {
		err = errors.New(unknown)
	}
	return err
}

// typesText lists known types, and says which of them may be meant by another one.
func typesText(known []string, meant string) string {
	if len(known) == 0 {
		return "no type is known"
	}
	text := "known types are " + strings.Join(mapped(known, strconv.Quote), ", ")
	if near := closest(known, meant); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}

// closest returns the word that becomes another one by the fewest changes of single letters, whatever
// the case: at most two changes, and at most a third of the letters. It returns "" if there is none.
func closest(words []string, meant string) (found string) {
	fewest := min(2, len(meant)/3) + 1
	for _, word := range words {
		if changes := distance(strings.ToLower(word), strings.ToLower(meant)); changes < fewest {
			found, fewest = word, changes
		}
	}
	return found
}

// distance counts the letters to insert, delete or replace to make one word from another.
func distance(from, to string) int {
	row := make([]int, len(to)+1) // of the first letters of from: the distances to the beginnings of to
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		before := row[0]
		row[0] = i + 1
		for j := range len(to) {
			replaced := before
			if from[i] != to[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(to)]
}
