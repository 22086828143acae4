package dashboard

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var eventLinks = regexp.MustCompile(`href="\./events/([0-9a-f-]{36})"`)

// idsOf returns the ids of the events that a list shows.
func idsOf(body string) (ids []string) {
	for _, found := range eventLinks.FindAllStringSubmatch(body, -1) {
		ids = append(ids, found[1])
	}
	return ids
}

func TestEventsAreFilteredByEachField(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	now := time.Date(2027, 3, 14, 12, 0, 0, 0, time.UTC)
	ada := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
	bob := almanactest.User(almanactest.LivingIn("Europe/London"))
	pending := almanactest.Event(now, almanactest.For(ada), almanactest.DueIn(4*time.Hour)) // 01:00 on 15 March in Tokyo
	failed := almanactest.Event(now, almanactest.For(bob), almanactest.OfType("BILL"), almanactest.FailedBecause("receiver answered 404"))
	h.store(t, ada, pending)
	h.store(t, bob, failed)
	for filter, want := range map[string]almanac.Event{
		"status=PENDING":                             pending,
		"status=FAILED":                              failed,
		"type=BILL":                                  failed,
		"zone=asia/tokyo":                            pending,
		"user=" + bob.ID.String():                    failed,
		"reason=receiver+answered+4":                 failed,
		"order=next":                                 pending,
		"from=2027-03-15&zone=Asia/Tokyo":            pending,
		"from=2027-03-14T12:00:01Z":                  pending,
		"until=2027-03-14T12:00:00Z":                 failed,
		"from=2027-03-14T13%3A00%3A00%2B01%3A00":     pending,
		"type=BILL&status=FAILED&zone=Europe/London": failed,
	} {
		status, body := h.get(t, "/events?"+filter)
		require.Equal(t, http.StatusOK, status, filter)
		require.Equal(t, []string{want.ID.String()}, idsOf(body), filter)
		requireRelative(t, body)
	}
	_, body := h.get(t, "/events?from=2027-03-15") // a day in UTC
	require.Empty(t, idsOf(body))
	require.Contains(t, body, "No event matches. Leave out a part of the filter.")
}

func TestEventFormKeepsWhatWasSent(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	sent := url.Values{
		"status": {"LOST"}, "type": {hostile}, "zone": {hostile}, "user": {"bob"}, "from": {"yesterday"}, "until": {"2027-02-30"},
		"reason": {"a\x00b"}, "order": {"random"}, "after": {"x"},
	}
	status, body := h.get(t, "/events?"+sent.Encode())
	require.Equal(t, http.StatusBadRequest, status)
	requireRelative(t, body)
	requireHarmless(t, body)
	for _, sentence := range []string{"The status is not one of", "The user is not", "Due from is neither", "Due before is neither", "The reason is not", "The order is none"} {
		require.Contains(t, body, sentence)
	}
	for _, name := range []string{"user", "from", "until"} {
		require.Contains(t, body, `name="`+name+`" value="`+sent.Get(name)+`"`, name)
	}
	for _, value := range []string{"LOST", "random"} {
		require.Contains(t, body, `<option value="`+value+`" selected>`)
	}
	require.Contains(t, html.UnescapeString(body), `value="`+hostile+`"`)
	require.Equal(t, 6, strings.Count(body, `aria-invalid="true"`))
}

func TestEventFiltersThatAreWrongSayWhy(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	for filter, sentence := range map[string]string{
		"status=FAILED&order=next":             "The order next lists pending events only.",
		"after=x":                              "The address of this page is not complete.",
		"order=next&after=" + uuid.NewString(): "The address of this page is not complete.",
		"zone=Asia/Tokyo&from=0001-01-01":      "Due from is not in the years 1900 to 9999.",
		"zone=Mars/Base&from=2027-03-15":       "Due from is a day in a zone that this program does not know;",
		"from=2027-03-15&until=2027-03-15":     "Due before is not after Due from.",
		"type=" + strings.Repeat("x", 51):      "The type is not an event type: 1 to 50 bytes",
		"zone=" + strings.Repeat("x", 101):     "The zone is not the name of a time zone: 1 to 100 bytes",
		"type=%00":                             "The type is not an event type",
		"reason=%FF":                           "The reason is not the beginning of a reason",
	} {
		status, body := h.get(t, "/events?"+filter)
		require.Equal(t, http.StatusBadRequest, status, filter)
		require.Contains(t, body, sentence, filter)
		status, _ = h.get(t, "/events.csv?"+filter)
		require.Equal(t, http.StatusBadRequest, status, filter)
	}
}

// The list leads to operations on all events of its filter.
func TestAFilterOffersItsOperations(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	u := almanactest.User()
	h.store(t, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.InStatus(almanac.Failed)))
	h.createUser(t, ada())
	for filter, want := range map[string]string{
		"status=FAILED&type=BIRTHDAY":               "operation=requeue&amp;type=BIRTHDAY",
		"status=FAILED&user=" + u.ID.String():       "operation=requeue&amp;user=" + u.ID.String(),
		"status=PENDING&zone=Europe/London":         "operation=cancel&amp;zone=Europe%2FLondon",
		"status=PENDING&from=2026-01-01&order=next": "from=2026-01-01T00%3A00%3A00Z&amp;operation=run-now",
		"status=PENDING":                            "",
		"status=FAILED&order=oldest":                "",
		"type=BIRTHDAY":                             "",
	} {
		_, body := h.get(t, "/events?"+filter)
		require.NotContains(t, body, "No event matches.", filter)
		if want == "" {
			require.NotContains(t, body, "operation=", filter)
			continue
		}
		require.Contains(t, body, want, filter)
	}
	_, body := newHost(t, allowing(Look)).get(t, "/events?status=PENDING&type=BIRTHDAY")
	require.NotContains(t, body, "operation=")
}

func TestTheUsualFiltersAreMarked(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for query, name := range map[string]string{
		"": "All", "status=PENDING&order=next": "Next", "status=FAILED&order=newest": "Last failed", "status=PROCESSING": "Processing",
	} {
		_, body := h.get(t, "/events?"+query)
		require.Contains(t, body, `aria-current="true">`+name+"</a>")
	}
	_, body := h.get(t, "/events?type=BIRTHDAY")
	require.NotContains(t, body, `aria-current="true"`)
}

// Bounds are days of the zone, also where clocks skip midnight: in Havana on 2027-03-14 the
// day begins at 01:00.
func TestADayBeginsAtItsFirstInstant(t *testing.T) {
	t.Parallel()
	f, bad := filterOf(url.Values{"zone": {"America/Havana"}, "from": {"2027-03-14"}})
	require.Empty(t, bad.Sentences)
	require.Equal(t, almanac.And{almanac.DueBetween{From: time.Date(2027, 3, 14, 5, 0, 0, 0, time.UTC)}}, f.spec)
}

func TestEventPagesShowEachEventOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	u := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
	now, want := time.Now(), map[string]bool{}
	var events []almanac.Event
	for i := range 130 {
		e := almanactest.Event(now, almanactest.For(u), almanactest.DueIn(time.Duration(i)*time.Second))
		if want[e.ID.String()] = true; i%3 == 0 { // of another zone
			e.Zone = "UTC"
			delete(want, e.ID.String())
		}
		events = append(events, e)
	}
	h.store(t, u, events...)
	for _, order := range []string{"", "oldest", "next"} {
		seen, pages := map[string]bool{}, 0
		for path := "/events?zone=Asia/Tokyo&order=" + order; path != ""; pages++ {
			status, body := h.get(t, path)
			require.Equal(t, http.StatusOK, status)
			for _, id := range idsOf(body) {
				require.False(t, seen[id], "twice")
				seen[id] = true
			}
			require.Equal(t, pages > 0, strings.Contains(body, ">First page<"))
			path = next(body)
		}
		require.Equal(t, want, seen, order)
		require.Equal(t, 2, pages)
	}
	_, body := h.get(t, "/events?order=oldest")
	require.Len(t, idsOf(body), listRows)
	require.Equal(t, events[0].ID.String(), idsOf(body)[0])
}

func TestAZoneIsLookedForInABoundedNumberOfEvents(t *testing.T) {
	t.Parallel()
	repository, calls := almanactest.NewRepository(time.Now), 0
	h := newHostOf(t, repository, endless{repository, &calls})
	now := time.Now()
	h.Handler.(*dashboard).now = func() time.Time { return now } // no search takes time
	status, body := h.get(t, "/events?zone=Asia/Tokyo")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, lookedMost/lookedAtOnce, calls)
	require.Contains(t, body, "10,000 events of the list were looked at, as far as 2001-09-09 01:46:40 UTC.")
	require.Contains(t, body, "No event here matches. Go on with the next page.")
	require.Contains(t, next(body), "zone=Asia%2FTokyo")
}

// slowly is endless, and each of its searches takes two thirds of what a page has.
type slowly struct {
	endless
	passed *atomic.Int64 // nanoseconds
}

func (s slowly) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	s.passed.Add(int64(lookedFor * 2 / 3))
	return s.endless.Find(ctx, spec, page)
}

func TestAZoneIsLookedForInABoundedTime(t *testing.T) {
	t.Parallel()
	repository, calls := almanactest.NewRepository(time.Now), 0
	began := time.Now()
	var passed atomic.Int64
	h := newHostOf(t, repository, slowly{endless{repository, &calls}, &passed})
	h.Handler.(*dashboard).now = func() time.Time { return began.Add(time.Duration(passed.Load())) }

	status, body := h.get(t, "/events?zone=Asia/Tokyo")

	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 2, calls)
	require.Contains(t, body, "2,000 events of the list were looked at")
	require.Contains(t, next(body), "zone=Asia%2FTokyo")
}

func TestReasonsAreShownOnlyToViewersWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	now := time.Now()
	u := almanactest.User()
	failed := almanactest.Event(now, almanactest.For(u), almanactest.FailedBecause("no mailbox of Ada"))
	calledOff := almanactest.Event(now, almanactest.For(u), almanactest.InStatus(almanac.Processing))
	calledOff, err := calledOff.Cancel("Ada moved to Rome")
	require.NoError(t, err)
	byOperator := almanactest.Event(now, almanactest.For(u), almanactest.InStatus(almanac.Cancelled))

	h := newHost(t)
	h.store(t, u, failed, calledOff, byOperator)
	_, body := h.get(t, "/events")
	require.NotContains(t, body, "Ada")
	require.Equal(t, 2, strings.Count(body, "not shown to you"))
	require.Contains(t, body, "moved house")
	status, body := h.get(t, "/events?reason=no+mailbox")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "You may not filter by reason")
	require.Empty(t, idsOf(body))
	status, _ = h.get(t, "/events.csv?reason=no+mailbox")
	require.Equal(t, http.StatusForbidden, status)

	h = newHost(t, exceptFor(SeePayloads, u.ID)) // the filter would say how the reason begins
	h.store(t, u, failed)
	_, body = h.get(t, "/events?reason=no+mailbox")
	require.Empty(t, idsOf(body))
	_, body = h.get(t, "/events.csv?reason=no+mailbox")
	require.NotContains(t, body, failed.ID.String())

	h = newHost(t, everything())
	h.store(t, u, failed)
	_, body = h.get(t, "/events?reason=no+mailbox")
	require.Contains(t, body, "no mailbox of Ada")
}

func TestEventsNeedLook(t *testing.T) {
	t.Parallel()
	h := newHost(t, allowing(SeeNames, SeePayloads))
	for _, path := range []string{"/events", "/events.csv", "/users", "/failures"} {
		status, _ := h.get(t, path)
		require.Equal(t, http.StatusForbidden, status, path)
	}
}

func TestAPageOfEventsIsSmall(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	u := almanactest.User(almanactest.LivingIn("America/Argentina/ComodRivadavia"))
	var events []almanac.Event
	for range 60 {
		events = append(events, almanactest.Event(time.Now(), almanactest.For(u), almanactest.OfType(strings.Repeat("T", 50)),
			almanactest.Tried(3), almanactest.FailedBecause(strings.Repeat("a", 1000))))
	}
	h.store(t, u, events...)
	_, body := h.get(t, "/events")
	require.Len(t, idsOf(body), listRows)
	require.LessOrEqual(t, len(body), 60_000)
	requireRelative(t, body)
}

func TestEventsOfHostileWordsAreHarmless(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	u := almanactest.User()
	u.FirstName, u.Email, u.ExternalID = hostile, hostile, hostile // as if another program had stored it
	e := almanactest.Event(time.Now(), almanactest.For(u), almanactest.OfType("<script>alert(1)"), almanactest.OfSeries("<script>alert", "<script>alert"),
		almanactest.FailedBecause(hostile))
	h.store(t, u, e)
	for _, path := range []string{"/events", "/events/" + e.ID.String(), "/users", "/users?name=" + url.QueryEscape(hostile), "/users/" + u.ID.String(), "/failures"} {
		status, body := h.get(t, path)
		require.Equal(t, http.StatusOK, status, path)
		requireHarmless(t, body)
		requireRelative(t, body)
		require.Contains(t, body, "<bdi>&lt;script", path) // the direction of the text ends with it
	}
}
