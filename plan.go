package almanac

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/slots"
)

// maxSteps limits how many occurrences in a row a search skips because of a policy.
const maxSteps = 1000

// plan returns the event of u's first occurrence strictly after the given point that is
// not used. So an occurrence that was ever claimed is never planned again, even after the
// user has moved or the rule has changed.
func plan(h EventHandler, u User, b beyond) (Event, error) {
	return search(h, u, b, func(o Occurrence) (Event, error) {
		id, err := uuid.NewV7()
		if err != nil {
			return Event{}, fmt.Errorf("almanac: new event id: %w", err)
		}
		e := Event{ID: id, Payload: b.payload}
		return e, e.makeFor(&u, h, &o)
	})
}

// beyond is the point after which an occurrence is sought: an instant, and the used keys.
type beyond struct {
	after   time.Time
	used    UsedKeys
	payload json.RawMessage // of the event before, as stored; nil if there is none
	began   time.Time       // when an event of the occurrence must not have been available yet; zero for any time
}

// passed reports whether an event of an occurrence was available already. Only an occurrence in a window of
// the week can be: it is spread over less than its type.
func (b *beyond) passed(h EventHandler, u *User, o *Occurrence) bool {
	if b.began.IsZero() {
		return false
	}
	if _, limited := o.OpenFor(); !limited {
		return false
	}
	by := Series{Type: h.EventType(), Name: o.Series}.Spread(u.ID, spreadOver(o.Occurrence, givenExecution(h).Spread))
	return !o.Resolution.Instant.Add(by).After(b.began)
}

// search returns the event that take makes from u's first occurrence beyond b. It skips
// occurrences that a policy skips, and those of the day on which the last event ended by
// keys of another unit. On one day there are few, because their keys are no times.
func search(h EventHandler, u User, b beyond, take func(Occurrence) (Event, error)) (Event, error) {
	for range maxSteps {
		o, from, err := seek(h, u, b.after, func(o Occurrence) bool { return b.used.precede(&o.Occurrence) || b.passed(h, &u, &o) })
		if err != nil {
			return Event{}, err
		}
		if !b.used.Has(o.Occurrence) {
			if e, err := take(o); !errors.Is(err, calendar.ErrSkippedWallTime) {
				return e, err
			}
		}
		if b.after, err = pass(o, from); err != nil {
			return Event{}, err
		}
	}
	return Event{}, fmt.Errorf("almanac: handler of %q: policies skip %d occurrences in a row", h.EventType(), maxSteps)
}

const (
	// fewSteps is how many occurrences are tried one after the other before the search
	// jumps. Usually the first occurrence is the result.
	fewSteps = 8
	// maxJump keeps durations within their range.
	maxJump  = 100 * 365 * 24 * time.Hour
	lastYear = 9999 // of the calendar
)

// seek returns u's first occurrence strictly after the given point that is not too
// early, and an instant between it and the occurrence before it. All occurrences that are
// too early come before those that are not. So the search jumps ahead, twice as far each
// time, and then bisects. A day of occurrences every second takes about thirty steps.
func seek(h EventHandler, u User, after time.Time, early func(Occurrence) bool) (o Occurrence, from time.Time, err error) {
	begin := after
	for range fewSteps {
		if o, err = nextOf(h, &u, after); err != nil || !early(o) {
			return o, after, err
		}
		if after, err = pass(o, after); err != nil {
			return o, after, err
		}
	}
	// tooEarly reports whether the occurrence after an instant is too early. If so, it
	// moves after to that occurrence. An error may belong to an occurrence after the
	// result, so it ends the search only in the last loop, on the way to the result.
	tooEarly := func(at time.Time) bool {
		o, err := nextOf(h, &u, at)
		if err != nil || !early(o) {
			return false
		}
		after, _ = pass(o, at)
		return true
	}
	jump := after.Sub(begin)
	for tooEarly(after.Add(jump)) {
		if jump = min(2*jump, maxJump); after.Year() > lastYear {
			return o, after, fmt.Errorf("almanac: handler of %q: the key %q is followed by no greater one", h.EventType(), o.Key)
		}
	}
	for late := after.Add(jump); late.Sub(after) > time.Second; {
		if middle := after.Add(late.Sub(after) / 2); !tooEarly(middle) {
			late = middle
		}
	}
	for range fewSteps {
		if o, err = nextOf(h, &u, after); err != nil || !early(o) {
			return o, after, err
		}
		if after, err = pass(o, after); err != nil {
			return o, after, err
		}
	}
	return o, after, fmt.Errorf("almanac: handler of %q: the key %q is not greater than the ones before", h.EventType(), o.Key)
}

// pass returns the instant after which the occurrence that follows o is sought. It
// returns an error if o is not after the given instant.
func pass(o Occurrence, after time.Time) (time.Time, error) {
	r, err := o.Resolve()
	if errors.Is(err, calendar.ErrSkippedWallTime) {
		o.Policies.Gap = calendar.GapForward
		r, err = o.Resolve()
	}
	if err != nil {
		return after, err
	}
	if !r.Instant.After(after) {
		return after, fmt.Errorf("almanac: occurrence %q at %s is not after %s", o.Key, r.Instant.Format(time.RFC3339), after.Format(time.RFC3339))
	}
	return r.Instant, nil
}

// occurrenceNamed returns the occurrence that has the key of an event. It searches from three days
// before the event. If it finds only later keys, it searches again from up to 375 days before, until such a
// search fails. It reports false if no occurrence has the key. Keys of another unit never match.
func occurrenceNamed(h EventHandler, u User, e Event) (Occurrence, bool, error) {
	early := func(o Occurrence) bool { return o.Unit == e.KeyUnit && o.Key < e.OccurrenceKey }
	later := func(o Occurrence) bool { return o.Unit == e.KeyUnit && o.Key > e.OccurrenceKey }
	o, _, err := seek(h, u, e.Due.Add(-searchBack), early)
	for back := 5 * searchBack; err == nil && later(o) && back <= 125*searchBack; back *= 5 {
		earlier, _, failed := seek(h, u, e.Due.Add(-back), early)
		if failed != nil {
			break
		}
		o = earlier
	}
	if errors.Is(err, calendar.ErrRejectedWallTime) { // it may be one of another occurrence, which has passed
		if again, _, _ := seek(h, u, e.Due.Add(-time.Second), early); again.Unit == e.KeyUnit && again.Key == e.OccurrenceKey {
			return again, true, nil
		}
	}
	if errors.Is(err, calendar.ErrNoOccurrence) || err == nil && (o.Unit != e.KeyUnit || o.Key > e.OccurrenceKey) {
		return Occurrence{}, false, nil
	}
	return o, err == nil, err
}

// successor plans the event that follows an event that ends now. It changes neither the event nor the user.
func successor(h EventHandler, done *Event, u *User, now time.Time) (next Event, err error) {
	if done.Origin.Kind != OriginPlanned {
		return Event{}, fmt.Errorf("%w: the event is detached", calendar.ErrNoOccurrence)
	}
	series, ok, err := seriesOfEvent(h, u, done)
	if err != nil {
		return Event{}, err
	}
	if !ok {
		return Event{}, fmt.Errorf("%w: the series is gone", calendar.ErrNoOccurrence)
	}
	after := done.Due
	if !givenExecution(h).CatchUpPolicy.All {
		after = later(after, now)
	}
	planner := h
	if series.multi != nil {
		planner = series
	}
	uses := [1]UsedKey{done.uses(u, now)}
	b := beyond{stillToCome(series, u, after), uses[:], done.Payload, after}
	if len(done.UsedBefore) > 0 {
		b.used = done.UsedBefore.With(uses[0])
	}
	if err = planFirst(planner, u, &b, &next); err == errPassed || errors.Is(err, calendar.ErrSkippedWallTime) {
		b.used = slices.Clone(b.used) // not the array above, which stays on the stack
		next, err = plan(planner, *u, b)
	}
	if err != nil {
		return Event{}, err
	}
	successorID(&next, done, now)
	return next, nil
}

// errPassed is the error of planFirst if the first occurrence is not the result.
var errPassed = errors.New("almanac: the first occurrence has passed")

// planFirst is plan for the usual case that the first occurrence is the result, without copies of large values.
// The id is a random one.
func planFirst(h EventHandler, u *User, b *beyond, into *Event) error {
	o, err := nextOf(h, u, b.after)
	if err != nil {
		return err
	}
	if b.used.has(&o.Occurrence) || b.passed(h, u, &o) {
		return errPassed
	}
	*into = Event{Payload: b.payload}
	if _, err := rand.Read(into.ID[:]); err != nil {
		return err
	}
	return into.makeFor(u, h, &o)
}

// rebirthWindow is how soon a successor must be due for its id to be derived from the event
// before it. After a failover, the new server may lack the changes of the last seconds, but not of
// this long a time. So a successor that is due later was not delivered if its creation is lost.
const rebirthWindow = 10 * time.Minute

// successorID sets the id of next, which is planned at now as the successor of done.
// Ids ascend in order of creation, so the id has the time of now.
//
// A successor that is due within [rebirthWindow] has the same id whenever it is planned.
// After a failover, a server may lack the successor although it was delivered, and the
// repeated delivery must have the same body. Its id has the instant of done, but at most
// rebirthWindow before the instant of next. It has a hash in place of random bits.
//
// In both cases the id is later than that of done, even if the clock was set back.
// See docs/adr/0023-successor-ids.md.
func successorID(next, done *Event, now time.Time) {
	id, at := next.ID, ticksOf(now)
	if opens := next.Due.Add(-rebirthWindow); opens.Before(now) {
		sum := sha256.Sum256([]byte(done.ID.String() + "-" + done.Type + "-" + next.longName()))
		copy(id[:], sum[:])
		at = min(at, ticksOf(later(done.Due, opens)))
	}
	if done.ID.Version() == 7 {
		at = max(at, ticksIn(done.ID)+1)
	}
	slots.Name((*[16]byte)(&id), next.UserID)
	next.ID = stamped(id, at)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// searchBack is how far before its present instant an occurrence is sought after its user
// has moved. It exceeds the difference between any two zones.
const searchBack = 72*time.Hour + time.Second

// replanning is an edit of a user before it is stored.
type replanning struct {
	Roster                            // before the edit
	is     User                       // the user after the edit
	types  []string                   // the types that are replanned; other programs may have further types
	zones  *zoneView                  // how this program's zone rules differ from those of the repository
	guard  guard                      // calls the handlers
	window func(User) calendar.Window // nil means the whole week
	passed time.Duration              // see [Planner].RescheduleType
	failed *error                     // if not nil, replan stores the error of the plan here, or nil
}

// event returns a pending event, updated for its user after the edit.
//
// If the occurrence keeps its wall time, the event keeps its identity, and its instant follows
// the user's zone. If that instant has passed, the event is due now. If [Operator].RunNow made the
// event due and the edit does not change its occurrence, it stays due. So does an event that is due, as
// after an outage, if its new time is on the same day and has passed too. If the wall time differs
// otherwise, the user's data or the rule was corrected. Then the event moves if the next occurrence
// after now has the same key. Otherwise the error matches [calendar.ErrNoOccurrence], because an event
// never becomes another occurrence. The error matches it too if an earlier unused occurrence is still to
// come, as after the zone of a new user was corrected, or a rule was made more frequent.
func (p replanning) event(h oneSeries, e Event) (Event, error) {
	if p.isLater(h, e) {
		return e.keep(p.is, h, e.kept())
	}
	next, err := p.moved(h, e)
	next.Consulted = next.Consulted.Since(e.Consulted.From) // the days since the event was first planned count too
	return next, err
}

func (p replanning) moved(h oneSeries, e Event) (Event, error) {
	same, found, err := occurrenceNamed(h, p.is, e)
	unknown := err == nil && !found || errors.Is(err, calendar.ErrRejectedWallTime)
	if unknown && p.zones.differs(e.Zone) && p.leavesTimes(h, e) {
		same, found, err = e.kept(), true, nil
	}
	if err != nil {
		return Event{}, err
	}
	if found && same.Wall == e.Wall {
		if p.passesOver(h, e) {
			return Event{}, fmt.Errorf("%w %q: an earlier one is to come", calendar.ErrNoOccurrence, e.OccurrenceKey)
		}
		return p.again(h, e, same)
	}
	passed := found && p.hasPassed(same)
	if passed && p.passed < 0 {
		return Event{}, fmt.Errorf("%w %q: its new time has passed", calendar.ErrNoOccurrence, e.OccurrenceKey)
	}
	if found && p.madeDue(h, e, same) || passed && p.staysDue(e, same) {
		next, err := e.keep(p.is, h, same) // the payload is about the occurrence
		next.Wall, next.Zone, next.Policies, next.Nominal = e.Wall, e.Zone, e.Policies, calendar.WallTime{}
		if nominal := nominalOf(same.Occurrence); nominal != e.Wall {
			next.Nominal = nominal
		}
		return next, err
	}
	// Due at once: as an option says, after a new release of a calendar, or RunNow made it due, and the edit changes
	// the zone.
	if passed && (p.passed > 0 && p.lateBy(same) <= p.passed || p.isNews(e, same) || p.dueByNow(e) && e.nominal() == nominalOf(same.Occurrence)) {
		next, err := e.Reschedule(p.is, h, same)
		return p.zones.stamp(next), err
	}
	next, err := search(h, p.is, beyond{after: stillToCome(h, &p.is, p.Now), used: p.Used[h.id()], began: p.Now}, func(o Occurrence) (Event, error) { return e.Reschedule(p.is, h, o) })
	if err == nil && (next.OccurrenceKey != e.OccurrenceKey || next.KeyUnit != e.KeyUnit) {
		err = fmt.Errorf("%w %q", calendar.ErrNoOccurrence, e.OccurrenceKey)
	}
	return p.zones.stamp(next), err
}

// stillToCome returns the time after which a wall time of a series must be, for its event to become available after now.
func stillToCome(h oneSeries, u *User, now time.Time) time.Time {
	if window := givenExecution(h.EventHandler).Spread; window > 0 {
		return now.Add(-h.id().Spread(u.ID, window))
	}
	return now
}

// hasPassed reports whether the instant of an occurrence has passed.
func (p replanning) hasPassed(o Occurrence) bool { return p.lateBy(o) >= 0 }

// lateBy returns how long ago the instant of an occurrence was. It is negative if the instant is still to come.
func (p replanning) lateBy(o Occurrence) time.Duration {
	o.in(&p.is)
	r, err := o.Resolve()
	if err != nil {
		return -1
	}
	return p.Now.Sub(r.Instant)
}
