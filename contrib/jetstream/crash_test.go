package almanacjetstream_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// Events of a dead worker whose lease has expired are not delivered from the old message,
// and so are delivered once.
func TestMessageWhoseLeaseWasLostIsNotDelivered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events, stop := s.publish(2)
	stop()
	s.expire()
	released, err := s.store.ReleaseExpired(t.Context(), 10, 1000)
	require.NoError(t, err)
	require.NotEmpty(t, released)

	stop = s.work("ada", accept)
	s.published(0)
	stop()
	require.Empty(t, s.received.of(events[0]))
	require.Empty(t, s.received.of(events[1]))

	s.dispatch() // publishes within the time in which the stream knows the old messages
	s.work("ben", accept)
	for _, e := range s.settled(events) {
		require.Equal(t, "ben", s.received.workers(e))
	}
}

// losesAnswers is a stream whose first response is lost.
type losesAnswers struct {
	jetstream.JetStream
	answers atomic.Int32
}

func (d *losesAnswers) PublishMsg(ctx context.Context, m *nats.Msg, options ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ack, err := d.JetStream.PublishMsg(ctx, m, options...)
	if err == nil && d.answers.Add(1) == 1 {
		return nil, nats.ErrTimeout
	}
	return ack, err
}

func TestTheResponseToPublishingIsLost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	lossy := &losesAnswers{JetStream: s.settings.JetStream}
	s.settings.JetStream = lossy
	events := s.due(3)

	s.dispatch()
	s.published(3)
	s.work("ada", accept)

	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
		require.Equal(t, 1, e.ClaimCount)
	}
	require.Equal(t, int32(4), lossy.answers.Load(), "one is published again")
	stream, err := s.settings.JetStream.Stream(t.Context(), "ALMANAC")
	require.NoError(t, err)
	require.Equal(t, uint64(3), stream.CachedInfo().State.LastSeq, "and stored once")
}

// absent is a store whose database is sometimes unavailable.
type absent struct {
	*postgres.Store
	away *atomic.Bool
}

func (a absent) Renew(ctx context.Context, tokens []uuid.UUID, d time.Duration) ([]uuid.UUID, error) {
	if a.away.Load() {
		return nil, net.ErrClosed
	}
	return a.Store.Renew(ctx, tokens, d)
}

func (a absent) LeaseEach(ctx context.Context, events []almanac.Event, owner string, d time.Duration) (almanac.ClaimResult, error) {
	if a.away.Load() {
		return almanac.ClaimResult{}, net.ErrClosed
	}
	return a.Store.LeaseEach(ctx, events, owner, d)
}

func (a absent) Settle(ctx context.Context, list []almanac.Settlement) ([]almanac.SettleResult, error) {
	if a.away.Load() {
		return nil, net.ErrClosed
	}
	return a.Store.Settle(ctx, list)
}

func TestTheDatabaseIsUnavailableForAWhile(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(3)
	s.dispatch()
	var away atomic.Bool
	var once sync.Once
	s.published(3)
	s.workOn(absent{s.store, &away}, "ada", func(context.Context, almanac.Delivery) error {
		once.Do(func() {
			away.Store(true)
			time.AfterFunc(short/3, func() { away.Store(false) })
		})
		return nil
	}, almanac.WithWorkers(2)) // so that messages are taken before and during the outage

	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
		require.Equal(t, [2]int{1, 0}, [2]int{e.ClaimCount, e.CrashCount})
	}
	require.False(t, away.Load(), "nothing is stored before it is back")
}
