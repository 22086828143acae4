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
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// whyFacts are what an explanation follows from. The functions of why_answer.go read nothing else.
type whyFacts struct {
	request WhyRequest
	now     time.Time
	user    almanac.User
	events  []almanac.Event // of the type, in the order of their instants: those around the day, and the nearest before and after
	stalled []almanac.StalledSeries
	trail   []AuditStep // of the user
	rule    whyRule
	cut     whyCut
	whyLanes
	// broadcasts are those of the day, newest first, and sent has the used keys of those of which the user has no event there.
	broadcasts []broadcast.About
	sent       map[almanac.Series]almanac.UsedKeys
	// channels are those that the handler chooses now for the events of the answers.
	channels map[uuid.UUID]almanac.Channel
}

// whyLanes are what events wait for.
type whyLanes struct {
	pauses []almanac.Pause
	lanes  []almanac.Lane
	waits  map[string]LaneWait // what the first ready event of each lane waits for; empty without Statistics
}

// whyCut says which events were not all read, because there are too many.
type whyCut struct{ day, before, after, open bool }

// whyRule is what the handler says about the day, for the user as stored now.
type whyRule struct {
	seen      time.Time // when a running program with the handler was last seen; zero if that is unknown
	missing   bool      // this program has no handler of the type
	err       error
	due       []almanac.Occurrence // those of the day, as if the user had no opt-outs
	skipped   []almanac.Occurrence // those that clocks skip, in UTC
	later     bool                 // it has an occurrence after the day
	overrides bool                 // it has them whatever the user has opted out of
	oneOff    bool                 // the handler is one of a type without a rule
	cut       bool                 // it has too many occurrences before the day to find those that were moved there
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
	dayPages   = 6                // pages of a thousand events around the day that are read: a type of each minute has four
	mostNear   = 200              // events before them, after them, and open ones
	mostTrails = 10               // events of a result whose trails are read
	mostLanes  = 10               // lanes about which Statistics are asked
	unseen     = 15 * time.Minute // after so long, no program with the handler runs
	mostMoved  = 1000             // occurrences among which those are searched that were moved to the day
)

func (g whyGatherer) gather(ctx context.Context) (f whyFacts, err error) {
	f.request = g.request
	if f.now, err = g.repository.Now(ctx); err != nil {
		return f, err
	}
	if f.user, err = g.repository.User(ctx, g.request.User); err != nil {
		return f, err
	}
	if f.events, f.cut, err = g.events(ctx); err != nil {
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
	if g.options.Trail != nil {
		if f.trail, err = g.options.Trail(ctx, g.request.User); err != nil {
			return f, err
		}
	}
	if f.rule, err = g.rule(ctx, f.user); err != nil {
		return f, err
	}
	settings, err := g.repository.Settings(ctx)
	if err != nil {
		return f, err
	}
	for _, one := range settings {
		if one.IsOfHandler(g.request.Type) {
			f.rule.seen = one.Since
		}
	}
	if err := g.broadcasts(ctx, &f); err != nil {
		return f, err
	}
	f.channels = g.channels(ctx, f)
	if g.options.Statistics != nil {
		f.waits, err = g.waits(ctx, f)
	} else {
		f.lanes, err = g.repository.Lanes(ctx)
	}
	return f, cmp.Or(err, ctx.Err())
}

// channels returns the channels of the events of the answers, as far as they are known.
func (g whyGatherer) channels(ctx context.Context, f whyFacts) map[uuid.UUID]almanac.Channel {
	all := make(map[uuid.UUID]almanac.Channel)
	for _, e := range f.events {
		if len(all) < mostAnswers && f.concerns(e) && (!e.Status.Terminal() || e.FailureReason == almanac.ReasonOptedOut) {
			all[e.ID], _ = g.scheduler.ChannelOf(ctx, e)
		}
	}
	return all
}

// waits returns what the first ready event of each lane waits for.
func (g whyGatherer) waits(ctx context.Context, f whyFacts) (map[string]LaneWait, error) {
	all := make(map[string]LaneWait)
	for _, e := range f.events {
		_, known := all[laneOf(e)]
		if known || len(all) == mostLanes || e.Status != almanac.Pending || e.AvailableAt.After(f.now) || !f.concerns(e) {
			continue
		}
		wait, err := g.options.Statistics.LaneWait(ctx, e)
		if err != nil {
			return nil, err
		}
		all[laneOf(e)] = wait
	}
	return all, nil
}

// events reads a bounded number of events. Clocks of any zone show the day within the first range.
func (g whyGatherer) events(ctx context.Context) (all []almanac.Event, cut whyCut, err error) {
	from := calendar.WallTime{Date: g.request.Day}.Labelled().Add(-16 * time.Hour)
	until := from.Add(56 * time.Hour)
	mine := almanac.And{almanac.ForUser(g.request.User), almanac.OfType(g.request.Type)}
	for _, part := range []struct {
		spec  almanac.Spec
		page  almanac.Page
		pages int
		more  *bool
	}{
		{almanac.DueBetween{From: from, Until: until}, almanac.Page{Limit: 1000}, dayPages, &cut.day},
		{almanac.DueBetween{Until: from}, almanac.Page{Limit: mostNear, Order: almanac.NewestFirst}, 1, &cut.before},
		{almanac.DueBetween{From: until}, almanac.Page{Limit: mostNear}, 1, &cut.after},
	} {
		for range part.pages {
			found, err := g.repository.Find(ctx, append(mine[:2:2], part.spec), part.page)
			if err != nil {
				return nil, cut, err
			}
			all = append(all, found.Items...)
			part.page.After, *part.more = found.Next, found.Next != ""
			if found.Next == "" {
				break
			}
		}
	}
	sortEvents(all)
	return slices.CompactFunc(all, func(a, b almanac.Event) bool { return a.ID == b.ID }), cut, nil
}

// sortEvents sorts events by their instants.
func sortEvents(events []almanac.Event) {
	slices.SortFunc(events, func(a, b almanac.Event) int {
		return cmp.Or(a.Due.Compare(b.Due), strings.Compare(a.ID.String(), b.ID.String()))
	})
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

// preview previews n occurrences from an instant, which may have passed.
func (g whyGatherer) preview(ctx context.Context, u almanac.User, from time.Time, n int) ([]almanac.Occurrence, error) {
	found, err := g.scheduler.With(asOf{g.repository, from}).PreviewUser(ctx, u, g.request.Type, n)
	return found.Ahead, err
}

// moves is how many days before a day an occurrence is searched that a holiday moved there.
const moves = 10

func (g whyGatherer) rule(ctx context.Context, u almanac.User) (rule whyRule, err error) {
	owed := u
	owed.OptOuts = nil
	begins := firstOf(g.request.Day, u.Timezone).Add(-time.Second)
	ahead, err := g.preview(ctx, owed, begins, mostAnswers+1)
	switch {
	case errors.Is(err, almanac.ErrUnsupportedEventType):
		return whyRule{missing: true}, nil
	case ctx.Err() != nil:
		return rule, ctx.Err()
	}
	rule.err, rule.later = err, slices.ContainsFunc(ahead, func(o almanac.Occurrence) bool { return g.request.Day.Before(o.Wall.Date) })
	rule.due = slices.DeleteFunc(ahead, func(o almanac.Occurrence) bool { return !isOf(o, g.request.Day) })
	if len(rule.due) == 0 {
		moved, _ := g.preview(ctx, owed, begins.AddDate(0, 0, -moves), mostMoved) // its error is that of the rule
		rule.cut = len(moved) == mostMoved && moved[mostMoved-1].Wall.Date.Before(g.request.Day)
		rule.due = slices.DeleteFunc(moved, func(o almanac.Occurrence) bool { return !isOf(o, g.request.Day) })
	}
	if _, rejected := rejectedOn(rule.err); !rejected {
		rule.skipped = g.skipped(ctx, owed, rule.due)
	}
	if h, err := g.scheduler.Registry().Handler(g.request.Type); err == nil {
		c, configures := h.(almanac.Configurer)
		rule.overrides = configures && c.Settings().OverrideOptOuts
		_, rule.oneOff = h.(almanac.OneOff)
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
	there, _ := g.preview(ctx, u, change.From().Labelled().Add(-time.Second), mostAnswers+1)
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

// addTrails adds the trails of the first events of answers.
func (g whyGatherer) addTrails(ctx context.Context, answers []WhyAnswer) (err error) {
	trails := 0
	for i := range answers {
		e := answers[i].Event
		if e == nil || g.options.Trail == nil || trails == mostTrails {
			continue
		}
		trails++
		if e.Trail, err = g.options.Trail(ctx, e.ID); err != nil {
			return err
		}
	}
	return nil
}

// next returns the pending event that can be claimed first and is not refused, or what comes next in a series that goes on.
func (g whyGatherer) next(ctx context.Context, f whyFacts) (*WhyNext, error) {
	mine := almanac.And{almanac.ForUser(g.request.User), almanac.OfType(g.request.Type)}
	found, err := g.repository.Find(ctx, append(mine[:2:2], almanac.InStatus(almanac.Pending)), almanac.Page{Limit: mostTrails, Order: almanac.NextFirst})
	if err != nil {
		return nil, err
	}
	for _, e := range found.Items {
		if channel, _ := g.scheduler.ChannelOf(ctx, e); f.refusal(e, channel) == nil {
			return &WhyNext{
				EventID: &e.ID, Series: e.Series, OccurrenceKey: e.OccurrenceKey, Due: e.Due, Local: e.Wall.String(), Zone: e.Zone,
				Start: f.starts(laneOf(e), e.AvailableAt),
			}, ctx.Err()
		}
	}
	flying, err := g.repository.Find(ctx, append(mine[:2:2], almanac.InStatus(almanac.Processing)), almanac.Page{Limit: mostNear})
	if err != nil {
		return nil, err
	}
	goesOn := func(o almanac.Occurrence) bool {
		return slices.ContainsFunc(flying.Items, func(e almanac.Event) bool { return e.Series == o.Series && e.Origin.Kind == almanac.OriginPlanned }) ||
			slices.ContainsFunc(f.stalled, func(s almanac.StalledSeries) bool { return s.Series.Name == o.Series })
	}
	if len(flying.Items)+len(f.stalled) == 0 {
		return nil, nil
	}
	ahead, _ := g.scheduler.Preview(ctx, g.request.User, g.request.Type, mostAnswers) // of its error, the answers tell
	i := slices.IndexFunc(ahead.Ahead, goesOn)
	if i < 0 {
		return nil, ctx.Err()
	}
	o := ahead.Ahead[i]
	return &WhyNext{
		Series: o.Series, OccurrenceKey: o.Key, Due: o.Resolution.Instant, Local: o.Resolution.Shown().String(), Zone: o.Zone.String(),
		Start: f.starts(g.request.Type, o.Available),
	}, ctx.Err()
}
