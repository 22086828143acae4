package dashboard

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// misplaced stores an event that is an hour later than its wall time.
func misplaced(t *testing.T, h host) almanac.Event {
	t.Helper()
	e := h.createUser(t, ada()).Events[0]
	e.Due, e.AvailableAt, e.Version = e.Due.Add(time.Hour), e.AvailableAt.Add(time.Hour), e.Version+1
	moved, err := h.repository.MoveEvents(t.Context(), []almanac.Event{e})
	require.NoError(t, err)
	require.Len(t, moved, 1)
	return moved[0]
}

func (h host) dueOf(t *testing.T, e almanac.Event) time.Time {
	t.Helper()
	stored, err := h.repository.Event(t.Context(), e.ID)
	require.NoError(t, err)
	return stored.Due
}

func TestReconcilingAsksBeforeItMoves(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h, _ := zonesHost(t, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	e := misplaced(t, h)
	status, body := h.get(t, "/zones")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `action="./zones/reconcile"`)
	status, body = h.post(t, "/zones/reconcile", nil)
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/zones/reconcile", body)
	require.Contains(t, body, "1 event would move. Nothing has changed yet.")
	require.Contains(t, body, `<a href="../zones/Europe/London">`)
	require.Contains(t, body, "1 h earlier")
	require.Contains(t, body, `name="confirm" value="yes"`)
	require.Equal(t, e.Due, h.dueOf(t, e))
	require.NotContains(t, log.String(), "Dashboard change")
	status, body = h.post(t, "/zones/reconcile", url.Values{"confirm": {"yes"}})
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "1 event moved.")
	require.NotContains(t, body, `name="confirm"`)
	require.Equal(t, e.Due.Add(-time.Hour), h.dueOf(t, e))
	require.Contains(t, log.String(), `action=reconcile moved=1 zones=1 complete=true`)
}

func TestReconcilingLeavesEventsOfNewerRules(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	e := misplaced(t, h)
	newer := recordOf(t, "Europe/London")
	newer.Fingerprint++
	newer.Version = "2999z"
	require.NoError(t, h.repository.EditZoneRules(t.Context(), func(almanac.ZoneBook) (almanac.ZoneBook, error) {
		return almanac.ZoneBook{Rules: []almanac.ZoneRecord{newer}}, nil
	}))
	var body string
	// On a busy machine the rules of all zones take longer than a page may, the first time.
	for status := http.StatusGatewayTimeout; status == http.StatusGatewayTimeout; {
		status, body = h.post(t, "/zones/reconcile", nil)
	}
	require.Contains(t, body, "0 events would move.")
	require.Contains(t, body, "This program's rules are not newer.")
	require.Contains(t, body, "In 1 zone the database follows other rules")
	_, body = h.post(t, "/zones/reconcile", url.Values{"confirm": {"yes"}})
	require.Contains(t, body, "0 events moved.")
	require.Equal(t, e.Due, h.dueOf(t, e))
}

func TestReconcilingNeedsPermission(t *testing.T) {
	t.Parallel()
	for _, action := range []Action{Reconcile, Look} {
		h, _ := zonesHost(t, without(action))
		e := misplaced(t, h)
		for _, form := range []url.Values{nil, {"confirm": {"yes"}}} {
			status, _ := h.post(t, "/zones/reconcile", form)
			require.Equal(t, http.StatusForbidden, status)
		}
		require.Equal(t, e.Due, h.dueOf(t, e))
		for _, path := range []string{"/zones", "/zones/Europe/London", "/zones/reconcile"} {
			_, body := h.get(t, path)
			require.NotContains(t, body, `method="post"`, path)
		}
	}
}

func TestReconcilingRefusesOtherOrigins(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	e := misplaced(t, h)
	r := httptest.NewRequest(http.MethodPost, "http://localhost/zones/reconcile", strings.NewReader("confirm=yes"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	status, _ := h.do(t, r)
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, e.Due, h.dueOf(t, e))
	_, body := h.get(t, "/zones/reconcile?confirm=yes")
	require.Contains(t, body, "What reconciling does")
	status, body = h.post(t, "/zones/reconcile?confirm=yes", nil) // only the form confirms
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "would move")
	require.Equal(t, e.Due, h.dueOf(t, e))
}

// slowReconciler never has enough time.
type slowReconciler struct{ almanac.Scheduler }

func (slowReconciler) Reconcile(context.Context, almanac.ReconcileOptions) (almanac.ReconcileResult, error) {
	return almanac.ReconcileResult{}, context.DeadlineExceeded
}

// refusingReconciler has one event that the database refuses.
type refusingReconciler struct {
	almanac.Scheduler
	err error
}

func (r refusingReconciler) Reconcile(context.Context, almanac.ReconcileOptions) (almanac.ReconcileResult, error) {
	return almanac.ReconcileResult{Zones: []almanac.ZoneReport{{Zone: "Europe/London", Checked: 1000, Moved: 999}}}, r.err
}

func TestReconcilingShowsWhatMovedBesideItsError(t *testing.T) {
	t.Parallel()
	for says, failure := range map[string]error{
		"The database refuses this. The log of the program says why.": sqlError("23514"),
		"The database does not answer. Try again in a moment.":        errors.New("connection refused"),
		"Events that were moved keep their new instants.":             context.DeadlineExceeded,
	} {
		var log bytes.Buffer
		h := newHost(t)
		var err error
		h.Handler, err = New(refusingReconciler{h.scheduler, failure}, h.repository, AllowAll(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		status, body := h.post(t, "/zones/reconcile", url.Values{"confirm": {"yes"}})
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, "999 events moved, but not everything could be moved and stored. ")
		require.Contains(t, body, says)
		require.NotContains(t, body, "The database now follows")
		require.Contains(t, body, "Europe/London")
		require.Contains(t, log.String(), "moved=999 zones=1 complete=false")
		require.Equal(t, failure != context.DeadlineExceeded, strings.Contains(log.String(), "Dashboard operation stopped"))
		_, body = h.post(t, "/zones/reconcile", nil)
		require.Contains(t, body, "999 events would move, and not everything was looked at. Nothing has changed. ")
	}
}

func TestReconcilingSaysWhenTimeIsUp(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := newHost(t)
	var err error
	h.Handler, err = New(slowReconciler{h.scheduler}, h.repository, AllowAll(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	status, body := h.post(t, "/zones/reconcile", nil)
	require.Equal(t, http.StatusGatewayTimeout, status)
	require.Contains(t, body, "zones reconcile --dry-run")
	status, body = h.post(t, "/zones/reconcile", url.Values{"confirm": {"yes"}})
	require.Equal(t, http.StatusGatewayTimeout, status)
	require.Contains(t, body, "Events that were moved keep their new instants.")
	require.Contains(t, log.String(), "complete=false")
}
