package almanac

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// maxSteps bounds how many occurrences in a row are passed over because a policy skips
// them.
const maxSteps = 1000

// plan returns the event of the first occurrence that u is owed strictly after the
// given instant and whose name is greater than used: an occurrence that was once
// claimed is never offered again, wherever the person has moved since.
func plan(h EventHandler, u User, after time.Time, used string) (Event, error) {
	return search(h, u, beyond{after, used}, func(o Occurrence) (Event, error) { return NewEvent(u, h, o) })
}

// beyond is what an occurrence must come after: an instant, and a name.
type beyond struct {
	after time.Time
	used  string
}

// search makes an event of u's first occurrence beyond the given point. Those that a
// policy skips are passed over.
func search(h EventHandler, u User, b beyond, take func(Occurrence) (Event, error)) (Event, error) {
	for range maxSteps {
		o, from, err := seek(h, u, b.after, func(o Occurrence) bool { return o.name() <= b.used })
		if err != nil {
			return Event{}, err
		}
		if e, err := take(o); !errors.Is(err, ErrSkippedWallTime) {
			return e, err
		}
		if b.after, err = pass(u, o, from); err != nil {
			return Event{}, err
		}
	}
	return Event{}, fmt.Errorf("almanac: handler of %q: policies skip %d occurrences in a row", h.EventType(), maxSteps)
}

const (
	// fewSteps is how many occurrences are looked at one after the other before any are
	// jumped over: mostly the first is the one.
	fewSteps = 8
	// maxJump keeps durations within their bounds.
	maxJump  = 100 * 365 * 24 * time.Hour
	lastYear = 9999 // of the calendar
)

// seek returns u's first occurrence strictly after the given instant that does not
// come too early, and an instant that only it lies between. Occurrences that come too
// early are followed by others that do or do not; after one that does not come too
// early, none does. So the search jumps ahead, twice as far each time, and then halves
// the distance: a day of seconds takes some thirty steps.
func seek(h EventHandler, u User, after time.Time, early func(Occurrence) bool) (o Occurrence, from time.Time, err error) {
	begin := after
	for range fewSteps {
		if o, err = h.Next(u, after); err != nil || !early(o) {
			return o, after, err
		}
		if after, err = pass(u, o, after); err != nil {
			return o, after, err
		}
	}
	// tooEarly reports whether the occurrence after an instant comes too early, and then
	// moves after to where it lies. An error may come long after the one that is sought,
	// so it ends the search only where it is met on the way to that.
	tooEarly := func(at time.Time) bool {
		o, err := h.Next(u, at)
		if err != nil || !early(o) {
			return false
		}
		after, _ = pass(u, o, at)
		return true
	}
	jump := after.Sub(begin)
	for tooEarly(after.Add(jump)) {
		if jump = min(2*jump, maxJump); after.Year() > lastYear {
			return o, after, fmt.Errorf("almanac: handler of %q: the key %q is followed by no greater one", h.EventType(), o.name())
		}
	}
	for late := after.Add(jump); late.Sub(after) > time.Second; {
		if middle := after.Add(late.Sub(after) / 2); !tooEarly(middle) {
			late = middle
		}
	}
	for range fewSteps {
		if o, err = h.Next(u, after); err != nil || !early(o) {
			return o, after, err
		}
		if after, err = pass(u, o, after); err != nil {
			return o, after, err
		}
	}
	return o, after, fmt.Errorf("almanac: handler of %q: the key %q is not greater than the ones before", h.EventType(), o.name())
}

// pass returns the instant from which to look for the occurrence after o. It
// refuses a handler that does not get ahead.
func pass(u User, o Occurrence, after time.Time) (time.Time, error) {
	lenient := o.Policies
	if lenient.Gap == GapSkip {
		lenient.Gap = GapForward
	}
	r, err := o.zoneFor(u).Resolve(o.Wall, lenient)
	if err != nil {
		return after, err
	}
	if !r.Instant.After(after) {
		return after, fmt.Errorf("almanac: occurrence %q at %s is not after %s", o.name(), r.Instant.Format(time.RFC3339), after.Format(time.RFC3339))
	}
	return r.Instant, nil
}

// occurrenceNamed returns the occurrence of the given key, looking from the given
// instant on, and whether the handler yields it.
func occurrenceNamed(h EventHandler, u User, key string, from time.Time) (Occurrence, bool, error) {
	o, _, err := seek(h, u, from, func(o Occurrence) bool { return o.name() < key })
	if errors.Is(err, ErrNoOccurrence) || err == nil && o.name() > key {
		return Occurrence{}, false, nil
	}
	return o, err == nil, err
}

// successor plans what follows an event that has ended.
func successor(h EventHandler, done Event, u User, now time.Time) (Event, error) {
	if done.detached() {
		return Event{}, fmt.Errorf("%w: the event stood apart", ErrNoOccurrence)
	}
	series, ok, err := seriesOfEvent(h, u, done)
	if err != nil {
		return Event{}, err
	}
	if !ok {
		return Event{}, fmt.Errorf("%w: the series is gone", ErrNoOccurrence)
	}
	after := done.Due
	if c, ok := h.(CatchUpper); !ok || !c.CatchUp().All {
		after = later(after, now)
	}
	e, err := plan(series, u, after, done.OccurrenceKey)
	if err != nil {
		return Event{}, err
	}
	e.ID = successorID(e, done, now)
	return e, nil
}

// rebirthWindow is how soon after its birth a successor must be due for its id to
// follow from the event before it. It exceeds what a server that takes over may lack of
// the one before: a successor that is due later cannot have been delivered when its
// birth is lost.
const rebirthWindow = 10 * time.Minute

// successorID returns the id of next, planned at now as what follows done. Ids are in
// order of creation: the id has the time of now.
//
// A successor that is due within [rebirthWindow] has the same id whenever it is planned. A
// server that takes over may lack the successor although it was delivered, and a repeated
// delivery must have the same body. Its id has the instant of done, but is never more than
// rebirthWindow older than the instant of next. A hash stands where other ids have random
// bits.
//
// In either case the id is later than that of done, whatever the clock does.
func successorID(next, done Event, now time.Time) uuid.UUID {
	id, at := next.ID, ticksOf(now)
	if opens := next.Due.Add(-rebirthWindow); opens.Before(now) {
		sum := sha256.Sum256([]byte(done.ID.String() + "-" + done.UserID.String() + "-" + done.Type + "-" + next.OccurrenceKey))
		copy(id[:], sum[:])
		at = min(at, ticksOf(later(done.Due, opens)))
	}
	if done.ID.Version() == 7 {
		at = max(at, ticksIn(done.ID)+1)
	}
	return stamped(id, at)
}

// ticks are the time in a UUIDv7, counted from 1970. The 12 bits below the milliseconds
// hold the part of a millisecond in steps of 256 ns, as in package uuid (RFC 9562, section
// 6.2, method 3).
type ticks uint64

func ticksOf(t time.Time) ticks {
	return ticks(max(t.UnixMilli(), 0))<<12 | ticks(t.Nanosecond()%int(time.Millisecond))>>8
}

// ticksIn returns the time in a UUIDv7.
func ticksIn(id uuid.UUID) ticks {
	high := binary.BigEndian.Uint64(id[:8])
	return ticks(high>>16<<12 | high&0xfff)
}

// stamped returns id as a UUIDv7 of a time; the other bits stay as they are.
func stamped(id uuid.UUID, at ticks) uuid.UUID {
	const version7 = 0x7000
	binary.BigEndian.PutUint64(id[:8], uint64(at>>12)<<16|version7|uint64(at&0xfff))
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
