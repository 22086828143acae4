package chaos

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/postgres"
)

// The points of a broadcast, in the order of its way. The others are in transactions that are not committed.
const (
	MidStore     Point = "mid store"     // a page of events is stored
	AfterStore   Point = "after store"   // and committed
	MidCancel    Point = "mid cancel"    // a page of events is cancelled
	AfterCancel  Point = "after cancel"  // and committed
	MidEnd       Point = "mid end"       // all events have ended, and are counted
	MidRequeue   Point = "mid requeue"   // a page of events is requeued
	AfterRequeue Point = "after requeue" // and committed
)

// BroadcastPoints are all of them.
func BroadcastPoints() []Point {
	return []Point{MidStore, AfterStore, MidCancel, AfterCancel, MidEnd, MidRequeue, AfterRequeue}
}

// News is the type of the events of broadcasts.
const News = "NEWS"

// SenderOn returns a scheduler and a sender of broadcasts, which has a store with the points of a worker, or none.
func SenderOn(store *postgres.Store, w *worker) (almanac.Scheduler, *broadcast.Sender, error) {
	registry, err := almanac.NewRegistry(almanac.OneOff{Type: News})
	if err != nil {
		return nil, nil, err
	}
	scheduler, err := almanac.NewScheduler(store, registry)
	if err != nil {
		return nil, nil, err
	}
	sender, err := broadcast.New(scheduler, pages{store, w})
	return scheduler, sender, err
}

// Sender returns a scheduler and a sender of broadcasts, past the proxy.
func (r *Run) Sender() (almanac.Scheduler, *broadcast.Sender) {
	r.Helper()
	store, err := postgres.New(r.pool, postgres.WithTimeout(20*time.Second))
	require.NoError(r, err)
	scheduler, sender, err := SenderOn(store, &worker{})
	require.NoError(r, err)
	return scheduler, sender
}

// broadcast does the work of broadcasts, until ctx is done.
func (w *worker) broadcast(ctx context.Context, store *postgres.Store) error {
	_, sender, err := SenderOn(store, w)
	if err != nil {
		return err
	}
	w.ready.Do(func() { w.say(Report{Point: Ready}) })
	return sender.Run(ctx, broadcast.RunOptions{Poll: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}

// page marks the context of a page of a broadcast: the point at which it commits. It is empty until a broadcast ends.
type page struct{ mid Point }

// paging stops at the commit of a page.
func (w *worker) paging(ctx context.Context, sql string) {
	is, _ := ctx.Value(page{}).(*page)
	switch {
	case is == nil:
	case strings.HasPrefix(sql, "/* almanac end_broadcast */"):
		is.mid = MidEnd
	case sql == "commit" && is.mid != "":
		w.at(is.mid)
	}
}

// pages is a store with points around the pages of broadcasts.
type pages struct {
	*postgres.Store
	w *worker
}

func paged(ctx context.Context, mid Point) context.Context {
	return context.WithValue(ctx, page{}, &page{mid})
}

func (s pages) TakeBroadcast(ctx context.Context, token uuid.UUID, term time.Duration, without []string) (broadcast.Task, bool, error) {
	return s.Store.TakeBroadcast(paged(ctx, ""), token, term, without)
}

func (s pages) StoreBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error)) (almanac.AddEventsResult, error) {
	added, err := s.Store.StoreBroadcast(paged(ctx, MidStore), t, term, limit, plan)
	s.w.at(AfterStore)
	return added, err
}

func (s pages) CancelBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int) ([]almanac.Event, error) {
	events, err := s.Store.CancelBroadcast(paged(ctx, MidCancel), t, term, limit)
	s.w.at(AfterCancel)
	return events, err
}

func (s pages) RequeueBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int, again func([]almanac.Event, []almanac.User, time.Time) ([]almanac.Event, error)) ([]almanac.Event, error) {
	events, err := s.Store.RequeueBroadcast(paged(ctx, MidRequeue), t, term, limit, again)
	s.w.at(AfterRequeue)
	return events, err
}
