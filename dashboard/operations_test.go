package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// formOf returns the hidden fields of a page.
func formOf(body string) url.Values {
	form := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(body, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	return form
}

// createUsers stores users with an event each.
func (h host) createUsers(t *testing.T, n int) []almanac.Event {
	t.Helper()
	var events []almanac.Event
	for range n {
		events = append(events, h.createUser(t, ada()).Events[0])
	}
	return events
}

// count counts events.
func (h host) count(t *testing.T, spec almanac.Spec) int {
	t.Helper()
	n, err := h.repository.Count(t.Context(), spec)
	require.NoError(t, err)
	return n
}

// preview returns the page of an operation, once the search for its events has ended.
func (h host) preview(t *testing.T, path string) (status int, body string) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, body = h.get(t, path)
		return !strings.Contains(body, "Looking for the events that match")
	}, time.Minute, 10*time.Millisecond)
	return status, body
}

func TestAnOperationIsPreviewedConfirmedAndDone(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUsers(t, 60)
	_, body := h.get(t, "/operations")
	require.Contains(t, body, "Show what matches")
	require.NotContains(t, body, `method="post"`)
	status, body := h.preview(t, "/operations?operation=cancel&type=BIRTHDAY&because=%3Cb%3Emoved")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "Cancel 60 events?")
	require.Contains(t, body, "The first 50 of them")
	require.Contains(t, body, "<dd><bdi>&lt;b&gt;moved</bdi></dd>")
	require.LessOrEqual(t, len(body), 60_000)
	require.Equal(t, 50, strings.Count(body, `/events/`))
	require.Zero(t, h.count(t, almanac.InStatus(almanac.Cancelled)), "a preview changes nothing")
	form := formOf(body)
	require.Equal(t, "60", form.Get("seen"))
	require.NotContains(t, form, "ids")

	status, body = h.post(t, "/operations", form)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "60 of 60 events looked at.")
	require.Contains(t, body, "60 events are cancelled")
	require.NotContains(t, body, "Continue")
	require.Equal(t, 60, h.count(t, almanac.InStatus(almanac.Cancelled)), "and none of those that the operation stored")
	require.Equal(t, 60, h.count(t, almanac.InStatus(almanac.Pending)))
	require.Equal(t, 60, h.count(t, almanac.ForReason("<b>moved")))
}

func TestAnOperationGoesOnStepByStep(t *testing.T) {
	t.Parallel()
	for operation, status := range map[string]almanac.Status{"cancel": almanac.Cancelled, "run-now": almanac.Pending} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t)
			events := h.createUsers(t, 120)
			slow := &slowScheduler{Scheduler: h.scheduler, takes: 100 * time.Millisecond} // 60 in the time of a step
			made, err := New(slow, h.repository, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
			require.NoError(t, err)
			h.Handler = made
			_, body := h.preview(t, "/operations?type=BIRTHDAY&operation="+operation)
			form := formOf(body)
			for _, want := range []string{"60 of 120", "120 of 120"} {
				begin := time.Now()
				_, body = h.post(t, "/operations", form)
				require.Contains(t, body, want)
				require.Less(t, time.Since(begin), pageLimit)
				form = formOf(body)
			}
			require.NotContains(t, body, "Continue")
			require.EqualValues(t, 120, slow.calls.Load(), "each event once")
			for _, e := range events {
				e = h.event(t, e.ID)
				require.Equal(t, status, e.Status)
				require.True(t, e.Status == almanac.Cancelled || e.Due.Before(time.Now().Add(time.Second)))
			}
		})
	}
}

// slowScheduler takes a while for each change, and may fail from a call on.
type slowScheduler struct {
	almanac.Scheduler
	takes     time.Duration
	calls     atomic.Int32
	failsFrom int32
	with      error
}

func (s *slowScheduler) wait(ctx context.Context) error {
	n := s.calls.Add(1)
	time.Sleep(s.takes)
	if s.failsFrom > 0 && n >= s.failsFrom {
		return s.with
	}
	return ctx.Err()
}

func (s *slowScheduler) Cancel(ctx context.Context, id uuid.UUID, o almanac.CancelOptions) (almanac.CancelResult, error) {
	if err := s.wait(ctx); err != nil {
		return almanac.CancelResult{}, err
	}
	return s.Scheduler.Cancel(ctx, id, o)
}

func (s *slowScheduler) RunNow(ctx context.Context, id uuid.UUID, o almanac.ForceOptions) (almanac.Event, error) {
	if id == uuid.Nil { // a dry run checks its options
		return s.Scheduler.RunNow(ctx, id, o)
	}
	if err := s.wait(ctx); err != nil {
		return almanac.Event{}, err
	}
	return s.Scheduler.RunNow(ctx, id, o)
}

func TestAStepHasALimitOfEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // no step ends because this machine is slow
		h := newHost(t)
		h.createUsers(t, operationStep+20)
		_, body := h.preview(t, "/operations?operation=cancel&type=BIRTHDAY&limit=10000")
		_, body = h.post(t, "/operations", formOf(body))
		require.Contains(t, body, "1,000 of 1,020 events looked at.")
		require.Contains(t, body, "Continue")
		again := formOf(body)
		_, _ = h.post(t, "/operations", again)
		_, body = h.post(t, "/operations", again) // sent twice
		require.Contains(t, body, "1,000 of 1,020", "nothing is left to look at")
		require.NotContains(t, body, "Continue")
		require.Equal(t, operationStep+20, h.count(t, almanac.InStatus(almanac.Cancelled)), "no event is changed that was not confirmed")
	})
}

func TestNoMoreEventsAreChangedThanWereConfirmed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUsers(t, 10)
	form := url.Values{"operation": {"cancel"}, "type": {"BIRTHDAY"}, "seen": {"3"}, "more": {"true"}, "last": {uuid.Max.String()}}
	_, body := h.post(t, "/operations", form)
	require.Contains(t, body, "3 of 3 events looked at.")
	require.Equal(t, 3, h.count(t, almanac.InStatus(almanac.Cancelled)))
}

func TestALimitIsKept(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUsers(t, 20)
	_, body := h.preview(t, "/operations?operation=cancel&type=BIRTHDAY&limit=7")
	require.Contains(t, body, "Cancel the first 7 events?")
	require.Contains(t, body, "More events match.")
	_, body = h.post(t, "/operations", formOf(body))
	require.Contains(t, body, "7 events are cancelled")
	require.Contains(t, body, "More events match than were confirmed.")
	require.Equal(t, 7, h.count(t, almanac.InStatus(almanac.Cancelled)))
}

func TestFarMoreThanConfirmedAsksAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUsers(t, 20)
	_, body := h.preview(t, "/operations?operation=cancel&type=BIRTHDAY")
	form := formOf(body)
	h.createUsers(t, 10)
	before := h.state(t)
	more := formOf(body)
	more.Set("seen", "19")
	status, body := h.post(t, "/operations", more)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, "You confirmed 19 events, and now 30 match.")
	require.Equal(t, before, h.state(t))
	require.Equal(t, "30", formOf(body).Get("seen"), "and it can be confirmed")

	status, body = h.post(t, "/operations", form) // ten more are tolerated, and not changed
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "20 events are cancelled")
	require.Equal(t, 20, h.count(t, almanac.InStatus(almanac.Cancelled)))
}

func TestRefusedEventsAreListedWithWhy(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for i, e := range h.createUsers(t, 120) {
		failed := h.failEvent(t, e, "<script>gone")
		if i < 110 {
			_, err := h.scheduler.OptOut(t.Context(), failed.UserID, almanac.OptOut{Type: failed.Type})
			require.NoError(t, err)
		}
	}
	_, body := h.preview(t, "/operations?operation=requeue&reason=%3Cscript%3E")
	require.Contains(t, body, "You may not do this: see payloads", "reasons may have words of receivers")
	h2 := newHost(t, allExcept())
	made, err := New(h.scheduler, h.repository, AllowAll(), allExcept(), WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	h2.Handler = made
	_, body = h2.preview(t, "/operations?operation=requeue&reason=%3Cscript%3E")
	require.Contains(t, body, "Requeue 120 events?")
	require.NotContains(t, body, "<script>gone")
	_, body = h2.post(t, "/operations", formOf(body))
	require.Contains(t, body, "<dd>10 events are requeued</dd>")
	require.Contains(t, body, "<dd>110 events</dd>")
	require.Equal(t, 100, strings.Count(body, "The user has opted out of events of this type."))
	require.Contains(t, body, "10 more were refused.")
}

func TestAnOperationThatStopsCanGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.createUsers(t, 70)
		slow := &slowScheduler{Scheduler: h.scheduler, failsFrom: 61, with: errors.New("refused 10.0.0.7")}
		made, err := New(slow, h.repository, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		h.Handler = made
		_, body := h.preview(t, "/operations?type=BIRTHDAY&operation=cancel")
		status, body := h.post(t, "/operations", formOf(body))
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, "60 of 70 events looked at.")
		require.Contains(t, body, "The database does not answer.")
		require.NotContains(t, body, "10.0.0.7")
		require.Contains(t, body, "Go on nevertheless")
		status, _ = h.post(t, "/operations", formOf(body))
		require.Equal(t, http.StatusServiceUnavailable, status, "nothing was done")
		slow.failsFrom = 0
		_, body = h.post(t, "/operations", formOf(body))
		require.Contains(t, body, "70 of 70 events looked at.")
		require.Equal(t, 70, h.count(t, almanac.InStatus(almanac.Cancelled)))
	})
}

func TestAnOperationTakesBoundedTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.createUsers(t, 3)
		slow := &slowScheduler{Scheduler: h.scheduler, takes: 5 * time.Second}
		made, err := New(slow, h.repository, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		h.Handler = made
		_, body := h.preview(t, "/operations?type=BIRTHDAY&operation=cancel")
		_, body = h.post(t, "/operations", formOf(body))
		require.Contains(t, body, "1 of 3 events looked at.")
		require.Contains(t, body, "The database took too long.")
		require.Contains(t, body, "Go on nevertheless")
	})
}

func TestAFormOfAnOperationIsChecked(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUsers(t, 1)
	before := h.state(t)
	for address, says := range map[string]string{
		"operation=delete&type=A": "Choose an operation",
		"operation=":              "Choose an operation",
		"operation=cancel":        "Give at least one filter",
		"operation=cancel&type=+": "Give at least one filter",
		"operation=cancel&type=" + strings.Repeat("x", 51):    "The type is not an event type",
		"operation=cancel&type=a%00b":                         "The type is not an event type",
		"operation=cancel&user=ada":                           "The user is not a UUID.",
		"operation=cancel&zone=%FF":                           "The zone is not the name of a time zone",
		"operation=cancel&from=yesterday":                     "Due from is neither an instant",
		"operation=cancel&from=0001-01-01":                    "Due from is not in the years 1900 to 9999.",
		"operation=cancel&from=2026-02-01&until=2026-02-01":   "Due before is not after Due from.",
		"operation=cancel&type=A&limit=0":                     "The limit must be a whole number",
		"operation=cancel&type=A&limit=10001":                 "The limit must be a whole number",
		"operation=cancel&type=A&reason=gone":                 "Only failed events have a reason",
		"operation=cancel&type=A&force=true":                  "Force is only for run now and requeue",
		"operation=run-now&type=A&endSeries=true":             "Only a cancellation",
		"operation=requeue&type=A&because=x":                  "Only a cancellation",
		"operation=cancel&type=A&endSeries=perhaps":           "The box endSeries",
		"operation=requeue&reason=%FF":                        "The reason of the failure is not the beginning of a reason",
		"operation=cancel&type=A&because=%00":                 "The reason is not text",
		"operation=cancel&type=A&limit=x&zone=Europe%2FParis": `value="Europe/Paris"`,
	} {
		status, body := h.preview(t, "/operations?"+address)
		require.Equal(t, http.StatusBadRequest, status, address)
		require.Contains(t, body, says, address)
		form, err := url.ParseQuery(address)
		require.NoError(t, err)
		form.Set("seen", "1")
		form.Set("last", uuid.Max.String())
		status, body = h.post(t, "/operations", form)
		require.Equal(t, http.StatusBadRequest, status, address)
		require.Contains(t, body, says, address)
	}
	last := uuid.Max.String()
	for _, steps := range []string{
		"", "seen=1", "last=" + last, "seen=0&last=" + last, "seen=10001&last=" + last, "seen=x&last=" + last, "seen=1&last=x",
		"seen=1&tried=2&last=" + last, "seen=1&tried=-1&last=" + last, "seen=1&after=x&last=" + last, "seen=1&at=x&last=" + last,
	} {
		form, err := url.ParseQuery(steps + "&operation=cancel&type=BIRTHDAY")
		require.NoError(t, err)
		status, body := h.post(t, "/operations", form)
		require.Equal(t, http.StatusBadRequest, status, steps)
		require.Contains(t, body, "The form does not say what was confirmed.", steps)
	}
	require.Equal(t, before, h.state(t))
}

func TestAFilterSelectsWhatItSays(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	london := h.createUser(t, ada()).Events[0]
	p := ada()
	p.Timezone = "Europe/Paris"
	paris := h.createUser(t, p).Events[0]
	for filter, want := range map[string]int{
		"zone=Europe%2FParis":            1,
		"user=" + london.UserID.String(): 1,
		"user=" + uuid.NewString():       0,
		"type=BIRTHDAY":                  2,
		"from=" + paris.Due.Format("2006-01-02T15:04:05") + "&until=" + london.Due.Format("2006-01-02T15:04:05"):         1,
		"from=" + url.QueryEscape(paris.Due.In(time.FixedZone("", 3600)).Format(time.RFC3339)) + "&zone=Europe%2FLondon": 1,
		"until=" + paris.Due.Format("2006-01-02") + "&type=BIRTHDAY":                                                     0,
	} {
		_, body := h.preview(t, "/operations?operation=run-now&"+filter)
		if want == 0 {
			require.Contains(t, body, "No event matches.", filter)
			require.NotContains(t, body, `method="post"`)
			continue
		}
		require.Contains(t, body, fmt.Sprintf("Run now %d event", want), filter)
	}
	_, body := h.get(t, "/operations?type=BIRTHDAY&zone=Europe%2FParis")
	require.Contains(t, body, `value="Europe/Paris"`, "a link fills the form in")
	require.NotContains(t, body, "Run now 1")
}

func TestOnlyPermittedOperationsAreOffered(t *testing.T) {
	t.Parallel()
	_, body := newHost(t, allExcept(Cancel, Requeue)).get(t, "/operations")
	require.Contains(t, body, `value="run-now"`)
	require.NotContains(t, body, `value="cancel"`)
	h := newHost(t, allExcept(Cancel, Requeue, RunNow))
	_, body = h.get(t, "/operations")
	require.Contains(t, body, "Ask for a permission")
	status, _ := h.get(t, "/operations?operation=cancel&type=BIRTHDAY")
	require.Equal(t, http.StatusForbidden, status)
	status, _ = newHost(t, allExcept(Look)).get(t, "/operations")
	require.Equal(t, http.StatusForbidden, status)
}

// searching is a scheduler on a repository that takes a while to find events.
type searching struct {
	almanac.Scheduler
	takes    atomic.Int64 // nanoseconds that Find takes
	requeued atomic.Int64 // nanoseconds that Requeued takes
	calls    atomic.Int32
}

func (s *searching) Repository() almanac.Repository {
	return &slowRepository{s.Scheduler.Repository(), s}
}

type slowRepository struct {
	almanac.Repository
	slow *searching
}

func (r *slowRepository) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	r.slow.calls.Add(1)
	select {
	case <-time.After(time.Duration(r.slow.takes.Load())):
		return r.Repository.Find(ctx, spec, page)
	case <-ctx.Done():
		return almanac.List[almanac.Event]{}, ctx.Err()
	}
}

// A filter by a rare zone has no index, so a large database is searched for seconds.
func TestALongDryRunSaysThatItIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.createUsers(t, 3)
		slow := &searching{Scheduler: h.scheduler}
		slow.takes.Store(int64(3 * time.Second))
		made, err := New(slow, h.repository, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		h.Handler = made
		const path = "/operations?operation=cancel&zone=Europe/London"
		for range 3 {
			began := time.Now()
			w := h.send(t, http.MethodGet, path, nil)
			require.Equal(t, http.StatusOK, w.Code)
			require.LessOrEqual(t, time.Since(began), 300*time.Millisecond)
			require.Equal(t, "1", w.Header().Get("Refresh"))
			require.Contains(t, w.Body.String(), "Looking for the events that match, for ")
			require.NotContains(t, w.Body.String(), "No event matches")
			time.Sleep(700 * time.Millisecond)
		}
		require.EqualValues(t, 1, slow.calls.Load(), "a page that reloads itself does not search again")
		time.Sleep(time.Second)
		w := h.send(t, http.MethodGet, path, nil)
		require.Empty(t, w.Header().Get("Refresh"))
		require.Contains(t, w.Body.String(), "Cancel 3 events?")
		_, body := h.get(t, path)
		require.Contains(t, body, "Looking for", "what was shown is not shown again: it may have changed")
		require.EqualValues(t, 2, slow.calls.Load())
		slow.takes.Store(int64(time.Hour))
		for i := range maxDryRuns {
			status, _ := h.get(t, fmt.Sprintf("/operations?operation=cancel&type=T%d", i))
			require.Equal(t, i == maxDryRuns-1, status == http.StatusServiceUnavailable, "dry run %d", i)
		}
		time.Sleep(operationLimit)
		status, body := h.get(t, "/operations?operation=cancel&type=T1")
		require.Equal(t, http.StatusGatewayTimeout, status)
		require.Contains(t, body, "The database took too long. Narrow the filter")
		time.Sleep(dryRunKept)
		_, body = h.get(t, "/operations?operation=cancel&type=T1")
		require.Contains(t, body, "Looking for")
		time.Sleep(operationLimit)
	})
}

func TestARequeueLeavesOutWhatWasRequeuedBefore(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, e := range h.createUsers(t, 130) {
		h.failEvent(t, e, "gone")
	}
	const path = "/operations?operation=requeue&type=BIRTHDAY&limit=120"
	_, body := h.preview(t, path)
	first := formOf(body)
	for _, again := range []string{"120", "10"} { // more than a page is left out the second time
		_, body = h.preview(t, path)
		form := formOf(body)
		require.Equal(t, again, form.Get("seen"))
		_, body = h.post(t, "/operations", form)
		require.Contains(t, body, "<dd>"+again+" events are requeued</dd>")
		require.Contains(t, body, "<dt>Refused</dt><dd>0 events</dd>")
	}
	require.Equal(t, 130, h.count(t, almanac.InStatus(almanac.Pending)))
	_, body = h.post(t, "/operations", first) // sent twice
	require.Contains(t, body, "<dd>0 events are requeued</dd>")
	require.NotContains(t, body, "Continue")
	require.Equal(t, 130, h.count(t, almanac.InStatus(almanac.Pending)))
}

// Requeued is slow, so that a step ends among events that it leaves out.
func (r *slowRepository) Requeued(ctx context.Context, events []almanac.Event) ([]uuid.UUID, error) {
	time.Sleep(time.Duration(r.slow.requeued.Load()))
	return r.Repository.Requeued(ctx, events)
}

// slowFinder is a reader that takes a while to find events.
type slowFinder struct {
	Reader
	takes time.Duration
}

func (f slowFinder) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	time.Sleep(f.takes)
	if err := ctx.Err(); err != nil {
		return almanac.List[almanac.Event]{}, err
	}
	return f.Reader.Find(ctx, spec, page)
}

// A step that has no time for an event still brings the operation forward.
func TestAStepWithoutTimeGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before         int           // how many events were requeued before
		find, requeued time.Duration // how long the calls take
		steps          int
	}{
		"after a slow preview":            {0, 7 * time.Second, 0, 2},
		"among events that it leaves out": {100, 0, 3500 * time.Millisecond, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t)
			var failed []almanac.Event
			for _, e := range h.createUsers(t, c.before+3) {
				failed = append(failed, h.failEvent(t, e, "gone"))
			}
			slices.SortFunc(failed, func(a, b almanac.Event) int { return bytes.Compare(a.ID[:], b.ID[:]) })
			for _, e := range failed[:c.before] {
				_, err := h.scheduler.Requeue(t.Context(), e.ID, almanac.ForceOptions{})
				require.NoError(t, err)
			}
			slow := &searching{Scheduler: h.scheduler}
			made, err := New(slow, slowFinder{h.repository, c.find / 4}, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
			require.NoError(t, err)
			h.Handler = made
			_, body := h.preview(t, "/operations?operation=requeue&type=BIRTHDAY")
			slow.takes.Store(int64(c.find))
			slow.requeued.Store(int64(c.requeued))
			for step := range c.steps {
				begin := time.Now()
				form := formOf(body)
				form.Set("more", strconv.FormatBool(c.before > 0)) // then nothing is looked at beforehand
				var status int
				status, body = h.post(t, "/operations", form)
				require.Equal(t, http.StatusOK, status, name)
				require.LessOrEqual(t, time.Since(begin), operationLimit, name)
				require.Equal(t, step < c.steps-1, strings.Contains(body, "Continue"), "%s: step %d", name, step)
			}
			require.Contains(t, body, "3 of 3 events looked at.", name)
			require.Contains(t, body, "<dd>3 events are requeued</dd>", name)
		})
	}
}

// One event whose successor cannot be planned does not stop the others.
func TestAnOperationGoesOnPastAPlanThatFails(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var log bytes.Buffer
	events := h.createUsers(t, 5)
	made, err := New(unplannable{h.scheduler, events[2].ID}, h.repository, AllowAll(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	h.Handler = made
	_, body := h.preview(t, "/operations?operation=cancel&type=BIRTHDAY")
	_, body = h.post(t, "/operations", formOf(body))
	const why = "The next event of the series cannot be planned. End the series to cancel this event alone."
	require.Contains(t, body, "<dd>4 events are cancelled</dd>")
	require.Contains(t, body, why)
	require.Contains(t, log.String(), "no plan", "the log says what the handler says")
	log.Reset()

	status, body := h.post(t, "/events/"+events[2].ID.String()+"/cancel", url.Values{})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, why)
	require.NotContains(t, body, "no plan")
	require.Contains(t, log.String(), "no plan", "the log says what the handler says")
	require.Equal(t, http.StatusSeeOther, h.send(t, http.MethodPost, "/events/"+events[2].ID.String()+"/cancel", url.Values{"endSeries": {"true"}}).Code)
}

// unplannable is a scheduler that cannot plan what follows an event.
type unplannable struct {
	almanac.Scheduler
	id uuid.UUID
}

func (s unplannable) Cancel(ctx context.Context, id uuid.UUID, o almanac.CancelOptions) (almanac.CancelResult, error) {
	if id == s.id && !o.EndSeries {
		return almanac.CancelResult{}, &almanac.SuccessorError{EventID: id, Err: errors.New("no plan")}
	}
	return s.Scheduler.Cancel(ctx, id, o)
}
