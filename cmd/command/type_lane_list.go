package command

import (
	"context"
	"strconv"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// listLanes lists the lanes with limits or a weight, those that are paused, and those whose receiver fails.
type listLanes struct {
	JSON bool `help:"Write JSON." name:"json"`
	CSV  bool `help:"Write comma-separated values, with a header." name:"csv"`

	Tables tables `embed:""`
}

type laneReport struct {
	Name   string  `json:"name"`
	Rate   float64 `json:"rate,omitempty"` // starts in a second
	Burst  int     `json:"burst,omitempty"`
	Places int     `json:"places,omitempty"`
	Daily  int     `json:"daily,omitempty"` // starts on one day
	Weight int     `json:"weight,omitempty"`

	laneUse // the lists alone have it and what follows
	laneEnd
	Pause *pauseReport `json:"pause,omitempty"`

	laneBreaker
}

// laneUse is what waits for a lane, and what has started.
type laneUse struct {
	Waiting  *string `json:"waiting,omitempty"` // such as 100,000+
	InFlight *int    `json:"inFlight,omitempty"`
	Today    *int    `json:"startedToday,omitempty"` // by UTC; with a number of a day alone
	Started  []int   `json:"started,omitempty"`      // in each five minutes of the last hour, the present ones first
}

// laneEnd is missing if no event waits.
type laneEnd struct {
	Ends    *time.Time `json:"ends,omitempty"`        // when the last waiting event starts, by an estimate, UTC; missing while it waits for a resume
	AtLeast bool       `json:"endsLater,omitempty"`   // whether it may be much later than that
	Resumed bool       `json:"untilResume,omitempty"` // whether it starts only after a resume
}

func endOf(e ops.LaneEstimate, waits bool) laneEnd {
	if !waits {
		return laneEnd{}
	}
	return laneEnd{unlessZero(e.At), e.Kind == ops.AtLeast, e.At.IsZero()}
}

// at says when, by an estimate; "" if no event waits.
func (e laneEnd) at() string {
	switch {
	case e.Resumed:
		return "when it is resumed"
	case e.Ends == nil:
		return ""
	case e.AtLeast:
		return "not before " + instantText(e.Ends.Truncate(time.Second))
	}
	return instantText(e.Ends.Truncate(time.Second))
}

// laneBreaker is missing while the breaker of the lane is closed.
type laneBreaker struct {
	FailingSince *time.Time `json:"failingSince,omitempty"` // when it opened, UTC
	RetryAt      *time.Time `json:"retryAt,omitempty"`      // from when on events are tried, UTC
	Allowed      int        `json:"allowed,omitempty"`      // how many at once
}

func laneOf(l almanac.Lane) laneReport {
	return laneReport{Name: l.Name, Rate: l.Rate, Burst: l.Burst, Places: l.Places, Daily: l.Daily, Weight: l.Weight}
}

func loadOf(l ops.LaneLoad, loads []ops.LaneLoad, now time.Time) laneReport {
	r, waiting := laneOf(l.Lane), l.Waiting.String()
	r.Waiting, r.Started = &waiting, l.Started[:]
	r.laneEnd = endOf(ops.LaneEnds(l, ops.LaneIn(loads, l.Name), now))
	if l.Places > 0 {
		r.InFlight = &l.InFlight
	}
	if l.Daily > 0 {
		r.Today = &l.Today
	}
	if l.Pause.Lane != "" {
		pause := pauseReportOf(l.Pause)
		r.Pause = &pause
	}
	r.laneBreaker = laneBreaker{unlessZero(l.Breaker.OpenedAt), unlessZero(l.Breaker.RetryAt), l.Breaker.Allowed}
	return r
}

// Run lists.
func (c *listLanes) Run(ctx context.Context, env *environment) error {
	return c.Tables.use(ctx, env, (&form{c.JSON, c.CSV}).validate(), func(store *postgres.Store) error {
		now, err := store.Now(ctx)
		if err != nil {
			return err
		}
		loads, err := store.LaneLoads(ctx)
		if err != nil {
			return err
		}
		return c.write(env, mapped(loads, func(l ops.LaneLoad) laneReport { return loadOf(l, loads, now) }))
	})
}

func (c *listLanes) write(env *environment, reports []laneReport) error {
	if c.JSON {
		return writeJSON(env.out, reports)
	}
	number := func(v float64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	name := func(r laneReport) string { return r.Name }
	rate := func(r laneReport) string { return number(r.Rate) }
	burst := func(r laneReport) string { return number(float64(r.Burst)) }
	places := func(r laneReport) string { return number(float64(r.Places)) }
	daily := func(r laneReport) string { return number(float64(r.Daily)) }
	weight := func(r laneReport) string { return number(float64(r.Weight)) }
	waiting := func(r laneReport) string { return *r.Waiting }
	flying := func(r laneReport) string {
		if r.InFlight == nil {
			return ""
		}
		return strconv.Itoa(*r.InFlight)
	}
	instant := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return instantText(*t)
	}
	ends := func(r laneReport) string { return r.at() }
	paused := func(r laneReport) string {
		if r.Pause == nil {
			return ""
		}
		return instantText(r.Pause.Since)
	}
	lately := func(r laneReport) string {
		n := 0
		for _, started := range r.Started {
			n += started
		}
		return number(float64(n))
	}
	failing := func(r laneReport) string { return instant(r.FailingSince) }
	retry := func(r laneReport) string { return instant(r.RetryAt) }
	return list[laneReport]{
		form: form{CSV: c.CSV}, none: "no lane has limits or is paused, and no receiver fails",
		columns: []column[laneReport]{
			{"LANE", name, span{rank: 1, least: 12}, nil}, {"RATE", rate, span{rank: 3}, nil}, {"BURST", burst, span{rank: 6}, nil}, {"PLACES", places, span{rank: 4}, nil}, {"DAILY", daily, span{rank: 11}, nil}, {"WEIGHT", weight, span{rank: 8}, nil},
			{"WAITING", waiting, span{rank: 2}, nil}, {"IN FLIGHT", flying, span{rank: 5}, nil}, {"LAST HOUR", lately, span{rank: 13}, nil}, {"LAST STARTS ABOUT", ends, span{rank: 7}, nil},
			{"FAILING SINCE", failing, span{rank: 9}, nil}, {"RETRIED AT", retry, span{rank: 10}, nil}, {"PAUSED SINCE", paused, span{rank: 12}, nil},
		},
		fields: []field[laneReport]{{"lane", name}, {"rate", rate}, {"burst", burst}, {"places", places}, {"daily", daily}, {"weight", weight}, {"waiting", waiting}, {"in_flight", flying}, {"last_starts", ends}, {"failing_since", failing}, {"retry_at", retry}, {"paused_since", paused}, {"last_hour", lately}},
	}.write(env, reports, true)
}
