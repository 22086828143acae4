package dashboard

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

const (
	// rehearsedUsers is how many users a page rehearses.
	rehearsedUsers = 5000
	// rehearsalLimit is how long that may take.
	rehearsalLimit = pageLimit - 3*time.Second
	// rehearsalFresh is how long a result is shown again, also as a file.
	rehearsalFresh = 5 * time.Minute
)

// rehearsals has the last results. One rehearsal runs at a time, because it keeps the processors busy.
type rehearsals struct {
	running sync.Mutex
	mu      sync.Mutex // guards last
	last    map[int]rehearsed
}

// rehearsed is a result, by the number of days.
type rehearsed struct {
	ops.RehearseResult
	at time.Time
}

func (r *rehearsals) get(days int, now time.Time) (rehearsed, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	is, known := r.last[days]
	return is, known && now.Sub(is.at) < rehearsalFresh
}

func (r *rehearsals) put(days int, is rehearsed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = make(map[int]rehearsed)
	}
	r.last[days] = is
}

// rehearsalData is what the page of a rehearsal shows.
type rehearsalData struct {
	Days   int // 0 if nothing was asked for
	Choice []int
	Result ops.RehearseResult
	Table  []ops.RehearseDay
	Bars   []rehearsalBar
	Width  int
	Most   int // events on one day
}

// rehearsalBar is a day in the drawing, in a box that is 100 high.
type rehearsalBar struct {
	X, Y, Height int
	Date         calendar.Date
	Events       int
}

const rehearsalBarWidth = 8

// rehearsalDays are the numbers of days that the page offers.
var rehearsalDays = []int{30, 90}

// rehearsalPage shows how many events the first users will have. Each viewer may ask, because nothing changes.
func (d *dashboard) rehearsalPage(r *request) (answer, error) {
	data := rehearsalData{Choice: rehearsalDays}
	if text := r.URL.Query().Get("days"); text != "" {
		is, days, err := d.rehearsed(r, text)
		if err != nil {
			return answer{}, err
		}
		data.Days, data.Result = days, is.RehearseResult
		data.draw()
	}
	return answer{title: "Rehearsal", template: "rehearsal", data: data}, nil
}

// rehearsalFile is the counts as a table.
func (d *dashboard) rehearsalFile(r *request) (answer, error) {
	is, _, err := d.rehearsed(r, r.URL.Query().Get("days"))
	if err != nil {
		return answer{}, err
	}
	return answer{csv: func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="rehearsal.csv"`)
		_ = is.WriteCSV(w) // an error means that the viewer is gone
		return nil
	}}, nil
}

// rehearsed returns a rehearsal of some days.
func (d *dashboard) rehearsed(r *request, text string) (rehearsed, int, error) {
	days, err := strconv.Atoi(text)
	if err != nil || !slices.Contains(rehearsalDays, days) {
		return rehearsed{}, 0, refused(http.StatusBadRequest, "A rehearsal is of 30 or 90 days. The command rehearses up to 366.")
	}
	if is, fresh := d.rehearsals.get(days, d.now()); fresh {
		return is, days, nil
	}
	if !d.rehearsals.running.TryLock() {
		return rehearsed{}, 0, refused(http.StatusServiceUnavailable, "Another rehearsal is running. Try again in a few seconds.")
	}
	defer d.rehearsals.running.Unlock()
	ctx, cancel := context.WithTimeout(r.Context(), rehearsalLimit)
	defer cancel()
	is, err := d.rehearse(ctx, days)
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		return rehearsed{}, 0, refused(http.StatusServiceUnavailable, "The rehearsal took too long. Choose fewer days, or use the command.")
	}
	if err == nil {
		d.rehearsals.put(days, is)
	}
	return is, days, err
}

func (d *dashboard) rehearse(ctx context.Context, days int) (is rehearsed, err error) {
	stats, err := d.reader.Stats(ctx)
	if err != nil {
		return is, err
	}
	var types []string
	for _, one := range stats.Events {
		types = append(types, one.Type)
	}
	slices.Sort(types)
	types = slices.Compact(types) // there is one for each status
	if len(types) == 0 {
		return is, refused(http.StatusUnprocessableEntity, "No event is stored, so there is nothing to rehearse.")
	}
	var users bytes.Buffer
	if _, err := ops.CopyUsers(ctx, d.scheduler.Repository(), types, &users, ops.CopyUsersOptions{Limit: rehearsedUsers}); err != nil {
		return is, err
	}
	is.at = d.now()
	is.RehearseResult, err = ops.Rehearse(ctx, d.scheduler, &users, ops.RehearseOptions{For: time.Duration(days) * 24 * time.Hour})
	return is, err
}

// draw makes a bar of each day with events.
func (d *rehearsalData) draw() {
	d.Table = d.Result.Days()
	sums := make(map[calendar.Date]int)
	for _, one := range d.Table {
		sums[one.Date] += one.Events
		d.Most = max(d.Most, sums[one.Date])
	}
	if d.Most == 0 {
		return
	}
	first, last := d.Table[0].Date, d.Table[len(d.Table)-1].Date
	for date := first; !last.Before(date); date = date.AddDays(1) {
		height := (100*sums[date] + d.Most - 1) / d.Most
		d.Bars = append(d.Bars, rehearsalBar{d.Width, 100 - height, height, date, sums[date]})
		d.Width += rehearsalBarWidth
	}
}
