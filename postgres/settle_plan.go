package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// change is the new state of an event, and the events that are stored with it.
type change struct {
	index   int // of the settlement in the batch
	series  int64
	was, is *almanac.Event    // in the settlement, and in its result
	ended   calendar.WallTime // what clocks in the user's zone show now; of a deleted user any time
	user    pgtype.Int4       // the version that the user must still be at; NULL if any version is accepted
	next    *almanac.Event    // the successor in the same series
	other   *almanac.Event    // a successor in another series
	follow  []almanac.Event   // follow-ups
	planErr error
	stalled *almanac.StalledSeries // if the successor could not be planned
	lostErr error                  // why the follow-ups could not be planned
}

// changes returns the changes for the settlements at the given indexes. It returns as rest the
// indexes of the settlements for which there is no change, and as alone the indexes of the
// settlements that also store events in other series.
//
// Each settlement in alone has a transaction of its own, because other settlements of the batch
// could write the same series. That transaction locks the user first, as an edit or a deletion
// does, so that they cannot deadlock.
func (t *settling) changes(indexes []int) (changes []*change, rest, alone []int, err error) {
	seen, seenAlone := make(map[uuid.UUID]bool, len(indexes)), make(map[uuid.UUID]bool)
	changes, t.next = make([]*change, 0, len(indexes)), make([]almanac.Event, 0, len(indexes))
	list := make([]change, len(indexes))
	for k, i := range indexes {
		s := &t.settlements[i]
		claim := claimedAs(s.Event)
		series, held := t.series[claim]
		// A lease that still holds other events also lists events that were claimed again since.
		held = held && claim.version == t.latest[claim.id]
		user, known := t.userOf(s)
		// If an event occurs twice in a batch, only its first settlement is stored.
		if seenAlone[s.Event.ID] {
			alone = append(alone, i)
			continue
		}
		if !held || seen[s.Event.ID] || !known {
			rest = append(rest, i)
			seen[s.Event.ID] = seen[s.Event.ID] || held
			continue
		}
		seen[s.Event.ID] = true
		if t.busy[s.Event.UserID] {
			t.settled[i].Err = almanac.ErrLocked
			continue
		}
		outcome := s.Outcome
		if user == nil && t.locked && outcome.Status == almanac.Pending {
			outcome = almanac.GaveUp(almanac.ReasonUserDeleted) // events of a deleted user are not retried
		}
		is, err := outcome.Apply(s.Event, t.now)
		if err != nil {
			t.settled[i].Err = err
			continue
		}
		c, planned := &list[k], len(t.next)
		t.settled[i].Event = asStored(is, t.now)
		*c = change{index: i, series: series, was: &s.Event, is: &t.settled[i].Event, ended: s.Event.Wall}
		if user != nil {
			c.ended = user.Timezone.WallTime(t.now)
		}
		if user != nil && !t.locked {
			c.user = int4(user.Version)
		}
		if user != nil && is.Status.Terminal() {
			t.plan(c, s, *user, t.now)
		}
		if len(c.wanted()) > 0 && (!t.locked || len(indexes) > 1) {
			t.next = t.next[:planned]
			alone, seenAlone[s.Event.ID] = append(alone, i), true
			continue
		}
		changes = append(changes, c)
	}
	return changes, rest, alone, nil
}

// wanted returns the events to store in other series, ordered by series. So two transactions that
// write some of the same series write them in the same order.
func (c *change) wanted() []almanac.Event {
	wanted := slices.Clone(c.follow)
	if c.other != nil {
		wanted = append(wanted, *c.other)
	}
	slices.SortStableFunc(wanted, func(a, b almanac.Event) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Series, b.Series),
			strings.Compare(almanac.SeriesOf(a).Detached, almanac.SeriesOf(b).Detached))
	})
	return wanted
}

// lockWanted locks the other series that a change writes. It reports false if another transaction
// has locked any of them. A change that writes other series is the only change of its transaction.
func (t *settling) lockWanted(ctx context.Context, changes []*change) (free bool, err error) {
	if len(changes) != 1 {
		return true, nil
	}
	locked, err := t.Store.lockWanted(ctx, t.tx, changes[0].wanted())
	return len(locked) == 0, err
}

// userOf returns the user of an event, or nil if the user was deleted. It reports false if the user is
// not known. If users are not locked, the user is as at the claim of the event.
func (t *settling) userOf(s *almanac.Settlement) (*almanac.User, bool) {
	if t.locked {
		u, exists := t.users[s.Event.UserID]
		if !exists {
			return nil, true
		}
		return &u, true
	}
	return &s.User, s.User.ID == s.Event.UserID
}

// plan calls the settlement's functions for the successor and the follow-ups of an event that ends.
func (t *settling) plan(c *change, s *almanac.Settlement, u almanac.User, now time.Time) {
	if s.Next != nil {
		next, err := s.Next(u, now)
		t.succeed(c, next, err, now)
	}
	if s.Follow == nil {
		return
	}
	if c.follow, c.lostErr = s.Follow(u, now); c.lostErr != nil {
		c.follow = nil
	}
}

// succeed stores a planned successor in c. A successor whose occurrence is used up is dropped.
func (t *settling) succeed(c *change, e almanac.Event, err error, now time.Time) {
	switch {
	case errors.Is(err, calendar.ErrNoOccurrence):
	case err != nil:
		c.planErr = err
		stalled := c.was.Stalled(err, now)
		c.stalled = &stalled
	case e.UserID != c.was.UserID || almanac.SeriesOf(e) != almanac.SeriesOf(*c.was):
		other := e // a copy, so that no other successor is on the heap
		c.other = &other
	default:
		used, before := c.was.UsedBefore.Of(e.KeyUnit)
		if (e.KeyUnit != c.was.KeyUnit || e.OccurrenceKey > c.was.OccurrenceKey) && (!before || e.OccurrenceKey > used.Key) {
			t.next = append(t.next, e)
			c.next = &t.next[len(t.next)-1]
		}
	}
}

// asStored returns an event as it is after the database has stored it at now.
func asStored(e almanac.Event, now time.Time) almanac.Event {
	for _, t := range []*time.Time{&e.Due, &e.AvailableAt, &e.ExecutedAt} {
		*t = t.UTC().Truncate(time.Microsecond)
	}
	e.UpdatedAt, e.UsedBefore = now, nil
	return e
}

// name sets the idempotency keys of the successors.
func (t *settling) name(ctx context.Context) error {
	t.marks = marksOf(t.next)
	if err := t.keys.choose(ctx, t.tx, t.next); err != nil {
		return err
	}
	for i := range t.next {
		t.next[i] = born(t.next[i], t.now)
	}
	return nil
}
