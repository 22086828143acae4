package almanac

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Backfill says how a type of event is brought to the people there are. The zero
// Backfill looks at all of them, as fast as it goes.
type Backfill struct {
	// After is where another backfill ended; empty begins with the first person.
	After Cursor
	// Rate is how many people are looked at in a second at most, to spare a database
	// that has other things to do. Zero means no bound. Up to a thousand are looked at
	// at a time, and not more than those of a second.
	Rate int
	// Progress, if not nil, hears after each page what is done so far. It holds up the
	// backfill, and no one is locked meanwhile.
	Progress func(Backfilled)
}

// Backfilled says what a backfill has come to.
type Backfilled struct {
	Users   int       // people who were looked at
	Events  int       // events that were stored
	Refused []Refusal // people for whom no event could be planned
	Next    Cursor    // where to go on, as Backfill.After; empty when all were looked at
}

func (s *scheduler) Backfill(ctx context.Context, eventType string, how Backfill) (Backfilled, error) {
	h, err := s.registry.Handler(eventType)
	if err != nil {
		return Backfilled{}, err
	}
	bulk, ok := s.repository.(BulkRepository)
	if !ok {
		return Backfilled{}, fmt.Errorf("almanac: backfill on a repository that is no BulkRepository: %w", errors.ErrUnsupported)
	}
	page, every, err := how.pace()
	if err != nil {
		return Backfilled{}, err
	}
	done, locked := Backfilled{Next: how.After}, []uuid.UUID(nil)
	for {
		rest := time.NewTimer(every)
		page.After = done.Next
		refused, added, err := s.backfill(ctx, h, bulk, page)
		if err != nil {
			rest.Stop()
			return done, err
		}
		done = Backfilled{done.Users + added.Users, done.Events + len(added.Events), append(done.Refused, refused...), added.Next}
		locked = append(locked, added.Locked...)
		if how.Progress != nil {
			how.Progress(done)
		}
		if done.Next == "" {
			rest.Stop()
			return s.backfillLocked(ctx, h, bulk, locked, done)
		}
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
	}
}

// backfillLocked looks again at users that were locked, a few times within seconds, and
// refuses those that still are.
func (s *scheduler) backfillLocked(ctx context.Context, h EventHandler, bulk BulkRepository, locked []uuid.UUID, done Backfilled) (Backfilled, error) {
	const looks = 5
	for failures := 1; len(locked) > 0 && failures <= looks; failures++ {
		select {
		case <-time.After(tryAgain.Delay(failures, rand.Float64())):
		case <-ctx.Done():
		}
		var still []uuid.UUID
		for _, id := range locked {
			refused, added, err := s.backfill(ctx, h, bulk, Page{Limit: 1, After: cursorBefore(id)})
			if err != nil {
				return done, err
			}
			done.Users, done.Events, done.Refused = done.Users+added.Users, done.Events+len(added.Events), append(done.Refused, refused...)
			if slices.Contains(added.Locked, id) {
				still = append(still, id)
			}
		}
		locked = still
	}
	for _, id := range locked {
		done.Refused = append(done.Refused, Refusal{UserID: id, Err: ErrLocked})
	}
	return done, nil
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

// pace returns the page to look at, and how long it takes at least.
func (how Backfill) pace() (Page, time.Duration, error) {
	page := Page{Limit: maxPage, After: how.After}
	if _, _, err := page.Bounds(); err != nil {
		return page, 0, err
	}
	if how.Rate < 0 {
		return page, 0, &ValidationError{Fields: []FieldError{{Field: "rate", Problem: "is negative"}}}
	}
	if how.Rate == 0 {
		return page, 0, nil
	}
	page.Limit = min(maxPage, how.Rate)
	return page, time.Duration(page.Limit) * time.Second / time.Duration(how.Rate), nil
}

// backfill sees to one page, and tells what came of it.
func (s *scheduler) backfill(ctx context.Context, h EventHandler, bulk BulkRepository, page Page) (refused []Refusal, added Added, err error) {
	if ctx.Err() != nil {
		return nil, Added{}, context.Cause(ctx)
	}
	zones, err := s.zoneView(ctx)
	if err != nil {
		return nil, Added{}, err
	}
	// A page that has begun is not cut off, so that it is known what became of it.
	added, err = bulk.AddEvents(context.WithoutCancel(ctx), h.EventType(), page, func(users []Standing, now time.Time) (events []Event, err error) {
		events, refused = s.planNext(h, users, now)
		return zones.stampAll(events), nil
	})
	if err != nil {
		return nil, Added{}, err
	}
	s.tellEvents(ctx, EventCreated, added.Events)
	if len(added.Events) > 0 {
		s.running.wake()
	}
	return refused, added, nil
}

// planNext plans what the users are owed of one type, on all processors, since they
// are locked meanwhile.
func (s *scheduler) planNext(h EventHandler, users []Standing, now time.Time) (events []Event, refused []Refusal) {
	planned := make([][]Event, len(users))
	failed := make([]error, len(users))
	share := max(1, (len(users)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for from := 0; from < len(users); from += share {
		group.Go(func() {
			for i := from; i < min(from+share, len(users)); i++ {
				planned[i], failed[i] = s.planStanding(h, users[i], now)
			}
		})
	}
	group.Wait()
	for i, err := range failed {
		if err != nil {
			refused = append(refused, Refusal{UserID: users[i].User.ID, Err: err})
		}
	}
	return slices.Concat(planned...), refused
}

func (s *scheduler) planStanding(h EventHandler, one Standing, now time.Time) ([]Event, error) {
	list, err := seriesOf(h, one.User)
	if err != nil {
		return nil, err
	}
	r := Roster{User: one.User, Used: map[string][]string{h.EventType(): one.Used}, Now: now}
	for _, key := range one.Open {
		r.Pending = append(r.Pending, Event{Type: h.EventType(), OccurrenceKey: key})
	}
	return firsts(list, s.open(r), r)
}
