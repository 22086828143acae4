package ops

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
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
		if f.isOfDay(e) || f.ranOn(e) == f.request.Day {
			explained[e.ID] = true
			add(f.ofEvent(e))
		}
	}
	for _, o := range f.rule.due {
		repeated := slices.ContainsFunc(f.events, func(e almanac.Event) bool {
			if !f.isEventOf(e, o) {
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
	for _, b := range f.broadcasts {
		sent := false
		for _, e := range f.events {
			if !isOfBroadcast(e, b) {
				continue
			}
			if sent = true; !explained[e.ID] {
				explained[e.ID] = true
				add(f.ofEvent(e))
			}
		}
		if !sent {
			add(f.ofUnsent(b))
		}
	}
	for _, o := range f.rule.skipped {
		add(WhyAnswer{Code: WhyClockSkipped, WhyOccurrence: WhyOccurrence{Series: o.Series, OccurrenceKey: o.Key, Local: o.Wall.String(), Due: o.Resolution.Instant}})
	}
	if rejected, is := rejectedOn(f.rule.err); is && rejected.Wall.Date == f.request.Day {
		add(WhyAnswer{Code: WhyRejected, WhyOccurrence: WhyOccurrence{Local: rejected.Wall.String(), How: rejected.Change.String(), Due: rejected.Change.At}})
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

func (f whyFacts) isOfDay(e almanac.Event) bool {
	return e.Wall.Date == f.request.Day || e.Nominal.Date == f.request.Day
}

// ranOn returns the day of the user's calendar on which an event was delivered or failed, or the zero Date.
func (f whyFacts) ranOn(e almanac.Event) calendar.Date {
	switch e.Status {
	case almanac.Completed:
		return f.user.Timezone.WallTime(e.ExecutedAt).Date
	case almanac.Failed:
		return f.user.Timezone.WallTime(e.UpdatedAt).Date
	}
	return calendar.Date{}
}

// belongsTo returns the day of an event before something moved it.
func belongsTo(e almanac.Event) calendar.Date {
	if e.Nominal != (calendar.WallTime{}) {
		return e.Nominal.Date
	}
	return e.Wall.Date
}

// isEventOf reports whether an event was planned for an occurrence.
func (f whyFacts) isEventOf(e almanac.Event, o almanac.Occurrence) bool {
	return e.Origin.Kind == almanac.OriginPlanned && e.Series == o.Series && e.OccurrenceKey == o.Key && e.KeyUnit == o.Unit
}

// concerns reports whether an answer is about an event.
func (f whyFacts) concerns(e almanac.Event) bool {
	return f.isOfDay(e) || slices.ContainsFunc(f.rule.due, func(o almanac.Occurrence) bool { return f.isEventOf(e, o) }) ||
		slices.ContainsFunc(f.broadcasts, func(b broadcast.About) bool { return isOfBroadcast(e, b) })
}

// ofEvent explains an event.
func (f whyFacts) ofEvent(e almanac.Event) WhyAnswer {
	a := WhyAnswer{Code: f.codeOf(e), WhyOccurrence: WhyOccurrence{Series: e.Series, OccurrenceKey: e.OccurrenceKey, Day: belongsTo(e), Due: e.Due, Local: e.Wall.String()}}
	a.Event = &WhyEvent{
		ID: e.ID, Status: e.Status, IdempotencyKey: e.IdempotencyKey, Lane: laneOf(e), AvailableAt: e.AvailableAt, RanOn: f.ranOn(e),
		WhyAttempts: WhyAttempts{e.RetryCount, e.CrashCount, e.LastError}, WhyRequeue: f.requeue(e),
	}
	a.Broadcast = f.broadcastOf(e)
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
		f.hold(&a, e)
	}
	switch {
	case a.Code == WhyOptedOut:
		a.Detail = "" // says the same
		a.OptOut = f.optOutAt(e.Wall.Date, a.Event.EndedAt, f.channels[e.ID])
	case !e.Status.Terminal():
		a.Event.Channel = f.channels[e.ID]
		a.OptOut = f.refusal(e, a.Event.Channel)
	}
	return a
}

// requeue says whether an event was requeued, or repeats another one.
func (f whyFacts) requeue(e almanac.Event) (r WhyRequeue) {
	repeats := e.Origin.Kind == almanac.OriginRequeued
	if repeats {
		r.RequeuedAt = e.CreatedAt
	}
	for _, one := range f.events {
		switch {
		case repeats && one.ID == e.Origin.From:
			r.Repeats = &WhyRepeat{one.ID, one.UpdatedAt, one.FailureReason}
		case one.Origin.Kind == almanac.OriginRequeued && one.Origin.From == e.ID:
			r.RepeatedBy = &WhyRepeat{ID: one.ID, At: one.CreatedAt}
		}
	}
	return r
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
	case !f.fails(lane).IsZero():
		return WhyReceiverFails
	case f.hasUsedItsDay(lane):
		return WhyQuotaUsed
	case f.isFull(lane):
		return WhyLaneFull
	case f.now.Sub(e.AvailableAt) >= time.Minute && !f.rule.seen.IsZero() && f.now.Sub(f.rule.seen) > unseen:
		return WhyNoProgram
	case f.now.Sub(e.AvailableAt) >= time.Minute:
		return WhyUnclaimed
	}
	return WhyScheduled
}

// hold says until when a pending event waits.
func (f whyFacts) hold(a *WhyAnswer, e almanac.Event) {
	lane := laneOf(e)
	a.Pause = f.pauseAfter(lane, e.AvailableAt)
	switch a.Code {
	case WhyPaused:
		a.Until = f.pauseOf(lane).Until
	case WhyReceiverFails:
		a.Until = f.fails(lane)
	case WhyQuotaUsed:
		a.Until = f.now.UTC().Truncate(day).Add(day)
	case WhyLaneFull:
		if is, waits := f.waits[lane].Start(); waits && is.Kind == Estimated && is.At.After(f.now) {
			a.Until = is.At
		}
	case WhyUnclaimed, WhyNoProgram:
		a.Event.HandlerSeen = f.rule.seen
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

// pauseAfter returns the pause of pauseOf if it lasts longer than until an instant, or nil.
func (f whyFacts) pauseAfter(lane string, at time.Time) *WhyPause {
	if pause := f.pauseOf(lane); pause != nil && (pause.Until.IsZero() || pause.Until.After(at)) {
		return (*WhyPause)(pause)
	}
	return nil
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

// fails returns when the receiver of a lane is tried next, or zero if it does not fail.
func (f whyFacts) fails(lane string) (until time.Time) {
	wait := f.waits[lane]
	for _, one := range []LaneLoad{wait.Lane, wait.In} {
		if one.Breaker.Allowed > 0 {
			until = latest(until, one.Breaker.RetryAt)
		}
	}
	return until
}

// hasUsedItsDay reports whether a lane has started as many events on this day as it may.
func (f whyFacts) hasUsedItsDay(lane string) bool {
	wait := f.waits[lane]
	return slices.ContainsFunc([]LaneLoad{wait.Lane, wait.In}, func(one LaneLoad) bool { return one.Daily > 0 && one.Today >= one.Daily })
}

// isFull reports whether a lane has limits, and no room for the event that waits for it, as far as is known.
func (f whyFacts) isFull(lane string) bool {
	wait, known := f.waits[lane]
	if !known {
		return slices.ContainsFunc(f.lanes, func(l almanac.Lane) bool { return slices.Contains(within(lane), l.Name) && l.Limited() })
	}
	for _, one := range []LaneLoad{wait.Lane, wait.In} {
		if one.Places > 0 && one.InFlight >= one.Places {
			return true
		}
	}
	is, waits := wait.Start()
	return waits && (wait.Lane.Limited() || wait.In.Limited()) && is.At.After(f.now)
}
