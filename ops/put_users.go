package ops

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/almanac-go/almanac"
)

// PutUsersOptions are options of [PutUsers].
type PutUsersOptions struct {
	// DryRun changes nothing, and counts what would be done. A profile for a user of an earlier profile
	// of the sequence is then compared with what is stored, and a new user counts each time.
	DryRun bool
	// Progress, if not nil, is called after each 1,000 profiles with the result so far.
	Progress func(PutUsersResult)
}

// PutUsersResult counts what [PutUsers] did.
type PutUsersResult struct {
	Created   int // users who did not exist
	Changed   int // users who differed from their profiles
	Unchanged int // users who did not
	Added     int // new events, also those of new users; zero in a dry run
	Moved     int // pending events with another instant or wall time; zero in a dry run
	Removed   int // pending events that were dropped, and those that were cancelled; zero in a dry run
	// Refused are the profiles that could not be stored, by their positions in the sequence from 0.
	Refused []almanac.Refusal
}

// PutUsers creates and changes users as profiles say: see [almanac.Planner].PutUsers. Only what
// differs is written, so an import of all users may run every night, and an interrupted one may begin
// again. A user who is missing in the sequence is left unchanged.
//
// A user who cannot be stored is listed in Refused, and the others are stored. PutUsers stops after the
// first error of profiles, of the repository or of ctx, and returns it with the counts of what is stored.
func PutUsers(ctx context.Context, s almanac.Scheduler, profiles iter.Seq2[almanac.Profile, error], options PutUsersOptions) (PutUsersResult, error) {
	p := put{Scheduler: s, options: options}
	for one, err := range profiles {
		if err != nil {
			return p.done, errors.Join(p.flush(ctx), err)
		}
		if p.page = append(p.page, one); len(p.page) == pageSize {
			if err := p.flush(ctx); err != nil {
				return p.done, err
			}
		}
	}
	err := p.flush(ctx)
	return p.done, err
}

// put is a call of PutUsers.
type put struct {
	almanac.Scheduler
	options PutUsersOptions
	page    []almanac.Profile
	first   int // the position of the first profile of the page
	done    PutUsersResult
}

// flush stores the page, and begins the next.
func (p *put) flush(ctx context.Context) error {
	if len(p.page) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var failed error
	results, before, errs := p.PutUsers(ctx, p.page, p.options.DryRun)
	for i, r := range results {
		switch err := errs[i]; {
		case err == nil:
			p.done.count(before[i].Version, r)
		case !stops(ctx, err):
			p.done.Refused = append(p.done.Refused, almanac.Refusal{Position: p.first + i, UserID: p.page[i].ID, Err: err})
		case failed == nil:
			failed = fmt.Errorf("almanac: profile %d: %w", p.first+i, err)
		}
	}
	p.first += len(p.page)
	p.page = p.page[:0]
	if p.options.Progress != nil {
		p.options.Progress(p.done)
	}
	return failed
}

// count adds the result of a user who had a version before, or zero.
func (r *PutUsersResult) count(before int, one almanac.UpdateUserResult) {
	switch before {
	case 0:
		r.Created++
	case one.User.Version:
		r.Unchanged++
	default:
		r.Changed++
	}
	r.Added += len(one.Added)
	r.Moved += len(one.Moved)
	r.Removed += len(one.Removed) + len(one.Cancelled)
}

// stops reports whether an error is that of ctx, or of the database and not about one user.
func stops(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	if !errors.As(err, new(interface{ SafeToRetry() bool })) {
		return false
	}
	var row interface{ Refused() bool }
	return !errors.As(err, &row) || !row.Refused()
}
