package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
)

// when asks the page about pairs of names and values.
func (h host) when(t *testing.T, pairs ...string) (int, string) {
	t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return h.get(t, "/when?"+form.Encode())
}

func TestWhenShowsAllPoliciesForAGap(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	status, body := h.when(t, "zone", "America/New_York", "at", "2026-03-08T02:30", "gap", "backward")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "Clocks never show this time: gap of 1 h: clocks skip 02:00–03:00.")
	rows := strings.Split(body, `<th scope="row">`)[1:]
	require.Len(t, rows, 5)
	for i, want := range []string{"2026-03-08T07:30:00.000Z", "2026-03-08T06:30:00.000Z", "2026-03-08T07:00:00.000Z", "left out", "an error"} {
		require.Contains(t, rows[i], want)
		require.Equal(t, i == 1, strings.Contains(rows[i], "your choice"))
	}
	require.Equal(t, 2, strings.Count(body, `class="local"`))
	require.Equal(t, 3, strings.Count(body, "<circle"))
}

func TestWhenShowsAllPoliciesForAFold(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	_, body := h.when(t, "zone", "Europe/Berlin", "at", "02:30", "from", "2026-10-25")
	require.Contains(t, body, "Clocks show this time twice: fold of 1 h: clocks go back from 03:00 to 02:00.")
	rows := strings.Split(body, `<th scope="row">`)[1:]
	require.Len(t, rows, 3)
	for i, want := range []string{"2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z", "an error"} {
		require.Contains(t, rows[i], want)
	}
	require.Equal(t, 2, strings.Count(body, "<circle"))
}

func TestWhenShowsOneInstantForMostTimes(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	_, body := h.when(t, "zone", "Asia/Tokyo", "at", "2026-06-01 09:00")
	require.Contains(t, body, "Clocks show this time once")
	require.Equal(t, 1, strings.Count(body, `<th scope="row">`))
	require.Contains(t, body, "2026-06-01T00:00:00.000Z")
	_, body = h.when(t, "zone", "Pacific/Apia", "at", "2011-12-30T09:00")
	require.Contains(t, body, "gap of 24 h")
}

func TestWhenShowsTheOccurrencesOfARule(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	for _, one := range []struct{ name, rule, on, first, last string }{
		{"daily", "daily", "", "2026-01-30T09:00", "2026-02-10T09:00"},
		{"weekly", "weekly", "mon,thu", "2026-02-02T09:00", "2026-03-12T09:00"},
		{"monthly", "monthly", "-1", "2026-01-31T09:00", "2026-12-31T09:00"},
		{"yearly", "yearly", "02-29", "2026-02-28T09:00", "2037-02-28T09:00"},
		{"RRULE", "FREQ=WEEKLY;BYDAY=MO", "", "2026-02-02T09:00", "2026-04-20T09:00"},
	} {
		status, body := h.when(t, "zone", "Europe/Berlin", "rule", one.rule, "on", one.on, "from", "2026-01-30", "at", "09:00")
		require.Equal(t, http.StatusOK, status, one.name)
		rows := strings.Split(body, `<th scope="row">`)[1:]
		require.Len(t, rows, 12, one.name)
		require.Contains(t, rows[0], one.first, one.name)
		require.Contains(t, rows[11], one.last, one.name)
	}
	_, body := h.when(t, "zone", "Europe/Berlin", "rule", "0 9 * * mon", "from", "2026-01-30")
	require.Contains(t, body, "2026-02-02T09:00")
	_, body = h.when(t, "zone", "Europe/Berlin", "rule", "daily", "at", "2026-03-28T02:30", "gap", "backward")
	require.Contains(t, body, `<span class="status late">gap</span> moved back 60 min`)
	_, body = h.when(t, "zone", "Europe/Berlin", "rule", "daily", "at", "23:30", "quiet", "22:00-08:00", "from", "2026-03-01")
	require.Contains(t, body, "moved from 23:30 to 08:00 because of quiet hours")
}

func TestWhenSaysWhyARuleEnds(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	_, body := h.when(t, "zone", "Europe/Berlin", "rule", "FREQ=DAILY;COUNT=2", "from", "2026-03-01")
	require.Equal(t, 2, strings.Count(body, `<th scope="row">`))
	require.Contains(t, body, "There are no further occurrences.")
	_, body = h.when(t, "zone", "Europe/Berlin", "rule", "daily", "at", "02:30", "from", "2026-03-28", "gap", "reject")
	require.Equal(t, 1, strings.Count(body, `<th scope="row">`))
	require.Contains(t, body, "The next one is refused by gap reject")
	_, body = h.when(t, "zone", "Europe/Berlin", "rule", "daily", "at", "02:30", "from", "2026-10-25", "fold", "reject")
	require.Contains(t, body, "refused by fold reject")
	_, body = h.when(t, "zone", "UTC", "rule", "0 0 30 2 *")
	require.Contains(t, body, "The rule has no occurrence")
}

func TestWhenRefusesWrongFields(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	status, body := h.when(t, "zone", "Europe/Berln", "at", "25:00", "from", "2026-02-30", "gap", "sideways", "fold", "x", "rule", "monthly", "on", "x", "every", "0", "quiet", "1")
	require.Equal(t, http.StatusBadRequest, status)
	for _, sentence := range []string{
		"did you mean", "at: &#34;25:00&#34; is not a time of day", "February 2026 has 28 days", "gap is &#34;sideways&#34;, which is no policy.",
		"fold is", "on: &#34;x&#34; is not a day of the month", "every: &#34;0&#34; is not a whole number", "quiet: &#34;1&#34;",
	} {
		require.Contains(t, body, sentence)
	}
	for _, kept := range []string{"Europe/Berln", "25:00", "2026-02-30", "monthly"} {
		require.Contains(t, body, `value="`+kept+`"`)
	}
	require.Contains(t, body, "<option selected>sideways</option>")
	require.Contains(t, body, "Use Europe/Berlin")
	for _, one := range [][]string{
		{"at", "2026-01-01T09:00", "from", "2026-01-01"}, {"at", "09:00", "on", "mon"}, {"at", "09:00", "every", "2"},
		{"at", "09:00", "quiet", "22:00-08:00"}, {"rule", "daily", "on", "mon"}, {"rule", "fortnightly"}, {"rule", "FREQ=NEVER"},
		{"rule", "0 9 * *"}, {"rule", "0 9 * * *", "at", "09:00"}, {"rule", "FREQ=DAILY", "on", "mon"}, {"rule", "monthly", "on", "32"},
		{"rule", "FREQ=DAILY;BYMONTHDAY=1" + strings.Repeat(",1", 1000/2)}, {"at", "2026-13-01T09:00"}, {"rule", "weekly", "on", "mo"},
	} {
		status, body := h.when(t, one...)
		require.Equal(t, http.StatusBadRequest, status, one)
		require.Contains(t, body, `role="alert"`, one)
	}
}

func TestWhenWithoutAQuestionHasExamples(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	_, body := h.get(t, "/when")
	require.Contains(t, body, "Ask when clocks show a time")
	for _, link := range anyLink.FindAllStringSubmatch(body, -1) {
		if strings.HasPrefix(link[1], "./when?") {
			status, _ := h.get(t, strings.ReplaceAll(link[1][1:], "&amp;", "&"))
			require.Equal(t, http.StatusOK, status)
		}
	}
}

func TestClocksAreDrawnOverUTC(t *testing.T) {
	t.Parallel()
	wall, err := calendar.ParseWallTime("2026-03-08T02:30:00")
	require.NoError(t, err)
	one := oneTimeOf(mustZone(t, "America/New_York"), wall, whenFields{Gap: "forward", Fold: "first"})
	d := one.Drawing
	require.Len(t, d.Lines, 2)
	require.Len(t, d.Bands, 1)
	require.Greater(t, d.Asked, d.Bands[0].Y)
	require.Less(t, d.Asked, d.Bands[0].Y+d.Bands[0].Height)
	require.Equal(t, time.Date(2026, time.March, 8, 7, 0, 0, 0, time.UTC), d.Parts[0].Until)
	require.Equal(t, "2026-03-08T02:00:00", d.Parts[0].Last.String())
	require.Equal(t, "2026-03-08T03:00:00", d.Parts[1].Wall.String())
	for _, dot := range d.Dots {
		require.True(t, dot.X >= clocksLeft && dot.X <= clocksWidth && dot.Y >= 0 && dot.Y <= clocksHeight, dot)
	}
}
