package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// retryRow has the events that wait for another attempt after failed ones that were alike.
type retryRow struct {
	Text        string // "" if the errors are not shown
	Type        string
	Count       ops.Count
	Since, Next time.Time
}

// retryKey is what groups of retries have in common.
type retryKey struct{ text, eventType string }

// retryRows folds the errors of groups, the largest first. Without texts there is one row for each type.
func retryRows(groups []ops.RetryGroup, texts bool) []retryRow {
	rows := make(map[retryKey]retryRow)
	for _, g := range groups {
		key := retryKey{eventType: g.Type}
		if texts {
			key.text = foldReason(g.Error)
		}
		row, ok := rows[key]
		if !ok {
			row = retryRow{Text: key.text, Type: g.Type, Since: g.Since, Next: g.Next}
		}
		row.Count = ops.Count{N: row.Count.N + g.Count.N, Kind: max(row.Count.Kind, g.Count.Kind)}
		if g.Since.Before(row.Since) {
			row.Since = g.Since
		}
		if g.Next.Before(row.Next) {
			row.Next = g.Next
		}
		rows[key] = row
	}
	return slices.SortedFunc(maps.Values(rows), func(a, b retryRow) int {
		return cmp.Or(cmp.Compare(b.Count.N, a.Count.N), strings.Compare(a.Type, b.Type), strings.Compare(a.Text, b.Text))
	})
}

// countOf adds up the counts of groups.
func countOf(groups []ops.RetryGroup) (c ops.Count) {
	for _, g := range groups {
		c.N += g.Count.N
		c.Kind = max(c.Kind, g.Count.Kind)
	}
	return c
}

// retriesData is what pages show of retries.
type retriesData struct {
	Events   []retryRow // the largest groups
	More     int        // how many smaller groups are not shown
	Retrying ops.Count
	Stalled  ops.Count
}

// retriesShown returns the largest groups, up to a number.
func retriesShown(r ops.Retries, texts bool, most int) retriesData {
	data := retriesData{Events: retryRows(r.Events, texts), Retrying: countOf(r.Events), Stalled: countOf(r.Series)}
	data.More = max(0, len(data.Events)-most)
	data.Events = data.Events[:len(data.Events)-data.More]
	return data
}

// stalledRow is a stalled series.
type stalledRow struct {
	almanac.StalledSeries
	Hidden bool // whether the error is not shown
}

// stalledRows reads the stalled series of a user, or of all users if the id is zero, up to listRows.
func (d *dashboard) stalledRows(r *request, user uuid.UUID) ([]stalledRow, error) {
	list, err := d.reader.Stalled(r.Context(), user, listRows)
	if err != nil {
		return nil, err
	}
	rows := make([]stalledRow, len(list))
	for i, s := range list {
		may, err := r.mayDo(SeePayloads, s.UserID)
		if err != nil {
			return nil, err
		}
		if s.Error = listCut(firstLine(s.Error), failureText); !may {
			s.Error = ""
		}
		rows[i] = stalledRow{s, !may}
	}
	return rows, nil
}

// troubles says which deliveries of this process fail, and which calls do not return.
func troubles(h almanac.Health, texts bool) []condition {
	var all []condition
	for _, eventType := range slices.Sorted(maps.Keys(h.Deliveries)) {
		is := h.Deliveries[eventType]
		text := fmt.Sprintf("No attempt at an event of type %s has succeeded for %s", eventType, duration(is.For.Truncate(time.Second)))
		if texts {
			text += ": " + listCut(firstLine(is.Err.Error()), failureText)
		}
		all = append(all, condition{false, text + "."})
	}
	if h.Blocked > 0 {
		verb := "do"
		if h.Blocked == 1 {
			verb = "does"
		}
		all = append(all, condition{false, fmt.Sprintf("%s of handlers or observers %s not return.", countText(h.Blocked, "call"), verb)})
	}
	return all
}
