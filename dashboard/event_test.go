package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// at makes an event of a wall time in a zone, resolved by policies.
func at(zone, wall string, p calendar.Policies) almanactest.EventOption {
	return func(e *almanac.Event, _ time.Time) {
		w, err := calendar.ParseWallTime(wall)
		if err != nil {
			panic(err)
		}
		r, err := calendar.StoredTimezone(zone).Resolve(w, p)
		if err != nil {
			panic(err)
		}
		e.Zone, e.Wall, e.Policies, e.Due, e.AvailableAt = zone, w, p.WithDefaults(), r.Instant, r.Instant
	}
}

// show stores an event of a user, and returns its page.
func (h host) show(t *testing.T, u almanac.User, options ...almanactest.EventOption) string {
	t.Helper()
	e := almanactest.Event(time.Now(), append([]almanactest.EventOption{almanactest.For(u)}, options...)...)
	h.store(t, u, e)
	status, body := h.get(t, "/events/"+e.ID.String())
	require.Equal(t, http.StatusOK, status)
	requireRelative(t, body)
	return body
}

func TestAnEventInAGapIsExplained(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	body := h.show(t, almanactest.User(), at("America/New_York", "2026-03-08T02:30:00", calendar.Policies{}))
	require.Contains(t, body, "moved forward 60 min because clocks skip 02:00–03:00")
	require.Contains(t, body, ">skipped</text>")
	require.Contains(t, body, "asks for <strong>2026-03-08T02:30:00</strong>")
	require.Contains(t, body, "clocks show <strong>2026-03-08T03:30:00</strong>")
	require.Equal(t, 2, strings.Count(body, `class="status">of this event`)) // its gap and its fold policy
	for policy, instant := range map[string]string{
		"gap forward": "2026-03-08 07:30:00 UTC", "gap backward": "2026-03-08 06:30:00 UTC", "gap boundary": "2026-03-08 07:00:00 UTC",
		"gap skip": "left out, because clocks skip 02:00–03:00", "gap reject": "refused, because clocks skip 02:00–03:00",
		"fold second": "2026-03-08 07:30:00 UTC",
	} {
		_, row, found := strings.Cut(body, ">"+policy)
		require.True(t, found, policy)
		row, _, _ = strings.Cut(row, "</tr>")
		require.Contains(t, row, instant, policy)
	}
	require.Contains(t, body, "<details open>")
}

func TestAnEventInAFoldIsExplained(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	body := h.show(t, almanactest.User(), at("Europe/London", "2026-10-25T01:30:00", calendar.Policies{Fold: calendar.FoldSecond}))
	require.Contains(t, body, "second of two showings: clocks go back from 02:00 to 01:00")
	require.Contains(t, body, ">shown twice</text>")
	_, row, _ := strings.Cut(body, ">fold first")
	require.Contains(t, row[:400], "2026-10-25 00:30:00 UTC")
}

func TestAnEventAtAnOrdinaryTimeIsExplained(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	body := h.show(t, almanactest.User(), at("Europe/London", "2026-06-25T09:00:00", calendar.Policies{}))
	require.Contains(t, body, "They show it exactly once.")
	require.NotContains(t, body, "<details open>")
	require.NotContains(t, body, "shown twice</text>")
	require.NotContains(t, body, "skipped</text>")
	require.Contains(t, body, "<title id=\"clocks-title\">")
	require.Contains(t, body, "The drawing as a table")
}

func TestAnEventSaysWhyItsDayWasChosen(t *testing.T) {
	t.Parallel()
	repository := almanactest.NewRepository(func() time.Time { return time.Date(2026, time.March, 20, 12, 0, 0, 0, time.UTC) })
	h := rents(t, repository, "2026-02-01\nuntil 2026-03-31")
	moved := rents(t, repository, "2026-02-01\nuntil 2027-12-31\n2026-04-03 holiday Good Friday")
	e := moved.createUser(t, ada()).Events[0]
	_, body := moved.get(t, "/events/"+e.ID.String())
	requireRelative(t, body)
	require.Contains(t, body, "The rule names <strong>2026-04-03T09:00:00</strong>.")
	require.Contains(t, body, "Why this day and time: <strong>moved from Friday 3 April to Monday 6 April because of Good Friday</strong>.")
	require.Contains(t, body, "asks for <strong>2026-04-06T09:00:00</strong>")
	require.Contains(t, body, "<dt>Calendars</dt><dd>LAND, release 2026-02-01: from 2026-03-20 to 2026-04-06</dd>")
	_, body = h.get(t, "/events/"+e.ID.String())
	require.Contains(t, body, "The rule names <strong>2026-04-03T09:00:00</strong>.")
	require.NotContains(t, body, "Why this day", "this program has another occurrence")

	e = h.createUser(t, ada()).Events[0]
	_, body = h.get(t, "/events/"+e.ID.String())
	require.NotContains(t, body, "The rule names")
	require.NotContains(t, body, "Why this day", "nothing moved it")
	require.Contains(t, body, "to 2026-04-03; provisional, because not all days of the calendar are known yet</dd>")
	require.Contains(t, newHost(t).show(t, almanactest.User(), func(e *almanac.Event, _ time.Time) {
		e.Nominal, e.Origin.Kind = e.Wall, almanac.OriginScheduled
		e.Nominal.Date = e.Nominal.Date.AddDays(-1)
	}), "It was scheduled for <strong>")
	require.NotContains(t, newHost(t).show(t, almanactest.User()), "<dt>Calendars</dt>")
}

// An event that is not the next one of its user's rule says it by what is stored.
func TestAnEarlierEventSaysWhyItsDayWasChosen(t *testing.T) {
	t.Parallel()
	moved := func(e *almanac.Event, _ time.Time) {
		e.KeyUnit = calendar.UnitYear + ":hebrew"
		e.Policies.Missing = calendar.Missing{Month: calendar.MissingForward, Day: calendar.MissingBackward}
		e.Payload = []byte(`{"message": "", "reason": "30 Kislev moved to 29 Kislev"}`)
	}
	body := newHost(t, allExcept()).show(t, almanactest.User(), moved)
	require.Contains(t, body, "Why this day and time: <strong>30 Kislev moved to 29 Kislev</strong>.")
	require.Contains(t, body, "<dd>missing month forward, missing day backward</dd>")
	body = newHost(t, allExcept()).show(t, almanactest.User(), moved, func(e *almanac.Event, _ time.Time) { e.KeyUnit = "" })
	require.NotContains(t, body, "Why this day", "the payload may be the host's own")
	body = newHost(t).show(t, almanactest.User(), moved)
	require.NotContains(t, body, "moved to 29 Kislev", "who may not see payloads sees nothing of them")
}

func TestReasonsAreThoseOfReadyMadeHandlers(t *testing.T) {
	t.Parallel()
	moved := func(e *almanac.Event) { e.Nominal = e.Wall }
	for name, tt := range map[string]struct {
		payload string
		event   func(*almanac.Event)
		want    string
	}{
		"a birthday by another calendar": {`{"message": "", "reason": "because"}`, func(e *almanac.Event) { e.KeyUnit = calendar.UnitYear + ":hebrew" }, "because"},
		"a birthday in a window":         {`{"message": "", "reason": "because"}`, moved, "because"},
		"a birthday as it is named":      {`{"message": "", "reason": "because"}`, func(*almanac.Event) {}, ""},
		"an n-th working day":            {`{"message": "", "occurrence": "2026-12", "reason": "because"}`, func(e *almanac.Event) { e.OccurrenceKey = "2026-12" }, "because"},
		"another occurrence":             {`{"message": "", "occurrence": "2026-11", "reason": "because"}`, func(e *almanac.Event) { e.OccurrenceKey = "2026-12" }, ""},
		"an invoice of the host's own":   {`{"invoice": 7, "reason": "overdue"}`, moved, ""},
		"a message that is no text":      {`{"message": {}, "reason": "overdue"}`, moved, ""},
		"a reason that is no text":       {`{"message": "", "reason": 7}`, moved, ""},
		"members in capitals":            {`{"Message": "", "Reason": "overdue"}`, moved, ""},
		"no object":                      {`["message", "reason"]`, moved, ""},
		"no payload":                     {``, moved, ""},
		"a long text":                    {`{"message": "", "reason": "` + strings.Repeat("a", 5000) + `"}`, moved, strings.Repeat("a", moveShown) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := almanactest.Event(time.Now())
			e.Payload = []byte(tt.payload)
			tt.event(&e)
			require.Equal(t, tt.want, storedReason(e))
		})
	}
}

// How clocks show the wall time, and that it is provisional, the page says elsewhere.
func TestWhyADayWasChosenIsSaidOnce(t *testing.T) {
	t.Parallel()
	days, err := calendar.ParseWorkCalendar("name LAND\nrelease 2026-02-01\nuntil 2026-03-01")
	require.NoError(t, err)
	early := calendar.Clock{Hour: 1, Minute: 30}
	rule := calendar.Offset{Of: calendar.Within{Of: calendar.Monthly{Day: 30, At: early}, WorkDays: days}, Days: -1, At: early}
	o, err := calendar.Next(rule, calendar.StoredTimezone("Europe/London"), calendar.Policies{}, time.Date(2026, time.March, 20, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.Contains(t, o.Reason(), "clocks skip")
	require.Contains(t, o.Reason(), "provisional")
	var x eventInstant
	x.explainMove(&almanac.Occurrence{Occurrence: o})
	require.Equal(t, "1 day before 30 March", x.Move)
	require.Contains(t, o.Reason(), "clocks skip", "the occurrence stays as it is")
}

func TestAnEventInAnUnknownZoneIsShown(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	body := h.show(t, almanactest.User(), func(e *almanac.Event, _ time.Time) { e.Zone = "Mars/Base" })
	require.Contains(t, body, "This program does not know the zone")
	require.NotContains(t, body, "<svg")
}

func TestAnInstantByOtherRulesIsPointedOut(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	body := h.show(t, almanactest.User(), at("Europe/London", "2026-06-25T09:00:00", calendar.Policies{}), func(e *almanac.Event, _ time.Time) {
		e.Due = e.Due.Add(time.Hour)
		e.AvailableAt = e.Due
	})
	require.Contains(t, body, "By the zone data of this program the instant is 2026-06-25 08:00:00 UTC.")
}

// Samoa skipped a day, so its drawing is higher than others.
func TestADrawingHoldsADayThatWasSkipped(t *testing.T) {
	t.Parallel()
	w, err := calendar.ParseWallTime("2011-12-30T12:00:00")
	require.NoError(t, err)
	z := calendar.StoredTimezone("Pacific/Apia")
	r, err := z.Resolve(w, calendar.Policies{Gap: calendar.GapBoundary})
	require.NoError(t, err)
	d := drawClocks(z, w, r.Instant, []namedInstant{{r.Instant, "chosen"}})
	require.Len(t, d.Lines, 2)
	require.Len(t, d.Bands, 1)
	require.True(t, d.Bands[0].Gap)
	require.Greater(t, d.Bands[0].Height, 40.0)
	for _, y := range []float64{d.Dots[0].Y, d.Asked, d.Bands[0].Y, d.Bands[0].Y + d.Bands[0].Height, d.Lines[0].Y1, d.Lines[1].Y2} {
		require.True(t, clocksTop <= y && y <= clocksHeight-clocksBottom, "%v", y)
	}
	require.LessOrEqual(t, len(d.Up), 9)
}

func TestWordsOfAnEventNeedAPermission(t *testing.T) {
	t.Parallel()
	u := almanactest.User(almanactest.Named("Grace", "Hopper"))
	private := []almanactest.EventOption{almanactest.Tried(1), func(e *almanac.Event, _ time.Time) { e.LastError, e.Payload = "box of Grace", []byte(`{"secret":"x"}`) },
		almanactest.FailedBecause("no mailbox of Grace")}
	body := newHost(t).show(t, u, private...)
	for _, text := range []string{"Grace", "secret", "mailbox"} {
		require.NotContains(t, body, text)
	}
	require.Contains(t, body, "You may not see payloads.")
	require.Contains(t, body, "You may not see texts of errors.")

	body = newHost(t, everything()).show(t, u, private...)
	for _, text := range []string{"<bdi>Grace Hopper</bdi>", "<bdi>no mailbox of Grace</bdi>", "<bdi>box of Grace</bdi>", "{\n  &#34;secret&#34;: &#34;x&#34;\n}"} {
		require.Contains(t, body, text)
	}
	require.Contains(t, newHost(t).show(t, almanactest.User(), almanactest.InStatus(almanac.Cancelled)), "moved house")
}

func TestAnEventNeedsLookAtItsUser(t *testing.T) {
	t.Parallel()
	u := almanactest.User()
	h := newHost(t, exceptFor(Look, u.ID))
	e := almanactest.Event(time.Now(), almanactest.For(u))
	h.store(t, u, e)
	for _, path := range []string{"/events/" + e.ID.String(), "/events/" + uuid.NewString(), "/events/x", "/users/" + u.ID.String(), "/users/" + uuid.NewString(), "/users/x"} {
		status, body := h.get(t, path)
		require.Equal(t, http.StatusNotFound, status, path)
		require.Contains(t, body, "There is no such page, event or user.")
	}
}

func TestLargeAndDeepPayloadsAreCut(t *testing.T) {
	t.Parallel()
	text, cut := prettyJSON(json.RawMessage(`{"text":"` + strings.Repeat("é", 50_000) + `"}`))
	require.True(t, cut)
	require.LessOrEqual(t, len(text), payloadShown+3)
	deep := json.RawMessage(strings.Repeat("[", 5000) + `"]["` + strings.Repeat("]", 5000))
	require.Equal(t, 5000, depthOf(deep))
	text, cut = prettyJSON(deep)
	require.False(t, cut)
	require.Equal(t, string(deep), text)
	require.Equal(t, 1, depthOf([]byte(`["[[[","\"[["]`)))
}

func TestAnEventOffersWhatItsStatusAllows(t *testing.T) {
	t.Parallel()
	later := almanactest.DueIn(time.Hour)
	tried := func(e *almanac.Event, _ time.Time) { e.ClaimCount = 1 }
	for name, tt := range map[string]struct {
		options []almanactest.EventOption
		want    []string
	}{
		"to come":           {[]almanactest.EventOption{later}, []string{"cancel", "run-now"}},
		"available":         {nil, []string{"cancel"}},
		"claimed too early": {[]almanactest.EventOption{later, tried}, []string{"cancel"}},
		"processing":        {[]almanactest.EventOption{almanactest.InStatus(almanac.Processing)}, nil},
		"completed":         {[]almanactest.EventOption{almanactest.InStatus(almanac.Completed)}, nil},
		"failed":            {[]almanactest.EventOption{almanactest.InStatus(almanac.Failed)}, []string{"requeue"}},
		"cancelled":         {[]almanactest.EventOption{almanactest.InStatus(almanac.Cancelled)}, []string{"requeue"}},
	} {
		e := almanactest.Event(time.Now(), tt.options...)
		may := func(_ *http.Request, a Action, user uuid.UUID) (bool, error) { return user == e.UserID, nil }
		r := &request{d: &dashboard{access: access{may: may}}}
		forms, err := formsFor(r, e, time.Now())
		require.NoError(t, err)
		var paths []string
		for _, form := range forms {
			paths = append(paths, form.Path)
		}
		require.Equal(t, tt.want, paths, name)
		mayNot := func(*http.Request, Action, uuid.UUID) (bool, error) { return false, nil }
		forms, err = formsFor(&request{d: &dashboard{access: access{may: mayNot}}}, e, time.Now())
		require.NoError(t, err)
		require.Empty(t, forms, name)
	}
	h := newHost(t)
	body := h.show(t, almanactest.User(), later)
	require.Regexp(t, `href="\.\./events/[0-9a-f-]{36}/run-now"`, body)
	require.Regexp(t, `href="\.\./events/[0-9a-f-]{36}/cancel"`, body)
	require.NotContains(t, body, `method="post"`, "each operation asks first")
	require.NotContains(t, newHost(t, allowing(Look)).show(t, almanactest.User(), later), "/run-now")
}

// leased is a reader that knows the lease of each event.
type leased struct {
	Reader
	token uuid.UUID
}

func (l leased) Leases(context.Context, int) ([]ops.Lease, error) {
	return []ops.Lease{{Token: l.token, Owner: "worker-7", ExpiresAt: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}}, nil
}

func TestAnEventShowsItsLeaseAndItsTrail(t *testing.T) {
	t.Parallel()
	u := almanactest.User()
	e := almanactest.Event(time.Now(), almanactest.For(u), almanactest.InStatus(almanac.Processing))
	steps := []ops.AuditStep{{Kind: "cancelled", Version: 2, Detail: "moved to Rome", Actor: "app", Principal: "eve@example.com"}}
	failure := error(nil)
	trail := WithTrail(func(_ context.Context, id uuid.UUID) ([]ops.AuditStep, error) { return steps, failure })
	repository := almanactest.NewRepository(time.Now)
	h := newHostOf(t, repository, leased{repository, e.LeaseToken}, trail)
	h.store(t, u, e)
	path := "/events/" + e.ID.String()
	_, body := h.get(t, path)
	require.Contains(t, body, "held by worker-7 until 2027-01-01 00:00:00 UTC")
	require.Contains(t, body, "eve@example.com")
	require.NotContains(t, body, "moved to Rome")
	_, body = h.get(t, "/users/"+u.ID.String())
	require.Contains(t, body, "eve@example.com")
	require.NotContains(t, body, "moved to Rome")

	d := &dashboard{hosting: hosting{trail: func(context.Context, uuid.UUID) ([]ops.AuditStep, error) { return steps, nil }}}
	require.Empty(t, d.trailOf(d.requestOf(httptest.NewRequest(http.MethodGet, path, nil), ""), e.ID, false).Steps[0].Detail)

	h = newHostOf(t, repository, repository, trail, everything())
	_, body = h.get(t, path)
	require.Contains(t, body, "moved to Rome")
	steps = make([]ops.AuditStep, 130)
	_, body = h.get(t, path)
	require.Contains(t, body, "30 older steps are not shown.")
	steps = nil
	_, body = h.get(t, path)
	require.Contains(t, body, "No step was written.")
	failure = errors.New("down")
	status, body := h.get(t, path)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "The audit trail cannot be read now.")
	_, body = newHostOf(t, repository, repository).get(t, path)
	require.NotContains(t, body, "Audit trail")
}

func TestAnEventHasNeighbours(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	u := h.createUser(t, ada())
	first := u.Events[0]
	_, err := h.scheduler.Cancel(t.Context(), first.ID, almanac.CancelOptions{Reason: "by mistake"})
	require.NoError(t, err)
	again, err := h.scheduler.Requeue(t.Context(), first.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	open, err := h.repository.Find(t.Context(), almanac.And{almanac.InStatus(almanac.Pending), almanac.OfType(first.Type)}, almanac.Page{Order: almanac.NextFirst})
	require.NoError(t, err)
	successor := open.Items[1]
	require.Less(t, first.OccurrenceKey, successor.OccurrenceKey)

	_, body := h.get(t, "/events/"+successor.ID.String())
	require.Contains(t, body, `<a href="../events/`+first.ID.String()+`">`+first.OccurrenceKey)
	_, body = h.get(t, "/events/"+first.ID.String())
	require.Contains(t, body, "This is the first event of its series")
	require.Contains(t, body, "<dt>Next</dt><dd>"+successor.OccurrenceKey)
	_, body = h.get(t, "/events/"+again.ID.String())
	require.Contains(t, body, `requeued, from <a class="mono" href="../events/`+first.ID.String())
	require.Contains(t, body, "This event has a series of its own")
}

func TestAnEventWithoutAHandlerSaysThatItCannotTell(t *testing.T) {
	t.Parallel()
	body := newHost(t).show(t, almanactest.User(), almanactest.OfType("BILL"))
	require.Contains(t, body, "The program that shows this page has no handler for the type")
}

func TestAPreviewHidesTextsOfOtherErrors(t *testing.T) {
	t.Parallel()
	err := errors.New("cannot read the calendar of Ada")
	require.NotContains(t, previewProblem(err, false), "Ada")
	require.Contains(t, previewProblem(err, true), "Ada")
}
