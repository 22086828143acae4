package ops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// write writes the texts of all answers.
func (r *WhyResult) write() {
	z := calendar.StoredTimezone(r.Zone)
	for i := range r.Answers {
		w := whyWords{result: r, zone: z}
		r.Answers[i].Text = w.text(r.Answers[i])
	}
}

// whyWords writes texts. Instants are shown as clocks in the user's zone show them.
type whyWords struct {
	result *WhyResult
	zone   calendar.Timezone
	shown  []whyTime // the times that a text may have
	exact  bool      // whether they are shown with fractions of a second
}

// whyTime is a time and how it is shown.
type whyTime struct {
	at   time.Time
	text string
}

// text returns the sentences of an answer. Its times have fractions of a second if two different ones would be shown alike.
func (w *whyWords) text(a WhyAnswer) string {
	text := w.sentences(a)
	alike := slices.ContainsFunc(w.shown, func(one whyTime) bool {
		return strings.Count(text, one.text) > 1 && slices.ContainsFunc(w.shown, func(o whyTime) bool { return o.text == one.text && !o.at.Equal(one.at) })
	})
	if !alike {
		return text
	}
	w.shown, w.exact = nil, true
	return w.sentences(a)
}

// sentences returns the sentences of an answer.
func (w *whyWords) sentences(a WhyAnswer) string {
	var text strings.Builder
	text.WriteString(w.sentence(a))
	text.WriteString(w.moved(a))
	if a.Event == nil && a.Pause != nil {
		fmt.Fprintf(&text, " %s", w.pause(*a.Pause))
	}
	if a.Event == nil && a.OptOut != nil && a.Code != WhyOptedOut {
		fmt.Fprintf(&text, " If it goes by %s, it will be called off before its attempt: %s.", a.OptOut.Channel, w.optOut(*a.OptOut))
	}
	if a.Event != nil && a.Event.Status == almanac.Pending {
		switch {
		case a.OptOut != nil:
			fmt.Fprintf(&text, " It will be called off before its attempt: %s.", w.optOut(*a.OptOut))
		case a.Pause != nil && a.Code != WhyPaused:
			fmt.Fprintf(&text, " %s", w.pause(*a.Pause))
		}
	}
	if e := a.Event; e != nil {
		text.WriteString(w.requeue(e.WhyRequeue))
	}
	if e := a.Event; e != nil && len(e.Trail) > 0 {
		if last := e.Trail[len(e.Trail)-1]; last.Principal != "" && e.Status.Terminal() {
			fmt.Fprintf(&text, " %s asked for it.", last.Principal)
		}
	}
	if a.How != "" && a.How != "exact" && a.Code != WhyRejected {
		fmt.Fprintf(&text, " How its time was found: %s.", a.How)
	}
	if slices.ContainsFunc(w.shown, func(one whyTime) bool { return strings.Contains(text.String(), one.text) }) {
		fmt.Fprintf(&text, " Times are those of %s.", w.zone)
	}
	return text.String()
}

// moved names the day of an event that was not attempted, if it is not that of the request or not that of its time.
func (w *whyWords) moved(a WhyAnswer) string {
	if a.Event == nil || a.Event.RanOn != (calendar.Date{}) || a.Day == w.result.Day && a.Day == w.zone.WallTime(a.Due).Date {
		return ""
	}
	return fmt.Sprintf(" It belongs to %s.", a.Day)
}

// requeue says what an event repeats, and what repeats it.
func (w *whyWords) requeue(r WhyRequeue) (text string) {
	switch {
	case r.Repeats != nil:
		text = fmt.Sprintf(" It was requeued at %s. It repeats an event that ended at %s%s.", w.time(r.RequeuedAt), w.time(r.Repeats.At), detail(r.Repeats.Reason))
	case !r.RequeuedAt.IsZero():
		text = fmt.Sprintf(" It was requeued at %s.", w.time(r.RequeuedAt))
	}
	if r.RepeatedBy != nil {
		text += fmt.Sprintf(" It was requeued at %s, as the event %s.", w.time(r.RepeatedBy.At), r.RepeatedBy.ID)
	}
	return text
}

// unsent says why a broadcast has stored no event for the user.
func (w *whyWords) unsent(a WhyAnswer) string {
	b := *a.Broadcast
	switch a.Code {
	case WhyPruned:
		return fmt.Sprintf("The user had an event of the broadcast %s. The record of what became of it was pruned.", b.Name)
	case WhyUnknown:
		return fmt.Sprintf("It is unknown whether the user has an event of the broadcast %s, because the user has more events of %s than are read.", b.Name, w.result.Type)
	case WhyCreatedLater:
		return fmt.Sprintf("The broadcast %s was created at %s. The user was created only at %s, which was too late for it.", b.Name, w.time(b.CreatedAt), w.time(a.Until))
	case WhyOptedOut:
		return fmt.Sprintf("The broadcast %s has no event for the user: %s.", b.Name, w.optOut(*a.OptOut))
	case WhyNotInAudience:
		return fmt.Sprintf("The broadcast %s is for a part of the users: those of a list, or with certain attributes, locales or zones. The user, as stored now, is not among them.", b.Name)
	case WhyHourPassed:
		return fmt.Sprintf("The broadcast %s was for %s. This time had passed in %s when the broadcast was created, at %s, and it leaves out such zones.", b.Name, a.Local, w.zone, w.time(b.CreatedAt))
	case WhyNotStored:
		if b.State == broadcast.Collecting {
			return fmt.Sprintf("The list of users of the broadcast %s is not complete yet. Until then, no event is stored.", b.Name)
		}
		return fmt.Sprintf("The broadcast %s is due at %s, and has not stored an event for the user yet. It is still storing events.", b.Name, w.time(a.Due))
	case WhyStopped:
		return fmt.Sprintf("The broadcast %s has stored no event for the user. It %s.", b.Name, w.stop(b))
	}
	text := fmt.Sprintf("The broadcast %s has stored no event for the user, though it is for users as this one is now. Why is not stored: no event could be planned or stored, or the user had another zone or other data then.", b.Name)
	if !a.Until.IsZero() {
		text += fmt.Sprintf(" The user was changed last at %s, after the broadcast was created.", w.time(a.Until))
	}
	return text
}

// stop says when, by whom and why a broadcast was stopped.
func (w *whyWords) stop(b WhyBroadcast) string {
	text := "was stopped at " + w.time(b.StoppedAt)
	if b.StoppedBy != "" {
		text += " by " + b.StoppedBy
	}
	return text + detail(b.StopReason)
}

// sentence returns the sentences that the code of an answer has.
func (w *whyWords) sentence(a WhyAnswer) string {
	switch {
	case a.Event != nil && a.Broadcast != nil:
		return w.ofEvent(a) + fmt.Sprintf(" It belongs to the broadcast %s.", a.Broadcast.Name)
	case a.Event != nil:
		return w.ofEvent(a)
	case a.Broadcast != nil:
		return w.unsent(a)
	}
	r, at := w.result, w.time(a.Due)
	until := w.time(a.Until)
	switch a.Code {
	case WhyUserUnknown:
		return "There is no such user, or the user was deleted. Nothing is kept of a deleted user."
	case WhyCreatedLater:
		return fmt.Sprintf("It would have been due at %s, but the user was created only at %s.", at, until)
	case WhyOptedOut:
		return fmt.Sprintf("It was not owed at %s: %s.", at, w.optOut(*a.OptOut))
	case WhyClockSkipped:
		return fmt.Sprintf("Clocks in %s do not show %s on this day, and the rule leaves out a time that they skip.", r.Zone, a.Local)
	case WhyRejected:
		return fmt.Sprintf("The policy reject refuses %s in %s: %s.", a.Local, r.Zone, a.How)
	case WhyExpected:
		return fmt.Sprintf("It is due at %s. Its event is planned when the earlier events of the series have ended.", at)
	case WhyBehind:
		return fmt.Sprintf("It was due at %s, but the event of the series before it, due at %s, has not ended yet.", at, until)
	case WhyPassedOver:
		return fmt.Sprintf("It was due at %s. The event of the series before it ended only at %s, and the series went on with a later occurrence.", at, until)
	case WhyChanged:
		return fmt.Sprintf("By the present rule and the present data of the user it belongs to %s. Both, or one of them, were different when the series was planned.", at)
	case WhyBeforeFirst:
		if a.Until.IsZero() {
			return fmt.Sprintf("It was due at %s. Nothing is known of the series at that time: the type or an opt-in is newer, or the records were pruned.", at)
		}
		return fmt.Sprintf("It was due at %s. The first known event of the series was planned only at %s: the type or an opt-in is newer, or older records were pruned.", at, until)
	case WhyUsed:
		return fmt.Sprintf("It would be due at %s, but it counts as used: it was used before, or the rule has changed.", at)
	case WhyPruned:
		return fmt.Sprintf("It was due at %s, and was used. The record of what became of it was pruned.", at)
	case WhyStalled:
		return fmt.Sprintf("It belongs to %s, but the series stands still, because its next event cannot be planned%s. The next attempt is at %s.", at, detail(a.Detail), until)
	case WhyNotPlanned:
		if !a.Until.IsZero() {
			return fmt.Sprintf("It was due at %s, when the series had no open event. The next event was planned only at %s.", at, until)
		}
		return fmt.Sprintf("It belongs to %s, but the series has no open event, and no record of it is left. A reschedule of the user, or a backfill of the type, plans what is still to come.", at)
	case WhyUnknown:
		if !a.Due.IsZero() {
			return fmt.Sprintf("It belongs to %s. What became of it is unknown, because the user has more events of %s than are read.", at, r.Type)
		}
	}
	return w.ofDay(a)
}

// ofDay is about a day without an occurrence.
func (w *whyWords) ofDay(a WhyAnswer) string {
	r := w.result
	switch a.Code {
	case WhyRuleFails:
		return fmt.Sprintf("The handler of %s cannot say what happens on this day%s.", r.Type, detail(a.Detail))
	case WhyEnded:
		return fmt.Sprintf("The rule of %s has no occurrence for this user on this day or later.", r.Type)
	case WhyUnknown:
		return fmt.Sprintf("It is unknown whether the rule of %s has an occurrence on this day, because it has too many.", r.Type)
	case WhyNoHandler:
		return fmt.Sprintf("No event of %s is known on this day, and this program has no handler of the type that could say more.", r.Type)
	default:
		if r.oneOff {
			return fmt.Sprintf("No event of %s is known for this user on this day. The type has no rule: its events are scheduled one by one.", r.Type)
		}
		return fmt.Sprintf("The rule of %s has no occurrence for this user on this day.", r.Type)
	}
}

// ofEvent is about an occurrence that has an event.
func (w *whyWords) ofEvent(a WhyAnswer) string {
	e, at, until := *a.Event, w.time(a.Due), w.time(a.Until)
	ended := w.time(e.EndedAt)
	switch a.Code {
	case WhyDelivered:
		return w.ran(a, fmt.Sprintf("was delivered at %s, under the key %s, after %s", ended, e.IdempotencyKey, attempts(e.Attempts)))
	case WhyFailed:
		return w.ran(a, fmt.Sprintf("failed at %s after %s%s", ended, attempts(e.Attempts), detail(a.Detail)))
	case WhyCalledOff:
		return fmt.Sprintf("It was called off at %s, before or during its attempt%s.", ended, detail(a.Detail))
	case WhyCancelled:
		if a.Broadcast != nil && !a.Broadcast.StoppedAt.IsZero() {
			return fmt.Sprintf("It was cancelled at %s, because its broadcast %s.", ended, w.stop(*a.Broadcast))
		}
		return fmt.Sprintf("It was cancelled at %s%s.", ended, detail(a.Detail))
	case WhyOptedOut:
		if a.OptOut == nil {
			return fmt.Sprintf("It was called off at %s, because the user had opted out.", ended)
		}
		return fmt.Sprintf("It was called off at %s: %s.", ended, w.optOut(*a.OptOut))
	case WhyInFlight:
		return fmt.Sprintf("It was due at %s, and a program is delivering it.", at)
	case WhySpread:
		return fmt.Sprintf("It was due at %s. Its type is spread over a window, and it starts at %s.", at, until)
	case WhyQuiet:
		return fmt.Sprintf("It was due at %s, and waits for the end of quiet hours at %s.", at, until)
	case WhyRetrying:
		return fmt.Sprintf("It was due at %s. %s failed%s. The next attempt is at %s.", at, capital(attempts(e.Attempts)), detail(a.Detail), until)
	case WhyPostponed:
		return fmt.Sprintf("It was due at %s, and was postponed until %s%s.", at, until, detail(a.Detail))
	case WhyPaused:
		return fmt.Sprintf("It was due at %s, and waits. %s", at, w.pause(*a.Pause))
	case WhyLaneFull:
		return fmt.Sprintf("It was due at %s, and waits for room in the lane %s, which has limits.", at, e.Lane)
	case WhyQuotaUsed:
		return fmt.Sprintf("It was due at %s, and waits. The lane %s has started as many events on this day, by UTC, as it may. The next day begins at %s.", at, e.Lane, until)
	case WhyReceiverFails:
		return fmt.Sprintf("It was due at %s, and waits because the receiver of the lane %s fails. The next event of the lane is tried at %s.", at, e.Lane, until)
	case WhyNoProgram:
		return fmt.Sprintf("It was due at %s, and waits for a program that has a handler of %s. The last one was seen at %s.", at, w.result.Type, w.time(e.HandlerSeen))
	case WhyUnclaimed:
		if !e.HandlerSeen.IsZero() {
			return fmt.Sprintf("It was due at %s, and no program has claimed it. Programs that have a handler of %s are busy, or the last one ended less than 15 minutes ago.", at, w.result.Type)
		}
		return fmt.Sprintf("It was due at %s, and no program has claimed it. Either no running program has a handler of %s, or all of them are busy.", at, w.result.Type)
	default:
		return fmt.Sprintf("It is due at %s.", at)
	}
}

// ran says what became of an event that was attempted, and on which day, if that is not the day to which it belongs.
func (w *whyWords) ran(a WhyAnswer, what string) string {
	switch day := a.Event.RanOn; {
	case a.Day == day:
		return "It " + what + "."
	case w.result.Day == day:
		return fmt.Sprintf("The occurrence of %s ran on this day: it %s.", a.Day, what)
	default:
		return fmt.Sprintf("The occurrence of %s ran on %s: it %s.", a.Day, day, what)
	}
}

// optOut says who refuses what, since when and until when.
func (w *whyWords) optOut(o almanac.OptOut) string {
	what := "everything"
	if o.Type != "" {
		what = o.Type
	}
	if o.Channel != "" {
		what += " by " + string(o.Channel)
	}
	text := "the user has opted out of " + what
	if !o.Since.IsZero() {
		text += ", since " + w.time(o.Since)
	}
	if o.Author != "" {
		text += ", by " + o.Author
	}
	if o.Until != (calendar.Date{}) {
		text += ", until " + o.Until.String()
	}
	return text + detail(o.Reason)
}

// pause says what is paused, since when, by whom and until when.
func (w *whyWords) pause(p WhyPause) string {
	text := fmt.Sprintf("The lane %s is paused since %s", p.Lane, w.time(p.Since))
	if p.Author != "" {
		text += ", by " + p.Author
	}
	if !p.Until.IsZero() {
		text += ", until " + w.time(p.Until)
	}
	return text + detail(p.Reason) + "."
}

// time shows an instant as clocks in the user's zone do.
func (w *whyWords) time(at time.Time) string {
	if at.IsZero() {
		return "an unknown time"
	}
	wall := w.zone.WallTime(at)
	shown := fmt.Sprintf("%s %s", wall.Date, wall.Clock)
	if w.exact {
		shown += fmt.Sprintf(".%06d", at.Nanosecond()/1000)
	}
	w.shown = append(w.shown, whyTime{at, shown})
	return shown
}

// detail returns an error or a reason as the end of a sentence.
func detail(text string) string {
	if text == "" {
		return ""
	}
	return ": " + strings.TrimRight(text, ". ")
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return strconv.Itoa(n) + " attempts"
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
