package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestALaneIsLimited(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	_, body := h.get(t, "/lanes")
	require.Contains(t, body, "No lane has limits or a weight, and none is paused.")

	w := h.send(t, http.MethodPost, "/lanes", url.Values{"do": {"set"}, "lane": {"BIRTHDAY"}, "rate": {"50"}, "places": {"20"}})
	require.Equal(t, "./lanes?done=BIRTHDAY", w.Header().Get("Location"))
	_, body = h.get(t, "/lanes?done=BIRTHDAY")
	require.Contains(t, body, "The limits of BIRTHDAY are stored")
	require.Contains(t, body, "50 a second, 10 at once")
	require.Contains(t, body, "0 of 20")
	lanes, err := h.scheduler.Lanes(t.Context())
	require.NoError(t, err)
	require.Equal(t, []almanac.Lane{{Name: "BIRTHDAY", Rate: 50, Burst: 10, Places: 20}}, lanes)
	_, body = h.get(t, "/lanes?remove=BIRTHDAY")
	require.Contains(t, body, "<h1>Remove the limits of BIRTHDAY?</h1>")
	require.Contains(t, body, `name="do" value="remove"`)

	w = h.send(t, http.MethodPost, "/lanes", url.Values{"do": {"remove"}, "lane": {"BIRTHDAY"}})
	require.Equal(t, "./lanes?done=BIRTHDAY", w.Header().Get("Location"))
	_, body = h.get(t, "/lanes")
	require.Contains(t, body, "No lane has limits or a weight, and none is paused.")
}

func TestLimitsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, tt := range []struct {
		form url.Values
		want []string
	}{
		{url.Values{"do": {"set"}, "lane": {"BIRTHDAY"}}, []string{"Give a rate, a number of places, a number of events a day or a weight."}},
		{url.Values{"do": {"set"}, "lane": {"BIRTHDAY"}, "rate": {"many"}, "burst": {"1.5"}, "places": {"a"}},
			[]string{"The rate is not a number.", "The burst is not a number.", "The number of places is not a number."}},
		{url.Values{"do": {"set"}, "lane": {""}, "rate": {"-1"}, "places": {"99999"}},
			[]string{"The name has 0 bytes, not 1 to 100.", "The rate is -1, and not between 0.000001 and 1000000.", "The places is 99999, and not between 0 and 10000."}},
		{url.Values{"lane": {"BIRTHDAY"}, "rate": {"1"}}, []string{"The form must say set or remove."}},
	} {
		w := h.send(t, http.MethodPost, "/lanes", tt.form)
		require.Equal(t, http.StatusBadRequest, w.Code)
		for _, sentence := range tt.want {
			require.Contains(t, w.Body.String(), "<li>"+sentence+"</li>")
		}
	}
	w := h.send(t, http.MethodPost, "/lanes", url.Values{"do": {"set"}, "lane": {"UNKNOWN HERE"}, "rate": {"1"}})
	require.Equal(t, http.StatusConflict, w.Code)
	lanes, err := h.scheduler.Lanes(t.Context())
	require.NoError(t, err)
	require.Empty(t, lanes)
}

func TestALaneSaysWhenItsBacklogEnds(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	require.NoError(t, h.repository.PutLane(t.Context(), almanac.Lane{Name: "crm", Rate: 0.001, Burst: 1}))
	require.NoError(t, h.repository.PutLane(t.Context(), almanac.Lane{Name: "crm/a", Daily: 10}))
	require.NoError(t, h.repository.Pause(t.Context(), almanac.Pause{Lane: "mail", Reason: "it moves"}))
	_, err := h.repository.Report(t.Context(), "post", func(b almanac.Breaker, now time.Time) almanac.Breaker {
		return almanac.Breaker{Allowed: 1, RetryAt: now.Add(time.Minute), OpenedAt: now}
	})
	require.NoError(t, err)
	var waiting almanac.Event
	for _, lane := range []string{"crm/a", "crm/a", "mail", "post"} {
		u := almanactest.User()
		e := almanactest.Event(time.Now(), almanactest.For(u), almanactest.InLane(lane))
		h.store(t, u, e)
		if lane == "crm/a" {
			waiting = e
		}
	}

	_, body := h.get(t, "/lanes")
	require.Contains(t, body, "0 today")
	require.Equal(t, 2, strings.Count(body, `<td>about <time`), "of crm and of the lane in it")
	require.Contains(t, body, "not before <time", "of the lane whose receiver fails")
	require.Contains(t, body, "when the lane is resumed")

	body = h.page(t, "/events/"+waiting.ID.String())
	require.Contains(t, body, "<dt>Waits for its lane</dt><dd>crm/a, since ")
	require.Regexp(t, `Events of the lane before it: [01]\.`, body)
	require.Regexp(t, `<dt>Expected start</dt><dd>about <time.*estimated from the limits of the lane`, body)
	require.NoError(t, h.repository.Pause(t.Context(), almanac.Pause{Lane: waiting.Type, Reason: "a holiday"}))
	body = h.page(t, "/events/"+waiting.ID.String())
	require.Contains(t, body, "BIRTHDAY is paused: <bdi>a holiday</bdi>.")
	require.Contains(t, body, "<dt>Expected start</dt><dd>when BIRTHDAY is resumed</dd>")
	require.NoError(t, h.repository.Resume(t.Context(), waiting.Type))
	require.NoError(t, h.repository.PutLane(t.Context(), almanac.Lane{Name: "crm"}))
	require.Contains(t, h.page(t, "/events/"+waiting.ID.String()), "<dd>the lane has room: at once, if a worker is free</dd>")
}

// page returns a page that exists.
func (h host) page(t *testing.T, path string) string {
	t.Helper()
	status, body := h.get(t, path)
	require.Equal(t, http.StatusOK, status)
	return body
}

func TestThePageShowsTheBusiestOfManyLanes(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for i := range lanesShown + 20 {
		require.NoError(t, h.repository.PutLane(t.Context(), almanac.Lane{Name: "crm/" + strconv.Itoa(i), Places: 1}))
	}
	require.NoError(t, h.repository.PutLane(t.Context(), almanac.Lane{Name: "zone", Places: 1}))
	u := almanactest.User()
	h.store(t, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.InLane("crm/519")))

	body := h.page(t, "/lanes")
	require.Contains(t, body, "Left out: 21 lanes, for which less waits.")
	require.Contains(t, body, ">crm/519</a>")
	require.Contains(t, body, ">zone</a>")
	require.Equal(t, lanesShown, strings.Count(body, `<th scope="row">`))
}
