package almanacjetstream

import (
	"context"
	"slices"
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

func TestMessageCarriesTheWholeEvent(t *testing.T) {
	t.Parallel()
	e := almanactest.Event(time.Now(), almanactest.Tried(2), almanactest.InStatus(almanac.Processing))
	e.Payload = []byte(`{"b": "<&>", "a":1.0}`)
	e.LastError = "line\r\nAlmanac-Lease-Token: forged \xff ü"

	m, err := encode("s", e, false)
	require.NoError(t, err)
	read, err := decode(e.Type, m.Header, m.Data)

	require.NoError(t, err)
	require.Equal(t, string(e.Payload), string(read.Payload), "not even its blanks change")
	e.LastError = "line\r\nAlmanac-Lease-Token: forged \ufffd ü"
	require.Equal(t, e, read)
	require.NotContains(t, m.Header.Get(headerEvent), "\n")
	_, err = decode("OTHER", m.Header, m.Data)
	require.Error(t, err)
}

func TestEachTypeHasASubjectOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, eventType := range []string{"BIRTHDAY", "birthday", "a.b", "a_b", "a_2Eb", "a b", "*", ">", "é", "A-1"} {
		spelt := token(eventType)
		require.Regexp(t, `^[A-Za-z0-9_-]+$`, spelt)
		require.Empty(t, seen[spelt], spelt)
		seen[spelt] = eventType
	}
	require.Equal(t, "BIRTHDAY", token("BIRTHDAY"))
}

// renewals is a repository that records renewals.
type renewals struct {
	almanac.Repository
	tokens []uuid.UUID // of the last call
	lost   []uuid.UUID // hold no event
}

func (r *renewals) Renew(_ context.Context, tokens []uuid.UUID, _ time.Duration) ([]uuid.UUID, error) {
	r.tokens = tokens
	return slices.DeleteFunc(slices.Clone(tokens), func(t uuid.UUID) bool { return slices.Contains(r.lost, t) }), nil
}

func TestTheStreamRefusesOnlyRepeatsOfOneClaim(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(10*time.Second))
	defer s.WaitForShutdown()
	defer s.Shutdown()
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	notes := &renewals{Repository: almanactest.NewRepository(nil)}
	settings, err := Settings{JetStream: js, Repository: notes}.checked()
	require.NoError(t, err)
	l := newLine(settings)
	o := &outlet{Repository: notes, line: l}
	space, err := l.space(t.Context())
	require.NoError(t, err)
	require.Equal(t, defaultMaxWaiting, space)

	e := almanactest.Event(time.Now(), almanactest.InStatus(almanac.Processing))
	again := e
	again.LeaseToken, again.Version = uuid.New(), e.Version // as after a failover that lost a claim
	for _, one := range []almanac.Event{e, e, again, e} {
		require.NoError(t, o.publishing(nil).Deliver(t.Context(), almanac.Delivery{Event: one}))
	}
	space, err = l.space(t.Context())
	require.NoError(t, err)
	require.Equal(t, defaultMaxWaiting-2, space, "each claim is there once")
	require.NoError(t, o.renewWaiting(t.Context()))
	require.ElementsMatch(t, []uuid.UUID{e.LeaseToken, again.LeaseToken}, notes.tokens)

	another := &outlet{Repository: notes, line: newLine(settings)}
	notes.tokens = nil
	require.NoError(t, another.renewWaiting(t.Context()))
	require.Len(t, notes.tokens, 2, "from each publisher")

	stream, err := l.known(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), 1))
	require.NoError(t, o.renewWaiting(t.Context()))
	require.Equal(t, []uuid.UUID{again.LeaseToken}, notes.tokens, "what is gone is not held for ever")

	expired, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		taken := uuid.New() // by a worker, at once
		o.waiting.add(taken)
		notes.lost = append(notes.lost, taken)
		require.Error(t, o.renewWaiting(expired))
		require.ElementsMatch(t, []uuid.UUID{again.LeaseToken, taken}, notes.tokens, "looks that are cut short")
	}

	s.Shutdown()
	notes.tokens = nil
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = o.renewWaiting(ctx)
	require.Error(t, err)
	require.Equal(t, []uuid.UUID{again.LeaseToken}, notes.tokens, "what was there when the stream could be asked")
}
