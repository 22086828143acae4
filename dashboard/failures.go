package dashboard

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
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
