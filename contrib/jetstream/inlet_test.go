package almanacjetstream

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
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
)

// oracle is a repository that holds the events whose tokens it lists.
type oracle struct {
	almanac.Repository
	held []uuid.UUID
	err  error // of LeaseEach
}

func (o *oracle) LeaseEach(_ context.Context, events []almanac.Event, _ string, _ time.Duration) (almanac.ClaimResult, error) {
	var held []almanac.Event
	for _, e := range events {
		if slices.Contains(o.held, e.LeaseToken) {
			held = append(held, e)
		}
	}
	return almanac.ClaimResult{Events: held}, o.err
}

// letter is a message that records how it was acknowledged.
type letter struct {
	jetstream.Msg
	fate string
}

func (l *letter) TermWithReason(string) error { l.fate += "dropped"; return nil }
func (l *letter) InProgress() error           { l.fate += "."; return nil }
func (l *letter) Ack() error                  { l.fate += "done"; return nil }

func TestMessagesAreAcceptedWithTheirTokens(t *testing.T) {
	t.Parallel()
	ours := almanactest.Event(time.Now(), almanactest.InStatus(almanac.Processing))
	others := almanactest.Event(time.Now(), almanactest.InStatus(almanac.Processing))
	i := newInlet(Settings{Repository: &oracle{held: []uuid.UUID{ours.LeaseToken}}, Log: slog.New(slog.DiscardHandler)})
	accepted, dropped := new(letter), new(letter)
	i.keep([]*message{{Msg: dropped, event: others}, {Msg: accepted, event: ours}})

	is, err := i.Claim(t.Context(), almanac.ClaimRequest{Types: []string{ours.Type}, Limit: 2})

	require.NoError(t, err)
	require.Equal(t, []almanac.Event{ours}, is.Events)
	require.Equal(t, [2]string{".done", ".dropped"}, [2]string{accepted.fate, dropped.fate})
}

// While the database does not answer, messages are kept, also from other workers.
func TestMessagesAreKeptUntilTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	e := almanactest.Event(time.Now(), almanactest.InStatus(almanac.Processing))
	database := &oracle{held: []uuid.UUID{e.LeaseToken}, err: net.ErrClosed}
	i := newInlet(Settings{Repository: database, Log: slog.New(slog.DiscardHandler)})
	l := new(letter)
	i.keep([]*message{{Msg: l, event: e}})
	r := almanac.ClaimRequest{Types: []string{e.Type}, Limit: 1}

	for range 2 {
		_, err := i.Claim(t.Context(), r)
		require.ErrorIs(t, err, net.ErrClosed)
	}
	require.Equal(t, "..", l.fate)
	database.err = nil
	is, err := i.Claim(t.Context(), r)

	require.NoError(t, err)
	require.Equal(t, []almanac.Event{e}, is.Events)
	require.Equal(t, "...done", l.fate)
}

// slowDialer dials connections that send the subscription of hints after a while.
type slowDialer struct{ subscribed atomic.Bool }

func (d *slowDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return &slowConn{conn, &d.subscribed}, err
}

type slowConn struct {
	net.Conn
	subscribed *atomic.Bool
}

func (c *slowConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("SUB hint.")) {
		<-time.After(100 * time.Millisecond)
		defer c.subscribed.Store(true)
	}
	return c.Conn.Write(p)
}

// Otherwise an event that is published between the first claim and the subscription waits for the next poll.
func TestTheFirstClaimFollowsTheSubscription(t *testing.T) {
	t.Parallel()
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	require.NoError(t, err)
	broker.Start()
	defer broker.WaitForShutdown()
	defer broker.Shutdown()
	require.True(t, broker.ReadyForConnections(10*time.Second))
	dialer := new(slowDialer)
	conn, err := nats.Connect(broker.ClientURL(), nats.SetCustomDialer(dialer))
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	subscribed := false

	err = newInlet(Settings{JetStream: js, Prefix: "almanac"}).Listen(ctx, func() {
		subscribed = dialer.subscribed.Load()
		stop()
	})

	require.NoError(t, err)
	require.True(t, subscribed, "when the first claim is woken")
}
