package ops

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
)

// WhyBroadcast is the broadcast of an answer.
type WhyBroadcast struct {
	Name      string          `json:"name"`
	State     broadcast.State `json:"state"`
	CreatedAt time.Time       `json:"createdAt"` // UTC
	// StoppedAt is when it was stopped, UTC: the last stop before a cancelled event ended or, without an event, the stop that
	// lasts. It is zero if there was none.
	StoppedAt  time.Time `json:"stoppedAt,omitzero"`
	StoppedBy  string    `json:"stoppedBy,omitempty"`
	StopReason string    `json:"stopReason,omitempty"`
}

// broadcasts reads the broadcasts of the day, and adds the events of the user in them that are due far from the day.
func (g whyGatherer) broadcasts(ctx context.Context, f *whyFacts) (err error) {
	if g.options.Broadcasts == nil {
		return nil
	}
	if f.broadcasts, err = g.options.Broadcasts.About(ctx, f.user, g.request.Type, g.request.Day); err != nil {
		return err
	}
	var series []almanac.Series
	for _, b := range f.broadcasts {
		if !slices.ContainsFunc(f.events, func(e almanac.Event) bool { return isOfBroadcast(e, b) }) {
			series = append(series, seriesOf(b))
		}
	}
	if len(series) == 0 {
		return nil
	}
	if f.sent, err = g.repository.UsedKeys(ctx, f.user.ID, series); err != nil {
		return err
	}
	spec := almanac.And{almanac.ForUser(g.request.User), almanac.OfType(g.request.Type), almanac.InStatus(almanac.Pending)}
	found, err := g.repository.Find(ctx, spec, almanac.Page{Limit: mostNear})
	if err != nil {
		return err
	}
	f.cut.open = found.Next != ""
	for _, e := range found.Items {
		for _, b := range f.broadcasts {
			if isOfBroadcast(e, b) && !slices.ContainsFunc(f.events, func(one almanac.Event) bool { return one.ID == e.ID }) {
				f.events = append(f.events, e)
			}
		}
	}
	sortEvents(f.events)
	return nil
}

// seriesOf returns the series of a user's event of a broadcast.
func seriesOf(b broadcast.About) almanac.Series {
	return almanac.SeriesOf(almanac.Event{Type: b.Type, OccurrenceKey: b.Name, Origin: almanac.Origin{Kind: almanac.OriginScheduled}})
}

// isOfBroadcast reports whether an event is one of a broadcast, or repeats one.
func isOfBroadcast(e almanac.Event, b broadcast.About) bool {
	return e.Lane == b.Lane() && e.OccurrenceKey == b.Name && (e.Origin.Kind == almanac.OriginScheduled || e.Origin.Kind == almanac.OriginRequeued)
}

// broadcastOf returns the broadcast of an event, with the stop that cancelled it, or nil.
func (f whyFacts) broadcastOf(e almanac.Event) *WhyBroadcast {
	i := slices.IndexFunc(f.broadcasts, func(b broadcast.About) bool { return isOfBroadcast(e, b) })
	switch {
	case i < 0:
		return nil
	case e.Status == almanac.Cancelled && strings.HasPrefix(e.FailureReason, broadcast.WasStopped):
		return shownBroadcast(f.broadcasts[i], e.UpdatedAt)
	}
	return shownBroadcast(f.broadcasts[i], time.Time{})
}

// shownBroadcast returns a broadcast with its last stop up to an instant.
func shownBroadcast(b broadcast.About, stopped time.Time) *WhyBroadcast {
	shown := &WhyBroadcast{Name: b.Name, State: b.State, CreatedAt: b.CreatedAt}
	for _, step := range b.Steps {
		if step.Action == broadcast.Stop && !step.At.After(stopped) {
			shown.StoppedAt, shown.StoppedBy, shown.StopReason = step.At, step.By, step.Reason
		}
	}
	return shown
}

// ofUnsent explains why a user has no event of a broadcast.
func (f whyFacts) ofUnsent(b broadcast.About) WhyAnswer {
	a := WhyAnswer{Broadcast: shownBroadcast(b, time.Time{})}
	a.OccurrenceKey, a.Due, a.Local = b.Name, b.Zone.Due, b.Zone.At.String()
	if b.Zone.Name == "" || b.Zone.Skipped {
		if a.Local = b.At.String(); !b.Instant.IsZero() {
			a.Due, a.Local = b.Instant, f.user.Timezone.WallTime(b.Instant).String()
		}
	}
	until := b.CreatedAt // users who are created later are left out
	if b.Newcomers && b.Zone.Due.After(until) {
		until = b.Zone.Due
	}
	switch _, used := f.sent[seriesOf(b)]; {
	case used:
		a.Code = WhyPruned
	case f.cut.day || f.cut.open:
		a.Code = WhyUnknown
	case f.user.CreatedAt.After(until):
		a.Code, a.Until = WhyCreatedLater, f.user.CreatedAt
	case b.Audience.Listed && !b.Listed && b.State == broadcast.Collecting:
		a.Code = WhyNotStored
	case b.Audience.Listed && !b.Listed || !b.Audience.Matches(f.user):
		a.Code = WhyNotInAudience
	case b.Zone.Skipped:
		a.Code = WhyHourPassed
	default:
		f.unsentCode(b, &a)
	}
	return a
}

// unsentCode sets the code of an answer about a user to whom a broadcast was to be sent.
func (f whyFacts) unsentCode(b broadcast.About, a *WhyAnswer) {
	if !f.rule.overrides {
		if a.OptOut = f.optOutAt(b.Zone.At.Date, f.now, ""); a.OptOut == nil {
			a.OptOut = f.optOutAt(b.Zone.At.Date, b.CreatedAt, "")
		}
	}
	switch {
	case a.OptOut != nil:
		a.Code = WhyOptedOut
	case b.State == broadcast.Stopped:
		a.Code, a.Broadcast = WhyStopped, shownBroadcast(b, f.now)
	case b.State == broadcast.Collecting, b.State == broadcast.Storing && !b.Read:
		a.Code, a.Pause = WhyNotStored, f.pauseAfter(b.Lane(), b.Zone.Due)
	default:
		if a.Code = WhyRefused; f.user.UpdatedAt.After(b.CreatedAt) {
			a.Until = f.user.UpdatedAt
		}
	}
}
