package dashboard

import (
	"context"
	"encoding/csv"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

const (
	// exportMost is how many events an export looks at.
	exportMost = 100_000
	// exportLimit is how long an export may take.
	exportLimit = 2 * time.Minute
)

// exportColumns are the columns of an export. Names and payloads are never among them.
var exportColumns = []string{
	"id", "type", "series", "key", "origin", "status", "user", "due", "wall", "zone", "available", "executed",
	"claims", "failed attempts", "crashes", "reason", "created", "updated",
}

// exportPage answers with the events of a filter as CSV. The first part is read before
// anything is sent, so that bad filters and an unreachable database have their usual answers.
func (d *dashboard) exportPage(r *request) (answer, error) {
	f, bad := filterOf(r.URL.Query())
	if err := f.allowed(r, &bad); err != nil {
		return answer{}, err
	}
	if bad.status() != 0 {
		return answer{}, refused(bad.status(), strings.Join(bad.Sentences, " "))
	}
	first, err := d.reader.Find(r.Context(), f.spec, almanac.Page{Limit: lookedAtOnce, After: almanac.Cursor(f.After), Order: f.order})
	if err != nil {
		return answer{}, err
	}
	return answer{csv: func(w http.ResponseWriter) error { return d.export(w, r, f, first) }}, nil
}

// errExportCut is the failure of an export that ended early.
var errExportCut = errors.New("dashboard: export ended early")

// export writes all parts, and at the end whether events are missing. It may take longer
// than a page. A viewer who leaves ends it, because the next part cannot be written.
func (d *dashboard) export(w http.ResponseWriter, r *request, f eventFilter, part almanac.List[almanac.Event]) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), exportLimit)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	r.Request = r.WithContext(ctx) // permissions may use it
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="events.csv"`)
	control := http.NewResponseController(w)
	out := csv.NewWriter(w)
	_ = out.Write(exportColumns) // errors of Write are those of Flush
	for looked := 0; ; {
		_ = control.SetWriteDeadline(d.now().Add(sendLimit)) // not every server has deadlines
		if err := exportRows(out, r, part.Items, f); err != nil {
			return errors.Join(err, exportEnd(out, "The export ends here, because a permission could not be checked."))
		}
		if out.Flush(); out.Error() != nil {
			return nil // the viewer is gone
		}
		_ = control.Flush()
		looked += len(part.Items)
		switch {
		case part.Next == "":
			return nil
		case looked >= exportMost:
			return exportEnd(out, "The export ends here: it looks at 100,000 events at most. Narrow the filter.")
		}
		var err error
		if part, err = d.reader.Find(ctx, f.spec, almanac.Page{Limit: lookedAtOnce, After: part.Next, Order: f.order}); err != nil {
			return errors.Join(errExportCut, err, exportEnd(out, "The export ends here, because the database did not answer."))
		}
	}
}

// exportRows writes the events of one part that the filter selects.
func exportRows(out *csv.Writer, r *request, events []almanac.Event, f eventFilter) error {
	for _, e := range events {
		if f.zone != "" && e.Zone != f.zone {
			continue
		}
		row, err := r.row(e)
		if err != nil {
			return err
		}
		if f.Reason != "" && row.Hidden {
			continue
		}
		_ = out.Write(exportRow(row))
	}
	return nil
}

// exportEnd writes a last row that says why events are missing.
func exportEnd(out *csv.Writer, sentence string) error {
	last := make([]string, len(exportColumns))
	last[0] = sentence
	_ = out.Write(last)
	out.Flush()
	return nil
}

func exportRow(e eventRow) []string {
	cells := []string{
		e.ID.String(), e.Type, e.Series, e.OccurrenceKey, string(e.Origin.Kind), string(e.Status), e.UserID.String(),
		exportTime(e.Due), e.Wall.String(), e.Zone, exportTime(e.AvailableAt), exportTime(e.ExecutedAt),
		strconv.Itoa(e.ClaimCount), strconv.Itoa(e.RetryCount), strconv.Itoa(e.CrashCount), e.Reason, exportTime(e.CreatedAt), exportTime(e.UpdatedAt),
	}
	for i, cell := range cells {
		cells[i] = safeCell(cell)
	}
	return cells
}

// safeCell keeps a text from being a formula: spreadsheets run what begins like one.
func safeCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}

func exportTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
