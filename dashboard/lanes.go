package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// lanesData is what the page of lanes shows.
type lanesData struct {
	Errors []string
	Lanes  []laneRow
	Idle   int  // how many lanes are not shown, because there are many
	May    bool // whether the viewer may limit lanes
	Form   laneForm
}

// laneRow is a lane with limits.
type laneRow struct {
	ops.LaneLoad
	End   estimate // when the last waiting event starts
	Waits bool     // whether an event waits
}

// estimate is an estimate as pages show it.
type estimate struct{ ops.LaneEstimate }

// Word comes before the time.
func (e estimate) Word() string {
	if e.Kind == ops.AtLeast {
		return "not before"
	}
	return "about"
}

// Tokens says how often events of the lane may start, or returns "".
func (r laneRow) Tokens() string {
	var limits []string
	if r.Rate > 0 {
		limits = append(limits, fmt.Sprintf("%s a second, %s at once", strconv.FormatFloat(r.Rate, 'g', -1, 64), number(r.Burst)))
	}
	if r.Daily > 0 {
		limits = append(limits, number(r.Daily)+" a day")
	}
	return strings.Join(limits, ", ")
}

// Used says how many events have started today, if the number is limited.
func (r laneRow) Used() string {
	if r.Daily == 0 {
		return ""
	}
	return number(r.Today) + " today"
}

// LastHour is how many events have started in the last hour.
func (r laneRow) LastHour() (n int) {
	for _, started := range r.Started {
		n += started
	}
	return n
}

// hourBar is five minutes in the drawing of an hour.
type hourBar struct{ X, Y, Height int }

// Bars draws the last hour, the oldest minutes first, in a box that is 24 high.
func (r laneRow) Bars() (bars []hourBar) {
	most := max(1, slices.Max(r.Started[:]))
	for i, n := range r.Started {
		if n > 0 {
			height := max(1, 24*n/most)
			bars = append(bars, hourBar{8 * (len(r.Started) - 1 - i), 24 - height, height})
		}
	}
	return bars
}

// laneForm has the limits of a lane as sent.
type laneForm struct{ Name, Rate, Burst, Places, Daily, Weight string }

func laneFormOf(values url.Values) laneForm {
	return laneForm{Name: values.Get("lane"), Rate: values.Get("rate"), Burst: values.Get("burst"), Places: values.Get("places"), Daily: values.Get("daily"), Weight: values.Get("weight")}
}

// lane returns the limits, and sentences about the fields that are wrong.
func (f laneForm) lane() (l almanac.Lane, bad []string) {
	l.Name = f.Name
	take := func(text, name string, parse func(string) error) {
		if text = strings.TrimSpace(text); text != "" && parse(text) != nil {
			bad = append(bad, "The "+name+" is not a number.")
		}
	}
	whole := func(into *int) func(string) error {
		return func(text string) (err error) {
			*into, err = strconv.Atoi(text)
			return err
		}
	}
	take(f.Rate, "rate", func(text string) (err error) {
		l.Rate, err = strconv.ParseFloat(text, 64)
		return err
	})
	take(f.Burst, "burst", whole(&l.Burst))
	take(f.Places, "number of places", whole(&l.Places))
	take(f.Daily, "number of events a day", whole(&l.Daily))
	take(f.Weight, "weight", whole(&l.Weight))
	if len(bad) > 0 {
		return l, bad
	}
	checked, err := l.Checked()
	var invalid *almanac.ValidationError
	if errors.As(err, &invalid) {
		for _, field := range invalid.Fields {
			bad = append(bad, fmt.Sprintf("The %s %s.", field.Field, field.Problem))
		}
	}
	return checked, bad
}

// lanesPage shows the lanes that have limits. With a lane to remove, it asks whether to do that.
func (d *dashboard) lanesPage(r *request) (answer, error) {
	asked := r.URL.Query()
	if name := asked.Get("remove"); name != "" {
		if err := r.need(PauseTypes, uuid.Nil); err != nil {
			return answer{}, err
		}
		if problem := typeSentence(name); problem != "" {
			return d.lanesRefused(r, laneForm{}, []string{problem})
		}
		return answer{title: "Remove the limits of " + name + "?", template: "confirm", data: confirmData{
			Text:   []string{"All processes start events of " + name + " as they are due, and as many as they can. If it has a weight, it counts as 1 then."},
			Action: r.root + "lanes", Back: r.root + "lanes", Verb: "Remove the limits", Danger: true, Fields: []field{{"lane", name}, {"do", "remove"}},
		}}, nil
	}
	a, err := d.lanesAnswer(r, laneForm{}, nil)
	if done := asked.Get("done"); err == nil && done != "" && typeSentence(done) == "" {
		a.notice = "The limits of " + done + " are stored, and hold for all processes."
	}
	return a, err
}

// lanesShown is how many lanes the page shows.
const lanesShown = 500

// busiest returns the lanes that the page shows, in alphabetical order. If there are too many, those are left out for which least waits.
func busiest(loads []ops.LaneLoad) []ops.LaneLoad {
	if len(loads) <= lanesShown {
		return loads
	}
	rank := func(l ops.LaneLoad) int64 {
		if l.Breaker.Allowed > 0 || l.Pause.Lane != "" || !strings.Contains(l.Name, "/") {
			return math.MaxInt64
		}
		return l.Waiting.N
	}
	shown := slices.Clone(loads)
	slices.SortStableFunc(shown, func(a, b ops.LaneLoad) int { return cmp.Compare(rank(b), rank(a)) })
	shown = shown[:lanesShown]
	slices.SortFunc(shown, func(a, b ops.LaneLoad) int { return cmp.Compare(a.Name, b.Name) })
	return shown
}

func (d *dashboard) lanesAnswer(r *request, form laneForm, bad []string) (answer, error) {
	loads, _, err := d.lanes.get(r.Context(), d.now, streamPace, d.reader.LaneLoads)
	if err != nil {
		return answer{}, err
	}
	now, err := r.clock()
	if err != nil {
		return answer{}, err
	}
	shown := busiest(loads)
	data := lanesData{Errors: bad, Form: form, Idle: len(loads) - len(shown)}
	for _, l := range shown {
		end, waits := ops.LaneEnds(l, ops.LaneIn(loads, l.Name), now)
		data.Lanes = append(data.Lanes, laneRow{l, estimate{end}, waits})
	}
	data.May, err = r.mayDo(PauseTypes, uuid.Nil)
	return answer{title: "Lanes", template: "lanes", live: "lanes", data: data}, err
}

// lanesRefused is the page of lanes with what is wrong with a form.
func (d *dashboard) lanesRefused(r *request, form laneForm, bad []string) (answer, error) {
	a, err := d.lanesAnswer(r, form, bad)
	a.status, a.live = http.StatusBadRequest, ""
	return a, err
}

// lanePage stores or removes the limits of a lane.
func (d *dashboard) lanePage(r *request) (answer, error) {
	if err := r.need(PauseTypes, uuid.Nil); err != nil {
		return answer{}, err
	}
	form := laneFormOf(r.PostForm)
	l, bad := form.lane()
	switch do := r.PostForm.Get("do"); {
	case do == "remove":
		l = almanac.Lane{Name: l.Name}
	case do != "set":
		bad = append(bad, "The form must say set or remove.")
	case len(bad) == 0 && !l.Limited() && l.Weight == 0:
		bad = append(bad, "Give a rate, a number of places, a number of events a day or a weight.")
	}
	if len(bad) > 0 {
		return d.lanesRefused(r, form, bad)
	}
	err := d.scheduler.SetLane(r.Context(), l)
	d.lanes.forget()
	if why := pauseRefused(err); why != "" {
		return answer{title: "Nothing was changed", template: "result", status: http.StatusConflict, data: resultData{
			Stopped: strings.ReplaceAll(why, "pause", "limit"), Back: r.root + "lanes", BackText: "Back to the lanes",
		}}, nil
	}
	if err != nil {
		return answer{}, err
	}
	r.logChange(PauseTypes, slog.String("lane", l.Name), slog.Float64("rate", l.Rate), slog.Int("burst", l.Burst), slog.Int("places", l.Places), slog.Int("daily", l.Daily), slog.Int("weight", l.Weight))
	return answer{redirect: r.root + "lanes" + query("done", l.Name)}, nil
}
