package dashboard

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/ops"
)

// outage stores events that a receiver has refused, and one stalled series of the user that it returns.
func (h host) outage(t *testing.T, errs ...string) almanac.User {
	t.Helper()
	stalled := almanactest.User()
	h.store(t, stalled, almanactest.Event(time.Now(), almanactest.For(stalled), almanactest.ReadyFor(time.Hour), almanactest.OfSeries("name-day", "2027")))
	claimed, err := h.repository.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	settled, err := h.repository.Settle(t.Context(), []almanac.Settlement{{
		Event: claimed.Events[0], Outcome: almanac.Delivered(time.Now()),
		Next: func(almanac.User, time.Time) (almanac.Event, error) { return almanac.Event{}, errors.New("no <plan>") },
	}})
	require.NoError(t, err)
	require.NotNil(t, settled[0].Stalled)
	for _, text := range errs {
		u := almanactest.User()
		almanactest.Store(t, h.repository, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.ReadyFor(time.Hour), almanactest.Tried(1), almanactest.DelayedFor(time.Hour),
			func(e *almanac.Event, _ time.Time) { e.LastError = text }))
	}
	return stalled
}

func TestPagesShowWhatIsRetried(t *testing.T) {
	t.Parallel()
	for path, sentences := range map[string][]string{
		"/":         {"3 events wait for another attempt after a failed one.", "1 series stands still", `<a href="./failures">What has failed or stands still</a>`},
		"/failures": {"3 events wait for another attempt after a failed one. They have not failed yet.", "No event has failed.", "The handler could not plan the next event of this series."},
	} {
		h := newHost(t, everything())
		h.outage(t, "receiver <answered> 503", "receiver <answered> 503", "request "+uuid.NewString()+" refused")
		h.waitForNumbers(t)
		status, body := h.get(t, path)
		require.Equal(t, http.StatusOK, status)
		for _, sentence := range sentences {
			require.Contains(t, body, sentence)
		}
		require.Regexp(t, `(?s)<bdi>receiver &lt;answered&gt; 503</bdi></th><td class="num">2</td>.*<bdi>request # refused</bdi></th><td class="num">1</td>`, body, path)

		h = newHost(t, allowing(Look))
		h.outage(t, "no mailbox of Ada", "no mailbox of Grace")
		h.waitForNumbers(t)
		_, body = h.get(t, path)
		require.NotContains(t, body, "mailbox", path)
		require.Contains(t, body, `error not shown to you</th><td class="num">2</td>`, path)

		h = newHost(t, everything())
		h.createUser(t, ada())
		h.waitForNumbers(t)
		_, body = h.get(t, path)
		require.NotContains(t, body, "another attempt", path)
		require.NotContains(t, body, "still", path)
	}
}

func TestOneEventIsRetried(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	h.outage(t, "receiver answered 503")
	h.waitForNumbers(t)
	_, body := h.get(t, "/")
	require.Contains(t, body, "1 event waits for another attempt after a failed one.")
	_, body = h.get(t, "/failures")
	require.Contains(t, body, "1 event waits for another attempt after a failed one. It has not failed yet.")
}

func TestSmallGroupsOfRetriesAreLeftOut(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	h.outage(t, "a", "b", "c", "d", "e", "f", "f")
	h.waitForNumbers(t)
	_, body := h.get(t, "/")
	require.Contains(t, body, "1 more group and what has failed</a>")
	require.Contains(t, body, "<bdi>f</bdi>", "the largest")
	require.NotContains(t, body, "<bdi>e</bdi>")
}

func TestCountsOfGroupsAreAddedUp(t *testing.T) {
	t.Parallel()
	hour := time.Unix(0, 0).UTC()
	group := func(text string, n int64, kind ops.CountKind, at time.Duration) ops.RetryGroup {
		return ops.RetryGroup{Type: "BILL", Error: text, Count: ops.Count{N: n, Kind: kind}, Since: hour.Add(at), Next: hour.Add(2 * at)}
	}
	groups := []ops.RetryGroup{group("at 10:11:12", 2, ops.Exact, 3), group("at 10:11:13", 5, ops.Estimated, 1), group("gone", 1, ops.Exact, 2)}
	require.Equal(t, []retryRow{
		{"at #", "BILL", ops.Count{N: 7, Kind: ops.Estimated}, hour.Add(1), hour.Add(2)},
		{"gone", "BILL", ops.Count{N: 1}, hour.Add(2), hour.Add(4)},
	}, retryRows(groups, true))
	require.Equal(t, "~8", retriesShown(ops.Retries{Events: groups}, false, 1).Retrying.String())
}

func TestPagesShowStalledSeries(t *testing.T) {
	t.Parallel()
	for _, may := range []bool{true, false} {
		h := newHost(t, everything())
		if !may {
			h = newHost(t, allowing(Look))
		}
		u := h.outage(t)
		for _, path := range []string{"/failures", "/users/" + u.ID.String()} {
			status, body := h.get(t, path)
			require.Equal(t, http.StatusOK, status, path)
			requireRelative(t, body)
			require.Contains(t, body, "<td>name-day</td>", path)
			require.Contains(t, body, "users/"+u.ID.String()+`">`, path)
			require.Equal(t, may, strings.Contains(body, "<bdi>no &lt;plan&gt;</bdi>"), path)
		}
		other := h.createUser(t, ada())
		_, body := h.get(t, "/users/"+other.User.ID.String())
		require.NotContains(t, body, "Stalled")
	}
}

func TestHealthSaysWhatFailsInThisProcess(t *testing.T) {
	t.Parallel()
	h := almanac.Health{Running: true, Blocked: 1, Deliveries: map[string]almanac.Failure{
		"SMS": {For: 90*time.Second + 1, Err: errors.New("HTTP 503\nfor Ada")}, "BILL": {For: time.Minute, Err: errors.New("HTTP 502")},
	}}
	require.Equal(t, []condition{
		{false, "No attempt at an event of BILL has succeeded for 1 min: HTTP 502."},
		{false, "No attempt at an event of SMS has succeeded for 1 min 30 s: HTTP 503."},
		{false, "1 call of handlers or observers does not return."},
	}, troubles(h, true))
	require.Equal(t, condition{false, "No attempt at an event of BILL has succeeded for 1 min."}, troubles(h, false)[0])
	require.Equal(t, condition{false, "2 calls of handlers or observers do not return."}, troubles(almanac.Health{Blocked: 2}, true)[0])
	require.Empty(t, troubles(almanac.Health{Running: true}, true))
}
