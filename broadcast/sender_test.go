package broadcast_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
)

// Users may be created while a zone is read. A reading that was due before the instant is followed by one that is due at it.
func TestNewcomersAreReadOnceMoreAfterTheInstant(t *testing.T) {
	created := time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)
	due := created.Add(2 * time.Hour)
	is := broadcast.Task{Zone: broadcast.Zone{Name: "UTC", Due: due}}
	is.CreatedAt, is.Newcomers = created, true
	for _, tt := range []struct {
		name     string
		n        int
		was, now time.Duration // before or after the instant
		next     time.Time
	}{
		{"the first reading", 1, -2 * time.Hour, -time.Hour, due.Add(-time.Minute)},
		{"a minute before", 2, -time.Minute, -50 * time.Second, due},
		{"it spans the instant", 2, -time.Minute, time.Second, due.Add(time.Second)},
		{"the first reading spans the instant", 1, -2 * time.Hour, time.Second, due.Add(time.Second)},
		{"at the instant", 3, 0, time.Second, time.Time{}},
	} {
		require.Equal(t, tt.next, is.Next(tt.n, 0, due.Add(tt.was), due.Add(tt.now)), tt.name)
	}
}

// Users who are locked for long are tried seven times, for 21 minutes.
func TestLockedUsersAreTriedLessOftenEachTime(t *testing.T) {
	now := time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)
	var is broadcast.Task
	var waits []time.Duration
	for n := 1; ; n++ {
		next := is.Next(n, 1, now, now)
		if next.IsZero() {
			break
		}
		waits = append(waits, next.Sub(now))
	}
	require.Len(t, waits, 7)
	require.Equal(t, []time.Duration{10 * time.Second, 640 * time.Second}, []time.Duration{waits[0], waits[6]})
}

// listing is a store with ended broadcasts.
type listing struct {
	broadcast.Store
	all []broadcast.Status
}

func (l *listing) Broadcasts(_ context.Context, after string, limit int) ([]broadcast.Status, error) {
	i := slices.IndexFunc(l.all, func(s broadcast.Status) bool { return s.Name == after }) + 1
	return slices.Clone(l.all[i:min(len(l.all), i+limit)]), nil
}

func (l *listing) DeleteBroadcast(_ context.Context, name string) (bool, error) {
	l.all = slices.DeleteFunc(l.all, func(s broadcast.Status) bool { return s.Name == name })
	return false, nil
}

func TestPruneGoesOnAfterAFullPage(t *testing.T) {
	repository := almanactest.NewRepository(time.Now)
	registry, err := almanac.NewRegistry(almanac.OneOff{Type: "NEWS"})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(repository, registry)
	require.NoError(t, err)
	store := &listing{Store: repository}
	ended := time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)
	for i := range 3500 {
		s := broadcast.Status{EndedAt: ended}
		if s.Name = fmt.Sprint(i); i == 0 || i == 1600 || i == 3499 {
			s.EndedAt = time.Time{}
		}
		store.all = append(store.all, s)
	}
	sender, err := broadcast.New(scheduler, store)
	require.NoError(t, err)
	pruned, err := sender.Prune(t.Context(), ended.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 3497, pruned)
	require.Len(t, store.all, 3)
}
