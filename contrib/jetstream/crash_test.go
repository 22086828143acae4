package almanacjetstream_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestDispatcherDiesBetweenClaimAndPublishing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(3)
	claimed, err := s.store.Claim(t.Context(), almanac.ClaimRequest{
		Token: uuid.New(), Owner: "the dead", Types: []string{"PING"}, Limit: 10, Lease: time.Minute,
	})
	require.NoError(t, err)
	require.Len(t, claimed.Events, 3)
	s.expire()

	s.dispatch()
	s.work("ada", accept)

	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
		require.Equal(t, 1, e.CrashCount)
	}
}

func TestDispatcherDiesAfterPublishing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(3)
	stop := s.dispatch()
	s.published(3)
	stop()

	s.work("ada", accept)

	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
		require.Equal(t, [2]int{0, 1}, [2]int{e.CrashCount, e.ClaimCount}, "its messages outlive it")
	}
}

// What was claimed by the dead and waited too long belongs to nobody: it is not
// delivered from the old message, and so delivered once.
func TestMessageWhoseLeaseWasLostIsNotDelivered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(2)
	stop := s.dispatch()
	s.published(2)
	stop()
	s.expire()
	released, err := s.store.ReleaseExpired(t.Context(), 10)
	require.NoError(t, err)
	require.NotEmpty(t, released)

	stop = s.work("ada", accept)
	s.published(0)
	stop()
	require.Empty(t, s.received.of(events[0]))
	require.Empty(t, s.received.of(events[1]))

	s.dispatch() // publishes within the window in which the stream knows the old messages
	s.work("ben", accept)
	for _, e := range s.settled(events) {
		require.Equal(t, "ben", s.received.workers(e))
	}
}

func TestWorkerDiesBeforeDelivery(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(2)
	s.dispatch()
	s.published(2)
	stream, err := s.settings.JetStream.Stream(t.Context(), "ALMANAC")
	require.NoError(t, err)
	consumer, err := stream.CreateOrUpdateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "almanac-PING", FilterSubject: "almanac.events.PING", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: lease, MaxDeliver: -1, MaxAckPending: -1,
	})
	require.NoError(t, err)
	taken, err := consumer.Fetch(2)
	require.NoError(t, err)
	for range taken.Messages() {
		continue // and it was never heard of again
	}

	s.work("ada", accept)

	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
		require.Equal(t, [2]int{1, 2}, [2]int{e.CrashCount, e.ClaimCount}, "the death is counted")
	}
}

func TestWorkerDiesBetweenDeliveryAndSettling(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(2)
	s.dispatch()
	var died atomic.Bool
	stop := s.workOn(mortal{Store: s.store, dead: died.Load}, "ada", func(context.Context, almanac.Delivery) error {
		died.Store(true)
		return nil
	})
	s.eventually(func() bool { return len(s.received.of(events[0])) > 0 && len(s.received.of(events[1])) > 0 }, "ada delivered")
	stop()

	s.work("ben", accept)

	for _, e := range s.settled(events) {
		require.Equal(t, "ada ben", s.received.workers(e), "nobody can know that it arrived")
		require.Equal(t, 1, e.CrashCount)
		require.Equal(t, "its worker did not answer", e.LastError, "its message was there until it was settled")
	}
}

func TestWorkerDiesBetweenSettlingAndAck(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(2)
	s.dispatch()
	var died atomic.Bool
	stop := s.workOn(mortal{Store: s.store, dead: died.Load, then: true}, "ada", func(context.Context, almanac.Delivery) error {
		died.Store(true)
		return nil
	})
	s.eventually(func() bool {
		n, err := s.store.Count(t.Context(), almanac.InStatus(almanac.Completed))
		return err == nil && n == 2
	}, "ada settled")
	stop()
	require.Equal(t, 2, s.inStream())

	var told atomic.Int32
	s.work("ben", accept, almanac.WithObserver(almanac.ObserverFunc(func(context.Context, almanac.Notice) { told.Add(1) })))

	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
		require.Equal(t, 0, e.CrashCount)
	}
	require.Zero(t, told.Load(), "nothing happened")
}

// A worker that was only slow is taken for dead: it may have delivered, but its outcome
// is refused.
func TestLeaseIsLostDuringDelivery(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	s.work("ada", func(context.Context, almanac.Delivery) error {
		close(begun)
		<-goOn
		return almanac.Permanent(context.Canceled)
	}, almanac.WithWorkers(1)) // who is busy with it until the end
	stop := s.dispatch()
	<-begun
	stop()
	s.expire()
	_, err := s.store.ReleaseExpired(t.Context(), 10)
	require.NoError(t, err)

	s.dispatch()
	s.work("ben", accept)
	ended := s.settled(events)
	close(goOn)

	require.Equal(t, "ada ben", s.received.workers(events[0]))
	again, err := s.store.Event(t.Context(), events[0].ID)
	require.NoError(t, err)
	require.Equal(t, ended[0], again)
}
