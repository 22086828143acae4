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
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

func TestTheCalendarShowsAYear(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	var asked ops.DueCountsRequest
	reader.due = func(r ops.DueCountsRequest) (ops.DueCountsResult, error) {
		asked = r
		return ops.DueCountsResult{}, nil
	}
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
	require.Equal(t, ops.DueCountsRequest{
		Zone: "America/New_York", Type: "BIRTHDAY", From: time.Date(2026, 1, 1, 5, 0, 0, 0, time.UTC), Until: time.Date(2027, 1, 1, 5, 0, 0, 0, time.UTC),
	}, asked)
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

// counts returns the counts of quarter hours.
func counts(quarters ...ops.QuarterCount) func(ops.DueCountsRequest) (ops.DueCountsResult, error) {
	return func(ops.DueCountsRequest) (ops.DueCountsResult, error) {
		return ops.DueCountsResult{At: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC), Quarters: quarters}, nil
	}
}

func quarterCount(from time.Time, n int64) ops.QuarterCount {
	return ops.QuarterCount{From: from, Count: ops.Count{N: n}}
}

// A year has more events than a page could read, so it shows counts.
func TestTheCalendarShadesDays(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	midnight := time.Date(2026, time.March, 9, 4, 0, 0, 0, time.UTC) // of 9 March, after a day of 23 hours
	reader.due = counts(quarterCount(midnight.Add(-15*time.Minute), 1), quarterCount(midnight, 7000), quarterCount(midnight.Add(time.Hour), 2))
	reader.find = func() (almanac.List[almanac.Event], error) { panic("a page of a year reads no events") }
	_, body := h.get(t, "/calendar?zone=America/New_York&year=2026")
	require.Contains(t, body, "The shade counts 7,003 events")
	require.Contains(t, body, "Of each series only the next event is stored")
	require.Contains(t, body, "Counted at 2026-03-01 12:00:00 UTC.")
	require.Contains(t, body, "clocks skip 02:00–03:00; 1 event</title>")
	require.Contains(t, body, "<title>Mon 2026-03-09; 7,002 events</title>")
	require.Contains(t, body, "up to 7,002 a day")
	reader.due = counts(ops.QuarterCount{From: midnight, Count: ops.Count{N: 5, Kind: ops.Estimated}})
	_, body = h.get(t, "/calendar?zone=America/New_York&year=2026")
	require.Contains(t, body, "<title>Mon 2026-03-09; ~5 events</title>")
}

func TestTheCalendarWorksWithoutEvents(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	for _, err := range []error{context.DeadlineExceeded, errors.New("statement timeout")} {
		reader.due = func(ops.DueCountsRequest) (ops.DueCountsResult, error) { return ops.DueCountsResult{}, err }
		status, body := h.get(t, "/calendar?zone=America/New_York&year=2026")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, "could not be counted in time")
		require.NotContains(t, body, "No event")
		require.NotContains(t, body, `<td class="num">0</td>`)
		status, body = h.get(t, "/calendar/2026-03-08?zone=America/New_York")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, "could not be counted in time")
		require.NotContains(t, body, "No event")
		require.NotContains(t, body, "none")
	}
}

// unanswered is a repository whose searches and counts of events end with their context only.
type unanswered struct{ *almanactest.Repository }

func (unanswered) Find(ctx context.Context, _ almanac.Spec, _ almanac.Page) (almanac.List[almanac.Event], error) {
	<-ctx.Done()
	return almanac.List[almanac.Event]{}, ctx.Err()
}

func (unanswered) DueCounts(ctx context.Context, _ ops.DueCountsRequest) (ops.DueCountsResult, error) {
	<-ctx.Done()
	return ops.DueCountsResult{}, ctx.Err()
}

func TestTheCalendarGivesUpALongSearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHost(t)
		var err error
		h.Handler, err = New(h.scheduler, unanswered{h.repository}, AllowAll(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		for _, path := range []string{"/calendar?zone=America/New_York&year=2026", "/calendar/2026-03-08?zone=America/New_York"} {
			began := time.Now()
			status, body := h.get(t, path)
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, body, "could not be counted in time")
			require.LessOrEqual(t, time.Since(began), 300*time.Millisecond)
		}
		require.Empty(t, log.String(), "a large database is no failure")
	})
}

func TestADayListsItsHoursAndEvents(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	start := time.Date(2026, time.November, 1, 4, 0, 0, 0, time.UTC)
	events := due(start.Add(24*time.Hour+30*time.Minute), start.Add(2*time.Hour), start.Add(time.Hour), start)
	reader.find = func() (almanac.List[almanac.Event], error) {
		return almanac.List[almanac.Event]{Items: slices.Clone(events)}, nil
	}
	reader.due = counts(quarterCount(start, 1), quarterCount(start.Add(time.Hour), 1), quarterCount(start.Add(2*time.Hour), 1), quarterCount(start.Add(24*time.Hour+30*time.Minute), 1))
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
	require.Contains(t, body, "4 events of any status, by the hour")
	require.Equal(t, almanac.And{almanac.DueBetween{From: start, Until: start.Add(24*time.Hour + 45*time.Minute)}, almanac.InZone{"America/New_York"}}, reader.spec)
}

// A day counts all events, although it lists a part of them only.
func TestADayCountsMoreEventsThanItLists(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	nine := time.Date(2026, time.November, 1, 14, 0, 0, 0, time.UTC)
	reader.due = counts(quarterCount(nine, 7000), quarterCount(nine.Add(time.Hour), 3))
	reader.find = func() (almanac.List[almanac.Event], error) {
		return almanac.List[almanac.Event]{Items: due(slices.Repeat([]time.Time{nine}, 400)...), Next: "more"}, nil
	}
	_, body := h.get(t, "/calendar/2026-11-01?zone=America/New_York")
	require.Contains(t, body, "7,003 events of any status, by the hour")
	require.Contains(t, body, "Counted at 2026-03-01 12:00:00 UTC.")
	require.Contains(t, body, "<summary>7,000 events</summary>")
	require.Contains(t, body, "<td>3 events</td>")
	require.Contains(t, body, "400 of them are listed here.")
	require.Contains(t, body, `href="../events?from=2026-11-01T04%3A00%3A00Z&amp;order=oldest&amp;until=2026-11-02T05%3A00%3A00Z&amp;zone=America%2FNew_York"`)
	require.Equal(t, almanac.And{almanac.DueBetween{From: nine, Until: nine.Add(15 * time.Minute)}, almanac.InZone{"America/New_York"}}, reader.spec, "no more than what is listed is looked for")

	reader.find = func() (almanac.List[almanac.Event], error) {
		return almanac.List[almanac.Event]{}, context.DeadlineExceeded
	}
	_, body = h.get(t, "/calendar/2026-11-01?zone=America/New_York")
	require.Contains(t, body, "<td>7,000 events</td>")
	require.Contains(t, body, "They could not be listed in time.")
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
