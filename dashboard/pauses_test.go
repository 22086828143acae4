package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestATypeIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUser(t, ada())
	h.get(t, "/") // so that there are numbers
	_, body := h.get(t, "/pauses")
	require.Contains(t, body, "No type is paused.")
	require.Contains(t, body, `href="./pauses?pause=BIRTHDAY"`)
	_, body = h.get(t, "/pauses?pause=BIRTHDAY")
	require.Contains(t, body, "<h1>Pause BIRTHDAY?</h1>")
	require.Contains(t, body, `name="do" value="pause"`)
	paused, err := h.scheduler.Paused(t.Context())
	require.NoError(t, err)
	require.Empty(t, paused, "a question changes nothing")

	w := h.send(t, http.MethodPost, "/pauses", url.Values{"type": {"BIRTHDAY"}, "do": {"pause"}, "reason": {" <down> "}, "until": {"2999-01-02T03:04"}})
	require.Equal(t, "./pauses?done=paused&type=BIRTHDAY", w.Header().Get("Location"))
	paused, err = h.scheduler.Paused(t.Context())
	require.NoError(t, err)
	require.Equal(t, "<down>", paused[0].Reason)
	require.Equal(t, time.Date(2999, 1, 2, 3, 4, 0, 0, time.UTC), paused[0].Until)
	w = h.send(t, http.MethodPost, "/pauses", url.Values{"type": {"BIRTHDAY"}, "do": {"pause"}, "reason": {strings.Repeat("a", 1001)}, "until": {"2001-01-02"}})
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "The reason is longer than 1,000 bytes.")
	require.Contains(t, w.Body.String(), "The end must be an instant that has not passed")
	_, body = h.get(t, "/pauses?done=paused&type=BIRTHDAY")
	require.Contains(t, body, "Events of BIRTHDAY are paused.")
	require.NotContains(t, body, `href="./pauses?pause=BIRTHDAY"`)
	require.Regexp(t, `<a href="[^"]*status=PENDING[^"]*">1</a>`, body, "how many events wait")
	require.Contains(t, body, `href="./pauses?resume=BIRTHDAY"`)
	_, body = h.get(t, "/pauses?resume=BIRTHDAY")
	require.Contains(t, body, "<h1>Resume BIRTHDAY?</h1>")
	require.Contains(t, body, `name="do" value="resume"`)
	paused, err = h.scheduler.Paused(t.Context())
	require.NoError(t, err)
	require.Len(t, paused, 1, "a question changes nothing")

	w = h.send(t, http.MethodPost, "/pauses", url.Values{"type": {"BIRTHDAY"}, "do": {"resume"}})
	require.Equal(t, "./pauses?done=resumed&type=BIRTHDAY", w.Header().Get("Location"))
	_, body = h.get(t, "/pauses?done=resumed&type=BIRTHDAY")
	require.Contains(t, body, "delivered again")
	require.Contains(t, body, "No type is paused.")
}

func TestWithoutPermissionPausesAreOnlyShown(t *testing.T) {
	t.Parallel()
	h := newHost(t, allExcept(PauseTypes))
	h.createUser(t, ada())
	h.get(t, "/")
	_, body := h.get(t, "/pauses")
	require.Contains(t, body, "BIRTHDAY")
	require.NotContains(t, body, "<form")
	require.NotContains(t, body, "?pause=")
	for _, asks := range []string{"pause", "resume"} {
		status, _ := h.get(t, "/pauses?"+asks+"=BIRTHDAY")
		require.Equal(t, http.StatusForbidden, status)
	}
	status, _ := newHost(t, allExcept(Look)).get(t, "/pauses")
	require.Equal(t, http.StatusForbidden, status)
}

func TestAFormOfAPauseIsChecked(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, c := range []struct {
		form url.Values
		says string
	}{
		{url.Values{"do": {"pause"}}, "The name has 0 bytes, not 1 to 100."},
		{url.Values{"type": {strings.Repeat("x", 101)}, "do": {"pause"}}, "The name has 101 bytes, not 1 to 100."},
		{url.Values{"type": {"<script>"}, "do": {"stop"}}, "The form must say pause or resume."},
	} {
		status, body := h.post(t, "/pauses", c.form)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, c.says)
		require.NotContains(t, body, `"<script>"`)
		require.NotContains(t, body, "data-live=")
	}
	status, body := h.get(t, "/pauses?pause=")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "The name has 0 bytes")
	status, body = h.post(t, "/pauses", url.Values{"type": {"UNKNOWN"}, "do": {"pause"}})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, "This program has no handler")
	_, body = h.get(t, "/pauses?done=paused&type="+url.QueryEscape("<script>\u202e"))
	require.NotContains(t, body, "<script>\u202e")
}

// A link cannot make the page report a pause or a resume that is not stored.
func TestANoticeOfAPauseSaysOnlyWhatIsTrue(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUser(t, ada())
	h.waitForNumbers(t)
	require.NoError(t, h.scheduler.Pause(t.Context(), almanac.Pause{Lane: "ANNIVERSARY"}))
	for _, link := range []string{"done=paused&type=BIRTHDAY", "done=resumed&type=ANNIVERSARY", "done=resumed&type=UNKNOWN", "done=paused&type=", "done=x&type=BIRTHDAY"} {
		_, body := h.get(t, "/pauses?"+link)
		require.NotContains(t, body, `class="alert good"`, link)
	}
}

// countedPauses counts the queries of pauses.
type countedPauses struct {
	almanac.Scheduler
	n   atomic.Int32
	err error
}

func (c *countedPauses) Paused(ctx context.Context) ([]almanac.Pause, error) {
	c.n.Add(1)
	if c.err != nil {
		return nil, c.err
	}
	return c.Scheduler.Paused(ctx)
}

func (c *countedPauses) Pause(context.Context, almanac.Pause) error { return errors.ErrUnsupported }

func TestViewersShareThePauses(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("connection refused")} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t)
			c := &countedPauses{Scheduler: h.scheduler, err: failure}
			d := &dashboard{scheduler: c, now: time.Now}
			for second := range 3 {
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() {
						if _, err := d.paused(t.Context()); !errors.Is(err, failure) {
							t.Error(err)
						}
					})
				}
				all.Wait()
				require.EqualValues(t, second+1, c.n.Load())
				time.Sleep(streamPace)
			}
		})
	}
}

func TestAViewerWhoLeavesDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err := h.Handler.(*dashboard).paused(ctx)
	require.NoError(t, err)
}

func TestADatabaseWithoutPausesSaysSo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	made, err := New(&countedPauses{Scheduler: h.scheduler}, h.repository, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	h.Handler = made
	status, body := h.post(t, "/pauses", url.Values{"type": {"BIRTHDAY"}, "do": {"pause"}})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, "This database cannot store pauses.")
}
