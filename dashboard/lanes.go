package dashboard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// lanesData is what the page of lanes shows.
type lanesData struct {
	Errors []string
	Lanes  []laneRow
	May    bool // whether the viewer may limit lanes
	Form   laneForm
}

// laneRow is a lane with limits.
type laneRow struct {
	ops.LaneLoad
	End    time.Time // when the last waiting event starts; zero without a rate, and if none waits
	Paused bool
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

func (d *dashboard) lanesAnswer(r *request, form laneForm, bad []string) (answer, error) {
	loads, _, err := d.lanes.get(r.Context(), d.now, streamPace, d.reader.LaneLoads)
	if err != nil {
		return answer{}, err
	}
	paused, err := d.paused(r.Context())
	if err != nil {
		return answer{}, err
	}
	now, err := r.clock()
	if err != nil {
		return answer{}, err
	}
	data := lanesData{Errors: bad, Form: form}
	for _, l := range loads {
		data.Lanes = append(data.Lanes, laneRow{l, l.Ends(now), pausesData{Paused: paused}.paused(l.Name)})
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
