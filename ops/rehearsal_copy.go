package ops

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// copyFormat is the number of the form of a copy. A program reads copies of its own number only.
const copyFormat = 1

// CopyUsersOptions are options of [CopyUsers]. The zero CopyUsersOptions copies all users.
type CopyUsersOptions struct {
	// Every copies one of this many users, chosen by a hash of the id, so that every copy has the same users. The
	// default is all, as is 1. It must not be negative. All users are read nevertheless.
	Every int
	// Limit is the most users to copy, the first ones in the order of ids. It must not be negative. Zero means no limit.
	Limit int
	// Progress, if not nil, is called after each page with the number of users read so far.
	Progress func(users int)
}

// CopyUsersResult is the result of copying users.
type CopyUsersResult struct {
	At     time.Time // the repository's clock at the beginning, UTC
	Read   int       // users that were read
	Copied int       // of these, users in the copy
	Cut    bool      // whether more users follow after the limit
}

// copyHead is the first line of a copy.
type copyHead struct {
	Format int
	At     time.Time
	Types  []string
	Every  int
	Lanes  []almanac.Lane
}

// copiedUser is a further line of a copy: a user with open events and used keys, or, without a user, the end.
type copiedUser struct {
	User       *almanac.User `json:",omitempty"`
	Born, By   string        `json:",omitempty"` // the date of birth, and its calendar
	Zone       string        `json:",omitempty"`
	Pending    []almanac.Event
	InFlight   []almanac.Event         `json:",omitempty"`
	Used       []copiedKeys            `json:",omitempty"`
	Stalled    []almanac.StalledSeries `json:",omitempty"`
	Now        time.Time               `json:",omitzero"`
	Users      int                     `json:",omitempty"` // at the end: how many there are
	Incomplete bool                    `json:",omitempty"` // at the end: users follow that were not copied
}

type copiedKeys struct {
	Series almanac.Series
	Keys   almanac.UsedKeys
}

// CopyUsers copies users, with their open events of the given types and the keys that these series have used, for
// [Rehearse]. It reads a page of 1,000 users at a time, and locks nothing. Each page is a transaction of its own, so
// no snapshot is held. A user who is changed meanwhile is copied as before the change or as after it. A page that
// cannot be read is tried five times within seconds. An interrupted copy is refused by Rehearse.
//
// The copy is text in lines of JSON, compressed by gzip, for programs of the same release. It has the names, birth
// dates, addresses and attributes of the users, and the payloads of events. The error is an
// [*almanac.ValidationError] if an option is invalid or there are no types.
func CopyUsers(ctx context.Context, r almanac.Repository, types []string, w io.Writer, o CopyUsersOptions) (CopyUsersResult, error) {
	switch {
	case len(types) == 0:
		return CopyUsersResult{}, invalid("types", "are none")
	case o.Every < 0:
		return CopyUsersResult{}, invalid("every", "is negative")
	case o.Limit < 0:
		return CopyUsersResult{}, invalid("limit", "is negative")
	}
	at, err := r.Now(ctx)
	if err != nil {
		return CopyUsersResult{}, err
	}
	lanes, err := r.Lanes(ctx)
	if err != nil {
		return CopyUsersResult{}, err
	}
	zipped, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	c := copying{repository: r, types: types, options: o, to: json.NewEncoder(zipped), done: CopyUsersResult{At: at}}
	if err := c.to.Encode(copyHead{copyFormat, at, types, max(o.Every, 1), lanes}); err != nil {
		return c.done, err
	}
	if err := c.pages(ctx); err != nil {
		return c.done, err
	}
	if err := c.to.Encode(copiedUser{Users: c.done.Copied, Incomplete: c.done.Cut}); err != nil {
		return c.done, err
	}
	return c.done, zipped.Close()
}

// copying is a copy in progress.
type copying struct {
	repository almanac.Repository
	types      []string
	options    CopyUsersOptions
	to         *json.Encoder
	done       CopyUsersResult
}

// readPage is a page of users, or why it could not be read.
type readPage struct {
	almanac.List[almanac.Roster]
	err error
}

// pages copies page by page. The next page is read while the present one is written.
func (c *copying) pages(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	read := make(chan readPage)
	defer func() {
		stop()
		for range read { // until the reading goroutine has ended
		}
	}()
	go func() {
		defer close(read)
		for page := (almanac.Page{Limit: pageSize}); ; {
			found, err := c.read(ctx, page)
			select {
			case read <- readPage{found, err}:
			case <-ctx.Done():
				return
			}
			if page.After = found.Next; err != nil || page.After == "" {
				return
			}
		}
	}()
	for page := range read {
		if page.err != nil {
			return page.err
		}
		for i, one := range page.Items {
			if c.options.Limit > 0 && c.done.Copied == c.options.Limit {
				c.done.Read, c.done.Cut = c.done.Read+i, true
				return nil
			}
			if isChosen(one.User.ID, c.options.Every) {
				if err := c.to.Encode(copyOf(one)); err != nil {
					return err
				}
				c.done.Copied++
			}
		}
		if c.done.Read += len(page.Items); c.options.Progress != nil {
			c.options.Progress(c.done.Read)
		}
	}
	return context.Cause(ctx)
}

// isChosen reports whether a sample of one in n users has the user.
func isChosen(id uuid.UUID, n int) bool {
	return n < 2 || hashOf(id[:])%uint64(n) == 0
}

// read reads a page with the events of all types.
func (c *copying) read(ctx context.Context, page almanac.Page) (almanac.List[almanac.Roster], error) {
	const tries = 5
	for failures := 1; ; failures++ {
		found, err := c.repository.Rosters(ctx, c.types, page)
		if err == nil || failures == tries || ctx.Err() != nil || isMisuse(err) {
			return found, err
		}
		select {
		case <-time.After(pageAgain.Delay(failures, rand.Float64())):
		case <-ctx.Done():
		}
	}
}

func copyOf(r almanac.Roster) copiedUser {
	u := r.User
	one := copiedUser{
		User: &u, Born: u.DateOfBirth.String(), By: u.DateOfBirth.Calendar(), Zone: u.Timezone.String(),
		Pending: r.Pending, InFlight: r.InFlight, Stalled: r.Stalled, Now: r.Now,
	}
	for of, keys := range r.Used {
		one.Used = append(one.Used, copiedKeys{of, keys})
	}
	slices.SortFunc(one.Used, func(a, b copiedKeys) int { return compareSeries(a.Series, b.Series) })
	return one
}

// roster returns a user of a copy.
func (c copiedUser) roster() (almanac.Roster, error) {
	r := almanac.Roster{User: *c.User, Pending: c.Pending, InFlight: c.InFlight, Stalled: c.Stalled, Now: c.Now, Used: make(map[almanac.Series]almanac.UsedKeys, len(c.Used))}
	r.User.Timezone = calendar.StoredTimezone(c.Zone)
	if c.Born != "" {
		born, err := almanac.StoredDateOfBirth(c.Born, c.By)
		if err != nil {
			return r, fmt.Errorf("ops: user %s of the copy: %w", r.User.ID, err)
		}
		r.User.DateOfBirth = born
	}
	for _, keys := range c.Used {
		r.Used[keys.Series] = keys.Keys
	}
	return r, nil
}
