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
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
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

// rents is a dashboard of a program whose events are on the 3rd, or on the next day that is a working day.
func rents(t *testing.T, repository *almanactest.Repository, release string) host {
	t.Helper()
	days, err := calendar.ParseWorkCalendar("name LAND\nrelease " + release)
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.Recurring{
		Execution: almanac.Execution{WorkCalendars: []*calendar.WorkCalendar{days}}, Type: "RENT",
		Rule: func(almanac.User) (calendar.Recurrence, error) {
			return calendar.Within{Of: calendar.Monthly{Day: 3, At: calendar.Clock{Hour: 9}}, WorkDays: days}, nil
		},
	})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithLogger(slog.New(slog.DiscardHandler)),
		almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(nil)))
	require.NoError(t, err)
	h, err := New(scheduler, repository, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	return host{Handler: h, repository: repository, scheduler: scheduler}
}

func TestReconcilingShowsCalendars(t *testing.T) {
	t.Parallel()
	repository := almanactest.NewRepository(func() time.Time { return time.Date(2026, time.March, 20, 12, 0, 0, 0, time.UTC) })
	older := rents(t, repository, "2026-01-01\nuntil 2027-12-31")
	_, err := older.scheduler.Reconcile(t.Context(), almanac.ReconcileOptions{})
	require.NoError(t, err)
	e := older.createUser(t, ada()).Events[0]
	require.Equal(t, "2026-04-03T09:00:00", e.Wall.String())
	newer := rents(t, repository, "2026-02-01\nuntil 2027-12-31\n2026-04-03 holiday Good Friday")

	status, body := newer.post(t, "/zones/reconcile", nil)
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/zones/reconcile", body)
	require.Contains(t, body, "<h1>Reconcile zones and calendars</h1>")
	require.Contains(t, body, "1 event would move. Nothing has changed yet.")
	require.Regexp(t, `LAND</th><td>2026-02-01</td><td class="num">1</td><td class="num">1</td><td class="num">0</td><td class="num">0</td><td class="num">0</td>`, body)
	require.NotContains(t, body, "No pending event needs a check")
	require.Equal(t, e.Due, newer.dueOf(t, e))
	_, body = newer.post(t, "/zones/reconcile", url.Values{"confirm": {"yes"}})
	require.Contains(t, body, "1 event moved.")
	require.Contains(t, body, "LAND")
	require.Equal(t, e.Due.AddDate(0, 0, 3), newer.dueOf(t, e))
	_, body = newer.post(t, "/zones/reconcile", nil)
	require.NotContains(t, body, "LAND", "again, nothing is left to do")
	_, body = older.post(t, "/zones/reconcile", nil)
	require.Contains(t, body, "This program has older releases than the database follows of LAND. Events planned by the newer releases stay as they are.")
}

// What was done about calendars is shown beside an error, too.
func TestReconcilingShowsCalendarsBesideAnError(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var err error
	h.Handler, err = New(stoppedByACalendar{h.scheduler}, h.repository, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	status, body := h.post(t, "/zones/reconcile", url.Values{"confirm": {"yes"}})
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "999 events moved, but not everything could be moved and stored. ")
	require.Contains(t, body, "LAND")
	require.NotContains(t, body, "No pending event needs a check")
}

// reconciled is a scheduler whose reconciling has a given result.
type reconciled struct {
	almanac.Scheduler
	report almanac.CalendarReport
}

func (r reconciled) Reconcile(context.Context, almanac.ReconcileOptions) (almanac.ReconcileResult, error) {
	return almanac.ReconcileResult{Calendars: []almanac.CalendarReport{r.report}}, nil
}

func TestReconcilingNamesWhatIsRemovedAndAdded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		report              almanac.CalendarReport
		would, button, done string
	}{
		{almanac.CalendarReport{Removed: 2}, "<p>2 events would be removed. Nothing", ">Remove 2 events and store the rules and calendars<", "<p>2 events removed. The database"},
		{almanac.CalendarReport{Moved: 1, Removed: 2, Added: 1}, "<p>1 event would move, 2 events would be removed, 1 event would be added. Nothing",
			">Move 1 event, remove 2 events, add 1 event and store the rules and calendars<", "<p>1 event moved, 2 events removed, 1 event added. The database"},
		{almanac.CalendarReport{}, "<p>0 events would move. Nothing", ">Store the rules and calendars<", "<p>0 events moved. The database"},
	} {
		h := newHost(t)
		tt.report.Name = "LAND"
		var err error
		h.Handler, err = New(reconciled{h.scheduler, tt.report}, h.repository, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		_, body := h.post(t, "/zones/reconcile", nil)
		require.Contains(t, body, tt.would)
		require.Contains(t, body, tt.button)
		_, body = h.post(t, "/zones/reconcile", url.Values{"confirm": {"yes"}})
		require.Contains(t, body, tt.done)
	}
}

// stoppedByACalendar moves events by a calendar, and no others.
type stoppedByACalendar struct{ almanac.Scheduler }

func (stoppedByACalendar) Reconcile(context.Context, almanac.ReconcileOptions) (almanac.ReconcileResult, error) {
	return almanac.ReconcileResult{Calendars: []almanac.CalendarReport{{Name: "LAND", Checked: 1000, Moved: 999}}}, sqlError("23514")
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

func TestReleasesThatWaitAreShown(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	misplaced(t, h)
	at := time.Date(2027, 1, 14, 7, 0, 0, 0, time.UTC)
	one := almanac.Quarantine{Name: "Europe/London", Release: "2000a", Events: 4711, Largest: time.Hour, First: calendar.WallTimeOf(at), FirstAt: at, Since: at}
	require.NoError(t, reader.EditZoneRules(t.Context(), func(almanac.ZoneBook) (almanac.ZoneBook, error) {
		return almanac.ZoneBook{Quarantines: []almanac.Quarantine{one}}, nil
	}))
	status, body := h.get(t, "/zones/reconcile")
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/zones/reconcile", body)
	for _, text := range []string{"Releases that wait for an answer", "2000a", "4,711", "1 h later", "2027-01-14T07:00:00"} {
		require.Contains(t, body, text)
	}
	_, body = h.post(t, "/zones/reconcile", nil)
	require.Contains(t, body, `name="reason"`)
	status, _ = h.post(t, "/zones/reconcile", url.Values{"confirm": {"yes"}, "reason": {strings.Repeat("x", 1001)}})
	require.Equal(t, http.StatusBadRequest, status)
	status, body = h.post(t, "/zones/reconcile", url.Values{"confirm": {"yes"}, "reason": {"it is law"}})
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/zones/reconcile", body)
	require.NotContains(t, body, "Releases that wait for an answer")
	require.Contains(t, body, "Releases that have waited")
	require.Contains(t, body, "it is law")
}
