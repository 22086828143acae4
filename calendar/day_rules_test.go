package calendar_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
)

// releaseOf returns a work calendar of a release with holidays.
func releaseOf(t require.TestingT, release string, holidays ...calendar.Date) *calendar.WorkCalendar {
	o := calendar.WorkCalendarOptions{Name: "DE", Release: release, Until: date(2030, 12, 31)}
	for _, d := range holidays {
		o.Holidays = append(o.Holidays, calendar.NamedDay{Date: d})
	}
	c, err := calendar.NewWorkCalendar(o)
	require.NoError(t, err)
	return c
}

func TestANewerReleaseReplacesAnOlderOne(t *testing.T) {
	t.Parallel()
	first := releaseOf(t, "2026-01-01", date(2027, 5, 3)).Rules(2026)
	second := releaseOf(t, "2026-02-01", date(2027, 5, 4)).Rules(2026)
	third := releaseOf(t, "2026-02-01.1", date(2027, 5, 4), date(2028, 5, 4)).Rules(2027)

	stored, err := first.Replace(calendar.DayRules{})
	require.NoError(t, err)
	require.Equal(t, first, stored)
	stored, err = second.Replace(stored)
	require.NoError(t, err)
	require.Equal(t, []string{"2026-01-01", "2026-02-01", "2026-01-01"}, stored.Changed[:3])
	again, err := first.Replace(stored)
	require.NoError(t, err)
	require.Equal(t, stored, again, "an older one changes nothing")
	stored, err = third.Replace(stored)
	require.NoError(t, err)
	require.Equal(t, []string{"2026-02-01", "2026-02-01.1", "2026-01-01"}, stored.Changed[:3])
	require.Equal(t, "2026-02-01.1", stored.Changed[len(stored.Changed)-1], "a year that was not compared")

	later, err := releaseOf(t, "2026-02-01.1", date(2027, 5, 4), date(2028, 5, 4)).Rules(2028).Replace(stored)
	require.NoError(t, err)
	require.Equal(t, []any{2028, "2026-02-01.1"}, []any{later.Since, later.Changed[0]}, "the years move on")
	again, err = third.Replace(later)
	require.NoError(t, err)
	require.Equal(t, later, again, "the years do not move back")
	require.Equal(t, []int{1, 9987}, []int{releaseOf(t, "2026-01-01").Rules(-1).Since, releaseOf(t, "2026-01-01").Rules(9999).Since}, "years that have all their days")

	other := releaseOf(t, "2026-02-01.1", date(2027, 5, 4), date(2029, 5, 4)).Rules(2027)
	kept, err := other.Replace(stored)
	require.Equal(t, stored, kept)
	var differs *calendar.ReleaseError
	require.ErrorAs(t, err, &differs)
	require.Equal(t, calendar.ReleaseError{Name: "DE", Release: "2026-02-01.1", Year: 2028}, *differs)
	require.Equal(t, "calendar: release 2026-02-01.1 of DE differs about 2028 from the same release of another program: a changed calendar needs a later release", err.Error())
}

// A plan is outdated if a year that it looked at has changed since its release.
func TestOutdatedPlansLookedAtAChangedYear(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stored := calendar.DayRules{}
		releases := []string{"2026-01-01", "2026-02-01", "2026-02-01.1", "2026-03-01"}
		var all []calendar.DayRules
		for _, release := range releases {
			var holidays []calendar.Date
			for year := 2026; year < 2031; year++ {
				if rapid.IntRange(0, 2).Draw(t, "holiday") == 0 {
					holidays = append(holidays, date(year, 5, 3))
				}
			}
			rules := releaseOf(t, release, holidays...).Rules(2026)
			all = append(all, rules)
			var err error
			stored, err = rules.Replace(stored)
			require.NoError(t, err)
		}
		by := rapid.IntRange(0, len(releases)-1).Draw(t, "by")
		from := rapid.IntRange(2026, 2030).Draw(t, "from")
		until := rapid.IntRange(from, 2030).Draw(t, "until")
		differs := false
		for i := by; i < len(all); i++ {
			for year := from; year <= until; year++ {
				differs = differs || all[i].Hashes[year-2026] != all[by].Hashes[year-2026]
			}
		}
		c := calendar.Consulted{Calendars: "AT@2020-01-01,DE@" + releases[by], From: date(from, 12, 31), Until: date(until, 12, 31)}
		require.Equal(t, differs, stored.Outdates(c))
		c.Until = date(2060, 1, 1)
		require.Equal(t, by < len(releases)-1, stored.Outdates(c), "years that are not compared")
		c.Calendars = "DEU@2020-01-01"
		require.False(t, stored.Outdates(c))
	})
}

// A holiday that a release without a place in the store has, and the next one has not, leaves no plan behind.
func TestPlansOfAReleaseThatWasNeverStoredAreOutdated(t *testing.T) {
	t.Parallel()
	stored := releaseOf(t, "2026-01-01").Rules(2026)
	for _, release := range []string{"2026-03-01", "2026-04-01"} {
		var err error
		stored, err = releaseOf(t, release).Rules(2026).Replace(stored)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"2026-01-01", "2026-03-01", "2026-04-01"}, stored.Releases)
	for release, outdated := range map[string]bool{"2025-12-01": true, "2026-01-01": false, "2026-02-01": true, "2026-03-01": false, "2026-05-01": false} {
		c := calendar.Consulted{Calendars: "DE@" + release, From: date(2027, 5, 1), Until: date(2027, 5, 4)}
		require.Equal(t, outdated, stored.Outdates(c), release)
	}
	for day := range 20 {
		var err error
		stored, err = releaseOf(t, date(2027, 1, 1).AddDays(day).String()).Rules(2026).Replace(stored)
		require.NoError(t, err)
	}
	require.Equal(t, []any{20, "2027-01-20"}, []any{len(stored.Releases), stored.Releases[19]})
}

func TestRulesByAnotherCalendarSayThatTheyConsultedIt(t *testing.T) {
	t.Parallel()
	info := lunar.Info()
	at := calendar.Clock{Hour: 9}
	rule := calendar.YearlyBy{System: lunar, Month: 1, Day: 1, At: at}
	next, err := calendar.Next(rule, zone(t, "Asia/Tokyo"), calendar.Policies{}, instant(t, "2026-09-30T16:00:00Z"))
	require.NoError(t, err)
	require.Equal(t, "system:"+info.Name+"@"+info.Release, next.Consulted.Calendars)
	require.Equal(t, []calendar.Date{date(2026, 10, 1), next.Wall.Date.AddDays(60)}, []calendar.Date{next.Consulted.From, next.Consulted.Until})
	rules := calendar.SystemRules(lunar, 2026)
	require.Equal(t, "system:"+info.Name, rules.Name)
	require.NotEqual(t, rules.Hashes[0], rules.Hashes[1])
	_, err = lunar.Day(rules.Until)
	require.NoError(t, err, "the last day of the calendar")
	_, err = lunar.Day(rules.Until.AddDays(1))
	require.ErrorIs(t, err, calendar.ErrOutOfRange)
	same, err := rules.Replace(rules)
	require.NoError(t, err)
	require.Equal(t, rules, same)
}

// Days that no authority has published can have another date in a later release.
func TestSlotsOnProvisionalDaysOfACalendarAreProvisional(t *testing.T) {
	t.Parallel()
	info := lunar.Info()
	rule := calendar.YearlyBy{Month: 1, Day: 1, At: calendar.Clock{Hour: 9}}
	next := func() calendar.Occurrence {
		rule.System = named{info: info}
		o, err := calendar.Next(rule, zone(t, "UTC"), calendar.Policies{}, instant(t, "2026-09-30T16:00:00Z"))
		require.NoError(t, err)
		return o
	}
	require.Equal(t, "exact", next().Reason())
	info.Provisional = next().Wall.Date.AddDays(1)
	require.False(t, next().Consulted.Provisional)
	info.Provisional = next().Wall.Date
	require.True(t, next().Consulted.Provisional)
	require.Equal(t, "exact; provisional, because not all days of the calendar are known yet", next().Reason())
}

func TestParseConsultedRefusesOtherTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"DE", "DE 2026-01-01 2026-01-02", "DE@2026-01-01 2026-01-01", "DE@2026-01-01 2026-01-01 2026-13-01", "DE@1,AT 2026-01-01 2026-01-02", "DE@1 2026-01-01 2026-01-02 x"} {
		_, err := calendar.ParseConsulted(text)
		var format *calendar.FormatError
		require.ErrorAs(t, err, &format, text)
	}
	none, err := calendar.ParseConsulted("")
	require.NoError(t, err)
	require.Zero(t, none)
}

// toTheEnd is a copy of the Gregorian calendar that goes on to its end, some days later.
type toTheEnd struct {
	gregorianSystem
	by int
}

func (s toTheEnd) Info() calendar.SystemInfo {
	info := s.gregorianSystem.Info()
	info.Last = 9999
	return info
}

func (s toTheEnd) Date(d calendar.SystemDate) (calendar.Date, error) {
	date, err := s.gregorianSystem.Date(d)
	return date.AddDays(s.by), err
}

// What was looked up can be stored, also at the beginning and at the end of all dates.
func TestConsultedDaysAreDates(t *testing.T) {
	t.Parallel()
	nine := calendar.Clock{Hour: 9}
	last, err := calendar.YearlyBy{System: toTheEnd{}, Month: 12, Day: 31, At: nine}.After(wall(t, "9999-12-01T00:00:00"), calendar.Policies{})
	require.NoError(t, err)
	first, err := calendar.Next(calendar.Within{Of: calendar.Daily{At: nine}, WorkDays: releaseOf(t, "2026-01-01")}, zone(t, "UTC"), calendar.Policies{}, time.Time{}.Add(-time.Hour))
	require.NoError(t, err)
	require.Equal(t, []calendar.Date{date(1, 1, 1), date(9999, 12, 31)}, []calendar.Date{first.Consulted.From, last.Consulted.Until})
	for _, c := range []calendar.Consulted{first.Consulted, last.Consulted} {
		again, err := calendar.ParseConsulted(c.String())
		require.NoError(t, err)
		require.Equal(t, c, again)
	}
	require.Equal(t, date(9999, 12, 31), calendar.SystemRules(toTheEnd{by: 1}, 2026).Until)
}
