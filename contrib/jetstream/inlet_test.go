package almanacjetstream

import (
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
