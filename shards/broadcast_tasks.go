package shards

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
)

// tokenIn returns the token of a lease in a schema: the last two bytes are the index of the schema.
func tokenIn(token uuid.UUID, schema int) uuid.UUID {
	binary.BigEndian.PutUint16(token[14:], uint16(schema))
	return token
}

// inTask returns the broadcasts of the schema of a task.
func (s *Store) inTask(t broadcast.Task) (broadcast.Store, error) {
	schema := int(binary.BigEndian.Uint16(t.Token[14:]))
	if schema >= len(s.names) {
		return nil, broadcast.ErrTaken
	}
	return s.broadcastsOf(schema)
}

// TakeBroadcast leases a broadcast in one schema: the schemas take turns. The last two bytes of the token say which. In each schema, stopped
// broadcasts come first. A schema that does not answer is left out; the error is a [*PartialError] if the others have nothing to do.
func (s *Store) TakeBroadcast(ctx context.Context, token uuid.UUID, term time.Duration, without []string) (t broadcast.Task, found bool, err error) {
	failed := s.failures()
	first := int(s.tasks.Add(1) % uint32(len(s.names)))
	for k := range s.names {
		i := (first + k) % len(s.names)
		store, err := s.broadcastsOf(i)
		if err == nil {
			err = s.quickly(ctx, i, tending, func(ctx context.Context) (err error) {
				t, found, err = store.TakeBroadcast(ctx, tokenIn(token, i), term, without)
				return err
			})
		}
		if found || isRefusal(err) || ctx.Err() != nil {
			return t, found, err
		}
		failed.add(i, err)
	}
	return t, false, failed.partial()
}

// StoreBroadcast stores a page of a task in its schema.
func (s *Store) StoreBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error)) (almanac.AddEventsResult, error) {
	store, err := s.inTask(t)
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	return store.StoreBroadcast(ctx, t, term, limit, plan)
}

// CancelBroadcast cancels a page of a task in its schema.
func (s *Store) CancelBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int) ([]almanac.Event, error) {
	store, err := s.inTask(t)
	if err != nil {
		return nil, err
	}
	return store.CancelBroadcast(ctx, t, term, limit)
}

// RequeueBroadcast requeues a page of a task in its schema.
func (s *Store) RequeueBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int, again func([]almanac.Event, []almanac.User, time.Time) ([]almanac.Event, error)) ([]almanac.Event, error) {
	store, err := s.inTask(t)
	if err != nil {
		return nil, err
	}
	return store.RequeueBroadcast(ctx, t, term, limit, again)
}
