package dashboard

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

const (
	// operationLimit is how long a step of an operation may take. It leaves time for the
	// answer within pageLimit.
	operationLimit = 8 * time.Second
	// operationWork is the time in which a step begins changes, so that few are interrupted.
	operationWork = 6 * time.Second
	// operationStep is how many events a step changes at most.
	operationStep = 1000
	// operationPage is how many events a step reads at a time.
	operationPage = 50
	// previewShown is how many events a preview lists.
	previewShown = 50
	// refusalsShown is how many refusals a result lists.
	refusalsShown = 100
)

// operationsData is what the page of operations shows.
type operationsData struct {
	Errors  []string
	Form    operationForm
	Kinds   []operationKind // that the viewer may choose
	Reasons bool            // whether the viewer may see reasons of failures
	Preview *operationPreview
	// Searching is for how long events have been searched for. Zero means that no search is under way.
	Searching time.Duration
}

// operationPreview is what an operation would change.
type operationPreview struct {
	Kind     *operationKind
	Count    int
	More     bool // whether more events match than the limit
	Changed  bool // whether far more events match than were confirmed
	Seen     int  // how many were confirmed, if Changed
	First    []almanac.Event
	Unlisted int
	Fields   []field
}

// operationSteps is how far an operation has come. Its form carries it from step to step.
type operationSteps struct {
	Seen    int            // how many events the viewer confirmed
	more    bool           // whether the viewer saw that more events match
	last    uuid.UUID      // the last event that was confirmed
	after   almanac.Cursor // of the page with which the next step begins
	begun   bool           // whether this is not the first step
	at      uuid.UUID      // the event after which this step begins; zero if none was changed or refused
	Tried   int
	Changed int
	Refused int
	until   time.Time // when this step ends
}

// resultData is the result of a change, or of a step of an operation.
type resultData struct {
	Stopped  string // why it ended early
	Steps    *operationSteps
	Past     string // what the changed events are
	Because  string
	Refusals []refusal
	Unlisted int // refusals that are not listed
	More     bool
	Next     []field // of the form with which the next step begins; nil at the end
	Back     string
	BackText string
}

type refusal struct {
	ID  uuid.UUID
	Why string
}

// operationsPage shows the form, and with a chosen operation also what it would change.
func (d *dashboard) operationsPage(r *request) (answer, error) {
	asked := r.URL.Query()
	f, w, bad := operationFormOf(asked)
	data, err := d.operationsOf(r, f)
	if err != nil {
		return answer{}, err
	}
	if !asked.Has("operation") { // a link from elsewhere fills the filter in
		return data.answer(http.StatusOK), nil
	}
	if data.Errors = bad; len(bad) > 0 {
		return data.answer(http.StatusBadRequest), nil
	}
	if err := d.needOperation(r, f, w); err != nil {
		return answer{}, err
	}
	found, searching, err := d.dryRun(r, f, w)
	if searching != nil {
		data.Searching = max(time.Millisecond, d.now().Sub(searching.Since).Truncate(10*time.Millisecond))
		a := data.answer(http.StatusOK)
		a.header = http.Header{"Refresh": {"1"}} // works without the script
		return a, nil
	}
	data.Preview = previewOf(f, w, found)
	return data.answer(http.StatusOK), err
}

// operationsOf returns the page with a form.
func (d *dashboard) operationsOf(r *request, f operationForm) (data operationsData, err error) {
	data.Form = f
	for _, kind := range operationKinds {
		may, mayErr := r.mayDo(kind.may, uuid.Nil)
		if err = errors.Join(err, mayErr); may {
			data.Kinds = append(data.Kinds, kind)
		}
	}
	may, mayErr := r.mayDo(SeePayloads, uuid.Nil)
	data.Reasons = may
	return data, errors.Join(err, mayErr)
}

func (data operationsData) answer(status int) answer {
	return answer{title: "Operations", template: "operations", status: status, data: data}
}

// needOperation returns nil if the viewer may do an operation to events of all users.
// Reasons of failures may have words of receivers, which a filter could guess.
func (d *dashboard) needOperation(r *request, f operationForm, w operationWish) error {
	if f.Reason != "" {
		if err := r.need(SeePayloads, uuid.Nil); err != nil {
			return err
		}
	}
	return r.need(w.kind.may, uuid.Nil)
}

func previewOf(f operationForm, w operationWish, found ops.OperateResult) *operationPreview {
	f.Limit = strconv.Itoa(w.limit)
	p := &operationPreview{Kind: w.kind, Count: len(found.Events), More: found.More, First: found.Events, Fields: f.fields()}
	if p.Count > previewShown {
		p.First, p.Unlisted = found.Events[:previewShown], p.Count-previewShown
	}
	if p.Count > 0 {
		steps := operationSteps{Seen: p.Count, more: p.More, last: found.Events[p.Count-1].ID}
		p.Fields = append(p.Fields, steps.fields()...)
	}
	return p
}

// fields returns the steps as hidden fields.
func (s operationSteps) fields() []field {
	all := []field{{"seen", strconv.Itoa(s.Seen)}, {"more", strconv.FormatBool(s.more)}, {"last", s.last.String()}}
	if !s.begun {
		return all
	}
	return append(all, field{"after", string(s.after)}, field{"at", s.at.String()}, field{"tried", strconv.Itoa(s.Tried)},
		field{"changed", strconv.Itoa(s.Changed)}, field{"refused", strconv.Itoa(s.Refused)})
}

// operationStepsOf reads the fields. Bad is a sentence if they are wrong.
func operationStepsOf(form url.Values) (s operationSteps, bad []string) {
	var failed error
	count := func(name string, least int) int {
		text := form.Get(name)
		if text == "" && least == 0 {
			return 0
		}
		n, err := strconv.Atoi(text)
		if err == nil && (n < least || n > maxOperation) {
			err = strconv.ErrRange
		}
		failed = errors.Join(failed, err)
		return n
	}
	s = operationSteps{Seen: count("seen", 1), more: form.Get("more") == "true", after: almanac.Cursor(form.Get("after"))}
	s.Tried, s.Changed, s.Refused = count("tried", 0), count("changed", 0), count("refused", 0)
	s.last, _ = uuid.Parse(form.Get("last"))
	if text := form.Get("at"); text != "" {
		at, err := uuid.Parse(text)
		s.begun, s.at, failed = true, at, errors.Join(failed, err)
	}
	_, _, err := almanac.Page{After: s.after}.Bounds()
	if failed = errors.Join(failed, err); failed != nil || s.last == uuid.Nil || s.Tried > s.Seen {
		bad = []string{"The form does not say what was confirmed. Look at the events again."}
	}
	return s, bad
}

// operatePage does one step of an operation that was confirmed.
func (d *dashboard) operatePage(r *request) (answer, error) {
	began := d.now()
	f, w, bad := operationFormOf(r.PostForm)
	s, badSteps := operationStepsOf(r.PostForm)
	data, err := d.operationsOf(r, f)
	if err != nil {
		return answer{}, err
	}
	if data.Errors = slices.Concat(bad, badSteps); len(data.Errors) > 0 {
		return data.answer(http.StatusBadRequest), nil
	}
	if err := d.needOperation(r, f, w); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), operationLimit)
	defer cancel()
	if !s.begun && !s.more {
		found, err := ops.Operate(ctx, d.scheduler, w.kind.Name, w.filter, ops.OperateOptions{DryRun: true, Limit: tolerated(s.Seen) + 1})
		if err != nil {
			return answer{}, err
		}
		if len(found.Events) > tolerated(s.Seen) {
			found.Events, found.More = found.Events[:min(len(found.Events), w.limit)], found.More || len(found.Events) > w.limit
			data.Preview = previewOf(f, w, found)
			data.Preview.Changed, data.Preview.Seen = true, s.Seen
			return data.answer(http.StatusConflict), nil
		}
	}
	s.begun, s.until = true, began.Add(operationWork)
	return d.operateStep(ctx, r, operationAsked{f, w}, s)
}

// tolerated returns how many events may match although fewer were confirmed. No more than
// were confirmed are changed in any case.
func tolerated(seen int) int { return seen + max(10, seen/10) }

// operationAsked is the form of an operation, and what it means.
type operationAsked struct {
	form operationForm
	wish operationWish
}

// operateStep changes events, and says how far it has come.
func (d *dashboard) operateStep(ctx context.Context, r *request, asked operationAsked, s operationSteps) (answer, error) {
	f, w, before := asked.form, asked.wish, s
	refusals, done, err := d.operateUntil(ctx, r, w, &s)
	if s.Changed > before.Changed {
		r.logChange(w.kind.may, slog.String("type", f.Type), slog.Int("changed", s.Changed-before.Changed), slog.Int("refused", s.Refused-before.Refused))
	}
	if err != nil && s.Tried == before.Tried {
		return answer{}, err
	}
	data := resultData{
		Steps: &s, Past: w.kind.Past, Because: f.Because, Refusals: refusals, More: done && s.more,
		Back: r.root + "operations" + f.Address(), BackText: "Back to the filter",
	}
	if len(refusals) > refusalsShown {
		data.Refusals, data.Unlisted = refusals[:refusalsShown], len(refusals)-refusalsShown
	}
	if err != nil {
		data.Stopped = d.stopped(r, err)
	}
	if !done {
		data.Next = append(f.fields(), s.fields()...)
	}
	return answer{title: w.kind.Verb + ": result", template: "result", data: data}, nil
}

// stopped says why a change ended early.
func (d *dashboard) stopped(r *request, err error) string {
	p, complete := problemOf(r, err)
	if !complete {
		d.log.ErrorContext(r.Context(), "Dashboard operation stopped", slog.String("route", r.Pattern), slog.Any("error", err))
	}
	return p.detail
}

// operateUntil changes the events from a position on, in order of creation, until the last one that
// was confirmed. Events that the operation itself stores come after that. So neither they nor an
// event that was changed are taken twice, as they would be if each step began with the first match.
// Events that were requeued before are left out and not counted, as in the preview. Done means that
// no step is left. After an error, the next step begins with the event that failed.
func (d *dashboard) operateUntil(ctx context.Context, r *request, w operationWish, s *operationSteps) (refusals []refusal, done bool, err error) {
	picked := append(almanac.And{almanac.InStatus(w.kind.of)}, w.filter...)
	begin, logged := s.Tried, false
	for s.Tried < s.Seen {
		if !d.now().Before(s.until) { // the preview took long, or all events of the last page were left out
			return refusals, false, nil
		}
		found, err := d.reader.Find(ctx, picked, almanac.Page{Limit: operationPage, After: s.after})
		if err != nil {
			return refusals, false, err
		}
		var requeued []uuid.UUID
		if w.kind.Name == ops.Requeue {
			if requeued, err = d.scheduler.Repository().Requeued(ctx, found.Items); err != nil {
				return refusals, false, err
			}
		}
		for _, e := range found.Items {
			switch {
			case s.Tried >= s.Seen || bytes.Compare(e.ID[:], s.last[:]) > 0:
				return refusals, true, nil
			case bytes.Compare(e.ID[:], s.at[:]) <= 0, slices.Contains(requeued, e.ID):
				continue // an event of a page that the step before began, or one that was requeued before
			case s.Tried-begin >= operationStep || !d.now().Before(s.until):
				return refusals, false, nil
			}
			_, err := d.changeEvent(ctx, w.kind, e, w.change)
			switch why := refusalOf(w.kind, err); {
			case why != "":
				logged = logged || d.logUnplanned(r, err)
				s.Refused++
				refusals = append(refusals, refusal{e.ID, why})
			case err != nil:
				return refusals, false, err
			default:
				s.Changed++
			}
			s.Tried, s.at = s.Tried+1, e.ID
		}
		if s.after = found.Next; s.after == "" {
			break
		}
	}
	return refusals, true, nil
}
