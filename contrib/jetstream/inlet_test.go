package almanacjetstream

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// oracle is a repository that holds the events whose tokens it lists.
type oracle struct {
	almanac.Repository
	held  []uuid.UUID
	err   error // of LeaseEach
	users map[uuid.UUID]almanac.User
	down  error // of User
	asked int   // how often for a user
}

func (o *oracle) User(_ context.Context, id uuid.UUID) (almanac.User, error) {
	o.asked++
	if u, ok := o.users[id]; ok && o.down == nil {
		return u, nil
	}
	return almanac.User{}, cmp.Or[error](o.down, &almanac.NotFoundError{Kind: "user", ID: id})
}

func (o *oracle) LeaseEach(_ context.Context, events []almanac.Event, _ string, _ time.Duration) ([]almanac.Event, error) {
	var held []almanac.Event
	for _, e := range events {
		if slices.Contains(o.held, e.LeaseToken) {
			held = append(held, e)
		}
	}
	return held, o.err
}

func (*oracle) Now(context.Context) (time.Time, error) { return time.Time{}, nil }

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

// A message of an earlier release lacks the user, who is looked up before the event is accepted.
func TestMessagesOfEarlierReleasesGetTheirUser(t *testing.T) {
	t.Parallel()
	known, edited, erased := almanactest.User(), almanactest.User(), almanactest.User()
	newer := edited
	newer.Version++
	database := &oracle{users: map[uuid.UUID]almanac.User{known.ID: known}, down: net.ErrClosed}
	i := newInlet(Settings{Repository: database, Log: slog.New(slog.DiscardHandler)})
	l := new(letter)
	put := func(in almanac.User, of almanac.User) {
		e := almanactest.Event(time.Now(), almanactest.For(of), almanactest.InStatus(almanac.Processing))
		database.held = append(database.held, e.LeaseToken)
		i.keep([]*message{{Msg: l, event: e, user: in}})
	}
	put(almanac.User{}, known)
	put(almanac.User{}, known)
	put(newer, edited)
	put(edited, edited)
	put(almanac.User{}, erased)
	r := almanac.ClaimRequest{Types: []string{almanac.TypeBirthday}, Limit: 5}

	_, err := i.Claim(t.Context(), r)
	require.ErrorIs(t, err, net.ErrClosed)
	require.NotContains(t, l.fate, "done", "nothing is accepted before the user is known")
	database.down, database.asked = nil, 0
	is, err := i.Claim(t.Context(), r)

	require.NoError(t, err)
	require.Len(t, is.Events, 5)
	require.Equal(t, map[uuid.UUID]almanac.User{known.ID: known, edited.ID: newer}, is.Users)
	require.Equal(t, 2, database.asked, "once for each who lacks")
}
