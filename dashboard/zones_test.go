package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// usersIn returns numbers of users by zone.
func usersIn(counts map[string]int64) *ops.Stats {
	var s ops.Stats
	for zone, n := range counts {
		s.Zones = append(s.Zones, ops.ZoneCount{Zone: zone, Users: ops.Count{N: n}})
	}
	return &s
}

// recordOf returns the rules of this program as a database stores them.
func recordOf(t *testing.T, zone string) almanac.ZoneRecord {
	t.Helper()
	rules, err := mustZone(t, zone).Rules(2026)
	require.NoError(t, err)
	return almanac.ZoneRecord{ZoneRules: rules}
}

func TestZonesAreSortedByUsers(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	reader.stats = usersIn(map[string]int64{"Asia/Tokyo": 2, "Europe/London": 7, "America/New_York": 2})
	_, body := h.getRead(t, "/zones")
	require.Contains(t, body, "1 to 3 of 3 zones")
	london, newYork, tokyo := strings.Index(body, ">Europe/London<"), strings.Index(body, ">America/New_York<"), strings.Index(body, ">Asia/Tokyo<")
	require.True(t, 0 < london && london < newYork && newYork < tokyo, body)
	require.Contains(t, body, `href="./zones/Asia/Tokyo"`)
	require.Contains(t, body, "none in 20 years")
	require.Contains(t, body, "This program has release "+recordOf(t, "Asia/Tokyo").Version+".")
}

func TestZonesAreFoundByName(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	reader.stats = usersIn(map[string]int64{"Asia/Tokyo": 2})
	_, body := h.getRead(t, "/zones?q=YORK")
	require.Contains(t, body, "America/New_York")
	require.NotContains(t, body, "Asia/Tokyo")
	_, body = h.getRead(t, "/zones?q=Asia/Tokyp")
	require.Contains(t, body, "Search for Asia/Tokyo")
	_, body = h.getRead(t, "/zones?q=zzzzzzzzzz")
	require.Contains(t, body, "No zone has this name.")
}

func TestZonesComeInPages(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	_, body := h.getRead(t, "/zones?q=/")
	require.Equal(t, zonesShown, strings.Count(body, `<th scope="row">`))
	require.Contains(t, body, "from=50&amp;q=%2F")
	require.Less(t, len(body), 60_000)
	all := strings.Count(strings.Join(calendar.TimezoneNames(), "\n"), "/")
	require.Contains(t, body, "1 to 50 of ")
	_, body = h.getRead(t, fmt.Sprintf("/zones?q=/&from=%d", all*2))
	require.Contains(t, body, "No zone has this name")
	status, body := h.getRead(t, "/zones?q=/&from=-1")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, `value="/"`)
}

func TestZonesWithoutUsersSayWhatToDo(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	_, body := h.getRead(t, "/zones")
	require.Contains(t, body, "There are no users yet.")
	_, body = h.getRead(t, "/zones?doubt=1")
	require.Contains(t, body, "No zone is in doubt.")
}

func TestZonesShowDoubts(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	differs, recheck, marked := recordOf(t, "Europe/Paris"), recordOf(t, "Europe/Rome"), recordOf(t, "Europe/Oslo")
	early := recordOf(t, "Europe/Madrid")
	differs.Fingerprint++
	differs.Version = "2999z"
	recheck.Recheck = zonesNow
	reader.book = &almanac.ZoneBook{
		Rules: []almanac.ZoneRecord{recordOf(t, "Asia/Tokyo"), marked, differs, recheck, early}, Now: zonesNow,
		Marks: []calendar.ZoneRules{{Zone: "Europe/Oslo", Version: "2020a"}, early.ZoneRules},
	}
	reader.stats = usersIn(map[string]int64{"Asia/Tokyo": 2, "Europe/Paris": 1, "Mars/Base": 1})
	_, body := h.getRead(t, "/zones")
	require.Contains(t, body, "3 in doubt")
	require.Contains(t, body, "The rules differ, and this program&#39;s are not newer.")
	require.Contains(t, body, "This program has no data for the zone.")
	_, body = h.getRead(t, "/zones?doubt=1")
	require.Contains(t, body, "Some events follow other rules (2020a).")
	for _, sure := range []string{"Asia/Tokyo", "Europe/Rome", "Europe/Madrid"} {
		require.NotContains(t, body, sure)
	}
	_, body = h.getRead(t, "/zones/Europe/Rome")
	require.Contains(t, body, "Pending events are checked again after 2026-11-25 12:00:00 UTC.")
	_, body = h.getRead(t, "/zones/Europe/Madrid")
	require.Contains(t, body, "Some events were planned before the database had these rules.")
	_, body = h.getRead(t, "/zones/Europe/Paris")
	require.Contains(t, body, "The rules do not agree.")
	require.Contains(t, body, "2999z")
	_, body = h.getRead(t, "/zones/Asia/Tokyo")
	require.Contains(t, body, "The rules agree. They were compared until 2036-01-01 00:00:00 UTC.")
}

func TestStandingSaysWhichRulesAreNewer(t *testing.T) {
	t.Parallel()
	s := zoneStanding{Data: true, Rules: true, Newer: true}
	require.Equal(t, []string{"The rules differ, and this program's are newer."}, s.Doubts())
	s.Agree = true
	require.Empty(t, s.Doubts())
}

func TestAZoneShowsItsNextTenYears(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	reader.stats = usersIn(map[string]int64{"Europe/London": 7})
	status, body := h.getRead(t, "/zones/europe/london")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<h1>Europe/London</h1>")
	require.Contains(t, body, `<p class="big">7</p>`)
	require.Equal(t, 20, strings.Count(body, "of 1 h: clocks"))
	require.Contains(t, body, `href="../../calendar?zone=Europe%2FLondon"`)
	require.Contains(t, body, "The database has no rules for this zone yet.")
	_, body = h.getRead(t, "/zones/Asia/Calcutta")
	require.Contains(t, body, `<a href="../../zones/Asia/Kolkata">`)
	require.Contains(t, body, "Clocks do not change in the next ten years.")
}

func TestAnUnknownZoneIsNotFound(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	reader.stats = usersIn(map[string]int64{"Mars/Base": 1})
	status, body := h.getRead(t, "/zones/Europe/Londn")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "did you mean &#34;Europe/London&#34;?")
	status, body = h.getRead(t, "/zones/Mars/Base") // a zone of newer data
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "This program has no data for the zone.")
	require.NotContains(t, body, "As a table")
}

func TestOffsetsAreDrawn(t *testing.T) {
	t.Parallel()
	z := mustZone(t, "Europe/London")
	from := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	drawing := drawOffsets(z, changesIn(z, from, from.AddDate(1, 0, 0)), from, from.AddDate(1, 0, 0))
	require.Regexp(t, `^M60 84\.0H19\d\.\dV12\.0H5\d\d\.\dV84\.0H640$`, drawing.Path)
	require.Equal(t, "+00:00", drawing.Ys[0].Text)
	require.Equal(t, "+01:00", drawing.Ys[1].Text)
}
