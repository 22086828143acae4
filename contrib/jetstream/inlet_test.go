package almanacjetstream

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// oracle is a repository that answers about leases and events as it is told.
type oracle struct {
	almanac.Repository
	tokens, held, busy []uuid.UUID
	err                error // of Settle
}

func (o oracle) Renew(context.Context, []uuid.UUID, time.Duration) ([]uuid.UUID, error) {
	return o.tokens, nil
}

func (o oracle) Confirm(context.Context, []almanac.Event) (almanac.Confirmed, error) {
	return almanac.Confirmed{Held: o.held, Busy: o.busy}, nil
}

func (o oracle) Settle(_ context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	return make([]almanac.Settled, len(settlements)), o.err
}

func (oracle) Return(context.Context, []almanac.Event) ([]almanac.Event, error) { return nil, nil }

func (oracle) Now(context.Context) (time.Time, error) { return time.Time{}, nil }

// letter is a message that notes what became of it.
type letter struct {
	jetstream.Msg
	fate string
}

func (l *letter) TermWithReason(string) error { l.fate += "dropped"; return nil }
func (l *letter) InProgress() error           { l.fate += "."; return nil }
func (l *letter) Ack() error                  { l.fate += "done"; return nil }

func TestWhatIsTakenIsHeldByTokenAndByVersion(t *testing.T) {
	t.Parallel()
	e := almanactest.Event(time.Now(), almanactest.InStatus(almanac.Processing))
	older := e
	older.LeaseToken, older.Version = uuid.New(), e.Version-2
	ours, both := []uuid.UUID{e.LeaseToken}, []uuid.UUID{older.LeaseToken, e.LeaseToken}
	for name, c := range map[string]struct {
		oracle
		taken   []almanac.Event
		granted []almanac.Event
	}{
		"held":                    {oracle{tokens: ours, held: []uuid.UUID{e.ID}}, []almanac.Event{e}, []almanac.Event{e}},
		"busy":                    {oracle{tokens: ours, busy: []uuid.UUID{e.ID}}, []almanac.Event{e}, []almanac.Event{e}},
		"another's token":         {oracle{held: []uuid.UUID{e.ID}}, []almanac.Event{e}, nil},
		"settled":                 {oracle{tokens: ours}, []almanac.Event{e}, nil},
		"claimed twice over":      {oracle{tokens: both, held: []uuid.UUID{e.ID}}, []almanac.Event{older, e}, []almanac.Event{e}},
		"claimed again elsewhere": {oracle{tokens: ours, held: []uuid.UUID{e.ID}}, []almanac.Event{older, e}, []almanac.Event{e}},
	} {
		i := newInlet(Settings{Repository: c.oracle, Log: slog.New(slog.DiscardHandler)})
		var taken []*message
		for _, one := range c.taken {
			taken = append(taken, &message{Msg: new(letter), event: one})
		}
		is, err := i.confirm(t.Context(), taken, almanac.ClaimRequest{})
		require.NoError(t, err, name)
		require.Equal(t, c.granted, is.Events, name)
		require.Len(t, i.inHand, len(c.granted), name)
		for _, m := range taken {
			_, held := i.inHand[claimOf(m.event)]
			require.Equal(t, !held, m.Msg.(*letter).fate == "dropped", name)
		}
	}
}

// A message that the scheduler has given up is not kept from others, nor in memory.
func TestMessageInHandIsExtendedWithItsLease(t *testing.T) {
	t.Parallel()
	e := almanactest.Event(time.Now(), almanactest.InStatus(almanac.Processing))
	i := newInlet(Settings{Repository: oracle{}, Log: slog.New(slog.DiscardHandler)})
	l := new(letter)
	i.inHand[claimOf(e)] = &message{Msg: l, event: e}
	for _, tokens := range [][]uuid.UUID{{uuid.New()}, {e.LeaseToken}, {e.LeaseToken}, nil} {
		_, err := i.Renew(t.Context(), tokens, time.Minute)
		require.NoError(t, err)
	}
	require.Equal(t, "..", l.fate)
	require.Len(t, i.inHand, 1, "it may have been taken a moment ago")
	_, err := i.Renew(t.Context(), nil, time.Minute)
	require.NoError(t, err)
	require.Empty(t, i.inHand)
}

func TestMessageIsLetGoWhenTheOutcomeIsStored(t *testing.T) {
	t.Parallel()
	e := almanactest.Event(time.Now(), almanactest.InStatus(almanac.Processing))
	for fate, err := range map[string]error{"": context.Canceled, "done": nil} {
		i := newInlet(Settings{Repository: oracle{err: err}, Log: slog.New(slog.DiscardHandler)})
		l := new(letter)
		i.inHand[claimOf(e)] = &message{Msg: l, event: e}
		_, is := i.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(e.Due)}})
		require.Equal(t, err, is)
		require.Equal(t, fate, l.fate)
	}
}
