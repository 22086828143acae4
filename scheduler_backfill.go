package almanac

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/isolate"
)

// BackfillOptions are options of [Planner].Backfill. The zero BackfillOptions means
// all users at an unlimited rate.
type BackfillOptions struct {
	// After is Next of an earlier result, to continue from there. Empty means the first user.
	After Cursor
	// Rate is the most users to process in one second, which leaves capacity of the database to other
	// work. It must not be negative. Zero means no limit: two pages are in progress at a time, each on a
	// connection, except in a transaction of the host. A page has up to 1,000 users, and at most Rate.
	Rate int
	// Progress, if not nil, is called after each page with the result so far. Backfill waits until it
	// returns. With a Rate it holds no locks meanwhile; otherwise the next page may be in progress.
	Progress func(BackfillResult)
}

// BackfillResult counts what [Planner].Backfill stored.
type BackfillResult struct {
	Users   int       // users who were processed
	Events  int       // events that were stored
	Refused []Refusal // users for whom no event could be planned or stored
	Next    Cursor    // where to continue, as BackfillOptions.After; empty when all users were processed or refused
}

func (s *scheduler) Backfill(ctx context.Context, eventType string, options BackfillOptions) (BackfillResult, error) {
	h, err := s.registry.Handler(eventType)
	if err != nil {
		return BackfillResult{}, err
	}
	page, every, err := options.pace()
	if err != nil {
		return BackfillResult{}, err
	}
	overlap := every == 0 && !s.inTransaction()
	done, locked := BackfillResult{Next: options.After}, []uuid.UUID(nil)
	for current := s.startPage(ctx, h, page); ; {
		rest := time.NewTimer(every)
		var following *backfillPage
		if overlap {
			select {
			case page.After = <-current.next:
				following = s.startPage(ctx, h, page)
			case <-current.ended:
			}
		}
		<-current.ended
		if current.err != nil {
			if following != nil {
				<-following.ended
			}
			return done.refuseLocked(locked), current.err
		}
		added := current.added
		done = BackfillResult{done.Users + added.Users, done.Events + len(added.Events), append(done.Refused, current.refused...), added.Next}
		locked = append(locked, added.Locked...)
		if options.Progress != nil {
			options.Progress(done)
		}
		if done.Next == "" {
			return s.backfillLocked(ctx, h, locked, done)
		}
		if following == nil {
			select {
			case <-rest.C:
			case <-ctx.Done():
			}
			page.After = done.Next
			following = s.startPage(ctx, h, page)
		}
		current = following
	}
}

// backfillPage is a page that a goroutine processes.
type backfillPage struct {
	next  chan Cursor   // where the next page begins, once all users of a full page are locked
	ended chan struct{} // closed when the other fields are set

	refused []Refusal
	added   AddEventsResult
	err     error
}

// startPage processes a page in a goroutine, so that the next page can be planned while this page is stored.
func (s *scheduler) startPage(ctx context.Context, h EventHandler, page Page) *backfillPage {
	p := &backfillPage{next: make(chan Cursor, 1), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		var once sync.Once
		p.refused, p.added, p.err = s.backfill(ctx, h, page, func(users []UserSeries) {
			// If users are missing because they are locked, only the result says where the next page begins.
			if len(users) == page.Limit {
				once.Do(func() { p.next <- Cursor(users[len(users)-1].User.ID.String()) })
			}
		})
	}()
	return p
}

// backfillLocked tries the locked users again, a few times within seconds, and refuses
// the users who are still locked.
func (s *scheduler) backfillLocked(ctx context.Context, h EventHandler, locked []uuid.UUID, done BackfillResult) (BackfillResult, error) {
	const looks = 5
	for failures := 1; len(locked) > 0 && failures <= looks; failures++ {
		select {
		case <-time.After(tryAgain.Delay(failures, rand.Float64())):
		case <-ctx.Done():
		}
		var still []uuid.UUID
		for i, id := range locked {
			refused, added, err := s.backfill(ctx, h, Page{Limit: 1, After: cursorBefore(id)}, func([]UserSeries) {})
			if err != nil {
				return done.refuseLocked(append(still, locked[i:]...)), err
			}
			done.Users, done.Events, done.Refused = done.Users+added.Users, done.Events+len(added.Events), append(done.Refused, refused...)
			if slices.Contains(added.Locked, id) {
				still = append(still, id)
			}
		}
		locked = still
	}
	return done.refuseLocked(locked), nil
}

func (r BackfillResult) refuseLocked(users []uuid.UUID) BackfillResult {
	for _, id := range users {
		r.Refused = append(r.Refused, Refusal{UserID: id, Err: ErrLocked})
	}
	return r
}

// cursorBefore returns the cursor of a page that begins with an id.
func cursorBefore(id uuid.UUID) Cursor {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			break
		}
	}
	return Cursor(id.String())
}

// pace returns the first page, and the least time that a page takes.
func (options BackfillOptions) pace() (Page, time.Duration, error) {
	page := Page{Limit: maxPage, After: options.After}
	if _, _, err := page.Bounds(); err != nil {
		return page, 0, err
	}
	if options.Rate < 0 {
		return page, 0, &ValidationError{Fields: []FieldError{{Field: "rate", Problem: "is negative"}}}
	}
	if options.Rate == 0 {
		return page, 0, nil
	}
	page.Limit = min(maxPage, options.Rate)
	return page, time.Duration(page.Limit) * time.Second / time.Duration(options.Rate), nil
}

// backfill processes one page, and notifies observers. It calls begun with the users of the
// page when they are locked, and again, perhaps with fewer users, if the repository plans again.
func (s *scheduler) backfill(ctx context.Context, h EventHandler, page Page, begun func([]UserSeries)) (refused []Refusal, added AddEventsResult, err error) {
	if ctx.Err() != nil {
		return nil, AddEventsResult{}, context.Cause(ctx)
	}
	p := &backfillPlan{scheduler: s, ctx: ctx, handler: h, blocked: make(map[uuid.UUID]error)}
	p.each = p.next
	return p.add(func(plan planEach) (AddEventsResult, error) {
		// A page that has begun is not cancelled: the result of a cancelled call is unknown.
		return s.repository.AddEvents(context.WithoutCancel(ctx), h.EventType(), page, func(users []UserSeries, now time.Time) ([]Event, error) {
			begun(users)
			events, _, err := plan(users, now)
			return events, err
		})
	})
}

func (s *scheduler) ScheduleAtEach(ctx context.Context, eventType string, o ScheduleAtOptions, add func(plan planEach) (AddEventsResult, error)) (AddEventsResult, error) {
	o, err := o.withDefaults()
	if err != nil {
		return AddEventsResult{}, err
	}
	h, err := s.oneOffHandler(eventType, o)
	if err != nil {
		return AddEventsResult{}, err
	}
	p := &backfillPlan{scheduler: s, ctx: ctx, handler: h, blocked: make(map[uuid.UUID]error)}
	p.each = func(t *isolate.Thread, one UserSeries, now time.Time) ([]Event, error) {
		return p.oneOff(t, o, one, now)
	}
	refused, added, err := p.add(add)
	added.Refused = refused
	return added, err
}

// planEach plans events for locked users, and returns the users who are refused.
type planEach = func(users []UserSeries, now time.Time) ([]Event, []Refusal, error)

// backfillPlan plans the events of one type for a page of users.
type backfillPlan struct {
	*scheduler
	ctx     context.Context
	handler EventHandler
	each    func(t *isolate.Thread, one UserSeries, now time.Time) ([]Event, error) // plans the events of a user
	// blocked are the users whose plans were given up. The handler is not called again for them
	// when the page is repeated.
	blocked map[uuid.UUID]error
}

// add has a repository store the events of a page, and notifies observers.
func (p *backfillPlan) add(store func(planEach) (AddEventsResult, error)) (refused []Refusal, added AddEventsResult, err error) {
	s, ctx := p.scheduler, p.ctx
	zones, err := s.zoneView(ctx)
	if err != nil {
		return nil, AddEventsResult{}, err
	}
	var stored []Event
	for again := true; again; {
		added, err = store(func(users []UserSeries, now time.Time) ([]Event, []Refusal, error) {
			events, failed, err := p.plan(users, now)
			refused = append(slices.DeleteFunc(refused, func(was Refusal) bool {
				return slices.ContainsFunc(users, func(u UserSeries) bool { return u.User.ID == was.UserID })
			}), failed...)
			return zones.stampAll(events), failed, err
		})
		s.notifyEvents(ctx, EventCreated, added.Events)
		if stored == nil {
			stored = added.Events
		} else {
			stored = append(stored, added.Events...)
		}
		again = errors.Is(err, isolate.ErrBlocked) && ctx.Err() == nil
	}
	added.Events = stored
	if len(added.Events) > 0 {
		s.running.wake()
	}
	if err != nil {
		return nil, added, err
	}
	refused = slices.DeleteFunc(refused, func(was Refusal) bool { // they were planned, but not in the last attempt
		return slices.Contains(added.Locked, was.UserID) || slices.ContainsFunc(added.Refused, func(r Refusal) bool { return r.UserID == was.UserID })
	})
	return append(refused, added.Refused...), added, nil
}

// plan uses all processors, because the users are locked meanwhile. It returns an error as soon
// as a call of the handler is given up, so that no transaction waits for several of them.
func (p *backfillPlan) plan(users []UserSeries, now time.Time) (events []Event, refused []Refusal, err error) {
	planned := make([][]Event, len(users))
	failed := make([]error, len(users))
	planners := max(1, runtime.GOMAXPROCS(0)-1)
	share := max(1, (len(users)+planners-1)/planners)
	var group sync.WaitGroup
	for from := 0; from < len(users); from += share {
		group.Go(func() {
			thread := new(isolate.Thread)
			defer thread.Close()
			for i := from; i < min(from+share, len(users)); i++ {
				if failed[i] = p.blocked[users[i].User.ID]; failed[i] != nil {
					continue
				}
				if planned[i], failed[i] = p.each(thread, users[i], now); errors.Is(failed[i], isolate.ErrBlocked) {
					return
				}
			}
		})
	}
	group.Wait()
	if p.ctx.Err() != nil {
		return nil, nil, context.Cause(p.ctx)
	}
	for i, failure := range failed {
		if failure == nil {
			continue
		}
		id := users[i].User.ID
		if errors.Is(failure, isolate.ErrBlocked) && p.blocked[id] == nil {
			p.blocked[id], err = failure, failure
		}
		refused = append(refused, Refusal{UserID: id, Err: failure})
	}
	return slices.Concat(planned...), refused, err
}

// next plans the next events of a user.
func (p *backfillPlan) next(t *isolate.Thread, one UserSeries, now time.Time) ([]Event, error) {
	g := p.guard(p.ctx, one.User.ID)
	g.thread = t
	list, err := g.series(p.handler, one.User)
	if err != nil {
		return nil, err
	}
	events, err := g.firsts(list, one.Open, Roster{User: one.User, Stalled: one.Stalled, Used: one.Used, Now: now})
	if err == nil {
		err = p.zones.Load().permits(events...)
	}
	if err != nil {
		return nil, err // no events, because plan stores all events that it gets, even those beside an error
	}
	return events, nil
}

func (s *scheduler) rescheduleType(ctx context.Context, page Page, p typePass) (List[UpdateUserResult], []Refusal, error) {
	if _, err := s.registry.Handler(p.eventType); err != nil {
		return List[UpdateUserResult]{}, nil, err
	}
	zones, read, err := s.rosters(ctx, p.eventType, page)
	if err != nil {
		return List[UpdateUserResult]{}, nil, err
	}
	results, errs := make([]UpdateUserResult, len(read.Items)), make([]error, len(read.Items))
	p.wary.Store(len(results) == 1) // as a user who was locked before
	workers := reschedulers
	if s.inTransaction() {
		workers = 1
	}
	var lock sync.Mutex
	taken, interrupted := 0, false
	take := func() (i int, ok bool) { // those that are taken are processed, so the page ends after the last of them
		lock.Lock()
		defer lock.Unlock()
		if taken == len(results) || interrupted || ctx.Err() != nil {
			return 0, false
		}
		taken++
		return taken - 1, true
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if results[i], errs[i] = p.replanUser(ctx, read.Items[i], zones); isInterruption(errs[i]) {
					lock.Lock()
					interrupted = true
					lock.Unlock()
				}
			}
		})
	}
	group.Wait()
	done, refused := List[UpdateUserResult]{Next: read.Next}, []Refusal(nil)
	ended, end := taken, error(nil) // the users before ended are complete
	for i, r := range read.Items[:taken] {
		err := errs[i]
		if err != nil && errors.Is(err, ctx.Err()) { // in a transaction of the host, which is lost
			ended = min(ended, i)
			break
		}
		switch {
		case err == nil:
			done.Items = append(done.Items, results[i])
		case isInterruption(err):
			if end == nil {
				ended, end = i, err
			}
		case !errors.Is(err, ErrNotFound): // deleted meanwhile
			refused = append(refused, Refusal{UserID: r.User.ID, Err: err})
		}
	}
	switch {
	case ended == len(results):
		return done, refused, nil
	case ended == 0:
		done.Next = page.After
	default:
		done.Next = Cursor(read.Items[ended-1].User.ID.String())
	}
	if ctx.Err() != nil {
		end = context.Cause(ctx)
	}
	return done, refused, end
}

// rosters reads a page of users with their events of a type.
func (s *scheduler) rosters(ctx context.Context, eventType string, page Page) (zones *zoneView, read List[Roster], err error) {
	if zones, err = s.zoneView(ctx); err == nil {
		read, err = s.repository.Rosters(ctx, []string{eventType}, page)
	}
	return zones, read, err
}

func isInterruption(err error) bool {
	_, is := errors.AsType[*interruption](err)
	return is
}
