package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// event returns a stored event.
func (h host) event(t *testing.T, id uuid.UUID) almanac.Event {
	t.Helper()
	e, err := h.repository.Event(t.Context(), id)
	require.NoError(t, err)
	return e
}

func TestAnEventIsCancelled(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := h.createUser(t, ada()).Events[0]
	at := "/events/" + e.ID.String() + "/cancel"
	_, body := h.get(t, at)
	require.Contains(t, body, "<h1>Cancel this event?</h1>")
	require.Contains(t, body, `name="version" value="`+strconv.Itoa(e.Version)+`"`)
	require.Contains(t, body, `name="endSeries"`)
	require.Equal(t, almanac.Pending, h.event(t, e.ID).Status, "a question changes nothing")

	w := h.send(t, http.MethodPost, at, url.Values{"reason": {" <b>moved</b> "}, "version": {strconv.Itoa(e.Version)}})
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "../../events/"+e.ID.String()+"?done=cancelled", w.Header().Get("Location"))
	require.Equal(t, almanac.Cancelled, h.event(t, e.ID).Status)
	require.Equal(t, "<b>moved</b>", h.event(t, e.ID).FailureReason)
	found, err := h.repository.Find(t.Context(), almanac.And{almanac.ForUser(e.UserID), almanac.InStatus(almanac.Pending)}, almanac.Page{})
	require.NoError(t, err)
	require.Len(t, found.Items, 1, "the series continues")

	next := found.Items[0]
	w = h.send(t, http.MethodPost, "/events/"+next.ID.String()+"/cancel", url.Values{"endSeries": {"true"}})
	require.Equal(t, http.StatusSeeOther, w.Code)
	found, err = h.repository.Find(t.Context(), almanac.InStatus(almanac.Pending), almanac.Page{})
	require.NoError(t, err)
	require.Empty(t, found.Items, "the series ends")
}

func TestANoticeSaysOnlyWhatIsTrue(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	path := "/events/" + h.createUser(t, ada()).Events[0].ID.String()
	for _, done := range []string{"cancelled", "requeued", "run-now", "nonsense", "%3Cb%3E"} {
		_, body := h.get(t, path+"?done="+done)
		require.NotContains(t, body, `class="alert good"`, done)
	}
	require.Equal(t, "This event was made due now.", madeDue(time.Second))
	require.Equal(t, "This event was made due in 8 h 30 min, at the end of the user's quiet hours.", madeDue(8*time.Hour+30*time.Minute+time.Second))
	require.Equal(t, http.StatusSeeOther, h.send(t, http.MethodPost, path+"/cancel", url.Values{}).Code)
	_, body := h.get(t, path+"?done=cancelled")
	require.Contains(t, body, "This event is cancelled.")
	_, body = h.get(t, path+"?done=run-now")
	require.NotContains(t, body, "due now")
}

func TestAnEventRunsNowAndIsRequeued(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := h.createUser(t, ada()).Events[0]
	w := h.send(t, http.MethodPost, "/events/"+e.ID.String()+"/run-now", url.Values{"force": {"on"}})
	require.Equal(t, "../../events/"+e.ID.String()+"?done=run-now", w.Header().Get("Location"))
	require.True(t, h.event(t, e.ID).Due.Before(e.Due))

	failed := h.failEvent(t, h.event(t, e.ID), "gone")
	w = h.send(t, http.MethodPost, "/events/"+failed.ID.String()+"/requeue", url.Values{})
	require.Equal(t, http.StatusSeeOther, w.Code)
	location := w.Header().Get("Location")
	require.True(t, strings.HasSuffix(location, "?done=requeued"))
	again := uuid.MustParse(strings.TrimSuffix(strings.TrimPrefix(location, "../../events/"), "?done=requeued"))
	require.Equal(t, failed.ID, h.event(t, again).Origin.From)
}

func TestARefusedChangeSaysWhy(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	pending := h.createUser(t, ada()).Events[0]
	ended := h.createUser(t, ada()).Events[0]
	_, err := h.scheduler.Cancel(t.Context(), ended.ID, almanac.CancelOptions{})
	require.NoError(t, err)
	repeated := h.failEvent(t, h.createUser(t, ada()).Events[0], "gone")
	_, err = h.scheduler.Requeue(t.Context(), repeated.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	claimed, err := h.createUser(t, ada()).Events[0].Claim(uuid.New())
	require.NoError(t, err)
	_, err = h.repository.Update(t.Context(), claimed, claimed.Version-1)
	require.NoError(t, err)
	refusing := h.failEvent(t, h.createUser(t, ada()).Events[0], "gone")
	_, err = h.scheduler.OptOut(t.Context(), refusing.UserID, almanac.OptOut{Type: refusing.Type})
	require.NoError(t, err)
	for _, c := range []struct {
		event almanac.Event
		what  string
		form  url.Values
		why   string
	}{
		{ended, "cancel", url.Values{}, "The event is CANCELLED. Only PENDING events can be cancelled."},
		{ended, "run-now", url.Values{}, "The event is CANCELLED. Only PENDING events can run now."},
		{claimed, "run-now", url.Values{}, "The event is PROCESSING. Only PENDING events can run now."},
		{pending, "requeue", url.Values{}, "The event is PENDING. Only FAILED and CANCELLED events can be requeued."},
		{repeated, "requeue", url.Values{}, "The event was requeued before."},
		{refusing, "requeue", url.Values{}, "The user has opted out of events of this type."},
		{pending, "cancel", url.Values{"version": {"77"}}, "The event has changed since the page was loaded."},
		{pending, "run-now", url.Values{"version": {"77"}}, "The event has changed since the page was loaded."},
	} {
		before := h.state(t)
		status, body := h.post(t, "/events/"+c.event.ID.String()+"/"+c.what, c.form)
		require.Equal(t, http.StatusConflict, status, c.why)
		require.Contains(t, body, c.why)
		require.Contains(t, body, `href="../../events/`+c.event.ID.String()+`"`, "the way back")
		require.Equal(t, before, h.state(t))
	}
}

func TestRefusalsOfTheSchedulerAreSentences(t *testing.T) {
	t.Parallel()
	for _, err := range []error{almanac.ErrLocked, &almanac.UnsupportedEventTypeError{}, &almanac.NotFoundError{}, almanac.ErrExists, almanac.ErrOptedOut} {
		require.NotEmpty(t, refusalOf(kindOf("cancel"), err))
	}
	for _, cause := range []error{errors.New("no plan"), almanac.ErrNotFound, almanac.ErrExists, &almanac.InvalidStateTransitionError{}} {
		err := &almanac.SuccessorError{Err: cause} // a handler may say anything
		require.Contains(t, refusalOf(kindOf("cancel"), err), "The next event of the series cannot be planned.")
	}
	require.Contains(t, refusalOf(kindOf("run-now"), &almanac.InvalidStateTransitionError{From: almanac.Pending}), "claimed before it was due")
	require.Empty(t, refusalOf(kindOf("cancel"), errors.New("connection refused")))
	require.Empty(t, refusalOf(kindOf("cancel"), nil))
}

func TestAFormOfAnEventIsChecked(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	e := h.createUser(t, ada()).Events[0]
	before := h.state(t)
	status, body := h.post(t, "/events/"+e.ID.String()+"/cancel", url.Values{
		"reason": {"<script>" + strings.Repeat("x", 1000)}, "version": {"-1"}, "force": {"maybe"}, "endSeries": {"true"},
	})
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "The reason is longer than 1,000 bytes.")
	require.Contains(t, body, "The version is not a whole number.")
	require.Contains(t, body, "The box force is neither ticked nor empty.")
	require.Contains(t, body, `value="&lt;script&gt;xxx`)
	require.Contains(t, body, `name="endSeries" value="true" checked`)
	for _, reason := range []string{"\xff", "a\x00b"} {
		status, body = h.post(t, "/events/"+e.ID.String()+"/cancel", url.Values{"reason": {reason}})
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "The reason is not text.")
	}
	require.Equal(t, before, h.state(t))
}

func TestOnlyEventsThatMayBeSeenAreFound(t *testing.T) {
	t.Parallel()
	shown, hidden := uuid.New(), uuid.New()
	h := newHost(t, WithPermissions(func(_ *http.Request, a Action, user uuid.UUID) (bool, error) {
		return user == shown && a != RunNow, nil
	}))
	of := func(id uuid.UUID) string {
		p := ada()
		p.ID = id
		return "/events/" + h.createUser(t, p).Events[0].ID.String()
	}
	seen, secret := of(shown), of(hidden)
	for path, want := range map[string]int{
		secret + "/cancel": http.StatusNotFound, secret + "/run-now": http.StatusNotFound, "/events/" + uuid.NewString() + "/cancel": http.StatusNotFound,
		"/events/x/cancel": http.StatusNotFound, seen + "/delete": http.StatusNotFound, seen + "/run-now": http.StatusForbidden,
	} {
		_, there := h.get(t, path)
		status, body := h.post(t, path, url.Values{})
		require.Equal(t, want, status, path)
		require.NotContains(t, there+body, hidden.String())
	}
	status, _ := h.post(t, seen+"/cancel", url.Values{})
	require.Equal(t, http.StatusSeeOther, status)
}

func TestAChangeIsBoundedInTime(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	spy := &spyScheduler{Scheduler: h.scheduler}
	made, err := New(spy, h.repository, WithAuthentication(func(*http.Request) (string, bool) { return "grace", true }), WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	e := h.createUser(t, ada()).Events[0]
	h.Handler = made
	h.post(t, "/events/"+e.ID.String()+"/cancel", url.Values{})
	require.NotNil(t, spy.ctx)
	_, bounded := spy.ctx.Deadline()
	require.True(t, bounded)
}

// spyScheduler keeps the context of a cancellation.
type spyScheduler struct {
	almanac.Scheduler
	ctx context.Context
}

func (s *spyScheduler) Cancel(ctx context.Context, id uuid.UUID, o almanac.CancelOptions) (almanac.CancelResult, error) {
	s.ctx = ctx
	return s.Scheduler.Cancel(ctx, id, o)
}
