package dashboard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// reconcileData is what the page of reconciling shows.
type reconcileData struct {
	Asked bool // whether there is a result
	Done  bool // whether the changes are stored
	Rows  []reconcileRow
	// Calendars are the calendars of which this program has a newer release than the events.
	Calendars []almanac.CalendarReport
	// Moving and Leaving are how many events move, and how many keep an instant that the
	// rules do not give.
	Moving, Leaving int
	// Removing and Adding are how many events a release of a calendar removes and adds.
	Removing, Adding int
	Outdated         []string
	Older            []string // the calendars of which the database follows a newer release
	Stopped          string   // why not everything was moved and stored; "" if all was
	heldReleases
}

// heldReleases are the releases that wait for an operator, and those that have waited.
type heldReleases struct {
	May               bool // whether the viewer may answer
	Waiting, Answered []almanac.Quarantine
}

func heldOf(book almanac.ZoneBook) (held heldReleases) {
	for _, q := range book.Quarantines {
		if q.Waits() {
			held.Waiting = append(held.Waiting, q)
		} else {
			held.Answered = append(held.Answered, q)
		}
	}
	return held
}

// MoveText says how far an event would move at most.
func (heldReleases) MoveText(q almanac.Quarantine) string {
	if q.Largest == 0 {
		return "none"
	}
	return moveText(q.Largest)
}

// reconcileRow is the report of a zone.
type reconcileRow struct {
	almanac.ZoneReport
	Stays bool // this program's rules are not newer, so the events would stay as they are
}

// Path is the zone in the path of its page.
func (r reconcileRow) Path() string { return zoneRow{Name: r.Zone}.Path() }

// Moves says how far events move.
func (r reconcileRow) Moves() string {
	switch {
	case r.Moved == 0:
		return "none"
	case r.Smallest == r.Largest:
		return moveText(r.Smallest)
	}
	return moveText(r.Smallest) + " to " + moveText(r.Largest)
}

func moveText(d time.Duration) string {
	if d < 0 {
		return exactly(-d) + " earlier"
	}
	return exactly(d) + " later"
}

// reconcilePage shows what the rules of this program would move, and moves it when the
// viewer confirms. GET only has the button.
func (d *dashboard) reconcilePage(r *request) (answer, error) {
	var data reconcileData
	var err error
	if data.May, err = r.mayDo(Reconcile, uuid.Nil); err != nil {
		return answer{}, err
	}
	if r.Method == http.MethodPost {
		if err := r.need(Reconcile, uuid.Nil); err != nil {
			return answer{}, err
		}
		confirmed := r.PostForm.Get("confirm") == "yes"
		reason := strings.TrimSpace(r.PostForm.Get("reason"))
		if problem := reasonProblem(reason); problem != "" {
			return answer{}, refused(http.StatusBadRequest, "The reason "+problem+".")
		}
		result, err := d.scheduler.Reconcile(r.Context(), almanac.ReconcileOptions{DryRun: !confirmed, Reason: reason})
		if confirmed {
			r.logChange(Reconcile, slog.Int("moved", result.Moved()), slog.Int("zones", len(result.Zones)), slog.Bool("complete", err == nil))
		}
		if err != nil {
			err = unfinished(err, confirmed)
			if len(result.Zones)+len(result.Calendars) == 0 {
				return answer{}, err
			}
			data.Stopped = d.stopped(r, err)
		}
		data.Asked, data.Done = true, confirmed
		data.add(result)
	}
	book, err := d.reader.ZoneRules(r.Context())
	if err != nil {
		return answer{}, err
	}
	held := heldOf(book)
	data.Waiting, data.Answered = held.Waiting, held.Answered
	return answer{title: "Reconcile zones and calendars", template: "reconcile", data: data}, nil
}

// unfinished says what happened if there was too little time.
func unfinished(err error, confirmed bool) error {
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case confirmed:
		return refused(http.StatusGatewayTimeout, "Reconciling is not complete. Events that were moved keep their new instants. Reconcile again to go on, or leave the rest to a program that runs.")
	}
	return refused(http.StatusGatewayTimeout, "There are too many events to look at in the time of a page. Run “almanac zones reconcile --dry-run”.")
}

// add takes over a result.
func (c *reconcileData) add(result almanac.ReconcileResult) {
	c.Outdated, c.Calendars, c.Older = result.Outdated, result.Calendars, result.OutdatedCalendars
	for _, report := range result.Zones {
		row := reconcileRow{report, slices.Contains(result.Outdated, report.Zone)}
		if c.Leaving += report.Left; !row.Stays {
			c.Moving += report.Moved
		}
		c.Rows = append(c.Rows, row)
	}
	for _, report := range result.Calendars {
		c.Moving += report.Moved
		c.Removing += report.Removed
		c.Adding += report.Added
	}
}

// ChangesText says what happens to how many events, such as "1 event would move, 2 events would be removed".
func (c reconcileData) ChangesText() string {
	verbs := [...]string{" would move", " would be removed", " would be added"}
	if c.Done {
		verbs = [...]string{" moved", " removed", " added"}
	}
	var parts []string
	for i, n := range []int{c.Moving, c.Removing, c.Adding} {
		if n > 0 {
			parts = append(parts, countText(n, "event")+verbs[i])
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "0 events"+verbs[0])
}

// ButtonText says what confirming does, such as "Remove 2 events and store the rules and calendars".
func (c reconcileData) ButtonText() string {
	var parts []string
	for _, part := range []struct {
		verb string
		n    int
	}{{"move ", c.Moving}, {"remove ", c.Removing}, {"add ", c.Adding}} {
		if part.n > 0 {
			parts = append(parts, part.verb+countText(part.n, "event"))
		}
	}
	text := "store the rules and calendars"
	if len(parts) > 0 {
		text = strings.Join(parts, ", ") + " and " + text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// OutdatedText is a number in words.
func (c reconcileData) OutdatedText() string { return countText(len(c.Outdated), "zone") }
