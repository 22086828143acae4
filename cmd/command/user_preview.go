package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// previewUser shows what lies ahead of a user.
type previewUser struct {
	oneUser
	Type  string `arg:"" help:"The type, such as BIRTHDAY."`
	Count string `help:"How many occurrences to show (default ${default})." short:"n" placeholder:"N" default:"12"`
	JSON  bool   `help:"Write JSON." name:"json"`

	Tables   tables    `embed:""`
	Handlers readyMade `embed:"" group:"Their events:"`
}

// previewReport is what there is to say about the next occurrences.
type previewReport struct {
	ID          uuid.UUID             `json:"id"` // of the user
	Type        string                `json:"type"`
	Occurrences []previewedOccurrence `json:"occurrences"`
	LeftOut     []previewedOccurrence `json:"leftOut"`         // not delivered, because they count as used
	Error       string                `json:"error,omitempty"` // why there are no more
}

// previewedOccurrence is an occurrence of a user.
type previewedOccurrence struct {
	occurrence
	eventDay
	Series    string `json:"series,omitempty"` // its name, if the handler runs several
	Zone      string `json:"zone"`
	Announces string `json:"announces,omitempty"` // the wall time that it announces
	MovedFrom string `json:"movedFrom,omitempty"` // the wall time without quiet hours, days off and windows

	announced calendar.Date // the day of Announces
}

func previewedOf(o almanac.Occurrence) previewedOccurrence {
	p := previewedOccurrence{occurrence: occurrenceOf(o.Occurrence), eventDay: eventDayOf(o.Occurrence), Series: o.Series, Zone: o.Zone.String(), announced: o.Announces.Date}
	if o.Available.After(p.Instant) {
		p.Starts = o.Available
	}
	if o.Announces != (calendar.WallTime{}) {
		p.Announces = o.Announces.String()
	}
	if o.Move.From != (calendar.WallTime{}) {
		p.MovedFrom = o.Move.From.String()
	}
	return p
}

// Run shows the occurrences.
func (c *previewUser) Run(ctx context.Context, env *environment) error {
	count, errCount := number("--count", c.Count, 1, maxCount)
	registry, errType := c.Handlers.handles(env.host, c.Type)
	return c.oneUser.use(ctx, env, &c.Tables, errors.Join(errType, errCount), func(store *postgres.Store, u almanac.User) error {
		scheduler, err := almanac.NewScheduler(store, registry, quietly(env.host.Options)...)
		if err != nil {
			return err
		}
		found, err := scheduler.Preview(ctx, u.ID, c.Type, count)
		report := previewReport{ID: u.ID, Type: c.Type, Occurrences: mapped(found.Ahead, previewedOf), LeftOut: mapped(found.LeftOut, previewedOf)}
		if err != nil {
			report.Error = bare(err.Error())
		}
		return errors.Join(err, env.report(c.JSON, report, func() error { return report.write(env, count, refusesType(u.OptOuts, c.Type)) }))
	})
}

func (r previewReport) write(env *environment, count int, refused bool) (err error) {
	n := len(r.Occurrences)
	if n > 0 || r.Error == "" {
		err = list[previewedOccurrence]{none: "no occurrences", columns: r.columns()}.write(env, r.Occurrences, true)
	}
	for _, o := range r.LeftOut {
		fmt.Fprintln(env.errs, printable(leftOutText(r.Type, o)))
	}
	switch {
	case n == 0 && refused:
		fmt.Fprintf(env.errs, "the user refuses %s\n", printable(r.Type))
	case n > 0 && n < count && r.Error == "":
		_, err = fmt.Fprintln(env.out, "and never again")
	}
	return err
}

// leftOutText says that an occurrence is not delivered.
func leftOutText(eventType string, o previewedOccurrence) string {
	return fmt.Sprintf("%s at %s in %s is not delivered: after a change of the rule it counts as used", eventType, o.Shown, o.Zone)
}

// columns returns the columns of a table. Those that no occurrence has are left out.
func (r previewReport) columns() []column[previewedOccurrence] {
	type shown = previewedOccurrence
	columns := []column[shown]{
		{"LOCAL TIME", func(o shown) string { return o.Shown }, span{rank: 1}, nil},
		{"UTC", func(o shown) string { return o.Instant.Format(time.RFC3339) }, span{rank: 2}, nil},
		{"ZONE", func(o shown) string { return o.Zone }, span{rank: 5, least: 16}, nil},
		{"KEY", func(o shown) string { return o.Key }, span{rank: 6, least: 12}, nil},
	}
	if slices.ContainsFunc(r.Occurrences, func(o shown) bool { return o.Calendar != "" }) {
		columns = append(columns, column[shown]{"CALENDAR DATE", func(o shown) string { return o.text }, span{rank: 4, least: 16}, nil})
	}
	if slices.ContainsFunc(r.Occurrences, func(o shown) bool { return !o.Starts.IsZero() }) {
		columns = append(columns, column[shown]{"STARTS", func(o shown) string { return o.Starts.Format(time.RFC3339) }, span{rank: 3}, nil})
	}
	if slices.ContainsFunc(r.Occurrences, func(o shown) bool { return o.Series != "" }) {
		columns = append(columns, column[shown]{"SERIES", func(o shown) string { return o.Series }, span{rank: 7, least: 12}, nil})
	}
	if slices.ContainsFunc(r.Occurrences, func(o shown) bool { return o.Announces != "" }) {
		columns = append(columns, column[shown]{"ANNOUNCES", shown.announcedDay, span{rank: 4}, nil})
	}
	return append(columns, column[shown]{"REASON", func(o shown) string { return o.Reason }, span{rank: 3, least: 16}, nil})
}

// announcedDay returns the day that an occurrence announces, or "".
func (p previewedOccurrence) announcedDay() string {
	if p.Announces == "" {
		return ""
	}
	return p.announced.String()
}
