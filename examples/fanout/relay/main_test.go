package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// stopVariable makes of this program a relay that stands still at a point, until it is
// killed: "before" or "after", and the number of the message.
const stopVariable = "ALMANAC_RELAY_STOP"

func TestMain(m *testing.M) {
	if os.Getenv(stopVariable) == "" {
		pgtest.Main(m)
		return
	}
	fmt.Fprintln(os.Stderr, stopped(context.Background()))
	os.Exit(1)
}

// stopped runs a relay that stands still.
func stopped(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	store, err := postgres.New(pool)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(os.Getenv("NATS_URL"))
	if err != nil {
		return err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	when, number, _ := strings.Cut(os.Getenv(stopVariable), " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	return relay(ctx, store, &stopping{JetStream: js, when: when, left: n})
}

// stopping is a stream whose n-th message is the last.
type stopping struct {
	jetstream.JetStream
	when string
	left int
}

func (s *stopping) Publish(ctx context.Context, subject string, data []byte, options ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if s.left == 1 && s.when == "before" {
		s.stop()
	}
	ack, err := s.JetStream.Publish(ctx, subject, data, options...)
	if err != nil {
		return nil, err
	}
	if s.left--; s.left == 0 {
		s.stop()
	}
	return ack, nil
}

func (s *stopping) stop() {
	fmt.Println("stopped")
	select {}
}

// stage is a database whose outbox has the creation of users, and a stream.
type stage struct {
	*testing.T
	database string
	store    *postgres.Store
	server   *server.Server
	js       jetstream.JetStream
	users    []uuid.UUID
}

func newStage(t *testing.T, users int) *stage {
	t.Helper()
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	require.NoError(t, store.CreateConsumer(t.Context(), consumer))
	require.NoError(t, postgres.EnableOutbox(t.Context(), pool))
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	require.NoError(t, err)
	broker.Start()
	t.Cleanup(func() { broker.Shutdown(); broker.WaitForShutdown() })
	require.True(t, broker.ReadyForConnections(30*time.Second))
	conn, err := nats.Connect(broker.ClientURL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	s := &stage{T: t, database: pool.Config().ConnString(), store: store, server: broker, js: js}
	for range users {
		u := almanactest.User()
		almanactest.Store(t, store, u)
		s.users = append(s.users, u.ID)
	}
	return s
}

// relay runs a relay until the test ends.
func (s *stage) relay() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = relay(ctx, s.store, s.js) // it says only that it was stopped
	}()
	s.Cleanup(func() { cancel(); <-ended })
}

// relayed waits until the outbox was read, and returns what the stream has, in order.
func (s *stage) relayed() (events []postgres.DomainEvent) {
	s.Helper()
	require.Eventually(s, func() bool {
		consumers, err := s.store.Consumers(s.Context())
		return err == nil && len(consumers) == 1 && consumers[0].Oldest.IsZero()
	}, 60*time.Second, 20*time.Millisecond)
	found, err := s.js.Stream(s.Context(), stream)
	require.NoError(s, err)
	state := found.CachedInfo().State
	for n := state.FirstSeq; n <= state.LastSeq; n++ {
		m, err := found.GetMsg(s.Context(), n)
		require.NoError(s, err)
		var e postgres.DomainEvent
		require.NoError(s, json.Unmarshal(m.Data, &e))
		require.Equal(s, subjects+string(e.Kind), m.Subject)
		require.Equal(s, e.ID.String(), m.Header.Get("Nats-Msg-Id"))
		events = append(events, e)
	}
	return events
}

func TestRelayPublishesInOrderAndOutlivesItsStream(t *testing.T) {
	t.Parallel()
	s := newStage(t, batch+20)
	s.relay()
	s.relay() // a second takes turns with the first
	events := s.relayed()
	require.Len(t, events, len(s.users))
	for i, e := range events {
		require.Equal(t, postgres.UserCreated, e.Kind)
		require.Equal(t, s.users[i], e.UserID)
	}
	require.NoError(t, s.js.DeleteStream(t.Context(), stream))
	_, err := s.store.DeleteUser(t.Context(), s.users[3], almanac.DeleteOptions{AtOnce: true})
	require.NoError(t, err)
	events = s.relayed()
	require.Len(t, events, 1)
	require.Equal(t, []any{postgres.UserDeleted, s.users[3]}, []any{events[0].Kind, events[0].UserID})
}

// Wherever a relay is killed, another goes on: nothing is lost, the stream drops what
// comes again, and the order is kept.
func TestRelayIsKilled(t *testing.T) {
	t.Parallel()
	for _, stop := range []string{"before 1", "after 1", "after 5", "before 10", "after 10"} {
		t.Run(stop, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, 10)
			victim := exec.Command(os.Args[0])
			victim.Env = append(os.Environ(), stopVariable+"="+stop, "DATABASE_URL="+s.database, "NATS_URL="+s.server.ClientURL())
			victim.Stderr = t.Output()
			out, err := victim.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, victim.Start())
			line := make([]byte, len("stopped"))
			_, err = out.Read(line)
			require.NoError(t, err)
			require.Equal(t, "stopped", string(line))
			require.NoError(t, victim.Process.Kill())
			require.Error(t, victim.Wait())

			s.relay()
			events := s.relayed()
			require.Len(t, events, len(s.users))
			for i, e := range events {
				require.Equal(t, s.users[i], e.UserID)
			}
		})
	}
}
