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
	index   int    // of the settlement in the batch
	claim   *claim // the first of the event
	series  int64
	was, is *almanac.Event    // in the settlement, and in its result
	ended   calendar.WallTime // what clocks in the user's zone show now; of a deleted user any time
	user    pgtype.Int4       // the version that the user must still be at; NULL if any version is accepted
	next    *almanac.Event    // the successor in the same series
	other   *almanac.Event    // a successor in another series
	follow  []almanac.Event   // follow-ups
	unplanned
}

// unplanned says what could not be planned.
type unplanned struct {
	planErr error                  // why the successor could not
	stalled *almanac.StalledSeries // its series
	lostErr error                  // why the follow-ups could not
}

// claims has the claims of the settlements of a transaction, in their order.
type claims struct {
	list  []claim
	first map[uuid.UUID]int // by event, the place of its first claim
}

// claim is what the leases say about the claim of a settlement.
type claim struct {
	claimed
	series int64 // valid if held
	held   bool  // whether a lease lists the event as it was claimed
	first  int   // the place of the first claim of the event
	again  int   // the place of its next claim in this transaction; 0 if there is none

	// These are of the event, and valid for its first claim.
	latest int  // the version at its latest claim
	seen   bool // whether an earlier settlement of the event is stored in this transaction
	alone  bool // whether an earlier settlement of the event has a transaction of its own
	stored bool // whether the event was changed
}

// claimsOf returns the claims of the settlements at the given indexes.
func (b *batch) claimsOf(indexes []int) claims {
	c := claims{make([]claim, len(indexes)), make(map[uuid.UUID]int, len(indexes))}
	for k, i := range indexes {
		e := &b.settlements[i].Event
		c.list[k] = claim{claimed: claimed{e.ID, e.LeaseToken, e.Version - 1}, first: k}
		first, again := c.first[e.ID]
		if !again {
			c.first[e.ID] = k
			continue
		}
		c.list[k].first, c.list[k].again = first, c.list[first].again
		c.list[first].again = k
	}
	return c
}

// tokens returns the tokens of the claims.
func (c claims) tokens() []uuid.UUID {
	var tokens []uuid.UUID
	for k := range c.list {
		if token := c.list[k].token; len(tokens) == 0 || token != tokens[len(tokens)-1] { // often that of the one before
			tokens = append(tokens, token)
		}
	}
	return distinct(tokens)
}

// note notes that a lease lists an event.
func (c claims) note(listed claimed, series int64) {
	first, ours := c.first[listed.id]
	if !ours {
		return
	}
	for k, begun := first, false; k > 0 || !begun; k, begun = c.list[k].again, true {
		if one := &c.list[k]; one.claimed == listed {
			one.series, one.held = series, true
			c.list[first].latest = max(c.list[first].latest, listed.version)
		}
	}
}

// changes returns the changes for the settlements at the given indexes. It returns as rest the
// indexes of the settlements for which there is no change, and as alone the indexes of the
// settlements that also store events in other series.
//
// Each settlement in alone has a transaction of its own, because other settlements of the batch
// could write the same series. That transaction locks the user first, as an edit or a deletion
// does, so that they cannot deadlock.
func (t *settling) changes(indexes []int) (changes []*change, rest, alone []int, err error) {
	changes, t.next = make([]*change, 0, len(indexes)), make([]almanac.Event, 0, len(indexes))
	list := make([]change, len(indexes))
	for k, i := range indexes {
		s := &t.settlements[i]
		claim := &t.claims.list[k]
		first := &t.claims.list[claim.first]
		// A lease that still holds other events also lists events that were claimed again since.
		held := claim.held && claim.version == first.latest
		user, known := t.userOf(s)
		// If an event occurs twice in a batch, only its first settlement is stored.
		if first.alone {
			alone = append(alone, i)
			continue
		}
		if !held || first.seen || !known {
			rest = append(rest, i)
			first.seen = first.seen || held
			continue
		}
		first.seen = true
		if t.busy[s.Event.UserID] {
			t.settled[i].Err = almanac.ErrLocked
			continue
		}
		outcome := s.Outcome
		if user == nil && t.locked && outcome.Status == almanac.Pending {
			outcome = almanac.GaveUp(almanac.ReasonUserDeleted) // events of a deleted user are not retried
		}
		is := &t.settled[i].Event
		if *is, err = outcome.Apply(s.Event, t.now); err != nil {
			t.settled[i] = almanac.SettleResult{Err: err}
			continue
		}
		asStored(is, t.now)
		c, planned := &list[k], len(t.next)
		c.index, c.claim, c.series, c.was, c.is, c.ended = i, first, claim.series, &s.Event, is, s.Event.Wall
		if user != nil {
			c.ended = user.Timezone.WallTime(t.now)
		}
		if user != nil && !t.locked {
			c.user = int4(user.Version)
		}
		if user != nil && is.Status.Terminal() {
			t.plan(c, s, *user, t.now)
		}
		if (c.other != nil || len(c.follow) > 0) && (!t.locked || len(indexes) > 1) {
			t.next = t.next[:planned]
			alone, first.alone = append(alone, i), true
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

// asStored makes an event as it is after the database has stored it at now.
func asStored(e *almanac.Event, now time.Time) {
	for _, t := range [...]*time.Time{&e.Due, &e.AvailableAt, &e.ExecutedAt} {
		*t = t.UTC().Truncate(time.Microsecond)
	}
	e.UpdatedAt, e.UsedBefore = now, nil
}

// name sets the idempotency keys of the successors.
func (t *settling) name(ctx context.Context) error {
	t.marks = marksOf(t.next)
	if err := t.keys.choose(ctx, t.tx, t.next); err != nil {
		return err
	}
	for i := range t.next {
		born(&t.next[i], t.now)
	}
	return nil
}
