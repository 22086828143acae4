package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// retries are what is tried again after a failure.
type retries struct {
	Events []retryGroup `json:"events"` // that wait for another attempt
	Series []retryGroup `json:"series"` // that have stalled
}

// retryGroup is what failed with the same error.
type retryGroup struct {
	Type      string     `json:"type"`
	Error     string     `json:"error"`
	Count     int64      `json:"count"`
	Estimated bool       `json:"estimated"`
	More      bool       `json:"more"` // there are more than were counted
	Since     *time.Time `json:"since,omitempty"`
	Next      *time.Time `json:"next,omitempty"` // when the first of them is tried again
}

// retriesOf returns what is tried again, or nil if the role may not read errors.
func retriesOf(ctx context.Context, store *postgres.Store) (*retries, error) {
	all, err := store.Retries(ctx)
	if isRefused(err) {
		return nil, nil
	}
	return &retries{retryGroups(all.Events), retryGroups(all.Series)}, err
}

// isRefused reports whether a role lacks a privilege.
func isRefused(err error) bool {
	pg := (*pgconn.PgError)(nil)
	return errors.As(err, &pg) && pg.Code == insufficientPrivilege
}

func retryGroups(groups []ops.RetryGroup) []retryGroup {
	return mapped(groups, func(g ops.RetryGroup) retryGroup {
		one := retryGroup{Type: g.Type, Error: g.Error, Count: g.Count.N, Estimated: g.Count.Kind == ops.Estimated, More: g.Count.Kind == ops.AtLeast}
		if !g.Since.IsZero() {
			one.Since, one.Next = &g.Since, &g.Next
		}
		return one
	})
}

// shownGroups is how many groups a table has.
const shownGroups = 20

func (r *retries) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, part := range []struct {
		title  string
		groups []retryGroup
	}{{"RETRIED", r.Events}, {"STALLED", r.Series}} {
		if len(part.groups) == 0 {
			continue
		}
		fmt.Fprintf(table, "\n%s\tTYPE\tSINCE\tNEXT\tLAST ERROR\n", part.title)
		for _, g := range part.groups[:min(shownGroups, len(part.groups))] {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", g.count(), g.Type, instantOr(g.Since), instantOr(g.Next), errorText(g.Error))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		if more := len(part.groups) - shownGroups; more > 0 {
			fmt.Fprintf(out, "and %s: see --json\n", counted(more, "other error"))
		}
	}
	return nil
}

// count returns the number as [ops.Count] writes it.
func (g retryGroup) count() string {
	switch {
	case g.Estimated:
		return fmt.Sprintf("~%d", g.Count)
	case g.More:
		return fmt.Sprintf("%d+", g.Count)
	}
	return fmt.Sprint(g.Count)
}

func instantOr(at *time.Time) string {
	if at == nil {
		return "unknown"
	}
	return at.Format(time.RFC3339)
}

// errorText returns an error for a table.
func errorText(text string) string {
	const most = 100 // characters
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return cmp.Or(printable(text), "-")
}

// series looks for stalled series. A series that was left to another program is no reason for a warning
// until that program had the time to plan its next event.
func (p *patient) series(ctx context.Context) ([]finding, error) {
	stalled, err := p.store.Stalled(ctx, uuid.Nil, 0)
	if isRefused(err) {
		return []finding{{Severity: notice, Text: "this role may not see stalled series"}}, nil
	}
	now, errClock := p.store.Now(ctx)
	if err := errors.Join(err, errClock); err != nil {
		return nil, err
	}
	groups := make(map[[2]string]*suspects)
	var order [][2]string
	for _, s := range stalled {
		key := [2]string{s.Series.Type, s.Error}
		if s.Error == "" && now.Sub(s.Since) < p.patience {
			continue
		}
		if groups[key] == nil {
			groups[key] = new(suspects)
			order = append(order, key)
		}
		groups[key].add(seriesText(s))
	}
	var findings []finding
	for _, key := range order {
		problem, advice := errorText(key[1]), "mend the handler, or the data of the user: running programs then plan the next events, after an hour at the latest"
		if key[1] == "" {
			problem, advice = "no program with the handler has tried", "start a program that has the handler"
		}
		g := groups[key]
		text := fmt.Sprintf("%d of type %s cannot go on: %s: %s", len(g.first)+g.more, key[0], problem, strings.Join(g.first, "; "))
		if g.more > 0 {
			text += fmt.Sprintf("; and %d more", g.more)
		}
		findings = append(findings, finding{Severity: warns, Text: text, Advice: advice})
	}
	return findings, nil
}

// seriesText names a stalled series.
func seriesText(s almanac.StalledSeries) string {
	name := ""
	if s.Series.Name != "" {
		name = fmt.Sprintf("%q ", s.Series.Name)
	}
	return fmt.Sprintf("%sof user %s since %s", name, s.UserID, s.Since.Format(time.RFC3339))
}

// stalledReport is a stalled series of a user.
type stalledReport struct {
	Type     string    `json:"type"`
	Series   string    `json:"series"`
	Error    string    `json:"error"`
	Failures int       `json:"failures"`
	Since    time.Time `json:"since"`
	RetryAt  time.Time `json:"retryAt"`
}

func stalledReportOf(s almanac.StalledSeries) stalledReport {
	return stalledReport{s.Series.Type, s.Series.Name, s.Error, s.Failures, s.Since, s.RetryAt}
}

// writeStalled writes the stalled series of a user, if there are any.
func writeStalled(out io.Writer, list []almanac.StalledSeries) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprint(out, "\nstalled series, whose next event could not be planned\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TYPE\tSERIES\tSINCE\tNEXT ATTEMPT\tFAILURES\tLAST ERROR")
	for _, s := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", s.Series.Type, printable(s.Series.Name), s.Since.Format(time.RFC3339),
			s.RetryAt.Format(time.RFC3339), s.Failures, errorText(s.Error))
	}
	return table.Flush()
}
