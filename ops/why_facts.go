package ops

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// whyFacts are what an explanation follows from. The functions of why_answer.go read nothing else.
type whyFacts struct {
	request WhyRequest
	now     time.Time
	user    almanac.User
	events  []almanac.Event // of the type, in the order of their instants: those around the day, and the nearest before and after
	stalled []almanac.StalledSeries
	pauses  []almanac.Pause
	lanes   []almanac.Lane
	loads   []LaneLoad  // nil without Statistics
	trail   []AuditStep // of the user
	rule    whyRule
}

// whyRule is what the handler says about the day, for the user as stored now.
type whyRule struct {
	missing   bool // this program has no handler of the type
	err       error
	due       []almanac.Occurrence // those of the day, as if the user had no opt-outs
	skipped   []almanac.Occurrence // those that clocks skip, in UTC
	later     bool                 // it has an occurrence after the day
	overrides bool                 // it has them whatever the user has opted out of
	used      map[almanac.Series]almanac.UsedKeys
}

// whyGatherer reads the facts.
type whyGatherer struct {
	scheduler  almanac.Scheduler
	repository almanac.Repository
	request    WhyRequest
	options    WhyOptions
}

const (
	mostOfDay  = 1000 // events around the day that are read
	mostNear   = 200  // events before them, after them, and open ones
	mostTrails = 10   // events of a result whose trails are read
)

func (g whyGatherer) gather(ctx context.Context) (f whyFacts, err error) {
	f.request = g.request
	if f.now, err = g.repository.Now(ctx); err != nil {
		return f, err
	}
	if f.user, err = g.repository.User(ctx, g.request.User); err != nil {
		return f, err
	}
	if f.events, err = g.events(ctx); err != nil {
		return f, err
	}
	stalled, err := g.repository.Stalled(ctx, g.request.User, 0)
	if err != nil {
		return f, err
	}
	for _, one := range stalled {
		if one.Series.Type == g.request.Type {
			f.stalled = append(f.stalled, one)
		}
	}
	if f.pauses, err = g.repository.Paused(ctx); err != nil {
		return f, err
	}
	if f.lanes, err = g.repository.Lanes(ctx); err != nil {
		return f, err
	}
	if g.options.Statistics != nil {
		if f.loads, err = g.options.Statistics.LaneLoads(ctx); err != nil {
			return f, err
		}
	}
	if g.options.Trail != nil {
		if f.trail, err = g.options.Trail(ctx, g.request.User); err != nil {
			return f, err
		}
	}
	f.rule, err = g.rule(ctx, f.user)
	return f, err
}

// events reads a bounded number of events. Clocks of any zone show the day within the first range.
func (g whyGatherer) events(ctx context.Context) ([]almanac.Event, error) {
	from := calendar.WallTime{Date: g.request.Day}.Labelled().Add(-16 * time.Hour)
	until := from.Add(56 * time.Hour)
	mine := almanac.And{almanac.ForUser(g.request.User), almanac.OfType(g.request.Type)}
	var all []almanac.Event
	for _, part := range []struct {
		spec almanac.Spec
		page almanac.Page
	}{
		{almanac.DueBetween{From: from, Until: until}, almanac.Page{Limit: mostOfDay}},
		{almanac.DueBetween{Until: from}, almanac.Page{Limit: mostNear, Order: almanac.NewestFirst}},
		{almanac.DueBetween{From: until}, almanac.Page{Limit: mostNear}},
	} {
		found, err := g.repository.Find(ctx, append(mine[:2:2], part.spec), part.page)
		if err != nil {
			return nil, err
		}
		all = append(all, found.Items...)
	}
	slices.SortFunc(all, func(a, b almanac.Event) int {
		return cmp.Or(a.Due.Compare(b.Due), strings.Compare(a.ID.String(), b.ID.String()))
	})
	return slices.CompactFunc(all, func(a, b almanac.Event) bool { return a.ID == b.ID }), nil
}

// asOf is a repository at another time, in which no occurrence is used.
type asOf struct {
	almanac.Repository
	at time.Time
}

func (r asOf) Now(context.Context) (time.Time, error) { return r.at, nil }

func (r asOf) UsedKeys(context.Context, uuid.UUID, []almanac.Series) (map[almanac.Series]almanac.UsedKeys, error) {
	return nil, nil
}

// preview previews from an instant, which may have passed.
func (g whyGatherer) preview(ctx context.Context, u almanac.User, from time.Time) ([]almanac.Occurrence, error) {
	found, err := g.scheduler.With(asOf{g.repository, from}).PreviewUser(ctx, u, g.request.Type, mostAnswers+1)
	return found.Ahead, err
}

// moves is how many days before a day an occurrence is searched that a holiday moved there.
const moves = 10

func (g whyGatherer) rule(ctx context.Context, u almanac.User) (rule whyRule, err error) {
	owed := u
	owed.OptOuts = nil
	begins := firstOf(g.request.Day, u.Timezone).Add(-time.Second)
	ahead, err := g.preview(ctx, owed, begins)
	switch {
	case errors.Is(err, almanac.ErrUnsupportedEventType):
		return whyRule{missing: true}, nil
	case ctx.Err() != nil:
		return rule, ctx.Err()
	}
	rule.err, rule.later = err, slices.ContainsFunc(ahead, func(o almanac.Occurrence) bool { return g.request.Day.Before(o.Wall.Date) })
	rule.due = slices.DeleteFunc(ahead, func(o almanac.Occurrence) bool { return !isOf(o, g.request.Day) })
	if len(rule.due) == 0 {
		moved, _ := g.preview(ctx, owed, begins.AddDate(0, 0, -moves)) // its error is that of the rule
		rule.due = slices.DeleteFunc(moved, func(o almanac.Occurrence) bool { return !isOf(o, g.request.Day) })
	}
	if _, rejected := rejectedOn(rule.err); !rejected {
		rule.skipped = g.skipped(ctx, owed, rule.due)
	}
	if len(u.OptOuts) > 0 && len(rule.due) > 0 {
		despite, _ := g.preview(ctx, u, begins.AddDate(0, 0, -moves))
		rule.overrides = slices.ContainsFunc(despite, func(o almanac.Occurrence) bool { return o.Key == rule.due[0].Key && o.Series == rule.due[0].Series })
	}
	var series []almanac.Series
	for _, o := range rule.due {
		series = append(series, almanac.Series{Type: g.request.Type, Name: o.Series})
	}
	if len(series) > 0 {
		rule.used, err = g.repository.UsedKeys(ctx, u.ID, slices.Compact(series))
		return rule, err
	}
	return rule, nil
}

// skipped returns what would happen on the day in UTC, at times that the user's clocks skip, and is not
// moved to another time.
func (g whyGatherer) skipped(ctx context.Context, u almanac.User, due []almanac.Occurrence) (skipped []almanac.Occurrence) {
	change, any := u.Timezone.NextChange(firstOf(g.request.Day, u.Timezone).Add(-24 * time.Hour))
	if !any || change.To().Date != g.request.Day && change.From().Date != g.request.Day || !change.From().Before(change.To()) {
		return nil
	}
	here := u.Timezone
	u.Timezone = calendar.StoredTimezone("UTC")
	there, _ := g.preview(ctx, u, change.From().Labelled().Add(-time.Second))
	for _, o := range there {
		_, err := here.Resolve(o.Wall, calendar.Policies{Gap: calendar.GapSkip})
		moved := slices.ContainsFunc(due, func(d almanac.Occurrence) bool { return d.Series == o.Series && d.Key == o.Key })
		if errors.Is(err, calendar.ErrSkippedWallTime) && isOf(o, g.request.Day) && !moved && o.Zone.String() == "UTC" {
			skipped = append(skipped, o)
		}
	}
	return skipped
}

// firstOf returns the first instant of a day.
func firstOf(day calendar.Date, z calendar.Timezone) time.Time {
	begins, err := z.Resolve(calendar.WallTime{Date: day}, calendar.Policies{})
	if err != nil {
		return calendar.WallTime{Date: day}.Labelled().Add(-16 * time.Hour) // the handler cannot resolve a time in the zone either
	}
	return begins.Instant
}

// isOf reports whether an occurrence is on a day, or was before something moved it.
func isOf(o almanac.Occurrence, day calendar.Date) bool {
	return o.Wall.Date == day || o.Nominal.Date == day || o.Move.From.Date == day
}

// complete adds the channel and the trail to the events of answers.
func (g whyGatherer) complete(ctx context.Context, f whyFacts, answers []WhyAnswer) error {
	trails := 0
	for i := range answers {
		a := &answers[i]
		if a.Event == nil {
			continue
		}
		at := slices.IndexFunc(f.events, func(e almanac.Event) bool { return e.ID == a.Event.ID })
		if channel, err := g.scheduler.ChannelOf(ctx, f.events[at]); err == nil {
			a.Event.Channel = channel
		}
		f.refuse(a, f.events[at])
		if g.options.Trail == nil || trails == mostTrails {
			continue
		}
		trails++
		steps, err := g.options.Trail(ctx, a.Event.ID)
		if err != nil {
			return err
		}
		a.Event.Trail = steps
	}
	return ctx.Err()
}

// next returns the pending event that can be claimed first, or the occurrence that comes next.
func (g whyGatherer) next(ctx context.Context, f whyFacts) (*WhyNext, error) {
	waiting := almanac.And{almanac.ForUser(g.request.User), almanac.OfType(g.request.Type), almanac.InStatus(almanac.Pending)}
	found, err := g.repository.Find(ctx, waiting, almanac.Page{Limit: 1, Order: almanac.NextFirst})
	if err != nil {
		return nil, err
	}
	if len(found.Items) > 0 {
		e := found.Items[0]
		return &WhyNext{
			EventID: &e.ID, Series: e.Series, OccurrenceKey: e.OccurrenceKey, Due: e.Due, Local: e.Wall.String(), Zone: e.Zone,
			Start: f.starts(laneOf(e), e.AvailableAt),
		}, nil
	}
	ahead, _ := g.scheduler.Preview(ctx, g.request.User, g.request.Type, 1) // of its error, the answers tell
	if len(ahead.Ahead) == 0 {
		return nil, ctx.Err()
	}
	o := ahead.Ahead[0]
	return &WhyNext{
		Series: o.Series, OccurrenceKey: o.Key, Due: o.Resolution.Instant, Local: o.Resolution.Shown().String(), Zone: o.Zone.String(),
		Start: f.starts(g.request.Type, o.Available),
	}, ctx.Err()
}
