package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestTheThroughputIsDrawnByFiveMinutes(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 3, 15, 9, 7, 0, 0, time.UTC)
	all := make([]rates, throughputBars)
	for i := range all {
		all[i].Span = 5 * time.Minute
	}
	all[throughputBars-1].Completed = 30
	all[throughputBars-2].Completed, all[throughputBars-2].Refused = 10, 50
	drawn := throughputOf(all, now)
	require.Equal(t, []int{40, 50, 60}, []int{drawn.Completed, drawn.Refused, drawn.Most})
	last, before := drawn.Bars[throughputBars-1], drawn.Bars[throughputBars-2]
	require.Equal(t, time.Date(2027, 3, 15, 9, 5, 0, 0, time.UTC), last.From)
	require.InDelta(t, 60, last.CompletedHeight, 0.01)
	require.InDelta(t, throughputHeight, last.CompletedY+last.CompletedHeight, 0.01)
	require.InDelta(t, before.CompletedY, before.RefusedY+before.RefusedHeight, 0.01)
	require.InDelta(t, 0, before.RefusedY, 0.01)
	require.Equal(t, time.Date(2027, 3, 15, 7, 10, 0, 0, time.UTC), drawn.Bars[0].From)
	require.Len(t, drawn.Hours, 4, "07:30, 08:00, 08:30 and 09:00")
}

// During an outage of a receiver no event fails for days. The first page has the failed attempts.
func TestTheFirstPageShowsThroughput(t *testing.T) {
	t.Parallel()
	m := NewMonitor()
	h := newHost(t, WithMonitor(m))
	h.createUser(t, ada())
	h.waitForNumbers(t)
	_, body := h.get(t, "/")
	require.Contains(t, body, "This process has completed no event in the last two hours")
	require.NotContains(t, body, `class="wave rate"`)
	for range 3 {
		m.Observe(t.Context(), almanac.Notice{Kind: almanac.EventReleased, Cause: almanac.AfterFailure})
	}
	m.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCompleted})
	_, body = h.get(t, "/")
	require.Contains(t, body, "1 event completed, and 3 failed attempts, by five minutes")
	_, drawing, _ := strings.Cut(body, `class="wave rate"`)
	drawing, _, _ = strings.Cut(drawing, "</svg>")
	require.Equal(t, 1, strings.Count(drawing, `class="refused"`))
	require.Equal(t, 2, strings.Count(drawing, "<rect"))
}

func TestTheFirstPageSaysWhenTheNextEventIsDue(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.waitForNumbers(t)
	_, body := h.get(t, "/")
	require.Contains(t, body, "No event is due in the next 48 hours.")

	h = newHost(t)
	u := almanactest.User()
	due := time.Now().Add(72 * time.Hour).UTC()
	almanactest.Store(t, h.repository, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.DueIn(time.Until(due))))
	h.waitForNumbers(t)
	_, body = h.get(t, "/")
	require.Contains(t, body, "No event is due in the next 48 hours. The next one is due at")
	require.Contains(t, body, due.Format(time.DateOnly))

	h = newHost(t)
	almanactest.Store(t, h.repository, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.DueIn(time.Hour)))
	h.waitForNumbers(t)
	_, body = h.get(t, "/")
	require.Contains(t, body, "1 event pending, those of paused types too")
	require.Contains(t, body, `<svg class="wave"`)
}
