package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// setLane stores or removes the limits of a lane.
type setLane struct {
	pausing
	Rate    string `help:"How many events may start in one second, on average, such as 50 or 0.2." placeholder:"N" default:"0"`
	Burst   string `help:"How many events may start at once. By default a fifth of the rate." placeholder:"N" default:"0"`
	Places  string `help:"How many events may be in flight." placeholder:"N" default:"0"`
	Daily   string `help:"How many events may start on one day, by UTC." placeholder:"N" default:"0"`
	Weight  string `help:"Its share of the lane that it is in, in comparison with others." placeholder:"N" default:"0"`
	NoLimit bool   `help:"Remove all limits of the lane, and its weight."`
	Force   bool   `help:"Limit it also when no event of the lane is known."`
}

// Run stores them.
func (c *setLane) Run(ctx context.Context, env *environment) error {
	lane, err := c.lane()
	if err := misused(err, c.validate(env)); err != nil {
		return err
	}
	conn, store, err := c.Tables.dial(ctx, env, statementLimit)
	if err != nil {
		return err
	}
	defer disconnect(ctx, conn)
	if err := store.Verify(ctx); err != nil {
		return err
	}
	if unknown, err := c.Tables.unknownLane(ctx, env, conn, c.Lane); err != nil {
		return err
	} else if unknown != "" && !c.NoLimit && !c.Force {
		return errors.New(unknown + "; --force limits it nevertheless")
	}
	if err := store.PutLane(ctx, lane); err != nil {
		return err
	}
	return env.report(c.JSON, laneOf(lane), func() error {
		if c.NoLimit {
			return writeText(env, printable(c.Lane)+" has no limits\n")
		}
		return writeText(env, fmt.Sprintf("%s: %s\n", printable(c.Lane), limitsText(laneOf(lane))))
	})
}

// lane returns the limits that the flags name.
func (c *setLane) lane() (almanac.Lane, error) {
	lane, errRate := almanac.Lane{Name: c.Lane}, error(nil)
	rate, err := strconv.ParseFloat(c.Rate, 64)
	if err != nil {
		errRate = fmt.Errorf("--rate: %q is not a number", c.Rate)
	}
	burst, errBurst := number("--burst", c.Burst, 0, 1_000_000)
	places, errPlaces := number("--places", c.Places, 0, 10_000)
	daily, errDaily := number("--daily", c.Daily, 0, 1_000_000_000)
	weight, errWeight := number("--weight", c.Weight, 0, 1000)
	if err := errors.Join(errRate, errBurst, errPlaces, errDaily, errWeight); err != nil {
		return lane, err
	}
	lane.Rate, lane.Burst, lane.Places, lane.Daily, lane.Weight = rate, burst, places, daily, weight
	if lane, err = lane.Checked(); err == nil && (lane != almanac.Lane{Name: c.Lane}) == c.NoLimit {
		err = errors.New("either --rate, --places, --daily or --weight, or --no-limit is required")
	}
	return lane, err
}

// listLanes lists the lanes with limits or a weight, and those whose receiver fails.
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

	Waiting  *string    `json:"waiting,omitempty"` // such as 10,000+; the lists alone have it and what follows
	InFlight *int       `json:"inFlight,omitempty"`
	Ends     *time.Time `json:"ends,omitempty"`    // when the last waiting event starts, UTC; missing without a rate
	Started  []int      `json:"started,omitempty"` // in each five minutes of the last hour, the present ones first

	laneBreaker
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

func loadOf(l ops.LaneLoad, now time.Time) laneReport {
	r, waiting := laneOf(l.Lane), l.Waiting.String()
	r.Waiting, r.Ends, r.Started = &waiting, unlessZero(l.Ends(now)), l.Started[:]
	if l.Places > 0 {
		r.InFlight = &l.InFlight
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
		return c.write(env, mapped(loads, func(l ops.LaneLoad) laneReport { return loadOf(l, now) }))
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
	ends := func(r laneReport) string { return instant(r.Ends) }
	failing := func(r laneReport) string { return instant(r.FailingSince) }
	retry := func(r laneReport) string { return instant(r.RetryAt) }
	return list[laneReport]{
		form: form{CSV: c.CSV}, none: "no lane has limits, and no receiver fails",
		columns: []column[laneReport]{
			{"LANE", name, span{rank: 1, least: 12}, nil}, {"RATE", rate, span{rank: 3}, nil}, {"BURST", burst, span{rank: 6}, nil}, {"PLACES", places, span{rank: 4}, nil}, {"DAILY", daily, span{rank: 11}, nil}, {"WEIGHT", weight, span{rank: 8}, nil},
			{"WAITING", waiting, span{rank: 2}, nil}, {"IN FLIGHT", flying, span{rank: 5}, nil}, {"LAST STARTS", ends, span{rank: 7}, nil},
			{"FAILING SINCE", failing, span{rank: 9}, nil}, {"RETRIED AT", retry, span{rank: 10}, nil},
		},
		fields: []field[laneReport]{{"lane", name}, {"rate", rate}, {"burst", burst}, {"places", places}, {"daily", daily}, {"weight", weight}, {"waiting", waiting}, {"in_flight", flying}, {"last_starts", ends}, {"failing_since", failing}, {"retry_at", retry}},
	}.write(env, reports, true)
}

func limitsText(r laneReport) string {
	var limits []string
	if r.Rate > 0 {
		limits = append(limits, fmt.Sprintf("at most %g starts a second, %d at once", r.Rate, r.Burst))
	}
	if r.Places > 0 {
		limits = append(limits, fmt.Sprintf("at most %d in flight", r.Places))
	}
	if r.Daily > 0 {
		limits = append(limits, fmt.Sprintf("at most %d starts a day", r.Daily))
	}
	if r.Weight > 0 {
		limits = append(limits, fmt.Sprintf("weight %d", r.Weight))
	}
	return strings.Join(limits, ", ")
}
