package almanac

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Refusal is a user or an event that a call for many left unchanged, and the reason.
type Refusal struct {
	Position int       // the index of the profile given to CreateUsers, from 0; otherwise zero
	UserID   uuid.UUID // zero for a profile without an id, and in Operate
	EventID  uuid.UUID // the event that Operate could not change; otherwise zero
	// Err is a *ValidationError for invalid input, and an *ExternalIDTakenError if another
	// user has the external id. Otherwise it is an error of the handler or the repository.
	Err error
}

// CreateUsersOptions are options of [Planner].CreateUsers. Zero in a field means its default.
type CreateUsersOptions struct {
	Batch   int // the most users in a transaction, 1 to 1,000; default 1,000
	Writers int // the most concurrent transactions, and so connections, 1 to 64; default 2; always 1 in a transaction of the host
	// Progress, if not nil, is called after each batch with the result so far, by one
	// goroutine at a time. CreateUsers waits until it returns.
	Progress func(CreateUsersResult)
	// Existing, if not nil, is called with the index of each profile whose user existed before, by one
	// goroutine at a time, in no certain order. CreateUsers waits until it returns.
	Existing func(position int)
}

// CreateUsersResult counts what a [Planner].CreateUsers stored.
type CreateUsersResult struct {
	Created  int       // users who were stored
	Events   int       // the first events of these users
	Existing int       // users who existed before and are left unchanged
	Refused  []Refusal // users who could not be stored; in the final result, in the order of positions
}

const (
	maxBatch       = 1000
	maxWriters     = 64
	defaultWriters = 2
)

func (options CreateUsersOptions) withDefaults() (CreateUsersOptions, error) {
	var bad ValidationError
	if options.Batch < 0 || options.Batch > maxBatch {
		bad.Fields = append(bad.Fields, FieldError{Field: "batch", Problem: "is not between 1 and 1000"})
	}
	if options.Writers < 0 || options.Writers > maxWriters {
		bad.Fields = append(bad.Fields, FieldError{Field: "writers", Problem: "is not between 1 and 64"})
	}
	if len(bad.Fields) > 0 {
		return options, &bad
	}
	options.Batch = cmp.Or(options.Batch, maxBatch)
	options.Writers = cmp.Or(options.Writers, defaultWriters)
	if options.Progress == nil {
		options.Progress = func(CreateUsersResult) {}
	}
	if options.Existing == nil {
		options.Existing = func(int) {}
	}
	return options, nil
}

func (s *scheduler) CreateUser(ctx context.Context, p Profile) (UserWithEvents, error) {
	now, err := s.repository.Now(ctx)
	if err != nil {
		return UserWithEvents{}, err
	}
	zones, err := s.zoneView(ctx)
	if err != nil {
		return UserWithEvents{}, err
	}
	planned, err := s.planFirst(ctx, p, now, zones)
	if err != nil {
		return UserWithEvents{}, err
	}
	results, err := s.repository.CreateUsers(ctx, []UserWithEvents{planned})
	if err != nil {
		return UserWithEvents{}, err
	}
	stored, err := results[0].UserWithEvents, results[0].Err
	if err != nil {
		return UserWithEvents{}, err
	}
	s.notify(ctx, Notice{Kind: UserCreated, User: stored.User})
	s.notifyEvents(ctx, EventCreated, stored.Events)
	s.running.wakeFor(stored.Events...)
	return stored, nil
}

// planFirst makes a user from a profile, and plans the user's first events.
func (s *scheduler) planFirst(ctx context.Context, p Profile, now time.Time, zones *zoneView) (UserWithEvents, error) {
	p.OptOuts = authored(ctx, p.OptOuts)
	u, err := newUser(p, now, s.profileRules(ctx))
	if err != nil {
		return UserWithEvents{}, err
	}
	g := s.guard(ctx, u.ID)
	all, err := s.seriesOf(s.registry.EventTypes(), g, u)
	if err != nil {
		return UserWithEvents{}, err
	}
	events, err := g.firsts(all, nil, Roster{User: u, Now: now})
	if err == nil {
		err = zones.permits(events...)
	}
	return UserWithEvents{u, zones.stampAll(events)}, err
}

func (s *scheduler) CreateUsers(ctx context.Context, profiles iter.Seq2[Profile, error], options CreateUsersOptions) (CreateUsersResult, error) {
	options, err := options.withDefaults()
	if err != nil {
		return CreateUsersResult{}, err
	}
	if s.inTransaction() {
		options.Writers = 1
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	e := &creation{scheduler: s, options: options, stop: stop, slots: make(chan struct{}, options.Writers)}
	err = e.run(ctx, profiles)
	slices.SortFunc(e.done.Refused, func(a, b Refusal) int { return cmp.Compare(a.Position, b.Position) })
	return e.done, err
}

// creation is one call of CreateUsers. Batches are planned on all processors. Each use of
// the repository takes a slot.
type creation struct {
	*scheduler
	options CreateUsersOptions
	stop    context.CancelCauseFunc
	slots   chan struct{}

	mu   sync.Mutex
	done CreateUsersResult
	err  error // the first error
}

// batch is a part of the profiles.
type batch struct {
	first    int // the position of the first profile
	profiles []Profile
}

// run distributes the profiles in batches, and waits for all batches.
func (e *creation) run(ctx context.Context, profiles iter.Seq2[Profile, error]) error {
	batches := make(chan batch)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) + e.options.Writers {
		group.Go(func() {
			for b := range batches {
				if err := e.store(ctx, b); err != nil {
					e.fail(err)
				}
			}
		})
	}
	err := func() error {
		defer group.Wait()
		defer close(batches) // also when the host's sequence panics
		return e.read(ctx, profiles, batches)
	}()
	return cmp.Or(e.err, err)
}

// read divides the profiles into batches. The profiles before an error of the sequence are stored.
func (e *creation) read(ctx context.Context, profiles iter.Seq2[Profile, error], batches chan<- batch) error {
	var b batch
	var broken error
	send := func() error {
		if len(b.profiles) == 0 {
			return nil
		}
		select {
		case batches <- b:
			b = batch{first: b.first + len(b.profiles)}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for p, err := range profiles {
		if err != nil {
			broken = err
			break
		}
		b.profiles = append(b.profiles, p)
		if len(b.profiles) < e.options.Batch {
			continue
		}
		if err := send(); err != nil {
			return err
		}
	}
	return cmp.Or(send(), broken)
}

// fail stops CreateUsers, with its first error.
func (e *creation) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = cmp.Or(e.err, err)
	e.stop(err)
}

// store plans and stores a batch, and adds what it stored to the result.
func (e *creation) store(ctx context.Context, b batch) error {
	now, err := withSlot(ctx, e.slots, e.repository.Now)
	if err != nil {
		return err
	}
	zones, err := withSlot(ctx, e.slots, e.zoneView)
	if err != nil {
		return err
	}
	users, positions, refused := e.planUsers(ctx, b, now, zones)
	stored, err := withSlot(ctx, e.slots, func(ctx context.Context) ([]CreateUserResult, error) { return e.storeOrLookUp(ctx, users, now) })
	done := CreateUsersResult{}
	var existing []int
	for i, one := range stored {
		switch {
		case errors.Is(one.Err, errNotStored):
		case errors.Is(one.Err, ErrExists):
			existing = append(existing, b.first+positions[i])
		case one.Err != nil:
			refused = append(refused, Refusal{Position: b.first + positions[i], UserID: users[i].User.ID, Err: one.Err})
		default:
			done.Created++
			done.Events += len(one.Events)
			e.notify(ctx, Notice{Kind: UserCreated, User: one.User})
			e.notifyEvents(ctx, EventCreated, one.Events)
		}
	}
	e.running.wake()
	if err != nil && len(stored) == 0 {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done.Created += done.Created
	e.done.Events += done.Events
	e.done.Existing += len(existing)
	e.done.Refused = append(e.done.Refused, refused...)
	for _, position := range existing {
		e.options.Existing(position)
	}
	e.options.Progress(e.done)
	return err
}

// errNotStored marks a user whom a failed call did not store.
var errNotStored = errors.New("almanac: not stored")

// storeOrLookUp stores a batch. After an error it looks up which users are stored, because the transaction
// may have been committed although the answer was lost. So the counts and notices match the database.
func (e *creation) storeOrLookUp(ctx context.Context, users []UserWithEvents, now time.Time) ([]CreateUserResult, error) {
	stored, err := e.repository.CreateUsers(ctx, users)
	if err == nil {
		return stored, nil
	}
	for _, p := range users[len(stored):] {
		one, unknown := lookUp(ctx, e.repository, p, now)
		if unknown != nil {
			break
		}
		stored = append(stored, one)
	}
	return stored, err
}

// lookUp reports whether a user was stored as planned at now. The ids of the planned
// events are unique, so the user was stored if the events exist. A user without planned
// events is recognized by the time of creation.
func lookUp(ctx context.Context, r Repository, p UserWithEvents, now time.Time) (CreateUserResult, error) {
	var one CreateUserResult
	for _, planned := range p.Events {
		is, err := r.Event(ctx, planned.ID)
		if errors.Is(err, ErrNotFound) {
			return CreateUserResult{Err: errNotStored}, nil
		}
		if err != nil {
			return one, err
		}
		one.Events = append(one.Events, is)
	}
	u, err := r.User(ctx, p.User.ID)
	if errors.Is(err, ErrNotFound) || err == nil && len(p.Events) == 0 && u.CreatedAt.Before(now) {
		return CreateUserResult{Err: errNotStored}, nil
	}
	one.User = u
	return one, err
}

// planUsers plans the first events of the users of a batch. It returns the users that can be
// stored with their positions in the batch, and the refusals of the others.
func (s *scheduler) planUsers(ctx context.Context, b batch, now time.Time, zones *zoneView) (users []UserWithEvents, positions []int, refused []Refusal) {
	for i, p := range b.profiles {
		one, err := s.planFirst(ctx, p, now, zones)
		if err != nil {
			refused = append(refused, Refusal{Position: b.first + i, UserID: p.ID, Err: err})
			continue
		}
		users, positions = append(users, one), append(positions, i)
	}
	return users, positions, refused
}

// withSlot takes a slot and calls use. It returns the cause of ctx if ctx is done before that. A
// call that has begun is not cancelled, because the result of a cancelled call would be unknown.
func withSlot[T any](ctx context.Context, slots chan struct{}, use func(context.Context) (T, error)) (T, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		var none T
		return none, context.Cause(ctx)
	}
	return use(context.WithoutCancel(ctx))
}
