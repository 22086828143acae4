package dashboard

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

func TestTheMapShowsUsersAtTheirPlaces(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUser(t, ada())
	h.createUser(t, almanac.Profile{FirstName: "Grace", LastName: "Hopper", DateOfBirth: "1906-12-09", Timezone: "Etc/GMT+5"})
	h.waitForNumbers(t)
	london, err := time.LoadLocation("Europe/London")
	require.NoError(t, err)
	_, unlit := h.get(t, "/map?hour="+time.Now().In(london).Add(12*time.Hour).Format("15:04"))
	status, lit := h.get(t, "/map?hour="+time.Now().In(london).Add(-30*time.Minute).Format("15:04"))
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, lit, `href="./zones/Europe/London"`)
	require.Contains(t, lit, "Zones without a place")
	require.Contains(t, lit, `href="./zones/Etc/GMT`)
	require.Regexp(t, `<circle class="w" cx="[0-9.]+" cy="[0-9.]+" r="16"><title>Europe/London`, lit)
	require.Regexp(t, `<circle class="" cx="[0-9.]+" cy="[0-9.]+" r="16"><title>Europe/London`, unlit)
}

func TestTheMapStaysSmall(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, zone := range []string{"Europe/London", "Asia/Tokyo", "America/New_York", "Africa/Lagos", "Asia/Kolkata"} {
		p := ada()
		p.Timezone = zone
		h.createUser(t, p)
	}
	h.waitForNumbers(t)
	_, body := h.get(t, "/map?by=events&hour=18:00&ahead=48")
	require.Less(t, len(body), 70_000)
}

func TestTheMapMovesAhead(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	_, now := h.get(t, "/map")
	_, later := h.get(t, "/map?ahead=24")
	require.Contains(t, now, "As it is at")
	require.Contains(t, later, "as they will be at")
	require.NotEqual(t, between(now, `class="dark" d="`, `"`), between(later, `class="dark" d="`, `"`))
}

func TestTheMapRefusesWrongFields(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	status, body := h.get(t, "/map?by=age&hour=25:99&ahead=-1")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "Choose users or events")
	require.Contains(t, body, "Enter the hour as HH:MM")
	require.Contains(t, body, "0 to 48 half hours")
	require.Contains(t, body, `value="25:99"`, "the form keeps what was sent")
	require.NotContains(t, body, "data-live")
}

func TestDeliveriesFlashOnTheMapForSeconds(t *testing.T) {
	t.Parallel()
	m := NewMonitor()
	at := time.Date(2027, 3, 15, 9, 0, 0, 0, time.UTC)
	m.now = func() time.Time { return at }
	m.Observe(context.Background(), almanac.Notice{Kind: almanac.EventCompleted, Event: almanac.Event{Zone: "Europe/London", Due: at, ExecutedAt: at.Add(2 * time.Second)}})
	require.Len(t, flashes(m, at), 1)
	require.Len(t, flashes(m, at.Add(flashFor-time.Millisecond)), 1)
	require.Empty(t, flashes(m, at.Add(flashFor)))
	require.Equal(t, "s w", dotClass(placeRow{Users: ops.Count{N: 1}}, true, 2*time.Second))
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

func TestTheMapShowsLandUnderTheDots(t *testing.T) {
	t.Parallel()
	_, body := newHost(t).get(t, "/map")
	land, dots := strings.Index(body, `<path class="land" d="M`), strings.Index(body, "<circle")
	require.Positive(t, land)
	require.Less(t, land, dots)
	require.Less(t, len(body), 70_000)
}
