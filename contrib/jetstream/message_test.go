package almanacjetstream

import (
	"context"
	"reflect"
	"strings"
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

	m, err := encode("s", e, almanac.User{})
	require.NoError(t, err)
	read, _, err := decode(e.Type, m.Header, m.Data)

	require.NoError(t, err)
	require.Equal(t, string(e.Payload), string(read.Payload), "not even its blanks change")
	e.LastError = "line\r\nAlmanac-Lease-Token: forged \ufffd ü"
	require.Equal(t, e, read)
	require.NotContains(t, m.Header.Get(headerEvent), "\n")
	_, _, err = decode("OTHER", m.Header, m.Data)
	require.Error(t, err)
}

// everybody is a user with a value in every field.
func everybody(t *testing.T) almanac.User {
	t.Helper()
	u := almanactest.User(almanactest.Named("Ada <愛>", "O'Lovelace"), almanactest.LivingIn("Asia/Kolkata"), almanactest.WithLocale("en-IN"),
		almanactest.WithEmail("gráce@bücher.example"), almanactest.WithExternalID("№ 42"), almanactest.WithAttributes("{\"b\": \"<&>\",\r\n \"a\":1.0}"))
	u.CreationDigest, u.Version = "digest", 3
	u.OptOuts = []almanac.OptOut{{Channel: "e-mail"}, {Type: "OFFER <&>"}}
	u.CreatedAt, u.UpdatedAt = time.Date(2026, 3, 14, 15, 9, 26, 535_897_000, time.UTC), time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
	for i, v := 0, reflect.ValueOf(u); i < v.NumField(); i++ {
		require.False(t, v.Field(i).IsZero(), "%s has no value", v.Type().Field(i).Name)
	}
	return u
}

func TestMessageCarriesTheWholeUser(t *testing.T) {
	t.Parallel()
	u := everybody(t)
	e := almanactest.Event(time.Now(), almanactest.For(u), almanactest.InStatus(almanac.Processing))

	m, err := encode("s", e, u)
	require.NoError(t, err)
	_, read, err := decode(e.Type, m.Header, m.Data)

	require.NoError(t, err)
	require.Equal(t, u, read)
	require.NotContains(t, m.Header.Get(headerUser), "\n")
	for what, text := range map[string]string{
		"none": "", "no JSON": "{", "another user's": strings.ReplaceAll(m.Header.Get(headerUser), u.ID.String(), uuid.NewString()),
		"without a day": strings.ReplaceAll(m.Header.Get(headerUser), "1990-01-01", "-01-01"),
		"no attributes": strings.ReplaceAll(m.Header.Get(headerUser), "1.0}", "1.0"),
	} {
		m.Header.Set(headerUser, text)
		again, read, err := decode(e.Type, m.Header, m.Data)
		require.NoError(t, err, what)
		require.Equal(t, e.ID, again.ID, what)
		require.Zero(t, read, what)
	}
}

func TestMessageCarriesAUserWithoutNamesOrYearOfBirth(t *testing.T) {
	t.Parallel()
	for _, born := range []string{"", "--02-29", "1990-01-01"} {
		u := almanactest.User(almanactest.Named("", "Teller"), almanactest.BornOn(born))
		e := almanactest.Event(time.Now(), almanactest.For(u), almanactest.InStatus(almanac.Processing))
		m, err := encode("s", e, u)
		require.NoError(t, err)

		_, read, err := decode(e.Type, m.Header, m.Data)

		require.NoError(t, err)
		require.Equal(t, []string{u.ID.String(), "Teller", born}, []string{read.ID.String(), read.Name(), read.DateOfBirth.String()})
	}
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
	tokens []uuid.UUID
}

func (r *renewals) Renew(_ context.Context, tokens []uuid.UUID, _ time.Duration) ([]uuid.UUID, error) {
	r.tokens = tokens
	return tokens, nil
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

	s.Shutdown()
	notes.tokens = nil
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = o.renewWaiting(ctx)
	require.Error(t, err)
	require.Equal(t, []uuid.UUID{again.LeaseToken}, notes.tokens, "what was there when the stream could be asked")
}
