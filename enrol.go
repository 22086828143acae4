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
)

// Enrol says how people are enrolled. A zero field takes its default.
type Enrol struct {
	Batch   int // the most people in a transaction, 1 to 1,000; default 1,000
	Writers int // the most transactions at a time, and with them connections, 1 to 64; default 2. In a transaction of the host's it is 1
	// Progress, if not nil, hears after each batch what is done so far. It is called
	// by one goroutine at a time and holds up the enrolment.
	Progress func(Enrolments)
}

// Enrolments says what an enrolment has come to.
type Enrolments struct {
	Created  int       // people who were stored
	Events   int       // events that they are owed first
	Existing int       // people who were there already, and stay as they are
	Refused  []Refusal // people who could not be stored; at the end in the order of positions
}

const (
	maxBatch       = 1000
	maxWriters     = 64
	defaultWriters = 2
)

func (how Enrol) withDefaults() (Enrol, error) {
	var bad ValidationError
	if how.Batch < 0 || how.Batch > maxBatch {
		bad.Fields = append(bad.Fields, FieldError{Field: "batch", Problem: "is not between 1 and 1000"})
	}
	if how.Writers < 0 || how.Writers > maxWriters {
		bad.Fields = append(bad.Fields, FieldError{Field: "writers", Problem: "is not between 1 and 64"})
	}
	if len(bad.Fields) > 0 {
		return how, &bad
	}
	if how.Batch == 0 {
		how.Batch = maxBatch
	}
	if how.Writers == 0 {
		how.Writers = defaultWriters
	}
	if how.Progress == nil {
		how.Progress = func(Enrolments) {}
	}
	return how, nil
}

func (s *scheduler) Enrol(ctx context.Context, people iter.Seq2[Profile, error], how Enrol) (Enrolments, error) {
	how, err := how.withDefaults()
	if err != nil {
		return Enrolments{}, err
	}
	if s.inTransaction() {
		how.Writers = 1
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	e := &enrolling{scheduler: s, how: how, stop: stop, turns: make(chan struct{}, how.Writers), store: oneByOne{s.repository}.CreateUsers}
	if bulk, ok := s.repository.(BulkRepository); ok {
		e.store = bulk.CreateUsers
	}
	err = e.run(ctx, people)
	slices.SortFunc(e.done.Refused, func(a, b Refusal) int { return cmp.Compare(a.Position, b.Position) })
	return e.done, err
}

// enrolling is an enrolment on its way. Batches are planned on all processors; who
// uses the repository takes one of the turns.
type enrolling struct {
	*scheduler
	how   Enrol
	stop  context.CancelCauseFunc
	turns chan struct{}
	store func(context.Context, []Enrolment) ([]Enrolled, error)

	mu   sync.Mutex
	done Enrolments
	err  error // the first
}

// batch is a stretch of the people.
type batch struct {
	first    int // the position of the first of them
	profiles []Profile
}

// run hands the people out in batches and waits for all that were taken.
func (e *enrolling) run(ctx context.Context, people iter.Seq2[Profile, error]) error {
	batches := make(chan batch)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) + e.how.Writers {
		group.Go(func() {
			for b := range batches {
				if err := e.enrol(ctx, b); err != nil {
					e.fail(err)
				}
			}
		})
	}
	err := func() error {
		defer group.Wait()
		defer close(batches) // also when the host's sequence panics
		return e.read(ctx, people, batches)
	}()
	return cmp.Or(e.err, err)
}

// read cuts the people into batches. What comes before an error of theirs is
// enrolled.
func (e *enrolling) read(ctx context.Context, people iter.Seq2[Profile, error], batches chan<- batch) error {
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
	for p, err := range people {
		if err != nil {
			broken = err
			break
		}
		b.profiles = append(b.profiles, p)
		if len(b.profiles) < e.how.Batch {
			continue
		}
		if err := send(); err != nil {
			return err
		}
	}
	return cmp.Or(send(), broken)
}

// fail ends the enrolment.
func (e *enrolling) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = cmp.Or(e.err, err)
	e.stop(err)
}

// enrol plans and stores a batch, and tells what came of it.
func (e *enrolling) enrol(ctx context.Context, b batch) error {
	now, err := inTurn(ctx, e.turns, e.repository.Now)
	if err != nil {
		return err
	}
	zones, err := inTurn(ctx, e.turns, e.zoneView)
	if err != nil {
		return err
	}
	people, positions, refused := e.plan(b, now, zones)
	stored, err := inTurn(ctx, e.turns, func(ctx context.Context) ([]Enrolled, error) { return e.storeOrLookUp(ctx, people, now) })
	done := Enrolments{}
	for i, one := range stored {
		switch {
		case errors.Is(one.Err, errNotStored):
		case errors.Is(one.Err, ErrExists):
			done.Existing++
		case one.Err != nil:
			refused = append(refused, Refusal{b.first + positions[i], people[i].User.ID, one.Err})
		default:
			done.Created++
			done.Events += len(one.Events)
			e.tell(ctx, Notice{Kind: UserCreated, User: one.User})
			e.tellEvents(ctx, EventCreated, one.Events)
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
	e.done.Existing += done.Existing
	e.done.Refused = append(e.done.Refused, refused...)
	e.how.Progress(e.done)
	return err
}

// errNotStored is of a user whom a call that failed did not store.
var errNotStored = errors.New("almanac: not stored")

// storeOrLookUp stores a batch. After an error it looks up which users were stored, since a
// commit whose answer was lost took effect. Counts and notices then match the database.
func (e *enrolling) storeOrLookUp(ctx context.Context, people []Enrolment, now time.Time) ([]Enrolled, error) {
	stored, err := e.store(ctx, people)
	if err == nil {
		return stored, nil
	}
	for _, p := range people[len(stored):] {
		one, unknown := lookUp(ctx, e.repository, p, now)
		if unknown != nil {
			break
		}
		stored = append(stored, one)
	}
	return stored, err
}

// lookUp tells whether a user was stored as planned at now: then their events are there,
// whose ids nobody else has. A user who is owed nothing is known by when they were created.
func lookUp(ctx context.Context, r Repository, p Enrolment, now time.Time) (Enrolled, error) {
	var one Enrolled
	for _, planned := range p.Events {
		is, err := r.Event(ctx, planned.ID)
		if errors.Is(err, ErrNotFound) {
			return Enrolled{Err: errNotStored}, nil
		}
		if err != nil {
			return one, err
		}
		one.Events = append(one.Events, is)
	}
	u, err := r.User(ctx, p.User.ID)
	if errors.Is(err, ErrNotFound) || err == nil && len(p.Events) == 0 && u.CreatedAt.Before(now) {
		return Enrolled{Err: errNotStored}, nil
	}
	one.User = u
	return one, err
}

// plan returns the people of a batch who can be stored, with their places in it,
// and the others.
func (s *scheduler) plan(b batch, now time.Time, zones *zoneView) (people []Enrolment, places []int, refused []Refusal) {
	for i, p := range b.profiles {
		one, err := s.planFirst(p, now, zones)
		if err != nil {
			refused = append(refused, Refusal{b.first + i, p.ID, err})
			continue
		}
		people, places = append(people, one), append(places, i)
	}
	return people, places, refused
}

// inTurn uses the repository when it is one's turn, unless ctx is over by then.
// What has begun is not cut off, so that it is known what became of it.
func inTurn[T any](ctx context.Context, turns chan struct{}, use func(context.Context) (T, error)) (T, error) {
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		var none T
		return none, context.Cause(ctx)
	}
	return use(context.WithoutCancel(ctx))
}

// oneByOne stores many people where the repository cannot.
type oneByOne struct{ Repository }

// CreateUsers answers what it has stored, also with an error.
func (r oneByOne) CreateUsers(ctx context.Context, people []Enrolment) ([]Enrolled, error) {
	var stored []Enrolled
	for _, p := range people {
		u, events, err := r.CreateUser(ctx, p.User, p.Events...)
		if err != nil && !errors.Is(err, ErrExists) {
			return stored, err
		}
		stored = append(stored, Enrolled{Enrolment{u, events}, err})
	}
	return stored, nil
}
