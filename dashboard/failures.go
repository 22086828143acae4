package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

const (
	// failuresLooked is how many failed events are grouped.
	failuresLooked = 1000
	// failureText is how many bytes of a reason name a group.
	failureText = 80
)

// failuresData is what the page of failures shows.
type failuresData struct {
	Retries    retriesData
	Stalled    []stalledRow
	AllStalled bool // there are no more stalled series
	Groups     []failureGroup
	Texts      bool // whether the viewer may see reasons
	Looked     int
	All        bool      // there are no more failed events
	Back       time.Time // when the oldest event that was looked at was created
	More       int       // how many smaller groups are not shown
}

// failureGroup has the events that failed alike.
type failureGroup struct {
	Text           string // "" if the reasons are not shown
	Types          []string
	Count          int
	Newest, Oldest time.Time // when the events failed
	Query          string    // the filter of the list of events that selects them
}

func (d *dashboard) failuresPage(r *request) (answer, error) {
	texts, err := r.mayDo(SeePayloads, uuid.Nil)
	if err != nil {
		return answer{}, err
	}
	found, err := d.reader.Find(r.Context(), almanac.InStatus(almanac.Failed), almanac.Page{Limit: failuresLooked, Order: almanac.NewestFirst})
	if err != nil {
		return answer{}, err
	}
	retries, err := d.reader.Retries(r.Context())
	if err != nil {
		return answer{}, err
	}
	stalled, err := d.stalledRows(r, uuid.Nil)
	if err != nil {
		return answer{}, err
	}
	data := failuresData{
		Retries: retriesShown(retries, texts, listRows), Stalled: stalled, AllStalled: len(stalled) < listRows,
		Texts: texts, Looked: len(found.Items), All: found.Next == "",
	}
	if data.Looked > 0 {
		data.Back = found.Items[data.Looked-1].CreatedAt
	}
	if data.Groups, err = failureGroups(r, found.Items, texts); err != nil {
		return answer{}, err
	}
	data.More = max(0, len(data.Groups)-listRows)
	data.Groups = data.Groups[:len(data.Groups)-data.More]
	return answer{title: "Failures", template: "failures", data: data}, nil
}

// failureKey is what the failures of a group have in common: the reason, or the type if the
// viewer may not see the reason.
type failureKey struct{ text, eventType string }

// failureGroups groups events, the largest group first.
func failureGroups(r *request, events []almanac.Event, texts bool) ([]failureGroup, error) {
	grouped := make(map[failureKey][]almanac.Event)
	for _, e := range events {
		key := failureKey{eventType: e.Type}
		if texts {
			may, err := r.mayDo(SeePayloads, e.UserID)
			if err != nil {
				return nil, err
			}
			if may {
				key = failureKey{text: foldReason(e.FailureReason)}
			}
		}
		grouped[key] = append(grouped[key], e)
	}
	groups := make([]failureGroup, 0, len(grouped))
	for key, alike := range grouped {
		groups = append(groups, failureGroupOf(key, alike))
	}
	slices.SortFunc(groups, func(a, b failureGroup) int {
		return cmp.Or(b.Count-a.Count, b.Newest.Compare(a.Newest), strings.Compare(a.Text, b.Text), slices.Compare(a.Types, b.Types))
	})
	return groups, nil
}

func failureGroupOf(key failureKey, events []almanac.Event) failureGroup {
	g := failureGroup{Text: key.text, Count: len(events), Newest: events[0].UpdatedAt, Oldest: events[0].UpdatedAt}
	types := make(map[string]bool)
	begins := beginning(events[0].FailureReason)
	for _, e := range events {
		types[e.Type] = true
		begins = sharedPrefix(begins, e.FailureReason)
		if e.UpdatedAt.After(g.Newest) {
			g.Newest = e.UpdatedAt
		}
		if e.UpdatedAt.Before(g.Oldest) {
			g.Oldest = e.UpdatedAt
		}
	}
	g.Types = slices.Sorted(maps.Keys(types))
	if key.text == "" {
		begins = ""
	}
	g.Query = query("status", almanac.Failed, "type", key.eventType, "reason", begins, "order", "newest")
	return g
}

// variable is what differs between two failures that are alike: ids, times, and long
// numbers. Short numbers stay, because the status of an answer is one.
var variable = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|` +
	`\d{4}-\d\d-\d\d|\d\d?:\d\d:\d\d(?:\.\d+)?|\b[0-9a-f]{8,}\b|\d{4,}`)

// foldReason returns what a reason has in common with the reasons of the same failure.
func foldReason(reason string) string {
	line := variable.ReplaceAllString(firstLine(reason), "#")
	if line = listCut(line, failureText); strings.TrimSpace(line) == "" {
		return "no text"
	}
	return line
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r")
}

// beginning returns how a reason begins, as far as a filter can have it.
func beginning(reason string) string {
	if i := strings.IndexFunc(reason, unicode.IsControl); i >= 0 {
		reason = reason[:i]
	}
	return wholeCharacters(reason, reasonShown)
}

// sharedPrefix returns the beginning that two texts share, in whole characters.
func sharedPrefix(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return wholeCharacters(a, n)
}

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
	for _, lane := range slices.Sorted(maps.Keys(h.Deliveries)) {
		is := h.Deliveries[lane]
		text := fmt.Sprintf("No attempt at an event of %s has succeeded for %s", lane, duration(is.For.Truncate(time.Second)))
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
