package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/dashboard/internal/world"
)

// WithBroadcasts shows the broadcasts of a sender, and lets viewers with the permission [Broadcast] start, stop and resume
// them. By default there are none.
func WithBroadcasts(sender *broadcast.Sender) Option { return func(d *dashboard) { d.sender = sender } }

// broadcastsShown is how many broadcasts a page has.
const broadcastsShown = 50

// broadcastsData is what the page of broadcasts shows: the list with the form of a new one, or one broadcast.
type broadcastsData struct {
	Errors []string
	Off    bool // whether the program has no sender
	May    bool
	List   []broadcast.Status
	After  string // where the next page begins; "" if there is none
	Form   broadcastForm
	Dry    *broadcast.PreviewResult
	One    *broadcastView
}

// broadcastView is one broadcast and how far it is.
type broadcastView struct {
	broadcast.Progress
	All    broadcast.ZoneProgress
	Late   int // stored events that are due and have not ended
	Stops  bool
	Starts bool
	Lists  bool // whether the list of users is open
	Night  string
	Land   string
	Grid   string
	Dots   template.HTML
}

// broadcastForm has the fields of a new broadcast as sent.
type broadcastForm struct {
	Name, Type, At, Passed, Locale, Zones, Attributes, Payload string
	Newcomers                                                  bool
}

// broadcastsPage shows the broadcasts, or the one that the address names. With "stop" or "resume" it asks whether to do that.
func (d *dashboard) broadcastsPage(r *request) (answer, error) {
	asked := r.URL.Query()
	for _, do := range []string{"stop", "resume"} {
		if name := asked.Get(do); name != "" && d.sender != nil {
			return d.confirmBroadcast(r, do, name)
		}
	}
	if name := asked.Get("name"); name != "" && d.sender != nil {
		return d.oneBroadcast(r, name)
	}
	return d.broadcastsAnswer(r, broadcastsData{Form: broadcastForm{Passed: string(broadcast.Skip)}})
}

// broadcastsAnswer is the list, with a form.
func (d *dashboard) broadcastsAnswer(r *request, data broadcastsData) (answer, error) {
	a := answer{title: "Broadcasts", template: "broadcasts"}
	if data.Off = d.sender == nil; data.Off {
		a.data = data
		return a, nil
	}
	var err error
	if data.May, err = r.mayDo(Broadcast, uuid.Nil); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readLimit)
	defer cancel()
	if data.List, err = d.sender.List(ctx, r.URL.Query().Get("after"), broadcastsShown); err != nil {
		return answer{}, err
	}
	if len(data.List) == broadcastsShown {
		data.After = data.List[broadcastsShown-1].Name
	}
	if len(data.Errors) > 0 {
		a.status = http.StatusBadRequest
	}
	a.data = data
	return a, nil
}

// broadcasting is what a dashboard with broadcasts has.
type broadcasting struct {
	sender   *broadcast.Sender // nil without broadcasts
	progress progress
}

// progress is how far the broadcast is that was looked at last. Open pages share it, because it counts events.
type progress struct {
	mu    sync.Mutex
	name  string
	value shared[broadcast.Progress]
}

// progressOf returns how far a broadcast is, read a few seconds ago at most.
func (d *dashboard) progressOf(ctx context.Context, name string) (broadcast.Progress, error) {
	d.progress.mu.Lock()
	defer d.progress.mu.Unlock()
	if d.progress.name != name {
		d.progress.name = name
		d.progress.value.forget()
	}
	p, _, err := d.progress.value.get(ctx, d.now, freshFor, func(ctx context.Context) (broadcast.Progress, error) { return d.sender.Progress(ctx, name) })
	return p, err
}

func (d *dashboard) oneBroadcast(r *request, name string) (answer, error) {
	p, err := d.progressOf(r.Context(), name)
	if errors.Is(err, almanac.ErrNotFound) {
		return answer{}, notFound
	}
	if err != nil {
		return answer{}, err
	}
	may, err := r.mayDo(Broadcast, uuid.Nil)
	if err != nil {
		return answer{}, err
	}
	view := &broadcastView{Progress: p, All: p.Total(), Land: world.LandPath(), Grid: world.GraticulePath(mapWidth), Night: world.NightPath(p.At, mapWidth)}
	view.Late = max(0, p.Due()-view.All.Delivered-view.All.Failed-view.All.Cancelled)
	view.Stops = may && p.State != broadcast.Stopped && p.State != broadcast.Ended
	view.Starts = may && p.State == broadcast.Stopped
	view.Lists = p.State == broadcast.Collecting
	view.draw()
	a := answer{title: "Broadcast " + name, template: "broadcasts", live: "broadcasts", data: broadcastsData{May: may, One: view}}
	switch done := r.URL.Query().Get("done"); {
	case done == "started":
		a.notice = "The broadcast is stored. Programs that send broadcasts store its events."
	case done == "stopped" && p.State == broadcast.Stopped:
		a.notice = "The broadcast is stopped. Its pending events are being cancelled."
	case done == "resumed" && p.State != broadcast.Stopped:
		a.notice = "The broadcast goes on."
	}
	return a, nil
}

// dueWave is how long after its time a zone is marked on the map of a broadcast.
const dueWave = time.Hour

// draw draws the dots of zones, by the users of each.
func (v *broadcastView) draw() {
	areas, classes := make(map[string]int64), make(map[string]string)
	for _, z := range v.Zones {
		if _, ok := world.Find(z.Name); !ok {
			continue
		}
		zone := calendar.StoredTimezone(z.Name).Canonical()
		areas[zone] += int64(z.Users)
		class := ""
		switch ended := z.Delivered + z.Failed + z.Cancelled; {
		case z.Failed > 0:
			class = "t"
		case z.Stored > 0 && !z.Due.After(v.At) && ended < z.Stored:
			class = "s"
		case z.Delivered > 0 && ended >= z.Stored:
			class = "p"
		}
		if since := v.At.Sub(z.Due); !z.Skipped && since >= 0 && since < dueWave {
			class += " w"
		}
		classes[zone] = strings.TrimSpace(class)
	}
	for _, p := range world.CanonicalPlaces() {
		if areas[p.Zone] == 0 {
			classes[p.Zone] = "e"
		}
	}
	v.Dots = drawDots(areas, classes)
}

// confirmBroadcast asks whether to stop or to resume a broadcast.
func (d *dashboard) confirmBroadcast(r *request, do, name string) (answer, error) {
	if err := r.need(Broadcast, uuid.Nil); err != nil {
		return answer{}, err
	}
	text, verb := []string{
		"No event of the broadcast is stored or claimed any more, by any process. Deliveries that are under way end.",
		"Pending events become CANCELLED, with the reason. A resume requeues them.",
	}, "Stop"
	if do == "resume" {
		text, verb = []string{
			"Users who have no event of the broadcast yet get one, under the same keys.",
			"Events that the stop has cancelled are requeued under their keys, and are due at once if their time has passed.",
		}, "Resume"
	}
	return answer{title: verb + " " + name + "?", template: "confirm", data: confirmData{
		Text: text, Action: r.root + "broadcasts", Back: r.root + "broadcasts" + query("name", name), Verb: verb, Danger: do == "stop",
		Fields: []field{{"name", name}, {"do", do}}, asks: asks{Reason: do == "stop"},
	}}, nil
}

// broadcastPage starts, stops or resumes a broadcast.
func (d *dashboard) broadcastPage(r *request) (answer, error) {
	if err := r.need(Broadcast, uuid.Nil); err != nil {
		return answer{}, err
	}
	if d.sender == nil {
		return answer{}, notFound
	}
	form := r.PostForm
	name, reason := form.Get("name"), strings.TrimSpace(form.Get("reason"))
	defer d.progress.value.forget()
	var done string
	var err error
	switch form.Get("do") {
	case "start":
		return d.startBroadcast(r)
	case "stop":
		if problem := reasonProblem(reason); problem != "" {
			return answer{}, refused(http.StatusBadRequest, "The reason "+problem+".")
		}
		done = "stopped"
		_, err = d.sender.Stop(r.Context(), name, reason)
	case "resume":
		done = "resumed"
		_, err = d.sender.Resume(r.Context(), name)
	default:
		return answer{}, refused(http.StatusBadRequest, "The form must say start, stop or resume.")
	}
	if why := broadcastRefused(err); why != "" {
		return answer{title: "The broadcast was not " + done, template: "result", status: http.StatusConflict, data: resultData{
			Stopped: why, Back: r.root + "broadcasts" + query("name", name), BackText: "Back to the broadcast",
		}}, nil
	}
	if errors.Is(err, almanac.ErrNotFound) {
		return answer{}, notFound
	}
	if err != nil {
		return answer{}, err
	}
	r.logChange(Broadcast, slog.String("do", form.Get("do")), slog.String("broadcast", name))
	return answer{redirect: r.root + "broadcasts" + query("name", name, "done", done)}, nil
}

func broadcastRefused(err error) string {
	switch {
	case errors.Is(err, almanac.ErrInvalidStateTransition):
		return "The state of the broadcast does not allow this any more."
	case errors.Is(err, almanac.ErrLocked) && !errors.Is(err, broadcast.ErrStillClaimed):
		return "Another transaction holds the broadcast. Nothing has changed. Try it again."
	case errors.Is(err, almanac.ErrLocked):
		return "The broadcast is stopped, but claims of its events did not end within seconds. Stop it again to be sure."
	}
	return ""
}

// startBroadcast shows a dry run of a new broadcast, and starts it when the viewer confirms.
func (d *dashboard) startBroadcast(r *request) (answer, error) {
	data := broadcastsData{Form: broadcastFormOf(r.PostForm)}
	b, bad := data.Form.broadcast()
	if len(bad) == 0 {
		bad = sentencesOf(b.Check())
	}
	if data.Errors = bad; len(bad) > 0 {
		return d.broadcastsAnswer(r, data)
	}
	var err error
	if r.PostForm.Get("confirm") == "yes" {
		_, err = d.sender.Start(r.Context(), b)
	} else {
		var dry broadcast.PreviewResult
		dry, err = d.sender.Preview(r.Context(), b)
		data.Dry = &dry
	}
	conflict := (*broadcast.ConflictError)(nil)
	switch {
	case errors.Is(err, almanac.ErrUnsupportedEventType):
		data.Dry, data.Errors = nil, []string{"This program has no handler of that type, so it cannot plan its events."}
	case errors.As(err, &conflict):
		data.Dry, data.Errors = nil, []string{"A broadcast of this name exists with another content. Choose another name."}
	case sentencesOf(err) != nil:
		data.Dry, data.Errors = nil, sentencesOf(err)
	case err != nil:
		return answer{}, err
	case data.Dry == nil:
		r.logChange(Broadcast, slog.String("do", "start"), slog.String("broadcast", b.Name), slog.String("event_type", b.Type))
		return answer{redirect: r.root + "broadcasts" + query("name", b.Name, "done", "started")}, nil
	}
	return d.broadcastsAnswer(r, data)
}

func broadcastFormOf(values url.Values) broadcastForm {
	take := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	return broadcastForm{take("name"), take("type"), take("at"), take("passed"), take("locale"), take("zones"), take("attributes"), take("payload"), values.Get("newcomers") == "true"}
}

// broadcast returns the broadcast that a form describes, and sentences about the fields that cannot be read.
func (f broadcastForm) broadcast() (b broadcast.Broadcast, bad []string) {
	b = broadcast.Broadcast{
		Name: f.Name, Type: f.Type, Passed: broadcast.Passed(f.Passed), Newcomers: f.Newcomers,
		Audience: broadcast.Audience{Locale: f.Locale, Zones: strings.FieldsFunc(f.Zones, func(c rune) bool { return c == ',' || c == ' ' })},
	}
	var err error
	if b.At, err = calendar.ParseWallTime(f.At); err != nil {
		bad = append(bad, "The local time must be a date and a time of day, such as 2026-11-03T10:00.")
	}
	if f.Attributes != "" {
		b.Audience.Attributes = json.RawMessage(f.Attributes)
	}
	if f.Payload != "" {
		if b.Payload = json.RawMessage(f.Payload); !json.Valid(b.Payload) {
			bad = append(bad, "The payload is not JSON.")
		}
	}
	return b, bad
}

// sentencesOf returns a sentence for each field of a validation error, or nil.
func sentencesOf(err error) (all []string) {
	var invalid *almanac.ValidationError
	if errors.As(err, &invalid) {
		for _, f := range invalid.Fields {
			all = append(all, fmt.Sprintf("The field %s %s.", f.Field, f.Problem))
		}
	}
	return all
}
