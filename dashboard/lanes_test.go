package dashboard

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestALaneIsLimited(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	_, body := h.get(t, "/lanes")
	require.Contains(t, body, "No lane has limits or a weight.")

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
	require.Contains(t, body, "No lane has limits or a weight.")
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
