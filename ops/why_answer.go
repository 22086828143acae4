package ops

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// whyNamed is an answer with the instant by which answers are ordered.
type whyNamed struct {
	at time.Time
	WhyAnswer
}

// answers returns what became of the occurrences of the day, without texts, and whether there are more.
func (f whyFacts) answers() (answers []WhyAnswer, more bool) {
	var named []whyNamed
	explained := make(map[uuid.UUID]bool)
	add := func(a WhyAnswer) { named = append(named, whyNamed{a.Due, a}) }
	for _, e := range f.events {
		if e.Wall.Date == f.request.Day || e.Nominal.Date == f.request.Day {
			explained[e.ID] = true
			add(f.ofEvent(e))
		}
	}
	for _, o := range f.rule.due {
		repeated := slices.ContainsFunc(f.events, func(e almanac.Event) bool {
			if !f.isEventOf(e, o) || e.Origin.Kind != almanac.OriginPlanned {
				return false
			}
			if !explained[e.ID] {
				explained[e.ID] = true
				add(f.ofEvent(e))
			}
			return true
		})
		if !repeated {
			add(f.ofAbsent(o))
		}
	}
	for _, o := range f.rule.skipped {
		add(WhyAnswer{Code: WhyClockSkipped, Series: o.Series, OccurrenceKey: o.Key, Local: o.Wall.String(), Due: o.Resolution.Instant})
	}
	if rejected, is := rejectedOn(f.rule.err); is && rejected.Wall.Date == f.request.Day {
		add(WhyAnswer{Code: WhyRejected, Local: rejected.Wall.String(), How: rejected.Change.String(), Due: rejected.Change.At})
	}
	slices.SortStableFunc(named, func(a, b whyNamed) int { return a.at.Compare(b.at) })
	for _, one := range named {
		if one.Code == WhyClockSkipped || one.Code == WhyRejected {
			one.Due = time.Time{} // there is no such instant
		}
		answers = append(answers, one.WhyAnswer)
	}
	if len(answers) == 0 {
		answers = []WhyAnswer{f.ofNone()}
	}
	return answers[:min(len(answers), mostAnswers)], len(answers) > mostAnswers
}

// isEventOf reports whether an event is of an occurrence.
func (f whyFacts) isEventOf(e almanac.Event, o almanac.Occurrence) bool {
	return e.Series == o.Series && e.OccurrenceKey == o.Key && e.KeyUnit == o.Unit
}

// ofEvent explains an event.
func (f whyFacts) ofEvent(e almanac.Event) WhyAnswer {
	a := WhyAnswer{Code: f.codeOf(e), Series: e.Series, OccurrenceKey: e.OccurrenceKey, Due: e.Due, Local: e.Wall.String()}
	a.Event = &WhyEvent{
		ID: e.ID, Status: e.Status, IdempotencyKey: e.IdempotencyKey, Lane: laneOf(e), AvailableAt: e.AvailableAt,
		Attempts: e.RetryCount, Crashes: e.CrashCount, LastError: e.LastError,
	}
	if i := slices.IndexFunc(f.rule.due, func(o almanac.Occurrence) bool {
		return f.isEventOf(e, o) && o.Resolution.Instant.Equal(e.Due)
	}); i >= 0 {
		a.How = f.rule.due[i].Reason()
	}
	switch {
	case e.Status == almanac.Completed:
		a.Event.Attempts, a.Event.EndedAt = e.RetryCount+1, e.ExecutedAt
	case e.Status.Terminal():
		a.Event.EndedAt, a.Detail = e.UpdatedAt, e.FailureReason
	case e.Status == almanac.Pending:
		f.waits(&a, e)
	}
	if a.Code == WhyOptedOut {
		a.Detail = "" // says the same
		a.OptOut = f.optOutAt(e.Wall.Date, a.Event.EndedAt, false)
	}
	return a
}

// codeOf returns the code of an event.
func (f whyFacts) codeOf(e almanac.Event) WhyCode {
	switch {
	case e.Status == almanac.Completed:
		return WhyDelivered
	case e.Status == almanac.Failed:
		return WhyFailed
	case e.Status == almanac.Processing:
		return WhyInFlight
	case e.Status == almanac.Cancelled && e.FailureReason == almanac.ReasonOptedOut:
		return WhyOptedOut
	case e.Status == almanac.Cancelled && e.LeaseToken == uuid.Nil:
		return WhyCancelled
	case e.Status == almanac.Cancelled:
		return WhyCalledOff
	case e.AvailableAt.After(f.now):
		return f.delayedCode(e)
	}
	return f.readyCode(e)
}

// delayedCode returns the code of a pending event that is not available yet.
func (f whyFacts) delayedCode(e almanac.Event) WhyCode {
	switch {
	case strings.HasPrefix(e.LastError, "quiet hours until "):
		return WhyQuiet
	case e.ClaimCount > 0 && e.RetryCount > 0:
		return WhyRetrying
	case e.ClaimCount > 0:
		return WhyPostponed
	case !e.ReadyAt.IsZero() && !e.Due.After(f.now):
		return WhySpread
	}
	return WhyScheduled
}

// readyCode returns the code of a pending event that can be claimed.
func (f whyFacts) readyCode(e almanac.Event) WhyCode {
	lane := laneOf(e)
	switch {
	case f.pauseOf(lane) != nil:
		return WhyPaused
	case f.fails(lane):
		return WhyReceiverFails
	case f.isFull(lane):
		return WhyLaneFull
	case f.now.Sub(e.AvailableAt) >= time.Minute:
		return WhyUnclaimed
	}
	return WhyScheduled
}

// waits says until when a pending event waits.
func (f whyFacts) waits(a *WhyAnswer, e almanac.Event) {
	lane := laneOf(e)
	pause := f.pauseOf(lane)
	if pause != nil && (pause.Until.IsZero() || pause.Until.After(e.AvailableAt)) {
		a.Pause = (*WhyPause)(pause)
	}
	switch a.Code {
	case WhyPaused:
		a.Until = pause.Until
	case WhyReceiverFails, WhyLaneFull:
		for _, one := range f.loadsOf(lane) {
			if until := one.ReadyAt; a.Code == WhyLaneFull && until.After(a.Until) {
				a.Until = until
			}
			if until := one.Breaker.RetryAt; a.Code == WhyReceiverFails && until.After(a.Until) {
				a.Until = until
			}
		}
	case WhyUnclaimed:
	default:
		a.Until = f.starts(lane, e.AvailableAt)
	}
	if a.Code == WhyRetrying || a.Code == WhyPostponed {
		a.Detail = e.LastError
	}
}

// laneOf returns the name of the lane of an event.
func laneOf(e almanac.Event) string { return cmp.Or(e.Lane, e.Type) }

// within returns a lane and the lane that contains it, if there is one.
func within(lane string) []string {
	if outer, _, ok := strings.Cut(lane, "/"); ok {
		return []string{lane, outer}
	}
	return []string{lane}
}

// pauseOf returns the pause of a lane, of the lane that contains it, or of the type, that ends last, or nil.
func (f whyFacts) pauseOf(lane string) (pause *almanac.Pause) {
	for _, p := range f.pauses {
		if (p.Lane == f.request.Type || slices.Contains(within(lane), p.Lane)) && (pause == nil || p.Until.IsZero() || !pause.Until.IsZero() && p.Until.After(pause.Until)) {
			pause = &p
		}
	}
	return pause
}

// starts returns when an event that is available at an instant starts at the earliest, or zero if its lane is
// paused without an end.
func (f whyFacts) starts(lane string, available time.Time) time.Time {
	pause := f.pauseOf(lane)
	switch {
	case pause == nil || !pause.Until.IsZero() && pause.Until.Before(available):
		return available
	}
	return pause.Until
}

// loadsOf returns what is known of a lane and of the lane that contains it.
func (f whyFacts) loadsOf(lane string) (loads []LaneLoad) {
	for _, one := range f.loads {
		if slices.Contains(within(lane), one.Name) {
			loads = append(loads, one)
		}
	}
	return loads
}

// fails reports whether the receiver of a lane fails.
func (f whyFacts) fails(lane string) bool {
	return slices.ContainsFunc(f.loadsOf(lane), func(one LaneLoad) bool { return one.Breaker.Allowed > 0 })
}

// isFull reports whether a lane has limits, and as far as is known no room. How much of a daily limit is used is unknown.
func (f whyFacts) isFull(lane string) bool {
	limited := slices.ContainsFunc(f.lanes, func(l almanac.Lane) bool { return slices.Contains(within(lane), l.Name) && l.Limited() })
	if !limited || f.loads == nil {
		return limited
	}
	return slices.ContainsFunc(f.loadsOf(lane), func(one LaneLoad) bool {
		return one.Places > 0 && one.InFlight >= one.Places || one.ReadyAt.After(f.now) || one.Daily > 0
	})
}

// ofAbsent explains an occurrence that has no event.
func (f whyFacts) ofAbsent(o almanac.Occurrence) WhyAnswer {
	a := WhyAnswer{
		Series: o.Series, OccurrenceKey: o.Key, Due: o.Resolution.Instant, Local: o.Resolution.Shown().String(), How: o.Reason(),
	}
	series := almanac.Series{Type: f.request.Type, Name: o.Series}
	used := f.rule.used[series]
	key, _ := used.Of(o.Unit)
	named := key.Key == o.Key && key.Key != ""
	day := o.Wall.Date
	if f.user.CreatedAt.After(o.Available) {
		a.Code, a.Until = WhyCreatedLater, f.user.CreatedAt
		return a
	}
	if a.OptOut = f.optOutAt(day, a.Due, true); a.OptOut != nil && !named {
		a.Code = WhyOptedOut
		return a
	}
	a.OptOut = nil
	if i := slices.IndexFunc(f.stalled, func(s almanac.StalledSeries) bool { return s.Series == series && s.Due.Before(a.Due) }); i >= 0 {
		a.Code, a.Detail, a.Until = WhyStalled, f.stalled[i].Error, f.stalled[i].RetryAt
		return a
	}
	before, after := f.neighbours(o)
	switch {
	case o.Available.After(f.now):
		a.Code = f.comingCode(o, used, before, after)
	case named:
		a.Code = WhyPruned
	default:
		a.Code, a.Until = f.passedCode(o, used, before, after)
	}
	return a
}

// optOutAt returns the opt-out that refuses an occurrence of a day, and was stored before an instant: as the
// user has it now or, as far as the trail says, had it then. Planning obeys opt-outs of all channels alone.
func (f whyFacts) optOutAt(day calendar.Date, at time.Time, planning bool) *almanac.OptOut {
	if planning && f.rule.overrides {
		return nil
	}
	refuses := func(o almanac.OptOut) bool {
		switch {
		case o.Type != "" && o.Type != f.request.Type || planning && o.Channel != "":
			return false
		case o.Since.After(at):
			return false
		}
		return !planning || o.Until == calendar.Date{} || day.Before(o.Until)
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

// refuse says that a pending event will be called off, if its user refuses its channel.
func (f whyFacts) refuse(a *WhyAnswer, e almanac.Event) {
	if e.Status.Terminal() || a.Event.Channel == "" || f.rule.overrides || e.Origin.Forced {
		return
	}
	for i, o := range f.user.OptOuts {
		concerns := (o.Type == "" || o.Type == e.Type) && o.Channel == a.Event.Channel
		if concerns && (o.Until == calendar.Date{} || e.Wall.Date.Before(o.Until)) {
			a.OptOut = &f.user.OptOuts[i]
		}
	}
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
	case before != nil && after != nil:
		return WhyChanged, after.CreatedAt
	case before != nil:
		return WhyNotPlanned, time.Time{}
	case after != nil && after.CreatedAt.After(o.Available) && !after.Status.Terminal() && len(used) > 0:
		return WhyPruned, time.Time{} // the events that used the keys
	case after != nil && after.CreatedAt.After(o.Available):
		return WhyBeforeFirst, after.CreatedAt
	case after != nil:
		return WhyChanged, after.CreatedAt
	case used.Has(o.Occurrence):
		return WhyPruned, time.Time{}
	}
	return WhyNotPlanned, time.Time{}
}

// ofNone says why a day has no occurrence.
func (f whyFacts) ofNone() WhyAnswer {
	switch {
	case f.rule.missing:
		return WhyAnswer{Code: WhyNoHandler}
	case f.rule.err != nil && !f.rule.later:
		return WhyAnswer{Code: WhyRuleFails, Detail: f.rule.err.Error()}
	case !f.rule.later:
		return WhyAnswer{Code: WhyEnded}
	}
	return WhyAnswer{Code: WhyNone}
}

// rejectedOn returns the wall time that a policy rejects, if err says that.
func rejectedOn(err error) (*calendar.WallTimeError, bool) {
	rejected, is := errors.AsType[*calendar.WallTimeError](err)
	return rejected, is && rejected.Rejected
}
