package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

func TestTheCalendarShowsAYear(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	status, body := h.get(t, "/calendar?zone=america/new_york&year=2026&type=BIRTHDAY")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<h1>2026 in America/New_York</h1>")
	require.Equal(t, 365, strings.Count(body, `" tabindex="-1"><rect`), "days, for the mouse")
	require.Equal(t, 12+2, strings.Count(body, `<a href="./calendar/2026-`)-365, "months and unusual days, for the keyboard")
	require.Contains(t, body, `<a href="./calendar/2026-03-08?type=BIRTHDAY&amp;zone=America%2FNew_York">`)
	require.Contains(t, body, "<title>Sun 2026-03-08: 23 h, gap of 1 h: clocks skip 02:00–03:00</title>")
	require.Contains(t, body, "<title>Sun 2026-11-01: 25 h, fold of 1 h: clocks go back from 02:00 to 01:00</title>")
	require.Contains(t, body, "−05:00 → −04:00")
	require.Contains(t, body, `year=2025`)
	require.Contains(t, body, "No event of this type is due in this year")
	require.Equal(t, almanac.And{
		almanac.DueBetween{From: time.Date(2026, 1, 1, 5, 0, 0, 0, time.UTC), Until: time.Date(2027, 1, 1, 5, 0, 0, 0, time.UTC)},
		almanac.InZone{"America/New_York"}, almanac.OfType("BIRTHDAY"),
	}, reader.spec)
	require.Less(t, len(body), 75_000)
	_, body = h.get(t, "/calendar?zone=Pacific/Apia&year=2011")
	require.Contains(t, body, "Fri 2011-12-30: a date that clocks skip, gap of 24 h")
}

// The second half of a year stands below the first, so that the whole year fits on a screen.
func TestHalfAYearHas27Or28Weeks(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	for year, weeks := range map[int]int{2026: 27, 2012: 28, 2018: 28, 2025: 27} {
		_, body := h.get(t, fmt.Sprintf("/calendar?year=%d", year))
		require.Contains(t, body, fmt.Sprintf(`viewBox="0 0 %d 412"`, daysLeft+weeks*pitch), year)
		require.Regexp(t, `<rect x="36" y="\d+" class="d0"/><title>\w+ \d+-01-01`, body)
		require.Regexp(t, `<rect x="36" y="(230|256|282|308|334|360|386)" class="d0"/><title>\w+ \d+-07-01`, body)
		require.Equal(t, 2, strings.Count(body, ">Mon</text>"))
	}
}

func TestTheCalendarDefaultsToUTCAndThisYear(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	_, body := h.get(t, "/calendar")
	require.Contains(t, body, fmt.Sprintf("<h1>%d in UTC</h1>", time.Now().UTC().Year()))
	require.Contains(t, body, "Clocks do not change in this year.")
	require.Equal(t, 1, strings.Count(body, ` today"`))
	require.Contains(t, body, "The framed square is today.")
	_, body = h.get(t, "/calendar?year=2000")
	require.NotContains(t, body, "today")
}

func TestTheCalendarRefusesWrongFields(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	status, body := h.get(t, "/calendar?zone=Europe/Berln&year=1899&type=X")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "did you mean &#34;Europe/Berlin&#34;?")
	require.Contains(t, body, "zone=Europe%2FBerlin")
	require.Contains(t, body, "The year is not a number from 1900 to 2100.")
	require.Contains(t, body, `value="Europe/Berln"`)
	require.Contains(t, body, `value="1899"`)
	for _, year := range []string{"1900", "2100"} {
		status, body = h.get(t, "/calendar?year="+year)
		require.Equal(t, http.StatusOK, status)
		require.NotContains(t, body, "year=1899")
		require.NotContains(t, body, "year=2101")
	}
}

// due returns events at the given instants.
func due(instants ...time.Time) (events []almanac.Event) {
	for _, at := range instants {
		events = append(events, almanac.Event{ID: uuid.New(), Type: "BIRTHDAY", Status: almanac.Pending, Due: at, Zone: "America/New_York"})
	}
	return events
}

// A month's name does not stand over days of the month before.
func TestMonthsStandOverTheirDays(t *testing.T) {
	t.Parallel()
	days, _, err := daysOf(calendar.StoredTimezone("UTC"), calendar.Date{Year: 2026, Month: time.January, Day: 1}, 365)
	require.NoError(t, err)
	var c calendarData
	c.draw(days, nil)
	for _, label := range c.Months {
		for _, s := range c.Squares {
			if s.X == label.X && s.Y > label.Y && s.Y < label.Y+halfHeight {
				require.Equal(t, label.First.Month, s.Date.Month, "%s over %s", label.Name, s.Date)
				break // the top square
			}
		}
	}
}

func TestTheCalendarShadesDays(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	midnight := time.Date(2026, time.March, 9, 4, 0, 0, 0, time.UTC) // of 9 March, after a day of 23 hours
	reader.find = func() (almanac.FindResult, error) {
		return almanac.FindResult{Events: due(midnight.Add(-time.Second), midnight, midnight.Add(time.Hour)), Next: "more"}, nil
	}
	_, body := h.get(t, "/calendar?zone=America/New_York&year=2026")
	require.Contains(t, body, "The shade counts the first 3 events of the year")
	require.Contains(t, body, "clocks skip 02:00–03:00; 1 event</title>")
	require.Contains(t, body, "<title>Mon 2026-03-09; 2 events</title>")
	require.Contains(t, body, "up to 2 a day")
}

func TestTheCalendarWorksWithoutEvents(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	for _, err := range []error{context.DeadlineExceeded, errors.New("statement timeout")} {
		reader.find = func() (almanac.FindResult, error) { return almanac.FindResult{}, err }
		status, body := h.get(t, "/calendar?zone=America/New_York&year=2026")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, "could not be found in time")
		status, body = h.get(t, "/calendar/2026-03-08?zone=America/New_York")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, "could not be found in time")
	}
}

// endlessSearch is a repository whose searches for events end with their context only.
type endlessSearch struct{ *almanactest.Repository }

func (endlessSearch) Find(ctx context.Context, _ almanac.Spec, _ almanac.Page) (almanac.FindResult, error) {
	<-ctx.Done()
	return almanac.FindResult{}, ctx.Err()
}

func TestTheCalendarGivesUpALongSearch(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := newHost(t)
	var err error
	h.Handler, err = New(h.scheduler, endlessSearch{h.repository}, AllowAll(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	began := time.Now()

	status, body := h.get(t, "/calendar?zone=America/New_York&year=2026")

	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "could not be found in time")
	require.Less(t, time.Since(began), readLimit)
	require.Empty(t, log.String(), "a large database is no failure")
}

func TestADayListsItsHoursAndEvents(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	start := time.Date(2026, time.November, 1, 4, 0, 0, 0, time.UTC)
	events := due(start.Add(24*time.Hour+30*time.Minute), start.Add(2*time.Hour), start.Add(time.Hour), start)
	reader.find = func() (almanac.FindResult, error) { return almanac.FindResult{Events: slices.Clone(events)}, nil }
	status, body := h.get(t, "/calendar/2026-11-01?zone=America/New_York")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<h1>Sunday 2026-11-01 in America/New_York</h1>")
	require.Contains(t, body, "This day lasts 25 h")
	rows := strings.Split(body, `<th scope="row">`)
	require.Len(t, rows, 26)
	for row, event := range map[int]int{1: 3, 2: 2, 3: 1, 25: 0} {
		require.Contains(t, rows[row], `<a href="../events/`+events[event].ID.String()+`">`, row)
	}
	require.Contains(t, rows[2], "first time")
	require.Contains(t, rows[3], "second time")
	require.Contains(t, body, "../calendar/2026-10-31?zone=America%2FNew_York")
	require.Contains(t, body, "4 events, by the hour")
	require.Equal(t, almanac.And{almanac.DueBetween{From: start, Until: start.Add(25 * time.Hour)}, almanac.InZone{"America/New_York"}}, reader.spec)
}

func TestADaySaysThatThereAreMoreEvents(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	reader.find = func() (almanac.FindResult, error) {
		return almanac.FindResult{Events: due(make([]time.Time, 1000)...), Next: "more"}, nil
	}
	_, body := h.get(t, "/calendar/2026-11-01?zone=America/New_York")
	require.Contains(t, body, "The day has more events. These are 1,000 of them")
	require.Contains(t, body, "<summary>1,000 events</summary>")
}

func TestAMissingDateHasNoHours(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	_, body := h.get(t, "/calendar/2011-12-30?zone=Pacific/Apia")
	require.Contains(t, body, "Clocks in Pacific/Apia never show 2011-12-30.")
	require.NotContains(t, body, "<tbody>")
}

func TestADayRefusesWrongFields(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	for path, sentence := range map[string]string{
		"/calendar/2026-02-30":                   "February 2026 has 28 days",
		"/calendar/tomorrow":                     "is not a date of the form YYYY-MM-DD",
		"/calendar/1899-12-31":                   "The date is not in the years 1900 to 2100.",
		"/calendar/2026-01-01?zone=Asia/Toky":    "did you mean",
		"/calendar/2026-01-01?zone=UTC&type=%00": "The type has characters that no type has.",
	} {
		status, body := h.get(t, path)
		require.Equal(t, http.StatusBadRequest, status, path)
		require.Contains(t, body, sentence, path)
	}
}
