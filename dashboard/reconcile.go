package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// reconcileData is what the page of reconciling shows.
type reconcileData struct {
	May   bool
	Asked bool // whether there is a result
	Done  bool // whether the changes are stored
	Rows  []reconcileRow
	// Moving and Leaving are how many events move, and how many keep an instant that the
	// rules do not give.
	Moving, Leaving int
	Outdated        []string
	Stopped         string // why not everything was moved and stored; "" if all was
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
		result, err := d.scheduler.Reconcile(r.Context(), almanac.ReconcileOptions{DryRun: !confirmed})
		if confirmed {
			r.logChange(Reconcile, slog.Int("moved", result.Moved()), slog.Int("zones", len(result.Zones)), slog.Bool("complete", err == nil))
		}
		if err != nil {
			err = unfinished(err, confirmed)
			if len(result.Zones) == 0 {
				return answer{}, err
			}
			data.Stopped = d.stopped(r, err)
		}
		data.Asked, data.Done = true, confirmed
		data.add(result)
	}
	return answer{title: "Reconcile zones", template: "reconcile", data: data}, nil
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
	c.Outdated = result.Outdated
	for _, report := range result.Zones {
		row := reconcileRow{report, slices.Contains(result.Outdated, report.Zone)}
		if c.Leaving += report.Left; !row.Stays {
			c.Moving += report.Moved
		}
		c.Rows = append(c.Rows, row)
	}
}

// MovingText and OutdatedText are numbers in words.
func (c reconcileData) MovingText() string   { return countText(c.Moving, "event") }
func (c reconcileData) OutdatedText() string { return countText(len(c.Outdated), "zone") }
