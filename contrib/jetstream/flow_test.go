package almanacjetstream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	almanacjetstream "github.com/almanac-go/almanac/contrib/jetstream"
	"github.com/almanac-go/almanac/internal/calendartest"
)

func TestTwoWorkersShare(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(60)
	meeting := make(chan struct{}) // both workers must come
	var came atomic.Int32
	meet := func(ctx context.Context, _ almanac.Delivery) error {
		if came.Add(1) == 20 {
			close(meeting)
		}
		select {
		case <-meeting:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.work("ada", meet, almanac.WithWorkers(10))
	s.work("ben", meet, almanac.WithWorkers(10))
	s.dispatch()

	shares := make(map[string]int)
	for _, e := range s.settled(events) {
		shares[s.received.workers(e)]++
		require.Equal(t, 1, e.ClaimCount)
	}
	require.Equal(t, 60, shares["ada"]+shares["ben"], "each was delivered once: %v", shares)
	require.GreaterOrEqual(t, min(shares["ada"], shares["ben"]), 10)
}

// A retry is another claim and so another message, although the stream has just seen one
// with the same key.
func TestFailedDeliveryIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(2)
	s.dispatch()
	s.work("ada", func(_ context.Context, d almanac.Delivery) error {
		if d.Attempt == 1 {
			return errors.New("receiver is away")
		}
		return nil
	})

	for _, e := range s.settled(events) {
		require.Equal(t, "ada ada", s.received.workers(e))
		require.Equal(t, [2]int{1, 0}, [2]int{e.RetryCount, e.CrashCount})
	}
}

// An event that a worker calls off is not tried again.
func TestNotOwedCallsTheEventOff(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(2)
	s.dispatch()
	s.work("ada", func(context.Context, almanac.Delivery) error { return almanac.NotOwed("no address") })

	for _, e := range events {
		require.Eventually(t, func() bool {
			is, err := s.store.Event(t.Context(), e.ID)
			return err == nil && is.Status == almanac.Cancelled && is.FailureReason == "no address" && is.RetryCount == 0
		}, 20*time.Second, 10*time.Millisecond)
		require.Equal(t, "ada", s.received.workers(e))
	}
	s.published(0)
}

// A message is accepted once. If it comes again after the stream has forgotten its id, it
// is dropped, whether the event is settled or being delivered.
func TestRepeatedMessageIsDropped(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events, stop := s.publish(2)
	stop()
	var repeats []*nats.Msg
	for place := range events {
		m, err := s.stream().GetMsg(t.Context(), uint64(place+1))
		require.NoError(t, err)
		m.Header.Del("Nats-Msg-Id")
		repeats = append(repeats, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	hold := func(_ context.Context, d almanac.Delivery) error {
		if d.Event.ID == events[0].ID {
			close(begun)
			<-goOn
		}
		return nil
	}
	s.work("ada", hold)
	<-begun
	s.ended(1)
	s.work("ben", accept)
	for _, m := range repeats {
		_, err := s.settings.JetStream.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
	s.published(0)
	close(goOn)

	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
		require.Equal(t, [2]int{1, 0}, [2]int{e.ClaimCount, e.CrashCount})
	}
}

func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events, _ := s.publish(5)

	dir, port := s.server.StoreDir(), s.server.Addr().(*net.TCPAddr).Port
	halt(s.server)
	later := s.due(3)
	s.server = serve(t, strings.TrimSuffix(dir, "/jetstream"), port)
	s.work("ada", accept)

	for _, e := range s.settled(append(events, later...)) {
		require.Equal(t, "ada", s.received.workers(e))
		require.Equal(t, [2]int{0, 1}, [2]int{e.CrashCount, e.ClaimCount}, "the stream is on files")
	}
}

func TestNothingIsClaimedWhileTheStreamIsUnavailable(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	dir, port := s.server.StoreDir(), s.server.Addr().(*net.TCPAddr).Port
	halt(s.server)
	events := s.due(1)
	d, err := almanacjetstream.NewDispatcher(s.settings, quick()...)
	require.NoError(t, err)
	s.run(d.Run)
	s.eventually(func() bool { return d.Health().Claim.Err != nil }, "it shows")
	is, err := s.store.Event(t.Context(), events[0].ID)
	require.NoError(t, err)
	require.Equal(t, events[0], is)

	s.server = serve(t, strings.TrimSuffix(dir, "/jetstream"), port)
	s.work("ada", accept)
	require.Equal(t, 1, s.settled(events)[0].ClaimCount)
}

// Events that wait for a worker do not count as crashed, and events without space in the
// stream are not claimed.
func TestBacklogWaitsWithoutHarm(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.Lease = short
	s.settings.MaxWaiting = 4
	events := s.due(10)
	s.dispatch(almanac.WithWorkers(3))
	s.eventually(func() bool { return s.inStream() >= 4 }, "as many as may be out")
	begun := time.Now()
	s.eventually(func() bool { return time.Since(begun) > short*3/2 }, "longer than a lease")
	require.LessOrEqual(t, s.inStream(), 4+3, "and the events that the dispatcher held")
	n, err := s.store.Count(t.Context(), almanac.InStatus(almanac.Processing))
	require.NoError(t, err)
	require.Equal(t, s.inStream(), n)

	s.work("ada", accept)
	for _, e := range s.settled(events) {
		require.Equal(t, [2]int{0, 1}, [2]int{e.CrashCount, e.ClaimCount})
	}
}

// withoutHints is a repository that sends no hints.
type withoutHints struct{ almanac.Repository }

func (withoutHints) Listen(context.Context, func()) error { return errors.ErrUnsupported }

// A dispatcher claims fewer events than its scheduler asks for. It still finds a backlog behind its mark
// in one sweep, not in one sweep for each claim.
func TestABacklogBehindTheMarkTakesOneSweep(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.MaxWaiting, s.settings.Repository = 4, withoutHints{s.store}
	s.work("ada", accept)
	s.dispatch(almanac.WithSweep(4 * time.Second))
	events := s.due(1)
	s.settled(events)

	s.settled(append(events, s.due(60, almanactest.ReadyFor(time.Hour))...))
}

// An existing stream is used unchanged. A refusal by it counts no attempt, if the same
// message may be accepted later.
func TestEventsThatCannotBePublishedNowAreDelayed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	config := jetstream.StreamConfig{Name: "ALMANAC", Subjects: []string{"almanac.events.*"}, Retention: jetstream.WorkQueuePolicy,
		MaxBytes: 100, Discard: jetstream.DiscardNew}
	_, err := s.settings.JetStream.CreateStream(t.Context(), config)
	require.NoError(t, err)
	events := s.due(1)
	s.dispatch()
	s.work("ada", accept)
	s.eventually(func() bool {
		is, err := s.store.Event(t.Context(), events[0].ID)
		return err == nil && is.Status == almanac.Pending && strings.HasPrefix(is.LastError, "snoozed for 5s: could not be published")
	}, "it is delayed")

	config.MaxBytes = -1
	_, err = s.settings.JetStream.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	ended := s.settled(events)[0]
	require.Equal(t, [3]int{0, 0, 2}, [3]int{ended.RetryCount, ended.CrashCount, ended.ClaimCount})
}

// A message that is refused again whenever it is published fails its event, and the series
// goes on.
func TestEventsThatCanNeverBePublishedFail(t *testing.T) {
	t.Parallel()
	long := func(e *almanac.Event, _ time.Time) {
		e.Payload = fmt.Appendf(nil, `{"text": %q}`, strings.Repeat("x", 4<<10))
	}
	for name, tt := range map[string]struct {
		largest int32 // of a message, by the stream
		payload int32 // the most that the server takes
		reason  string
	}{
		"larger than the stream takes": {4 << 10, 1 << 20, "message size exceeds maximum allowed"},
		"larger than the server takes": {-1, 2 << 10, "maximum payload exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			large := s.due(1, long)
			small := s.due(1)
			s.settings.JetStream = connect(t, serveWith(t, &server.Options{StoreDir: t.TempDir(), Port: server.RANDOM_PORT, MaxPayload: tt.payload}))
			_, err := s.settings.JetStream.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ALMANAC",
				Subjects: []string{"almanac.events.*"}, Retention: jetstream.WorkQueuePolicy, MaxMsgSize: tt.largest})
			require.NoError(t, err)
			s.dispatch()
			s.work("ada", accept)

			s.eventually(func() bool {
				is, err := s.store.Event(t.Context(), large[0].ID)
				return err == nil && is.Status == almanac.Failed && strings.HasPrefix(is.FailureReason, "almanacjetstream: event cannot be published: ") &&
					strings.Contains(is.FailureReason, tt.reason)
			}, "it fails")
			s.settled(small)
		})
	}
}

// Events of a lost stream are not lost: their leases expire.
func TestStreamIsLost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.Lease = short
	events, _ := s.publish(3)
	require.NoError(t, s.settings.JetStream.DeleteStream(t.Context(), "ALMANAC"))

	s.work("ada", accept)

	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
	}
}

// An existing stream that drops messages is refused, with every problem.
func TestStreamThatDropsMessagesIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	config := jetstream.StreamConfig{
		Name: "ALMANAC", Subjects: []string{"almanac.events.*"}, MaxAge: time.Hour, MaxMsgs: 1000, MaxBytes: 1 << 20, MaxMsgsPerSubject: 10,
	}
	_, err := s.settings.JetStream.CreateStream(t.Context(), config)
	require.NoError(t, err)
	s.due(1)
	d, err := almanacjetstream.NewDispatcher(s.settings, quick()...)
	require.NoError(t, err)
	stop := s.run(d.Run)
	s.eventually(func() bool { return d.Health().Claim.Err != nil }, "it shows")
	for _, problem := range []string{"retention is Limits", "MaxAge of 1h0m0s", "MaxMsgs of 1000", "MaxBytes of 1048576", "MaxMsgsPerSubject of 10"} {
		require.ErrorContains(t, d.Health().Claim.Err, problem)
	}
	stop()
	require.NoError(t, s.settings.JetStream.DeleteStream(t.Context(), "ALMANAC"))

	config.Retention, config.MaxAge, config.Discard, config.DiscardNewPerSubject = jetstream.WorkQueuePolicy, 0, jetstream.DiscardNew, true
	// The server may still be removing the files of the deleted stream after its response.
	s.eventually(func() bool {
		_, err := s.settings.JetStream.CreateStream(t.Context(), config)
		return err == nil
	}, "the stream is created anew")
	s.dispatch()
	s.published(1)
}

// An event whose message an operator deletes becomes pending again, independently of other
// events of the same claim. Here one of three is held by a slow worker, and one waits.
func TestMessageIsDeletedFromTheStream(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.Lease = short
	events, _ := s.publish(3)
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.work("ada", func(context.Context, almanac.Delivery) error {
		once.Do(func() {
			close(begun)
			<-goOn
		})
		return nil
	}, almanac.WithWorkers(1))
	<-begun
	require.NoError(t, s.stream().DeleteMsg(t.Context(), 3))

	s.eventually(func() bool { return s.stream().CachedInfo().State.LastSeq == 4 }, "it is published again")
	close(goOn)

	crashes := make(map[int]int)
	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
		crashes[e.CrashCount]++
	}
	require.Equal(t, map[int]int{0: 2, 1: 1}, crashes, "only what was deleted")
}

// After an operator has deleted the consumer, unacknowledged messages come again as new
// ones. A running delivery continues, and is not repeated.
func TestConsumerIsDeleted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(2)
	begun, goOn := make(chan struct{}), make(chan struct{})
	s.work("ada", func(context.Context, almanac.Delivery) error {
		close(begun)
		<-goOn
		return nil
	}, almanac.WithWorkers(1))
	s.dispatch()
	<-begun
	s.eventually(func() bool { return s.inStream() > 0 }, "the other waits")
	require.NoError(t, s.stream().DeleteConsumer(t.Context(), "almanac-PING"))
	s.work("ben", accept)
	s.ended(1)
	s.published(0)
	close(goOn)

	workers := make(map[string]int)
	for _, e := range s.settled(events) {
		workers[s.received.workers(e)]++
		require.Equal(t, [2]int{1, 0}, [2]int{e.ClaimCount, e.CrashCount})
	}
	require.Equal(t, map[string]int{"ada": 1, "ben": 1}, workers)
}

func TestGarbageIsDropped(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	stop := s.dispatch()
	s.published(0)
	for _, header := range []nats.Header{nil, {"Almanac-Event": {"{"}}, {"Almanac-Event": {`{"Type": "PING", "Status": "PENDING"}`}}} {
		m := &nats.Msg{Subject: "almanac.events.PING", Header: header, Data: []byte("{}")}
		_, err := s.settings.JetStream.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
	require.Equal(t, 3, s.inStream())
	stop()
	events := s.due(1)
	s.dispatch()
	s.work("ada", accept)

	require.Equal(t, "ada", s.received.workers(s.settled(events)[0]))
}

func TestRefusesBadSettings(t *testing.T) {
	t.Parallel()
	bad := almanacjetstream.Settings{Stream: "a b", Prefix: "a..b", Replicas: 6, MaxWaiting: -1, Lease: time.Second}
	for _, problem := range []string{
		"JetStream is nil", `"a b" is not a stream name`, `"a..b" is not a subject`, "6 replicas", "-1 waiting messages", "repository is nil", "registry is nil", "lease of 1s",
	} {
		_, err := almanacjetstream.NewDispatcher(bad)
		require.ErrorContains(t, err, problem)
		_, err = almanacjetstream.NewWorker(bad)
		require.ErrorContains(t, err, problem)
	}
}

// A change of a user while an event waits in the stream has the same effect as one before the claim.
func TestDeliveriesHaveTheUserWhoIsStoredThen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events := s.due(4)
	stays, renamed, refuses, deleted := events[0], events[1], events[2], events[3]
	stop := s.dispatch()
	s.published(4)
	stop()
	api, err := almanac.NewScheduler(s.store, s.settings.Registry)
	require.NoError(t, err)
	name := strings.Repeat("<Ā>", 10)
	_, err = api.UpdateUser(t.Context(), renamed.UserID, almanac.ProfileChange{FirstName: &name})
	require.NoError(t, err)
	_, err = api.OptOut(t.Context(), refuses.UserID, almanac.OptOut{Type: "PING"})
	require.NoError(t, err)
	_, err = api.DeleteUser(t.Context(), deleted.UserID, almanac.DeleteOptions{})
	require.NoError(t, err)

	users := make(chan almanac.User, 4)
	s.work("ada", accept, almanac.WithMiddleware(func(next almanac.Deliverer) almanac.Deliverer {
		return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
			users <- d.User
			return next.Deliver(ctx, d)
		})
	}))
	s.published(0)
	reasons := map[uuid.UUID]string{stays.ID: "COMPLETED ", renamed.ID: "COMPLETED ", refuses.ID: "CANCELLED opted out"}
	for id, want := range reasons {
		s.eventually(func() bool {
			is, err := s.store.Event(t.Context(), id)
			return err == nil && string(is.Status)+" "+is.FailureReason == want
		}, want)
	}
	s.eventually(func() bool {
		_, err := s.store.User(t.Context(), deleted.UserID)
		_, gone := s.store.Event(t.Context(), deleted.ID)
		return errors.Is(err, almanac.ErrNotFound) && errors.Is(gone, almanac.ErrNotFound)
	}, "the event has ended, and the user is removed")
	close(users)
	for u := range users {
		require.NotEqual(t, refuses.UserID, u.ID, "a middleware has a delivery that the user has refused")
		stored, err := s.store.User(t.Context(), u.ID)
		require.NoError(t, err)
		require.Equal(t, stored, u)
	}
	require.Empty(t, s.received.of(refuses))
	require.Empty(t, s.received.of(deleted))
}

// Quiet hours that began while an event waited in the stream hold it.
func TestAPauseHoldsWhatWaitsInTheStream(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"PING", "crm/a", "crm"} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			events, _ := s.publish(3, almanactest.InLane("crm/a"))
			require.NoError(t, s.store.Pause(t.Context(), almanac.Pause{Lane: lane}))
			s.work("ada", accept)

			s.eventually(func() bool {
				found, err := s.store.Find(t.Context(), almanac.InStatus(almanac.Pending), almanac.Page{})
				return err == nil && len(found.Items) == 3 && strings.Contains(found.Items[0].LastError, "the type or its lane is paused")
			}, "they wait in the database")
			s.published(0)
			require.Empty(t, s.received.of(events[0]))

			require.NoError(t, s.store.Resume(t.Context(), lane))
			for _, e := range s.settled(events) {
				require.Equal(t, [2]int{0, 0}, [2]int{e.RetryCount, e.CrashCount})
			}
		})
	}
}

// Events in the stream keep their places, until their outcomes are stored.
func TestPlacesHoldForWhatWaitsInTheStream(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	require.NoError(t, s.store.PutLane(t.Context(), almanac.Lane{Name: "crm", Places: 2}))
	events := s.due(5, almanactest.InLane("crm/a"))
	s.dispatch()
	s.published(2)
	loads, err := s.store.LaneLoads(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, loads[0].InFlight)
	require.EqualValues(t, 3, loads[0].Waiting.N)
	s.work("ada", accept)
	s.settled(events)
}

// An event that has waited for its lane in the quiet hours for which it asked is not late, also in the stream.
func TestQuietHoursExemptWhatItsLaneHasHeld(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]almanac.Lane{"a lane with limits": {Name: "PING", Places: 5}, "none": {Name: "OTHER", Places: 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			require.NoError(t, s.store.PutLane(t.Context(), limits))
			events, _ := s.publish(1, almanactest.ReadyFor(time.Hour)) // again, if a worker takes too long to begin
			days := []string{"Su", "Mo", "Tu", "We", "Th", "Fr", "Sa"}
			open, err := calendar.ParseWindow(days[(time.Now().UTC().Weekday()+3)%7] + " 10:00-11:00")
			require.NoError(t, err)
			s.work("ada", accept, almanac.WithWindow(func(almanac.User) calendar.Window { return open }), almanac.WithMissedGrace(time.Minute))
			if limits.Name == "PING" {
				s.settled(events)
				return
			}
			s.eventually(func() bool {
				is, err := s.store.Event(t.Context(), events[0].ID)
				return err == nil && is.Status == almanac.Pending && strings.Contains(is.LastError, "quiet hours until")
			}, "it is postponed")
		})
	}
}

func TestQuietHoursHoldWhatHasWaitedInTheStream(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events, stop := s.publish(1, almanactest.ReadyFor(time.Hour))
	stop()
	allDay := calendartest.Quiet("00:00-23:59:59")
	s.work("ada", accept, almanac.WithWindow(func(almanac.User) calendar.Window { return allDay }), almanac.WithMissedGrace(time.Minute))

	s.eventually(func() bool {
		is, err := s.store.Event(t.Context(), events[0].ID)
		return err == nil && is.Status == almanac.Pending && strings.Contains(is.LastError, "quiet hours until")
	}, "it is postponed")
	require.Empty(t, s.received.of(events[0]))
}

// behind answers as a database whose clock was set back after the dispatcher's claim.
type behind struct{ almanac.Repository }

func (b behind) LeaseEach(ctx context.Context, events []almanac.Event, owner string, lease time.Duration) (almanac.ClaimResult, error) {
	r, err := b.Repository.LeaseEach(ctx, events, owner, lease)
	r.At = r.At.Add(-time.Hour)
	return r, err
}

func TestMessagesAreDeliveredAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	events, _ := s.publish(3)
	s.workOn(behind{s.store}, "ada", accept)
	for _, e := range s.settled(events) {
		require.Equal(t, "ada", s.received.workers(e))
	}
}
