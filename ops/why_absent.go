package ops

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// ofAbsent explains an occurrence that has no event.
func (f whyFacts) ofAbsent(o almanac.Occurrence) WhyAnswer {
	a := WhyAnswer{WhyOccurrence: WhyOccurrence{
		Series: o.Series, OccurrenceKey: o.Key, Day: o.Wall.Date, Due: o.Resolution.Instant, Local: o.Resolution.Shown().String(), How: o.Reason(),
	}}
	series := almanac.Series{Type: f.request.Type, Name: o.Series}
	used := f.rule.used[series]
	key, _ := used.Of(o.Unit)
	named := key.Key == o.Key && key.Key != ""
	day := o.Wall.Date
	if f.user.CreatedAt.After(o.Available) {
		a.Code, a.Until = WhyCreatedLater, f.user.CreatedAt
		return a
	}
	if f.cut.day {
		a.Code = WhyUnknown
		return a
	}
	if !f.rule.overrides && !named {
		if a.OptOut = f.optOutAt(day, a.Due, ""); a.OptOut != nil {
			a.Code = WhyOptedOut
			return a
		}
	}
	if i := slices.IndexFunc(f.stalled, func(s almanac.StalledSeries) bool { return s.Series == series && s.Due.Before(a.Due) }); i >= 0 {
		a.Code, a.Detail, a.Until = WhyStalled, f.stalled[i].Error, f.stalled[i].RetryAt
		return a
	}
	before, after := f.neighbours(o)
	open := before != nil && !before.Status.Terminal()
	switch {
	case !open && !named && (before == nil && f.cut.before || after == nil && f.cut.after):
		a.Code = WhyUnknown
	case o.Available.After(f.now) && !named:
		a.Code, a.OptOut = f.comingCode(o, used, before, after), f.channelRefusal(day)
	case named:
		a.Code = WhyPruned
	default:
		a.Code, a.Until = f.passedCode(o, used, before, after)
	}
	if a.Code == WhyExpected || a.Code == WhyBehind {
		a.Pause = f.pauseAfter(f.request.Type, a.Due)
	}
	return a
}

// optOutAt returns the opt-out of a channel or of all channels that refuses an occurrence of a day, and was stored before
// an instant: as the user has it now or, as far as the trail says, had it then. With the channel "", it is one of all channels.
func (f whyFacts) optOutAt(day calendar.Date, at time.Time, by almanac.Channel) *almanac.OptOut {
	refuses := func(o almanac.OptOut) bool {
		return f.isAgainst(o, day) && !o.Since.After(at) && (o.Channel == "" || o.Channel == by)
	}
	if i := slices.IndexFunc(f.user.OptOuts, refuses); i >= 0 {
		return &f.user.OptOuts[i]
	}
	last := "null" // the last step before the instant has all that the user refused then
	for _, step := range f.trail {
		if step.Kind == "opt_outs_changed" && !step.At.After(at) {
			last = step.Detail
		}
	}
	var then []almanac.OptOut
	if json.Unmarshal([]byte(last), &then) != nil {
		return nil // written by another program
	}
	if i := slices.IndexFunc(then, refuses); i >= 0 && !at.After(f.now) {
		return &then[i]
	}
	return nil
}

// isAgainst reports whether an opt-out refuses the type on a day, by some channel.
func (f whyFacts) isAgainst(o almanac.OptOut, day calendar.Date) bool {
	return (o.Type == "" || o.Type == f.request.Type) && (o.Until == calendar.Date{} || day.Before(o.Until))
}

// refusal returns the opt-out for which an open event will be called off, or nil. by is its channel, or "" if that is unknown.
func (f whyFacts) refusal(e almanac.Event, by almanac.Channel) *almanac.OptOut {
	if f.rule.overrides || e.Origin.Forced {
		return nil
	}
	for i, o := range f.user.OptOuts {
		if f.isAgainst(o, e.Wall.Date) && (o.Channel == "" || o.Channel == by) {
			return &f.user.OptOuts[i]
		}
	}
	return nil
}

// channelRefusal returns an opt-out of a channel that refuses the type on a day to come, or nil. Such an opt-out does not keep the
// event from being planned.
func (f whyFacts) channelRefusal(day calendar.Date) *almanac.OptOut {
	if f.rule.overrides {
		return nil
	}
	i := slices.IndexFunc(f.user.OptOuts, func(o almanac.OptOut) bool { return o.Channel != "" && f.isAgainst(o, day) })
	if i < 0 {
		return nil
	}
	return &f.user.OptOuts[i]
}

// neighbours returns the planned events of the series of an occurrence that are nearest before and after it, or nil.
func (f whyFacts) neighbours(o almanac.Occurrence) (before, after *almanac.Event) {
	for i, e := range f.events {
		switch {
		case e.Series != o.Series || e.Origin.Kind != almanac.OriginPlanned:
		case e.Due.Before(o.Resolution.Instant):
			before = &f.events[i]
		case after == nil:
			after = &f.events[i]
		}
	}
	return before, after
}

// comingCode returns the code of an occurrence that is still to come.
func (f whyFacts) comingCode(o almanac.Occurrence, used almanac.UsedKeys, before, after *almanac.Event) WhyCode {
	switch {
	case used.Has(o.Occurrence):
		return WhyUsed
	case before != nil && !before.Status.Terminal():
		return WhyExpected
	case after != nil && !after.Status.Terminal():
		return WhyChanged
	}
	return WhyNotPlanned
}

// passedCode returns the code of an occurrence whose time has passed, and the instant that its text names.
func (f whyFacts) passedCode(o almanac.Occurrence, used almanac.UsedKeys, before, after *almanac.Event) (WhyCode, time.Time) {
	switch {
	case before != nil && !before.Status.Terminal():
		return WhyBehind, before.Due
	case before != nil && after != nil && before.UpdatedAt.After(o.Available):
		return WhyPassedOver, before.UpdatedAt
	case before != nil && after != nil && after.CreatedAt.After(o.Available):
		return WhyNotPlanned, after.CreatedAt // the series had no event in between
	case before != nil && after == nil:
		return WhyNotPlanned, time.Time{}
	case after != nil && after.CreatedAt.After(o.Available):
		return WhyBeforeFirst, after.CreatedAt
	case after != nil:
		return WhyChanged, after.CreatedAt
	case used.Has(o.Occurrence): // by a later occurrence, whose record was pruned
		return WhyBeforeFirst, time.Time{}
	}
	return WhyNotPlanned, time.Time{}
}

// ofNone says why a day has no occurrence.
func (f whyFacts) ofNone() WhyAnswer {
	switch {
	case f.rule.missing:
		return WhyAnswer{Code: WhyNoHandler}
	case f.rule.cut:
		return WhyAnswer{Code: WhyUnknown}
	case f.rule.err != nil && !f.rule.later:
		return WhyAnswer{Code: WhyRuleFails, Detail: f.rule.err.Error()}
	case !f.rule.later && !f.rule.oneOff:
		return WhyAnswer{Code: WhyEnded}
	}
	return WhyAnswer{Code: WhyNone}
}

// rejectedOn returns the wall time that a policy rejects, if err says that.
func rejectedOn(err error) (*calendar.WallTimeError, bool) {
	rejected, is := errors.AsType[*calendar.WallTimeError](err)
	return rejected, is && rejected.Rejected
}
