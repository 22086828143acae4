package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/almanac-go/almanac"
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
