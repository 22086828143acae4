package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// why explains what became of a user's occurrences on a day.
type why struct {
	oneUser
	Type string `arg:"" help:"The type, such as BIRTHDAY."`
	Day  string `arg:"" help:"A day of the user's calendar: YYYY-MM-DD."`
	JSON bool   `help:"Write JSON." name:"json"`

	Tables   tables    `embed:""`
	Handlers readyMade `embed:"" group:"Their events:"`
}

// Run explains.
func (c *why) Run(ctx context.Context, env *environment) error {
	registry, errHandlers := c.Handlers.parse(env.host)
	day, errDay := calendar.ParseDate(c.Day)
	var errType error
	if problem := ops.TypeProblem(c.Type); problem != "" {
		errType = errors.New("<type>: " + problem)
	}
	if errDay == nil && (day.Year < 1900 || day.Year > 9998) {
		errDay = errors.New("is not of the years 1900 to 9998")
	}
	err := c.oneUser.use(ctx, env, &c.Tables, errors.Join(errType, about("<day>", errDay), errHandlers), func(store *postgres.Store, u almanac.User) error {
		scheduler, err := almanac.NewScheduler(store, registry, quietly(env.host.Options)...)
		if err != nil {
			return err
		}
		sender, err := broadcast.New(scheduler, store)
		if err != nil {
			return err
		}
		options := ops.WhyOptions{Statistics: store, Trail: store.Audit, Broadcasts: sender}
		found, err := ops.Why(ctx, scheduler, ops.WhyRequest{User: u.ID, Type: c.Type, Day: day}, options)
		if err != nil {
			return err
		}
		if found.Answers[0].Code == ops.WhyNoHandler {
			if err := c.Tables.checkType(ctx, env, c.Type); err != nil {
				return err
			}
		}
		return env.report(c.JSON, found, func() error { return writeText(env, whyText(found)) })
	})
	if errors.Is(err, almanac.ErrNotFound) {
		return fmt.Errorf("%w, or the user was deleted: nothing is kept of a deleted user", err)
	}
	return err
}

// whyText returns a line for each answer, and one for what is next.
func whyText(found ops.WhyResult) string {
	var text strings.Builder
	for _, a := range found.Answers {
		name := a.OccurrenceKey
		if a.Series != "" {
			name = a.Series + " " + name
		}
		if name != "" {
			name = " " + name
		}
		fmt.Fprintf(&text, "%s%s: %s\n", strings.ReplaceAll(string(a.Code), "_", " "), printable(name), printable(a.Text))
	}
	if found.More {
		fmt.Fprintf(&text, "the day has more than %d occurrences\n", len(found.Answers))
	}
	if next := found.Next; next != nil {
		fmt.Fprintf(&text, "next: %s in %s", next.Local, next.Zone)
		switch {
		case next.Start.IsZero():
			text.WriteString(", when its lane is resumed")
		case next.Start.After(next.Due):
			fmt.Fprintf(&text, ", expected to start at %s there", calendar.StoredTimezone(next.Zone).WallTime(next.Start))
		}
		text.WriteString("\n")
	}
	return text.String()
}
