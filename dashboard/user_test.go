package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

func TestAUserShowsFactsAndEvents(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	p := ada()
	p.Email, p.ExternalID, p.Locale, p.Attributes = "ada@example.com", "ext-7", "en-GB", []byte(`{"hired":"2020-01-01"}`)
	p.OptOuts = []almanac.OptOut{{Type: "DIGEST"}, {Channel: "sms"}}
	u := h.createUser(t, p)
	_, err := h.scheduler.Cancel(t.Context(), u.Events[0].ID, almanac.CancelOptions{Reason: "by mistake"})
	require.NoError(t, err)
	status, body := h.get(t, "/users/"+u.User.ID.String())
	require.Equal(t, http.StatusOK, status)
	requireRelative(t, body)
	for _, text := range []string{"<h1>Ada Lovelace</h1>", "1990-12-10", "ada@example.com", "ext-7", "en-GB", "hired", "Europe/London", "all types by sms</th>", "DIGEST by all channels</th>",
		"by mistake", "../events/" + u.Events[0].ID.String(), "exact"} {
		require.Contains(t, body, text)
	}
	require.Equal(t, previewed, strings.Count(body, "<td>exact</td>"))

	h2 := newHost(t)
	u = h2.createUser(t, p)
	_, body = h2.get(t, "/users/"+u.User.ID.String())
	for _, text := range []string{"Ada", "1990-12-10", "ada@example.com", "ext-7", "en-GB", "hired"} {
		require.NotContains(t, body, text)
	}
	require.Contains(t, body, "You may not see names and profiles.")
	require.Contains(t, body, "No event of the user has ended yet.")
}

func TestAUserShowsWhichHolidayMovesAnOccurrence(t *testing.T) {
	t.Parallel()
	repository := almanactest.NewRepository(func() time.Time { return time.Date(2026, time.March, 20, 12, 0, 0, 0, time.UTC) })
	h := rents(t, repository, "2026-02-01\nuntil 2027-12-31\n2026-04-03 holiday Good Friday")
	_, body := h.get(t, "/users/"+h.createUser(t, ada()).User.ID.String())
	_, row, found := strings.Cut(body, `<th scope="row">2026-04</th>`)
	require.True(t, found)
	row, _, _ = strings.Cut(row, "</tr>")
	require.Contains(t, row, "2026-04-06T09:00:00")
	require.Contains(t, row, "<td>moved from Friday 3 April to Monday 6 April because of Good Friday</td>")
}

func TestAUserWithoutEventsSaysWhy(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	u := h.store(t, almanactest.User())
	_, body := h.get(t, "/users/"+u.ID.String())
	for _, text := range []string{"No type of event is known yet.", "No event is open.", "The user has opted out of nothing."} {
		require.Contains(t, body, text)
	}
	_, body = h.get(t, "/users/"+u.ID.String()+"?type=BILL")
	require.Contains(t, body, "The program that shows this page has no handler for the type")
}

// whatIf returns the page of a user with the form for a change.
func (h host) whatIf(t *testing.T, u almanac.User, pairs ...any) (int, string) {
	t.Helper()
	status, body := h.get(t, "/users/"+u.ID.String()+query(pairs...))
	requireRelative(t, body)
	requireHarmless(t, body)
	return status, body
}

// The pages of a user and of an event have the day by the calendar that the user keeps.
func TestPagesHaveBothDates(t *testing.T) {
	t.Parallel()
	require.NoError(t, calendar.RegisterSystems(calendartest.Lunar{}))
	h := newHost(t, everything())
	p := ada()
	p.DateOfBirth, p.Calendar = "1986-03L-08", "lunar"
	created := h.createUser(t, p)
	e := created.Events[0]
	day := e.Occurrence().SystemDayText()
	require.Contains(t, day, "Moon")
	_, body := h.get(t, "/users/"+e.UserID.String())
	require.Contains(t, body, "1986-03L-08 lunar")
	require.GreaterOrEqual(t, strings.Count(body, day), 2, "among the open events, and among the next occurrences")
	_, body = h.get(t, "/events/"+e.ID.String())
	require.Contains(t, body, day+", lunar")
}

// A date of birth of another day is by the calendar that the user keeps.
func TestWhatIfAUserOfAnotherCalendarWereBornOnAnotherDay(t *testing.T) {
	t.Parallel()
	require.NoError(t, calendar.RegisterSystems(calendartest.Lunar{}))
	repository := almanactest.NewRepository(func() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) })
	h := newHostOf(t, repository, repository)
	bornBy := func(by string) almanac.User {
		u := almanactest.User()
		var err error
		u.DateOfBirth, err = almanac.StoredDateOfBirth("1986-03-08", by)
		require.NoError(t, err)
		return h.store(t, u)
	}
	u := bornBy("lunar")
	status, body := h.whatIf(t, u, "type", "BIRTHDAY", "born", "1986-03-09")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, previewed, strings.Count(body, "moves 24 h later"))

	// Another program knows the calendar.
	u = bornBy("unheard-of")
	status, body = h.whatIf(t, u, "type", "BIRTHDAY")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "This program does not know the calendar of the user&#39;s date of birth.")
	status, body = h.whatIf(t, u, "type", "BIRTHDAY", "born", "1986-03-09")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "The calendar of the user&#39;s date of birth is no calendar that this program knows")
}

func TestWhatIfAUserMoves(t *testing.T) {
	t.Parallel()
	repository := almanactest.NewRepository(func() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) })
	h := newHostOf(t, repository, repository)
	u := h.store(t, almanactest.User(almanactest.LivingIn("Europe/London"), almanactest.BornOn("1990-12-10")))
	status, body := h.whatIf(t, u, "type", "BIRTHDAY", "zone", "Asia/Tokyo")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "Of the next 12 occurrences, 12 would move or be left out.")
	require.Equal(t, previewed, strings.Count(body, "moves 9 h earlier"))
	require.Contains(t, body, `name="zone" value="Asia/Tokyo"`)

	_, body = h.whatIf(t, u, "type", "BIRTHDAY", "born", "1990-12-11")
	require.Equal(t, previewed, strings.Count(body, "moves 24 h later"))
	_, body = h.whatIf(t, u, "type", "BIRTHDAY", "born", "1990-01-11") // this year's birthday is over
	require.Contains(t, body, "is not among the next 12")
	require.Contains(t, body, "is new")
	_, body = h.whatIf(t, u, "type", "BIRTHDAY", "gap", "skip")
	require.Equal(t, previewed, strings.Count(body, ">stays<"))
	require.Contains(t, body, "Of the next 12 occurrences, 0 would move")
	stored, err := repository.User(t.Context(), u.ID)
	require.NoError(t, err)
	require.Equal(t, u, stored)
}

func TestWhatIfAPolicyWereAnotherOne(t *testing.T) {
	t.Parallel()
	repository := almanactest.NewRepository(func() time.Time { return time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC) })
	h := newHostOf(t, repository, repository)
	u := h.store(t, almanactest.User(almanactest.LivingIn("Europe/Berlin")))
	_, body := h.whatIf(t, u, "type", "NIGHTLY", "fold", "second")
	require.Contains(t, body, "Of the next 12 occurrences, 1 would move")
	require.Contains(t, body, "moves 1 h later")
	_, body = h.whatIf(t, u, "type", "NIGHTLY", "fold", "reject")
	require.Contains(t, body, "refused, because clocks go back from 03:00 to 02:00")
}

func TestAPolicyThatRefusesIsExplained(t *testing.T) {
	t.Parallel()
	repository := almanactest.NewRepository(func() time.Time { return time.Date(2027, 3, 24, 0, 0, 0, 0, time.UTC) })
	h := newHostOf(t, repository, repository)
	u := h.store(t, almanactest.User(almanactest.LivingIn("Europe/Berlin")))
	_, body := h.whatIf(t, u, "type", "NIGHTLY")
	require.Contains(t, body, "The policy reject refuses 2027-03-28T02:30:00, which clocks in Europe/Berlin show never: clocks skip 02:00–03:00.")
	require.Equal(t, 4, strings.Count(body, "<td>exact</td>"))
}

func TestWhatIfSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	repository := almanactest.NewRepository(time.Now)
	h := newHostOf(t, repository, repository)
	u := h.store(t, almanactest.User())
	status, body := h.whatIf(t, u, "type", "BIRTHDAY", "zone", "Mars", "born", "2027-02-30", "gap", "jump", "fold", hostile)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "The gap policy is not one of those in the list.")
	require.Contains(t, body, `<option value="jump" selected>`)
	status, body = h.whatIf(t, u, "type", "BIRTHDAY", "zone", "Mars", "born", "2027-02-30")
	require.Equal(t, http.StatusBadRequest, status)
	for _, text := range []string{"The zone is not a known time zone", "The date of birth is not a day", `value="Mars" placeholder="unchanged" aria-invalid="true"`, `value="2027-02-30"`} {
		require.Contains(t, body, text)
	}
	status, _ = h.whatIf(t, u, "type", hostile, "zone", hostile)
	require.Equal(t, http.StatusBadRequest, status)
}

func TestAComparisonTellsKeysOfTwoUnitsApart(t *testing.T) {
	t.Parallel()
	at := func(unit calendar.Unit, day int) almanac.Occurrence {
		o := almanac.Occurrence{Occurrence: calendar.Occurrence{Key: "5787", Unit: unit, Zone: calendar.StoredTimezone("UTC")}}
		o.Wall.Date = calendar.Date{Year: 2027, Month: time.March, Day: day}
		o.Resolution.Instant = o.Wall.Labelled()
		return o
	}
	var p userPreview
	p.compare([]almanac.Occurrence{at("year:hebrew", 1)}, []almanac.Occurrence{at("year:other", 2)})
	require.Len(t, p.Moves, 2)
	require.Equal(t, "is new", p.Moves[1].Text)
}
