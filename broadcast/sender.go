package broadcast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Sender starts broadcasts, controls them and stores their events. It is safe for concurrent use.
type Sender struct {
	scheduler almanac.Scheduler
	store     Store
	started   chan struct{} // wakes Run of this Sender
}

// New returns a sender for a scheduler. The store must belong to the repository of the scheduler; a postgres.Store is
// both a repository and a store. It is an error if the scheduler or the store is nil.
func New(s almanac.Scheduler, store Store) (*Sender, error) {
	if s == nil || store == nil {
		return nil, errors.New("broadcast: no scheduler or no store")
	}
	return &Sender{s, store, make(chan struct{}, 1)}, nil
}

// StartResult is a broadcast that Start has stored or found.
type StartResult struct {
	Status
	Existed bool // whether the broadcast existed before the call
}

// Start stores a broadcast. Run of any program then stores its events, unless its audience is a list: then add the users
// first. A repeated call with the same content returns the stored broadcast and changes nothing, whatever its state.
//
// The error is an [*almanac.ValidationError] that names each invalid field, also if the handler of the type is an
// [almanac.LaneNamer], an [*almanac.UnsupportedEventTypeError] if the type has no handler in this program, and a
// [*ConflictError] if a broadcast with another content has the name. The result then has that one. The error matches [almanac.ErrExists]
// if there are events of a deleted broadcast with the name.
func (s *Sender) Start(ctx context.Context, b Broadcast) (StartResult, error) {
	if err := s.check(ctx, b); err != nil {
		return StartResult{}, err
	}
	b = b.normal()
	stored, existed, err := s.store.CreateBroadcast(ctx, b)
	if err != nil {
		return StartResult{}, err
	}
	s.wake()
	if differ := b.Differences(stored.Broadcast); len(differ) > 0 {
		return StartResult{stored, existed}, &ConflictError{b.Name, differ}
	}
	return StartResult{stored, existed}, nil
}

// check returns an error if the broadcast cannot be stored.
func (s *Sender) check(ctx context.Context, b Broadcast) error {
	if err := b.Check(); err != nil {
		return err
	}
	zone := b.zone("UTC", time.Time{})
	_, err := s.scheduler.ScheduleAtEach(ctx, b.Type, b.options(zone), func(func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error)) (almanac.AddEventsResult, error) {
		return almanac.AddEventsResult{}, nil
	})
	return err
}

func (s *Sender) wake() {
	select {
	case s.started <- struct{}{}:
	default:
	}
}

// AddUsers adds users to the list of a broadcast, up to 10,000 in one call. Users who are in the list already are left out. Ids of no user
// are in the result. The error matches [almanac.ErrNotFound] if there is no such broadcast, and
// [almanac.ErrInvalidStateTransition] if it is not [Collecting]. It is an [*almanac.ValidationError] if an external id is no text.
func (s *Sender) AddUsers(ctx context.Context, name string, ids []uuid.UUID, externalIDs []string) (AddUsersResult, error) {
	const most = 10_000
	bad := named("name", name)
	if len(ids)+len(externalIDs) > most {
		bad = append(bad, almanac.FieldError{Field: "users", Problem: "are more than 10000"})
	}
	if i := slices.IndexFunc(externalIDs, func(id string) bool { return !isText(id) }); i >= 0 {
		bad = append(bad, almanac.FieldError{Field: "external_ids", Problem: fmt.Sprintf("has element %d, which %s", i, notText)})
	}
	if bad != nil {
		return AddUsersResult{}, &almanac.ValidationError{Fields: bad}
	}
	return s.store.AddBroadcastUsers(ctx, name, ids, externalIDs)
}

// named returns what is wrong with a name of a stored broadcast.
func named(field, name string) []almanac.FieldError {
	if isText(name) {
		return nil
	}
	return []almanac.FieldError{{Field: field, Problem: notText}}
}

// Complete says that the list of a broadcast is complete: Run stores its events from then on. Repeating the call changes nothing. The errors are
// those of Stop.
func (s *Sender) Complete(ctx context.Context, name string) (Status, error) {
	return s.act(ctx, name, Complete, "")
}

// Stop stops a broadcast. When it has returned, no event of the broadcast is stored or claimed any more, by any program. Deliveries that are under way
// end. The pending events become CANCELLED with the reason, as fast as Run of any program does that, before it stores anything. Stopping a stopped broadcast
// changes nothing, unless the reason is another one: then events that are not cancelled yet get that. The reason has at most 1,000 bytes
// and may be empty.
//
// The error matches [almanac.ErrNotFound] if there is no such broadcast, and [almanac.ErrInvalidStateTransition] if it has
// ended. It matches [ErrStillClaimed] if claims did not end within seconds: the broadcast is stopped then, and only
// what they have claimed is delivered; call Stop again to be sure. If it matches [almanac.ErrLocked] alone, another
// transaction holds the broadcast, and nothing has changed.
//
// To hold a broadcast for a while, pause its lane instead (see [Broadcast.Lane] and [almanac.Operator].Pause).
func (s *Sender) Stop(ctx context.Context, name, reason string) (Status, error) {
	return s.act(ctx, name, Stop, reason)
}

// Resume continues a stopped broadcast. Run of any program then requeues the events that the stop has cancelled, under their
// idempotency keys, and users who had no event yet get one, also those who were refused or locked before. Users who are
// locked meanwhile are tried again. Events whose time has passed meanwhile are due at once, and keep that instant. The
// others are as before the stop: an event at a wall time follows its user to another zone, also if the user has moved
// meanwhile. Events that the stop has not cancelled yet are delivered as well. The errors are those of Stop.
func (s *Sender) Resume(ctx context.Context, name string) (Status, error) {
	return s.act(ctx, name, Resume, "")
}

func (s *Sender) act(ctx context.Context, name string, a Action, reason string) (Status, error) {
	bad := named("name", name)
	if len(reason) > 1000 || !isText(reason) {
		bad = append(bad, almanac.FieldError{Field: "reason", Problem: "has more than 1000 bytes, or is no text"})
	}
	if bad != nil {
		return Status{}, &almanac.ValidationError{Fields: bad}
	}
	is, err := s.store.StepBroadcast(ctx, name, a, reason)
	s.wake()
	return is, err
}

// Get returns a broadcast. The error matches [almanac.ErrNotFound] if there is none.
func (s *Sender) Get(ctx context.Context, name string) (Status, error) {
	if bad := named("name", name); bad != nil {
		return Status{}, &almanac.ValidationError{Fields: bad}
	}
	return s.store.Broadcast(ctx, name)
}

// List returns up to limit broadcasts, newest first. After is the name of the last one of the page before; "" means the
// newest. The limit is 1 to 1,000. Zero means 100.
func (s *Sender) List(ctx context.Context, after string, limit int) ([]Status, error) {
	bad := named("after", after)
	if limit < 0 || limit > 1000 {
		bad = append(bad, almanac.FieldError{Field: "limit", Problem: "is not between 1 and 1000"})
	}
	if bad != nil {
		return nil, &almanac.ValidationError{Fields: bad}
	}
	return s.store.Broadcasts(ctx, after, cmp.Or(limit, 100))
}

// Progress returns how far a broadcast is, by zone. Until the broadcast has ended, this counts its ended events by an
// index: a million take about a fifth of a second. Events that follow a user count in the zone where the user was when they were
// stored, and their outcome in the zone where they ended. An event that an operator requeues counts as another one.
func (s *Sender) Progress(ctx context.Context, name string) (Progress, error) {
	if bad := named("name", name); bad != nil {
		return Progress{}, &almanac.ValidationError{Fields: bad}
	}
	return s.store.BroadcastProgress(ctx, name)
}

// Delete deletes a broadcast that has ended, or was stopped and has nothing pending any more. Its events stay until they
// are pruned, and until then no other broadcast of the type may have the name. After that, one with the same name reaches only users who
// have had no event of it. The error matches [almanac.ErrInvalidStateTransition] if the broadcast has not ended.
func (s *Sender) Delete(ctx context.Context, name string) error {
	if bad := named("name", name); bad != nil {
		return &almanac.ValidationError{Fields: bad}
	}
	for more := true; more; {
		var err error
		if more, err = s.store.DeleteBroadcast(ctx, name); err != nil {
			return err
		}
		if more { // users whom another transaction has locked may be all that is left
			s.wait(ctx, time.After(10*time.Millisecond), nil)
		}
	}
	return nil
}

// Prune deletes the broadcasts that ended before an instant, and returns how many.
func (s *Sender) Prune(ctx context.Context, before time.Time) (pruned int, err error) {
	for after := ""; ; {
		page, err := s.store.Broadcasts(ctx, after, 1000)
		if err != nil || len(page) == 0 {
			return pruned, err
		}
		kept := ""
		for _, b := range page {
			if b.EndedAt.IsZero() || !b.EndedAt.Before(before) {
				kept = b.Name
				continue
			}
			if err := s.Delete(ctx, b.Name); err != nil && !errors.Is(err, almanac.ErrNotFound) {
				return pruned, err
			}
			pruned++
		}
		if len(page) < 1000 {
			return pruned, nil
		}
		after = cmp.Or(kept, after)
	}
}

// ZonePreview is a zone of a [PreviewResult].
type ZonePreview struct {
	Zone
	Users int
}

// PreviewResult says whom a broadcast would reach, and when.
type PreviewResult struct {
	At      time.Time     // by the clock of the repository, UTC; what has passed is judged at this time
	Zones   []ZonePreview // those that are due first, first; zones that are left out last
	Users   int           // users in zones that are not left out, also those who have opted out
	Late    int           // of Users, those in zones where the time has passed, and who would get their event at once
	LeftOut int           // users in zones that are left out
	First   time.Time     // the first and the last instant; zero without users. A spread of the type comes on top
	Last    time.Time
	Stored  State // the state of the broadcast, if it is stored with this content already: then Start stores nothing. "" otherwise
}

// Preview returns what Start would do now. It stores nothing and locks nothing, and reads all users. If the audience is a list, it is
// the list of the stored broadcast with the name. The errors are those of Start.
func (s *Sender) Preview(ctx context.Context, b Broadcast) (PreviewResult, error) {
	if err := s.check(ctx, b); err != nil {
		return PreviewResult{}, err
	}
	b = b.normal()
	stored, err := s.store.Broadcast(ctx, b.Name)
	if err == nil {
		if differ := b.Differences(stored.Broadcast); len(differ) > 0 {
			return PreviewResult{}, &ConflictError{b.Name, differ}
		}
	} else if !errors.Is(err, almanac.ErrNotFound) {
		return PreviewResult{}, err
	}
	users, now, err := s.store.CountBroadcast(ctx, b)
	if err != nil {
		return PreviewResult{}, err
	}
	done := PreviewResult{At: now, Stored: stored.State}
	names := make([]string, 0, len(users))
	for name := range users {
		names = append(names, name)
	}
	for _, z := range ZonesOf(b, names, now) {
		n := users[z.Name]
		done.Zones = append(done.Zones, ZonePreview{z, n})
		if z.Skipped {
			done.LeftOut += n
			continue
		}
		if done.Users += n; z.Late {
			done.Late += n
		}
		if done.First.IsZero() || z.Due.Before(done.First) {
			done.First = z.Due
		}
		if z.Due.After(done.Last) {
			done.Last = z.Due
		}
	}
	slices.SortFunc(done.Zones, func(a, b ZonePreview) int { return a.Zone.Compare(b.Zone) })
	return done, nil
}

// Compare orders zones: those that are due first, first; those that are left out last; then by name.
func (z Zone) Compare(o Zone) int {
	if z.Skipped != o.Skipped {
		if z.Skipped {
			return 1
		}
		return -1
	}
	return cmp.Or(z.Due.Compare(o.Due), cmp.Compare(z.Name, o.Name))
}
