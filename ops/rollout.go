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
	Users     int    // users who were replanned
	Unchanged int    // pending events that keep their time and their content
	Refreshed int    // pending events with the same time, and another payload, zone, policy or lane
	Earlier   [8]int // pending events that move to an earlier instant, by how much; see MoveBounds
	Later     [8]int // pending events that move to the same or a later instant
	DueNow    int    // of the moved events, those that become due at once because their new time has passed
	Added     int    // new events: of series that had none, and in place of removed ones
	Removed   int    // events whose occurrence no longer exists, is not owed, or has passed
	Passed    int    // of the removed events, those whose new time has passed
	SameDay   int    // moved and added events on a local day that has or had another event of the type
	LeftOut   int    // next occurrences that are not delivered, because they count as used
	InFlight  int    // events that were claimed before and keep their time; their successors follow the new rule
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
		&c.Passed: o.Passed, &c.SameDay: o.SameDay, &c.LeftOut: o.LeftOut, &c.InFlight: o.InFlight,
	} {
		*into += n
	}
}

// RollOutExample is an event that a roll-out moves, adds or removes.
type RollOutExample struct {
	Was almanac.Event // zero if the event is added
	Is  almanac.Event // zero if the event is removed
}

const (
	maxExamples = 10
	maxRefusals = 1000
)

// RollOutResult is the result of a roll-out.
type RollOutResult struct {
	RollOutCounts
	Examples     []RollOutExample  // the first ten changed events, without their payloads
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
// transaction has locked are tried again at the end, for about ten seconds. A page that cannot be read is
// tried five times within seconds. Then RollOut returns the error with the result so far. It does the same
// when ctx ends. Next is then where to continue; each user is counted once.
// See docs/adr/0081-roll-out.md. The error is an [*almanac.ValidationError] if an option is invalid.
func RollOut(ctx context.Context, s almanac.Scheduler, eventType string, options RollOutOptions) (RollOutResult, error) {
	r := rollOut{s, eventType, options, RollOutResult{Next: options.After}, nil}
	page, every, err := options.pace()
	if err != nil {
		return r.done, err
	}
	for {
		rest := time.After(every)
		if err := r.page(ctx, page); err != nil {
			return r.refuseLocked(), err
		}
		if options.Progress != nil {
			options.Progress(r.done)
		}
		if page.After = r.done.Next; page.After == "" {
			err := r.retry(ctx)
			return r.refuseLocked(), err
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
	locked    []uuid.UUID
}

var pageAgain = backoff.Exponential{First: 100 * time.Millisecond, Max: 3 * time.Second, Factor: 3, Jitter: 0.2}

// page processes a page. It tries again when the page cannot be read.
func (r *rollOut) page(ctx context.Context, page almanac.Page) error {
	const tries = 5
	for failures := 1; ; failures++ {
		found, refused, err := r.replan(ctx, page)
		r.add(found.Items, refused)
		if err == nil || found.Next != "" {
			r.done.Next = found.Next
		}
		if err == nil {
			return nil
		}
		if failures == tries || ctx.Err() != nil || isMisuse(err) {
			return err
		}
		select {
		case <-time.After(pageAgain.Delay(failures, rand.Float64())):
		case <-ctx.Done():
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

// retry tries the locked users again.
func (r *rollOut) retry(ctx context.Context) error {
	const looks = 5
	for failures := 1; len(r.locked) > 0 && failures <= looks; failures++ {
		select {
		case <-time.After(pageAgain.Delay(failures, rand.Float64())):
		case <-ctx.Done():
		}
		locked := r.locked
		r.locked = nil
		for i, id := range locked {
			found, refused, err := r.replan(ctx, almanac.Page{Limit: 1, After: before(id)})
			if err != nil {
				r.locked = append(r.locked, locked[i:]...)
				return err
			}
			if len(found.Items) > 0 && found.Items[0].User.ID != id || len(refused) > 0 && refused[0].UserID != id {
				continue // deleted meanwhile; the next user was processed before
			}
			r.add(found.Items, refused)
		}
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

// refuseLocked returns the result with the users who are still locked.
func (r *rollOut) refuseLocked() RollOutResult {
	for _, id := range r.locked {
		r.refuse(almanac.Refusal{UserID: id, Err: almanac.ErrLocked})
	}
	r.locked = nil
	return r.done
}

func (r *rollOut) refuse(one almanac.Refusal) {
	if r.done.RefusedUsers++; len(r.done.Refused) < maxRefusals {
		r.done.Refused = append(r.done.Refused, one)
	}
}

// add counts the users of a page.
func (r *rollOut) add(users []almanac.UpdateUserResult, refused []almanac.Refusal) {
	for _, one := range refused {
		if errors.Is(one.Err, almanac.ErrLocked) {
			r.locked = append(r.locked, one.UserID)
		} else {
			r.refuse(one)
		}
	}
	for _, u := range users {
		r.done.count(u)
		for i, e := range u.Moved {
			r.example(RollOutExample{u.Was[i], e})
		}
		for _, e := range u.Removed {
			r.example(RollOutExample{Was: e})
		}
		for _, e := range u.Added {
			r.example(RollOutExample{Is: e})
		}
	}
}

func (r *rollOut) example(one RollOutExample) {
	if one.Was.Payload, one.Is.Payload = nil, nil; len(r.done.Examples) < maxExamples {
		r.done.Examples = append(r.done.Examples, one)
	}
}

// count adds a user.
func (c *RollOutCounts) count(u almanac.UpdateUserResult) {
	c.Users++
	c.Unchanged += u.Unchanged
	c.Refreshed += len(u.Refreshed)
	c.Added += len(u.Added)
	c.Removed += len(u.Removed)
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
