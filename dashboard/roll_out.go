package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// rollOutData is what the page of rolling a changed rule out shows.
type rollOutData struct {
	May      bool
	Asked    bool // whether there is a result
	Done     bool // whether the changes are stored
	Type     string
	Passed   string
	Rows     []rollOutRow
	Moves    []rollOutMoves
	Examples []ops.RollOutExample
	Refused  []almanac.Refusal
	Next     almanac.Cursor
	Sums     rollOutSums // of this request and those before it, which the form carries
	Stopped  string      // why not all users were processed; "" if all were
}

// rollOutSums are the counts of a dry run, and of the run so far.
type rollOutSums struct {
	Would, Done ops.RollOutCounts
	Refused     int // how many users could not be planned, of the run
}

// Text is the sums as a field of a form.
func (s rollOutSums) Text() (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}

// rollOutRow is a count.
type rollOutRow struct {
	Name        string
	Would, Done int
}

// Differs reports whether the run has changed another number than the dry run said.
func (r rollOutRow) Differs() bool { return r.Would != r.Done }

// rollOutMoves are the events that move by at most so long.
type rollOutMoves struct {
	By             string
	Earlier, Later int
}

// rollOutLimit is how long one request replans users. It leaves time for the page.
const rollOutLimit = pageLimit - 3*time.Second

// rollOutPage shows what the present handler of a type moves, and moves it when the viewer confirms. If the
// time of a page is over, the viewer continues with another request.
func (d *dashboard) rollOutPage(r *request) (answer, error) {
	data := rollOutData{Type: r.URL.Query().Get("type"), Passed: "edit"}
	var err error
	if data.May, err = r.mayDo(RollOut, uuid.Nil); err != nil {
		return answer{}, err
	}
	if r.Method == http.MethodPost {
		if err := r.need(RollOut, uuid.Nil); err != nil {
			return answer{}, err
		}
		if err := d.rollOut(r, &data); err != nil {
			return answer{}, err
		}
	}
	return answer{title: "Roll out a changed rule", template: "roll_out", data: data}, nil
}

// rollOut makes a dry run or a run, as the form says.
func (d *dashboard) rollOut(r *request, data *rollOutData) error {
	form := r.PostForm
	data.Type, data.Passed = form.Get("type"), form.Get("passed")
	data.Asked, data.Done = true, form.Get("confirm") == "yes"
	options := ops.RollOutOptions{DryRun: !data.Done, After: almanac.Cursor(form.Get("after"))}
	switch data.Passed {
	case "now":
		options.Passed = almanac.PassedNow
	case "skip":
		options.Passed = almanac.PassedSkip
	default:
		data.Passed = "edit"
	}
	if sums := form.Get("sums"); sums != "" {
		if err := json.Unmarshal([]byte(sums), &data.Sums); err != nil {
			return refused(http.StatusBadRequest, "The form is incomplete. Begin again.")
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), rollOutLimit)
	defer cancel()
	result, err := ops.RollOut(ctx, d.scheduler, data.Type, options)
	if data.Done {
		r.logChange(RollOut, slog.String("event_type", data.Type), slog.Int("users", result.Users), slog.Int("moved", result.Moved()), slog.Bool("complete", err == nil))
	}
	switch {
	case errors.Is(err, almanac.ErrUnsupportedEventType):
		return refused(http.StatusUnprocessableEntity, "This program has no handler of that type, so it cannot plan its events.")
	case err != nil && result.Users+result.RefusedUsers == 0:
		return err
	case err != nil && ctx.Err() == nil:
		data.Stopped = d.stopped(r, err)
	case err != nil && result.Next == "":
		data.Stopped = "The time of this request ended before all locked users were tried again. Begin again with a dry run."
	}
	data.add(result)
	return nil
}

// add takes over a result.
func (d *rollOutData) add(result ops.RollOutResult) {
	d.Examples, d.Refused, d.Next = result.Examples, result.Refused, result.Next
	counts := &d.Sums.Would
	if d.Done {
		counts = &d.Sums.Done
		d.Sums.Refused += result.RefusedUsers
	}
	counts.Add(result.RollOutCounts)
	would, done := d.Sums.Would, d.Sums.Done
	for _, row := range []rollOutRow{
		{"users", would.Users, done.Users},
		{"unchanged", would.Unchanged, done.Unchanged},
		{"other content, same time", would.Refreshed, done.Refreshed},
		{"moved", would.Moved(), done.Moved()},
		{"of these due at once, because their new time has passed", would.DueNow, done.DueNow},
		{"added", would.Added, done.Added},
		{"removed", would.Removed, done.Removed},
		{"of these because their new time has passed", would.Passed, done.Passed},
		{"cancelled before another attempt, because their user refuses them", would.Cancelled, done.Cancelled},
		{"two on one day", would.SameDay, done.SameDay},
		{"not delivered, because they count as used", would.LeftOut, done.LeftOut},
		{"in flight, which keep their time", would.InFlight, done.InFlight},
	} {
		if row.Would+row.Done > 0 || row.Name == "moved" {
			d.Rows = append(d.Rows, row)
		}
	}
	bounds := ops.MoveBounds()
	for i, bound := range bounds {
		moves := rollOutMoves{"more", counts.Earlier[i], counts.Later[i]}
		if i < len(bounds)-1 {
			moves.By = "up to " + exactly(bound)
		}
		if moves.Earlier+moves.Later > 0 {
			d.Moves = append(d.Moves, moves)
		}
	}
}

// Confirm is "yes" if the next request stores changes.
func (d rollOutData) Confirm() string {
	if d.Done || d.Next == "" {
		return "yes"
	}
	return ""
}

// UserOf returns the user of an example.
func (rollOutData) UserOf(one ops.RollOutExample) uuid.UUID {
	if one.Is.UserID == uuid.Nil {
		return one.Was.UserID
	}
	return one.Is.UserID
}

// Complete reports whether the run has changed all users.
func (d rollOutData) Complete() bool { return d.Done && d.Next == "" && d.Stopped == "" }

// ButtonText says what the next request does.
func (d rollOutData) ButtonText() string {
	switch {
	case d.Next != "" && d.Done:
		return "Continue with the next users"
	case d.Next != "":
		return "Look at the next users"
	}
	return "Store these changes"
}
