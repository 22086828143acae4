package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// pausesData is what the page of pauses shows.
type pausesData struct {
	Errors []string
	Paused []almanac.Pause
	Others []string // types that can be paused
	May    bool     // whether the viewer may pause and resume
	Type   string   // as sent

	pending map[string]ops.Count // by type; has the types of which events are stored
}

// paused reports whether a type is paused.
func (p pausesData) paused(eventType string) bool {
	return slices.ContainsFunc(p.Paused, func(one almanac.Pause) bool { return one.Lane == eventType })
}

// IsType reports whether a lane is the lane of a type of which events are stored.
func (p pausesData) IsType(lane string) bool {
	_, is := p.pending[lane]
	return is
}

// PendingOf says how many events of a type are pending.
func (p pausesData) PendingOf(lane string) string {
	if !p.IsType(lane) {
		return "unknown"
	}
	return p.pending[lane].String()
}

// paused returns the paused types. A change here is seen at once.
func (d *dashboard) paused(ctx context.Context) ([]almanac.Pause, error) {
	list, _, err := d.pauses.get(ctx, d.now, streamPace, d.scheduler.Paused)
	return list, err
}

// pausesPage shows the paused types. With a type in "pause" or "resume", it asks whether to do that.
func (d *dashboard) pausesPage(r *request) (answer, error) {
	asked := r.URL.Query()
	for _, do := range []string{"pause", "resume"} {
		if asked.Has(do) {
			return d.confirmPause(r, do, asked.Get(do))
		}
	}
	a, err := d.pausesAnswer(r, "", nil)
	if err != nil {
		return answer{}, err
	}
	switch done, eventType := asked.Get("done"), asked.Get("type"); {
	case done == "paused" && a.data.(pausesData).paused(eventType):
		a.notice = "Events of " + eventType + " are paused. Due events wait."
	case done == "resumed" && slices.Contains(a.data.(pausesData).Others, eventType):
		a.notice = "Events of " + eventType + " are delivered again, oldest first."
	}
	return a, nil
}

func (d *dashboard) pausesAnswer(r *request, eventType string, bad []string) (answer, error) {
	data := pausesData{Errors: bad, Type: eventType}
	var err error
	if data.Paused, err = d.paused(r.Context()); err != nil {
		return answer{}, err
	}
	if data.May, err = r.mayDo(PauseTypes, uuid.Nil); err != nil {
		return answer{}, err
	}
	s, _ := d.numbers.get(r.Context(), 0) // without numbers, a type can be entered
	if !s.Answered.IsZero() {
		data.pending = make(map[string]ops.Count)
	}
	for _, one := range s.Stats.Events {
		if one.Status == almanac.Pending {
			data.pending[one.Type] = one.Count
		} else if !data.IsType(one.Type) {
			data.pending[one.Type] = ops.Count{}
		}
		if !slices.Contains(data.Others, one.Type) && !data.paused(one.Type) {
			data.Others = append(data.Others, one.Type)
		}
	}
	return answer{title: "Pauses", template: "pauses", live: "pauses", data: data}, nil
}

// typeSentence says why a text is no type of events and no other lane, or "".
func typeSentence(eventType string) string {
	if problem := ops.LaneProblem(eventType); problem != "" {
		return "The name " + problem + "."
	}
	return ""
}

// pauseVerbs are what can be done to a type, by the name in the form.
var pauseVerbs = map[string]struct {
	verb string
	text []string // with %s for the type
}{
	"pause": {"Pause", []string{
		"All processes stop claiming events of the lane %s. Deliveries that are under way continue.",
		"Planning continues, and due events wait. When the pause ends, they are delivered late, oldest first.",
	}},
	"resume": {"Resume", []string{
		"All processes claim events of the lane %s again, oldest first.",
		"Events that became due during the pause are delivered at once, and late, unless the rules of their type leave out late events. All others are delivered when they are due.",
	}},
}

// confirmPause asks whether to pause or to resume a type.
func (d *dashboard) confirmPause(r *request, do, eventType string) (answer, error) {
	if err := r.need(PauseTypes, uuid.Nil); err != nil {
		return answer{}, err
	}
	if problem := typeSentence(eventType); problem != "" {
		kept := ""
		if do == "pause" {
			kept = eventType
		}
		return d.pausesRefused(r, kept, []string{problem})
	}
	is := pauseVerbs[do]
	return answer{title: is.verb + " " + eventType + "?", template: "confirm", data: confirmData{
		Text:   []string{fmt.Sprintf(is.text[0], eventType), is.text[1]},
		Action: r.root + "pauses", Back: r.root + "pauses", Verb: is.verb, Danger: do == "pause",
		Fields: []field{{"type", eventType}, {"do", do}}, asks: asks{Pause: do == "pause"},
	}}, nil
}

// pausesRefused is the page of pauses with what is wrong with a form.
func (d *dashboard) pausesRefused(r *request, eventType string, bad []string) (answer, error) {
	a, err := d.pausesAnswer(r, eventType, bad)
	a.status, a.live = http.StatusBadRequest, ""
	return a, err
}

// pausePage pauses or resumes a type.
func (d *dashboard) pausePage(r *request) (answer, error) {
	if err := r.need(PauseTypes, uuid.Nil); err != nil {
		return answer{}, err
	}
	eventType, do := r.PostForm.Get("type"), r.PostForm.Get("do")
	var bad []string
	if problem := typeSentence(eventType); problem != "" {
		bad = append(bad, problem)
	}
	if _, known := pauseVerbs[do]; !known {
		bad = append(bad, "The form must say pause or resume.")
	}
	p := almanac.Pause{Lane: eventType, Reason: strings.TrimSpace(r.PostForm.Get("reason"))}
	if problem := reasonProblem(p.Reason); problem != "" {
		bad = append(bad, "The reason "+problem+".")
	}
	var err error
	if until := strings.TrimSpace(r.PostForm.Get("until")); until != "" {
		if p.Until, err = ops.ParseInstant(until, "UTC"); err != nil || !p.Until.After(d.now()) {
			bad = append(bad, "The end must be an instant that has not passed, such as 2027-03-15T14:00.")
		}
	}
	if len(bad) > 0 {
		return d.pausesRefused(r, eventType, bad)
	}
	done := "paused"
	if do == "resume" {
		done, err = "resumed", d.scheduler.Resume(r.Context(), eventType)
	} else {
		err = d.scheduler.Pause(r.Context(), p)
	}
	d.pauses.forget()
	if why := pauseRefused(err); why != "" {
		return answer{title: "Nothing was changed", template: "result", status: http.StatusConflict, data: resultData{
			Stopped: why, Back: r.root + "pauses", BackText: "Back to the pauses",
		}}, nil
	}
	if err != nil {
		return answer{}, err
	}
	r.logChange(PauseTypes, slog.String("do", do), slog.String("type", eventType))
	return answer{redirect: r.root + "pauses" + query("done", done, "type", eventType)}, nil
}

func pauseRefused(err error) string {
	switch {
	case errors.Is(err, almanac.ErrUnsupportedEventType):
		return "This program has no handler for events of this type, so it cannot pause them."
	case errors.Is(err, errors.ErrUnsupported):
		return "This database cannot store pauses."
	}
	return ""
}
