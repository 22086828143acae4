package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// events looks at events.
type events struct {
	List listEvents `cmd:"" help:"List events in the order of their creation."`
	Show showEvent  `cmd:"" help:"Show everything about an event."`
}

// listEvents lists the events that match all of its filters.
type listEvents struct {
	Status   string `help:"Those in this status: ${status}." placeholder:"STATUS"`
	Type     string `help:"Those of this type, such as BIRTHDAY." placeholder:"TYPE"`
	User     string `help:"Those of this person." placeholder:"ID"`
	DueFrom  string `help:"Those due at this instant or later: RFC 3339, or a date, at whose midnight in UTC." placeholder:"INSTANT"`
	DueUntil string `help:"Those due before this instant." placeholder:"INSTANT"`
	Overdue  string `help:"Those that still wait although their instant passed longer ago than this; 0s for all." placeholder:"DURATION"`
	Limit    string `help:"How many to list (default ${default})." short:"n" placeholder:"N" default:"50"`
	After    string `help:"Go on where another list ended." placeholder:"CURSOR"`
	JSON     bool   `help:"Write JSON, a line for each event." name:"json"`

	Tables tables `embed:""`
}

// Help is shown below the command's line.
func (c *listEvents) Help() string {
	return `Where there are more, a line on standard error says how to go on. Payloads are left out, as they say much of people: see events show --payload.

    almanac events list --overdue 5m
    almanac events list --status failed --due-from 2026-03-01 --json
    almanac events list --user 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 -n 1000`
}

// maxListed bounds a list, which is read a page at a time.
const maxListed = 1_000_000

// eventQuery is what the arguments of a list ask for.
type eventQuery struct {
	spec  almanac.And
	after almanac.Cursor
	limit int
}

func (c *listEvents) understand() (eventQuery, error) {
	var q eventQuery
	var errs []error
	if c.Status != "" {
		errs = append(errs, oneOf("--status", strings.ToLower(c.Status)))
		q.spec = append(q.spec, almanac.InStatus(strings.ToUpper(c.Status)))
	}
	if c.Type != "" {
		q.spec = append(q.spec, almanac.OfType(c.Type))
	}
	if c.User != "" {
		id, err := idOf("--user", c.User)
		errs = append(errs, err)
		q.spec = append(q.spec, almanac.ForUser(id))
	}
	if c.DueFrom != "" || c.DueUntil != "" {
		from, errFrom := instant("--due-from", c.DueFrom)
		until, errUntil := instant("--due-until", c.DueUntil)
		errs = append(errs, errFrom, errUntil)
		q.spec = append(q.spec, almanac.DueBetween{From: from, Until: until})
	}
	if c.Overdue != "" {
		by, err := time.ParseDuration(c.Overdue)
		if err != nil || by < 0 {
			errs = append(errs, fmt.Errorf("--overdue: %q is not a duration such as 90s or 5m", c.Overdue))
		}
		q.spec = append(q.spec, almanac.Overdue{By: by})
	}
	var errLimit, errAfter error
	q.limit, errLimit = number("--limit", c.Limit, 1, maxListed)
	q.after = almanac.Cursor(c.After)
	if _, _, err := (almanac.Page{After: q.after}).Bounds(); err != nil {
		errAfter = fmt.Errorf("--after: %q is not where a list ended", c.After)
	}
	return q, misused(append(errs, errLimit, errAfter, c.Tables.understand())...)
}

// idOf reads the id of a person or an event.
func idOf(argument, text string) (uuid.UUID, error) {
	id, ok := parseID(text)
	if !ok {
		return id, fmt.Errorf("%s: %q is not a UUID", argument, text)
	}
	return id, nil
}

// instant reads one, or a date for its midnight in UTC; the zero Time where there is
// none.
func instant(argument, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.UTC(), nil
	}
	date, err := almanac.ParseDate(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %q is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15", argument, text)
	}
	return almanac.WallTime{Date: date}.Labelled(), nil
}

// eventsPage is the most events that are read at a time.
const eventsPage = 1000

// Run lists events.
func (c *listEvents) Run(ctx context.Context, env *environment) error {
	q, err := c.understand()
	if err != nil {
		return err
	}
	store, closing, err := c.Tables.open(ctx, 1)
	if err != nil {
		return err
	}
	defer closing()
	write := writeEvents
	if c.JSON {
		write = writeEventLines
	}
	for first, left := true, q.limit; left > 0 && (first || q.after != ""); first = false {
		found, err := store.Find(ctx, q.spec, almanac.Page{Limit: min(left, eventsPage), After: q.after})
		if err != nil {
			return err
		}
		if err := write(env.out, found.Events, first); err != nil {
			return err
		}
		left -= len(found.Events)
		q.after = found.Next
	}
	if q.after != "" {
		fmt.Fprintf(env.errs, "there are more: go on with --after %s\n", q.after)
	}
	return nil
}

// writeEvents writes a page as a table.
func writeEvents(out io.Writer, page []almanac.Event, first bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if first && len(page) == 0 {
		fmt.Fprintln(table, "no events")
	} else if first {
		fmt.Fprintln(table, "ID\tSTATUS\tDUE\tWALL TIME\tZONE\tTYPE\tKEY\tFAILED ATTEMPTS\tUSER")
	}
	for _, e := range page {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", e.ID, e.Status, instantText(e.Due), e.Wall, e.Zone, printable(e.Type), printable(e.OccurrenceKey), e.RetryCount, e.UserID)
	}
	return table.Flush()
}

// writeEventLines writes a page as lines of JSON.
func writeEventLines(out io.Writer, page []almanac.Event, _ bool) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, e := range page {
		if err := encoder.Encode(eventReportOf(e, false)); err != nil {
			return err
		}
	}
	return nil
}

func instantText(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// showEvent shows an event.
type showEvent struct {
	ID      string `arg:"" help:"The event's id."`
	Payload bool   `help:"Show what is delivered, too, which says much of a person."`
	JSON    bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// Help is shown below the command's line.
func (c *showEvent) Help() string {
	return `Of the person nothing is shown but the id. Errors are in the words of whoever delivered.

    almanac events show 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55
    almanac events show 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --payload --json`
}

// Run shows the event.
func (c *showEvent) Run(ctx context.Context, env *environment) error {
	id, errID := idOf("<id>", c.ID)
	if c.ID == "" {
		errID = errors.New("<id> is required")
	}
	if err := misused(errID, c.Tables.understand()); err != nil {
		return err
	}
	store, closing, err := c.Tables.open(ctx, 1)
	if err != nil {
		return err
	}
	defer closing()
	e, err := store.Event(ctx, id)
	if err != nil {
		return err
	}
	report := eventReportOf(e, c.Payload)
	if c.JSON {
		return writeJSON(env.out, report)
	}
	return report.write(env.out)
}
