package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/almanac-go/almanac"
)

// events looks at events, and changes single ones.
type events struct {
	List    listEvents    `cmd:"" help:"List events in the order of their creation."`
	Show    showEvent     `cmd:"" help:"Show everything about an event."`
	Cancel  cancelEvents  `cmd:"" help:"End pending events before they are delivered."`
	RunNow  runEvents     `cmd:"" help:"Make pending events due at once."`
	Requeue requeueEvents `cmd:"" help:"Deliver failed events once more."`
}

// listEvents lists the events that match all of its filters.
type listEvents struct {
	Status string `help:"Only events in this status: ${status}." placeholder:"STATUS"`
	Limit  string `help:"How many events to list (default ${default})." short:"n" placeholder:"N" default:"50"`
	After  string `help:"Continue after the end of another list." placeholder:"CURSOR"`
	JSON   bool   `help:"Write JSON, a line for each event." name:"json"`

	Filters filters `embed:""`
	Waiting waiting `embed:""`
	Tables  tables  `embed:""`
}

// Help is shown below the command's line.
func (c *listEvents) Help() string {
	return `If there are more events, a line on standard error says how to continue. Payloads are left out, because they can hold personal data: see events show --payload.

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

func (c *listEvents) understand(env *environment) (eventQuery, error) {
	var q eventQuery
	var errs []error
	if c.Status != "" {
		errs = append(errs, oneOf("--status", strings.ToLower(c.Status)))
		q.spec = append(q.spec, almanac.InStatus(strings.ToUpper(c.Status)))
	}
	picked, errFilters := c.Filters.understand()
	waiting, errWaiting := c.Waiting.understand()
	q.spec = append(append(q.spec, picked...), waiting...)
	var errLimit, errAfter error
	q.limit, errLimit = number("--limit", c.Limit, 1, maxListed)
	q.after = almanac.Cursor(c.After)
	if _, _, err := (almanac.Page{After: q.after}).Bounds(); err != nil {
		errAfter = fmt.Errorf("--after: %q is not where a list ended", c.After)
	}
	return q, misused(append(errs, errFilters, errWaiting, errLimit, errAfter, c.Tables.understand(env))...)
}

// eventsPage is the most events that are read at a time.
const eventsPage = 1000

// Run lists events.
func (c *listEvents) Run(ctx context.Context, env *environment) error {
	q, err := c.understand(env)
	if err != nil {
		return err
	}
	store, closing, err := c.Tables.open(ctx, env, 1)
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
		fmt.Fprintln(table, "ID\tSTATUS\tDUE\tWALL TIME\tZONE\tTYPE\tSERIES\tKEY\tFAILED ATTEMPTS\tUSER")
	}
	for _, e := range page {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", e.ID, e.Status, instantText(e.Due), e.Wall, e.Zone, printable(e.Type), printable(e.Series), printable(e.OccurrenceKey), e.RetryCount, e.UserID)
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
	Payload bool   `help:"Also show the payload, which can hold personal data."`
	JSON    bool   `help:"Write JSON." name:"json"`

	Tables tables `embed:""`
}

// Help is shown below the command's line.
func (c *showEvent) Help() string {
	return `Of the user, only the id is shown. Errors are the texts that the deliverer returned. The audit trail of the event is shown too, if there is one (see audit).

    almanac events show 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55
    almanac events show 0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55 --payload --json`
}

// Run shows the event.
func (c *showEvent) Run(ctx context.Context, env *environment) error {
	id, errID := idOf("<id>", c.ID)
	if c.ID == "" {
		errID = errors.New("<id> is required")
	}
	if err := misused(errID, c.Tables.understand(env)); err != nil {
		return err
	}
	store, closing, err := c.Tables.open(ctx, env, 1)
	if err != nil {
		return err
	}
	defer closing()
	e, err := store.Event(ctx, id)
	if err != nil {
		return err
	}
	report := eventReportOf(e, c.Payload)
	if report.Trail, err = trailOf(ctx, store, id); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.out, report)
	}
	return report.write(env.out)
}
