package main

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestTheReceiverAcceptsOnlyItsSecretAndRecognizesRepeats(t *testing.T) {
	t.Parallel()
	r, err := newReceiver()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.close()) })
	ours, err := hookConfig{url: r.url, secret: r.secret, allowPrivate: true}.deliverer()
	require.NoError(t, err)
	forged, err := hookConfig{url: r.url, secret: secret, allowPrivate: true}.deliverer()
	require.NoError(t, err)
	unsigned, err := hookConfig{url: r.url, allowPrivate: true}.deliverer()
	require.NoError(t, err)
	delivery := almanac.Delivery{Attempt: 1, At: time.Now(), Event: almanac.Event{
		ID: uuid.New(), Type: almanac.TypeBirthday, IdempotencyKey: "event-0123456789abcdef", Payload: []byte(`{"message":"Hey"}`),
	}}

	require.Error(t, forged.Deliver(t.Context(), delivery))
	require.Error(t, unsigned.Deliver(t.Context(), delivery))
	require.NoError(t, ours.Deliver(t.Context(), delivery))
	require.NoError(t, ours.Deliver(t.Context(), delivery))

	require.EqualValues(t, 2, r.refused.Load())
	first, second := <-r.arrivals, <-r.arrivals
	require.Equal(t, "Hey", first.message)
	require.Equal(t, []bool{false, true}, []bool{first.repeat, second.repeat})
	require.Empty(t, r.arrivals)
	for _, d := range []interface{ CloseIdleConnections() }{ours, forged, unsigned} {
		d.CloseIdleConnections()
	}
}

func TestTheTallyCountsRepeatsAndOtherUsersSeparately(t *testing.T) {
	t.Parallel()
	tally := tally{users: 3, next: 3}
	for i := range 3 {
		tally.add(greeting{ours: true, late: time.Duration(i) * time.Millisecond})
	}
	tally.add(greeting{ours: true, late: time.Hour, arrival: arrival{repeat: true}})
	tally.add(greeting{late: time.Hour})

	require.True(t, tally.complete())
	require.Equal(t, 1, tally.repeats)
	require.Equal(t, time.Millisecond, tally.quantile(0.5))
	require.Equal(t, 2*time.Millisecond, tally.quantile(1))
	tally.next = 2
	require.False(t, tally.complete())
}
