package shards_test

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
)

func (f *failing) CreateBroadcast(ctx context.Context, b broadcast.Broadcast) (s broadcast.Status, existed bool, err error) {
	if err := f.err(); err != nil {
		return s, false, err
	}
	return f.Repository.CreateBroadcast(ctx, b)
}

func (f *failing) Broadcast(ctx context.Context, name string) (s broadcast.Status, err error) {
	if err := f.err(); err != nil {
		return s, err
	}
	return f.Repository.Broadcast(ctx, name)
}

func (f *failing) StepBroadcast(ctx context.Context, name string, a broadcast.Action, reason string) (s broadcast.Status, err error) {
	if err := f.err(); err != nil {
		return s, err
	}
	return f.Repository.StepBroadcast(ctx, name, a, reason)
}

func (f *failing) BroadcastProgress(ctx context.Context, name string) (p broadcast.Progress, err error) {
	if err := f.err(); err != nil {
		return p, err
	}
	return f.Repository.BroadcastProgress(ctx, name)
}

func (f *failing) CountBroadcast(ctx context.Context, b broadcast.Broadcast) (users map[string]int, now time.Time, err error) {
	if err := f.err(); err != nil {
		return nil, now, err
	}
	return f.Repository.CountBroadcast(ctx, b)
}

func (f *failing) TakeBroadcast(ctx context.Context, token uuid.UUID, term time.Duration, without []string) (t broadcast.Task, found bool, err error) {
	if err := f.err(); err != nil {
		return t, false, err
	}
	return f.Repository.TakeBroadcast(ctx, token, term, without)
}

func (f *failing) Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error) {
	if err := f.hung(ctx); err != nil {
		return 0, false, err
	}
	return f.Repository.Until(ctx, types, mark)
}

func (f *failing) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	if err := f.hung(ctx); err != nil {
		return nil, err
	}
	return f.Repository.Renew(ctx, tokens, lease)
}

func (f *failing) Confirm(ctx context.Context, events []almanac.Event) (almanac.ConfirmResult, error) {
	if err := f.hung(ctx); err != nil {
		return almanac.ConfirmResult{}, err
	}
	return f.Repository.Confirm(ctx, events)
}

func (f *failing) Release(ctx context.Context, token uuid.UUID) ([]almanac.Event, error) {
	if err := f.hung(ctx); err != nil {
		return nil, err
	}
	return f.Repository.Release(ctx, token)
}

func (f *failing) ReleaseExpired(ctx context.Context, limit, shared int) ([]almanac.Event, error) {
	if err := f.hung(ctx); err != nil {
		return nil, err
	}
	return f.Repository.ReleaseExpired(ctx, limit, shared)
}
