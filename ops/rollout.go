package ops

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/backoff"
)

// RollOutOptions are options of [RollOut]. The zero RollOutOptions stores the changes of all users at an
// unlimited rate, by the rules of an edit.
type RollOutOptions struct {
	// DryRun stores nothing and locks nothing. The result says what would change.
	DryRun bool
	// Passed says what becomes of an event whose new time has passed; see
	// [almanac.Planner].RescheduleType. The default is the rule of an edit.
	Passed time.Duration
	// After is Next of an earlier result, to continue from there. Empty means the first user.
	After almanac.Cursor
	// Rate is the most users to process in one second. It must not be negative. Zero means no limit.
	Rate int
	// PageSize is the most users of a page, 1 to 1,000. Zero means 1,000. A page has at most Rate users.
	PageSize int
	// Progress, if not nil, is called after each page with the result so far.
	Progress func(RollOutResult)
}

// RollOutCounts says how many users and events a roll-out changes. Two values are comparable with ==, such
// as those of a dry run and of the run after it.
type RollOutCounts struct {
	Users     int // users who were replanned
	Unchanged int // pending events that keep their time and their content
	Refreshed int // pending events with the same time, and another payload, zone, policy or lane
	RollOutMoves
	DueNow    int // of the moved events, those that become due at once because their new time has passed
	Added     int // new events: of series that had none, and in place of removed ones
	Removed   int // events whose occurrence no longer exists, is not owed, or has passed
	Passed    int // of the removed events, those whose new time has passed
	Cancelled int // events that waited for another attempt, and are CANCELLED because their user refuses them
	SameDay   int // moved and added events on a local day that has or had another event of the type
	LeftOut   int // next occurrences that are not delivered, because they count as used
	InFlight  int // events that were claimed before and keep their time; their successors follow the new rule
}

// RollOutMoves says how many pending events a roll-out moves, by how far they move; see [MoveBounds].
type RollOutMoves struct {
	Earlier [8]int // events that move to an earlier instant
	Later   [8]int // events that move to the same or a later instant
}

// moveBounds are the upper bounds of how far events move; the last one has none.
var moveBounds = [8]time.Duration{15 * time.Minute, time.Hour, 6 * time.Hour, day, 3 * day, 7 * day, 31 * day, 1<<63 - 1}

const day = 24 * time.Hour

// MoveBounds returns the greatest distance that each element of Earlier and Later counts. The last one has
// no bound, and is the longest duration.
func MoveBounds() []time.Duration { return slices.Clone(moveBounds[:]) }

// Moved returns how many events move.
func (c RollOutCounts) Moved() (n int) {
	for i := range moveBounds {
		n += c.Earlier[i] + c.Later[i]
	}
	return n
}

// Add adds the counts of further users.
func (c *RollOutCounts) Add(o RollOutCounts) {
	for i := range moveBounds {
		c.Earlier[i] += o.Earlier[i]
		c.Later[i] += o.Later[i]
	}
	for into, n := range map[*int]int{
		&c.Users: o.Users, &c.Unchanged: o.Unchanged, &c.Refreshed: o.Refreshed, &c.DueNow: o.DueNow, &c.Added: o.Added, &c.Removed: o.Removed,
		&c.Passed: o.Passed, &c.SameDay: o.SameDay, &c.LeftOut: o.LeftOut, &c.InFlight: o.InFlight, &c.Cancelled: o.Cancelled,
	} {
		*into += n
	}
}

const maxRefusals = 1000

// RollOutResult is the result of a roll-out.
type RollOutResult struct {
	RollOutCounts
	// Examples has up to ten changed events, without their payloads. It has as many as it can of each kind: moved to an
	// earlier time, moved to a later time, due at once, added, removed, removed because the new time has passed, and cancelled. They are in
	// this order, and of each kind those of the first users.
	Examples     []RollOutExample
	Refused      []almanac.Refusal // the first 1,000 users who could not be replanned; they are not in Users
	RefusedUsers int               // how many users were refused, also beyond the first 1,000
	// Next is where to continue, as RollOutOptions.After. It is empty when all users were processed.
	Next almanac.Cursor
}

// RollOut replans the pending events of a type for all users, as after a change of its handler, a page of
// users at a time (see [almanac.Planner].RescheduleType). Start it when all programs have the new handler.
// Users whose events stay are read and not locked. RollOut can be interrupted and run again. Changes that are stored
// are kept.
//
// A user who cannot be replanned is listed in Refused, and the others are processed. Users whom another
// transaction has locked are tried again at the end, for about ten seconds. When the database fails while a page is
// read or users are edited, the rest of the page is tried five times within seconds, and five times more whenever it
// has got further. Then RollOut returns the error with the result so far. It does the same when ctx ends. Next is then
// where to continue; each user is counted once. If the database stores other users' events and fails for one user
// alone, that user is tried again at the end.
// See docs/adr/0081-roll-out.md. The error is an [*almanac.ValidationError] if an option is invalid.
func RollOut(ctx context.Context, s almanac.Scheduler, eventType string, options RollOutOptions) (RollOutResult, error) {
	r := rollOut{scheduler: s, eventType: eventType, options: options, done: RollOutResult{Next: options.After}, ahead: make(map[uuid.UUID]bool)}
	page, every, err := options.pace()
	if err != nil {
		return r.done, err
	}
	for {
		rest := time.After(every)
		if err := r.page(ctx, page); err != nil {
			return r.end(), err
		}
		if options.Progress != nil {
			options.Progress(r.done)
		}
		if page.After = r.done.Next; page.After == "" {
			err := r.retry(ctx)
			return r.end(), err
		}
		if every > 0 {
			select {
			case <-rest:
			case <-ctx.Done():
			}
		}
	}
}

// pace returns the first page, and the least time that a page takes.
func (o RollOutOptions) pace() (page almanac.Page, every time.Duration, err error) {
	page = almanac.Page{Limit: o.PageSize, After: o.After}
	if page.Limit == 0 {
		page.Limit = pageSize
	}
	if _, _, err := page.Bounds(); err != nil {
		return page, 0, err
	}
	if o.Rate < 0 {
		return page, 0, invalid("rate", "is negative")
	}
	if o.Rate > 0 {
		page.Limit = min(page.Limit, o.Rate)
		every = time.Duration(page.Limit) * time.Second / time.Duration(o.Rate)
	}
	return page, every, nil
}

// rollOut is a roll-out in progress.
type rollOut struct {
	scheduler almanac.Scheduler
	eventType string
	options   RollOutOptions
	done      RollOutResult
	again     []almanac.Refusal  // the users to try again at the end, with their last errors
	ahead     map[uuid.UUID]bool // the users after done.Next who were processed already
	examples  [kindsOfExamples][]RollOutExample
}

var pageAgain = backoff.Exponential{First: 100 * time.Millisecond, Max: 3 * time.Second, Factor: 3, Jitter: 0.2}

// page processes a page, or a part of it. When the database fails, it tries the rest again. If it always fails
// for the same user, and stores changes of others, this user waits for the end.
func (r *rollOut) page(ctx context.Context, page almanac.Page) error {
	const tries = 5
	stores := false
	for failures := 1; ; failures++ {
		found, refused, err := r.replan(ctx, page)
		stores = r.add(found.Items, refused) || stores
		if err == nil {
			r.done.Next, r.ahead = found.Next, make(map[uuid.UUID]bool)
			return nil
		}
		if found.Next != "" {
			r.done.Next = found.Next
		}
		r.note(found.Items, refused)
		if ctx.Err() != nil || isMisuse(err) {
			return err
		}
		goesOn := found.Next != "" && found.Next != page.After
		if failures == tries && !goesOn {
			user, is := interrupted(err)
			if !is || !stores && !r.storesAfter(ctx, page, user) {
				return err
			}
			r.again = append(r.again, almanac.Refusal{UserID: user, Err: err})
			r.done.Next = almanac.Cursor(user.String())
			return nil
		}
		select {
		case <-time.After(pageAgain.Delay(failures, rand.Float64())):
		case <-ctx.Done():
		}
		if goesOn {
			return nil
		}
	}
}

// storesAfter reports whether the database stores changes of users after one for whom it fails.
func (r *rollOut) storesAfter(ctx context.Context, page almanac.Page, user uuid.UUID) bool {
	page.After = almanac.Cursor(user.String())
	found, refused, _ := r.replan(ctx, page)
	changed := r.add(found.Items, refused)
	r.note(found.Items, refused)
	return changed
}

// interrupted returns the user whose edit failed because of the database, if that ended a page.
func interrupted(err error) (uuid.UUID, bool) {
	of, is := errors.AsType[interface {
		error
		User() uuid.UUID
	}](err)
	if !is {
		return uuid.Nil, false
	}
	return of.User(), true
}

// note notes the users of an answer who are after the end of the page, and will be read again.
func (r *rollOut) note(users []almanac.UpdateUserResult, refused []almanac.Refusal) {
	isAfter := func(id uuid.UUID) bool { return id.String() > string(r.done.Next) }
	for _, u := range users {
		if isAfter(u.User.ID) {
			r.ahead[u.User.ID] = true
		}
	}
	for _, one := range refused {
		if isAfter(one.UserID) {
			r.ahead[one.UserID] = true
		}
	}
}

// replan plans a page again, or looks what that would change.
func (r *rollOut) replan(ctx context.Context, page almanac.Page) (almanac.List[almanac.UpdateUserResult], []almanac.Refusal, error) {
	replan := r.scheduler.RescheduleType
	if r.options.DryRun {
		replan = r.scheduler.PreviewReschedule
	}
	return replan(ctx, r.eventType, page, r.options.Passed)
}

// isMisuse reports whether an error is about the arguments, so that trying again fails too.
func isMisuse(err error) bool {
	return errors.Is(err, almanac.ErrInvalid) || errors.Is(err, almanac.ErrUnsupportedEventType)
}

// retry tries users again who were locked, or whose edits failed.
func (r *rollOut) retry(ctx context.Context) (err error) {
	const looks = 5
	for failures := 1; len(r.again) > 0 && failures <= looks; failures++ {
		select {
		case <-time.After(pageAgain.Delay(failures, rand.Float64())):
		case <-ctx.Done():
		}
		again := r.again
		r.again = nil
		if err = r.retryAll(ctx, again); ctx.Err() != nil || isMisuse(err) {
			return err
		}
	}
	return err
}

func (r *rollOut) retryAll(ctx context.Context, again []almanac.Refusal) error {
	for i, one := range again {
		found, refused, err := r.replan(ctx, almanac.Page{Limit: 1, After: before(one.UserID)})
		if user, is := interrupted(err); is && user == one.UserID {
			r.again = append(r.again, almanac.Refusal{UserID: user, Err: err})
			continue
		}
		if err != nil {
			r.again = append(r.again, again[i:]...)
			return err
		}
		if len(found.Items) > 0 && found.Items[0].User.ID != one.UserID || len(refused) > 0 && refused[0].UserID != one.UserID {
			continue // deleted meanwhile; the next user was processed before
		}
		r.add(found.Items, refused)
	}
	return nil
}

// before returns the cursor of a page that begins with an id.
func before(id uuid.UUID) almanac.Cursor {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			break
		}
	}
	return almanac.Cursor(id.String())
}

// end returns the result, in which the users are refused who are still to be tried again.
func (r *rollOut) end() RollOutResult {
	for _, one := range r.again {
		r.refuse(one)
	}
	r.again = nil
	return r.done
}

func (r *rollOut) refuse(one almanac.Refusal) {
	if r.done.RefusedUsers++; len(r.done.Refused) < maxRefusals {
		r.done.Refused = append(r.done.Refused, one)
	}
}

// add counts the users of a page who were not counted before. It reports whether any event has changed.
func (r *rollOut) add(users []almanac.UpdateUserResult, refused []almanac.Refusal) (changed bool) {
	for _, one := range refused {
		switch {
		case r.ahead[one.UserID]:
		case errors.Is(one.Err, almanac.ErrLocked):
			r.again = append(r.again, one)
		default:
			r.refuse(one)
		}
	}
	for _, u := range users {
		if r.ahead[u.User.ID] {
			continue
		}
		r.done.count(u)
		changed = changed || len(u.Moved)+len(u.Refreshed)+len(u.Added)+len(u.Removed)+len(u.Cancelled) > 0
		r.keepExamples(u)
	}
	r.done.Examples = spread(r.examples)
	return changed
}

// count adds a user.
func (c *RollOutCounts) count(u almanac.UpdateUserResult) {
	c.Users++
	c.Unchanged += u.Unchanged
	c.Refreshed += len(u.Refreshed)
	c.Added += len(u.Added)
	c.Removed += len(u.Removed)
	c.Cancelled += len(u.Cancelled)
	c.SameDay += len(u.SameDay)
	c.LeftOut += len(u.LeftOut)
	c.InFlight += len(u.Skipped)
	for i, e := range u.Moved {
		by := e.Due.Sub(u.Was[i].Due)
		counts := &c.Later
		if by < 0 {
			by, counts = -by, &c.Earlier
		}
		bound := 0
		for by > moveBounds[bound] {
			bound++
		}
		counts[bound]++
	}
	removed := make(map[uuid.UUID]bool, len(u.Removed))
	for _, e := range u.Removed {
		removed[e.ID] = true
	}
	for _, id := range u.Passed {
		if removed[id] {
			c.Passed++
		} else {
			c.DueNow++
		}
	}
}
