package dashboard

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// startSale starts a broadcast.
func (h host) startSale(t *testing.T) {
	t.Helper()
	at, err := calendar.ParseWallTime("2999-01-02T10:00:00")
	require.NoError(t, err)
	_, err = h.sender.Start(t.Context(), broadcast.Broadcast{Name: "sale", Type: "BIRTHDAY", At: at, Passed: broadcast.Skip})
	require.NoError(t, err)
}

func TestABroadcastIsStartedAfterADryRun(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUser(t, ada())
	status, body := h.get(t, "/broadcasts")
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/broadcasts", body)
	require.Contains(t, body, "There are no broadcasts.")
	form := url.Values{"do": {"start"}, "name": {"sale"}, "type": {"BIRTHDAY"}, "at": {"2999-01-02T10:00"}, "passed": {"next-day"}, "payload": {`{"price":"<7>"}`}}

	status, body = h.post(t, "/broadcasts", form)

	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/broadcasts", body)
	require.Contains(t, body, "Nothing has changed yet.")
	require.Contains(t, body, "1 user, the first at")
	require.Contains(t, body, `name="payload" value="{&#34;price&#34;:&#34;&lt;7&gt;&#34;}"`)
	list, err := h.sender.List(t.Context(), "", 0)
	require.NoError(t, err)
	require.Empty(t, list)

	form.Set("confirm", "yes")
	w := h.send(t, http.MethodPost, "/broadcasts", form)
	require.Equal(t, "./broadcasts?done=started&name=sale", w.Header().Get("Location"))
	require.NoError(t, h.sender.RunOnce(t.Context(), broadcast.RunOptions{}))
	status, body = h.get(t, "/broadcasts?done=started&name=sale")
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/broadcasts?name=sale", body)
	require.Contains(t, body, "The broadcast is stored.")
	require.Contains(t, body, "2999-01-02T10:00:00 in the zone of each user")
	require.Regexp(t, `<dt>Events stored</dt><dd>1</dd>`, body)
	require.Regexp(t, `<circle class="" cx="[0-9.]+" cy="[0-9.]+" r="16"><title>Europe/London`, body)
	require.Contains(t, body, `href="./broadcasts?stop=sale"`)
	_, body = h.get(t, "/broadcasts")
	require.Contains(t, body, `href="./broadcasts?name=sale"`)

	form.Set("at", "2999-01-03T10:00")
	status, body = h.post(t, "/broadcasts", form)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "exists with another content")
	status, body = h.post(t, "/broadcasts", url.Values{"do": {"start"}, "name": {"a/b"}, "type": {"OTHER"}, "at": {"soon"}, "passed": {"later"}, "payload": {"{"}})
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "The local time must be")
	require.Contains(t, body, "The payload is not JSON.")
	require.Contains(t, body, `value="a/b"`, "the form keeps what was sent")
	status, body = h.post(t, "/broadcasts", url.Values{"do": {"start"}, "name": {"x"}, "type": {"OTHER"}, "at": {"2999-01-03T10:00"}, "passed": {"skip"}})
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "no handler of that type")
}

func TestABroadcastIsStoppedAndResumed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUser(t, ada())
	h.startSale(t)
	require.NoError(t, h.sender.RunOnce(t.Context(), broadcast.RunOptions{}))
	status, body := h.get(t, "/broadcasts?stop=sale")
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/broadcasts?stop=sale", body)
	require.Contains(t, body, "<h1>Stop sale?</h1>")
	require.Contains(t, body, `name="reason"`)

	w := h.send(t, http.MethodPost, "/broadcasts", url.Values{"do": {"stop"}, "name": {"sale"}, "reason": {" <wrong price> "}})

	require.Equal(t, "./broadcasts?done=stopped&name=sale", w.Header().Get("Location"))
	require.NoError(t, h.sender.RunOnce(t.Context(), broadcast.RunOptions{}))
	_, body = h.get(t, "/broadcasts?done=stopped&name=sale")
	require.Contains(t, body, "The broadcast is stopped.")
	require.Contains(t, body, "&lt;wrong price&gt;")
	require.Regexp(t, `<dt>Cancelled</dt><dd>1</dd>`, body)
	require.Contains(t, body, `href="./broadcasts?resume=sale"`)
	_, body = h.get(t, "/broadcasts?resume=sale")
	require.NotContains(t, body, `name="reason"`)
	w = h.send(t, http.MethodPost, "/broadcasts", url.Values{"do": {"resume"}, "name": {"sale"}})
	require.Equal(t, "./broadcasts?done=resumed&name=sale", w.Header().Get("Location"))

	for _, form := range []url.Values{{"do": {"stop"}, "name": {"other"}}, {"do": {"resume"}, "name": {"other"}}} {
		status, _ = h.post(t, "/broadcasts", form)
		require.Equal(t, http.StatusNotFound, status)
	}
	status, _ = h.get(t, "/broadcasts?name=other")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = h.post(t, "/broadcasts", url.Values{"do": {"send"}})
	require.Equal(t, http.StatusBadRequest, status)
}

func TestTheMapOfABroadcastShowsItsWave(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 3, 10, 30, 0, 0, time.UTC)
	zone := func(name string, due time.Time, delivered, failed int) broadcast.ZoneProgress {
		return broadcast.ZoneProgress{Zone: broadcast.Zone{Name: name, Due: due}, Counts: broadcast.Counts{Users: 10, Stored: 10}, Delivered: delivered, Failed: failed}
	}
	v := broadcastView{Progress: broadcast.Progress{At: now, Zones: []broadcast.ZoneProgress{
		zone("Asia/Tokyo", now.Add(-9*time.Hour), 10, 0), zone("Europe/Berlin", now.Add(-90*time.Minute), 8, 1),
		zone("Europe/London", now.Add(-30*time.Minute), 4, 0), zone("America/New_York", now.Add(5*time.Hour), 0, 0),
	}}}
	v.draw()
	for zone, class := range map[string]string{"Asia/Tokyo": "p", "Europe/Berlin": "t", "Europe/London": "s w", "America/New_York": "", "Africa/Lagos": "e"} {
		require.Regexp(t, `<circle class="`+class+`"[^>]*><title>`+zone, string(v.Dots))
	}
}

func TestADashboardWithoutASenderSaysSo(t *testing.T) {
	t.Parallel()
	h := newHostFor(t, AllowAll())
	status, body := h.get(t, "/broadcasts?name=sale")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "WithBroadcasts")
	status, _ = h.post(t, "/broadcasts", url.Values{"do": {"stop"}, "name": {"sale"}})
	require.Equal(t, http.StatusNotFound, status)
}

func TestAViewerWhoMayOnlyLookStartsNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, allExcept(Broadcast))
	h.startSale(t)
	for _, path := range []string{"/broadcasts", "/broadcasts?name=sale"} {
		_, body := h.get(t, path)
		require.NotContains(t, body, `method="post"`, path)
		require.NotContains(t, body, "?stop=", path)
	}
	status, _ := h.get(t, "/broadcasts?stop=sale")
	require.Equal(t, http.StatusForbidden, status)
}
