package icalendar_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/icalendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

func TestCalendarHasTheStoredAndTheNextOccurrences(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{})
	ada := s.ada(t)
	text, err := s.feed(t, icalendar.Settings{Name: "Acme; all", Ahead: 3}).Calendar(t.Context(), ada)
	require.NoError(t, err)
	head, all := parse(t, string(text))
	require.Equal(t, entry{
		"VERSION": "2.0", "PRODID": "-//Almanac//Calendar feed//EN", "CALSCALE": "GREGORIAN", "NAME": `Acme\; all`, "X-WR-CALNAME": `Acme\; all`,
		"REFRESH-INTERVAL;VALUE=DURATION": "PT360M", "X-PUBLISHED-TTL": "PT360M",
	}, head)
	require.Equal(t, []string{"20270315T130000Z", "20280315T130000Z", "20290315T130000Z"}, column(all, "DTSTART"))
	require.Len(t, map[string]bool{all[0]["UID"]: true, all[1]["UID"]: true, all[2]["UID"]: true}, 3)
	for _, e := range all {
		require.Equal(t, "BIRTHDAY", e["SUMMARY"])
		require.Equal(t, "CONFIRMED", e["STATUS"])
		require.Equal(t, "20270110T000000Z", e["DTSTAMP"])
		require.Equal(t, e["DTSTAMP"], e["LAST-MODIFIED"])
	}
}

// A program that does not know the calendar of a birthday shows what another program stored, and other types.
func TestCalendarOfAUserOfAnUnknownCalendar(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{}, daily("NIGHTLY", almanac.Execution{}))
	u := almanactest.User()
	var err error
	u.DateOfBirth, err = almanac.StoredDateOfBirth("5774-05L-08", "unheard-of")
	require.NoError(t, err)
	e := almanactest.Event(s.now.AddDate(0, 1, 0), almanactest.For(u), almanactest.Of("5787")) // by another program
	created, err := s.store.CreateUsers(t.Context(), []almanac.UserWithEvents{{User: u, Events: []almanac.Event{e}}})
	require.NoError(t, err)
	require.NoError(t, created[0].Err)
	all := entries(t, s.feed(t, icalendar.Settings{Ahead: 2}), u.ID)
	require.ElementsMatch(t, []string{"BIRTHDAY", "NIGHTLY", "NIGHTLY"}, column(all, "SUMMARY"))
}

// The calendar shows Gregorian instants, so each event says its day by the calendar of the user.
func TestCalendarHasBothDates(t *testing.T) {
	t.Parallel()
	require.NoError(t, calendar.RegisterSystems(calendartest.Lunar{}))
	s := newStage(t, almanac.Birthday{})
	created, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Levi", DateOfBirth: "1986-03L-08", Calendar: "lunar", Timezone: "UTC"})
	require.NoError(t, err)
	all := entries(t, s.feed(t, icalendar.Settings{Ahead: 3}), created.User.ID)
	require.Len(t, all, 3)
	for _, e := range all {
		start, err := time.Parse("20060102T150405Z", e["DTSTART"])
		require.NoError(t, err)
		day, err := calendartest.Lunar{}.Day(calendar.DateOf(start))
		require.NoError(t, err)
		require.Equal(t, start.Format(time.DateOnly)+`\, `+day.In(calendartest.Lunar{}), e["DESCRIPTION"])
	}
	for _, e := range entries(t, s.feed(t, icalendar.Settings{}), s.ada(t)) {
		require.NotContains(t, e, "DESCRIPTION")
	}
}

// Years of two calendars can be the same text, and both are in the feed after a change of the calendar.
func TestUIDsOfTwoCalendarsDiffer(t *testing.T) {
	t.Parallel()
	require.NoError(t, calendar.RegisterSystems(calendartest.Lunar{}))
	s := newStage(t, almanac.Birthday{})
	created, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Levi", DateOfBirth: "1990-01-08", Calendar: "lunar", Timezone: "UTC"})
	require.NoError(t, err)
	lunar := created.Events[0]
	s.pass(t, 40*24*time.Hour) // the birthday on 2027-02-10 is delivered
	born, by := "1990-02-10", ""
	changed, err := s.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{DateOfBirth: &born, Calendar: &by})
	require.NoError(t, err)
	require.Equal(t, []string{"2028", "2028"}, []string{lunar.OccurrenceKey, changed.Added[0].OccurrenceKey})

	uids := column(entries(t, s.feed(t, icalendar.Settings{Ahead: 2}), created.User.ID), "UID")
	require.Len(t, uids, 3)
	require.NotContains(t, uids[1:], uids[0])
	require.Equal(t, uuid.NewSHA1(created.User.ID, []byte("BIRTHDAY\x00\x00\x002028")).String(), uids[1], "those of the Gregorian calendar stay as they were")
}

// A calendar is of one user, whatever else is stored.
func TestCalendarHasNoEventOfOtherUsers(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{})
	ada, f := s.ada(t), s.feed(t, icalendar.Settings{Ahead: 2})
	alone := column(entries(t, f, ada), "UID")
	for range 2 {
		_, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Grace", LastName: "Hopper", DateOfBirth: "1906-12-09", Timezone: "UTC"})
		require.NoError(t, err)
	}
	require.Equal(t, alone, column(entries(t, f, ada), "UID"))
}

// A calendar program recognizes an event by its UID, and takes a lower SEQUENCE for old.
func TestMovedAndStoredOccurrencesKeepTheirUID(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{})
	ada, f := s.ada(t), s.feed(t, icalendar.Settings{Ahead: 2})
	before := entries(t, f, ada)

	zone := "Asia/Tokyo"
	_, err := s.UpdateUser(t.Context(), ada, almanac.ProfileChange{Timezone: &zone})
	require.NoError(t, err)
	moved := entries(t, f, ada)
	require.Equal(t, column(before, "UID"), column(moved, "UID"))
	require.Equal(t, []string{"20270315T000000Z", "20280315T000000Z"}, column(moved, "DTSTART"))
	for i := range moved {
		require.Greater(t, moved[i].sequence(t), before[i].sequence(t))
	}

	s.pass(t, 70*24*time.Hour) // the birthday of 2027 is delivered, and that of 2028 is stored
	stored := entries(t, f, ada)
	require.Len(t, stored, 3)
	require.Equal(t, column(moved, "UID"), column(stored[:2], "UID"))
	require.Greater(t, stored[0].sequence(t), moved[0].sequence(t))
	require.GreaterOrEqual(t, stored[1].sequence(t), moved[1].sequence(t))
	require.Equal(t, "20270321T000000Z", stored[1]["DTSTAMP"])
}

// Whatever happens to a user: an occurrence that stays in the calendar has a SEQUENCE that
// does not decrease, and no occurrence is in the calendar twice.
func TestSequenceNeverDecreases(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newStage(t, almanac.Birthday{}, daily("DAILY", almanac.Execution{}))
		ada, f := s.ada(t), s.feed(t, icalendar.Settings{Ahead: 4})
		seen := map[string]int{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			step(t, s, ada)
			present := map[string]int{}
			for _, e := range entries(t, f, ada) {
				require.NotContains(t, present, e["UID"])
				present[e["UID"]] = e.sequence(t)
				require.GreaterOrEqual(t, present[e["UID"]], seen[e["UID"]])
			}
			seen = present
		}
	})
}

// step makes one random change.
func step(t *rapid.T, s *stage, ada uuid.UUID) {
	dates := []string{"1990-03-15", "1990-01-20", "1990-12-31", "1990-01-10"}
	zones := []string{"Pacific/Kiritimati", "America/Los_Angeles", "Europe/London"}
	ctx := context.Background()
	var err error
	switch rapid.IntRange(0, 6).Draw(t, "step") {
	case 0:
		date := rapid.SampledFrom(dates).Draw(t, "date")
		_, err = s.UpdateUser(ctx, ada, almanac.ProfileChange{DateOfBirth: &date})
	case 1:
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		_, err = s.UpdateUser(ctx, ada, almanac.ProfileChange{Timezone: &zone})
	case 2:
		_, err = s.OptOut(ctx, ada, almanac.OptOut{Type: "DAILY"})
	case 3:
		_, err = s.OptIn(ctx, ada, almanac.OptOut{Type: "DAILY"})
	case 4:
		s.fails = rapid.Bool().Draw(t, "fails")
		s.pass(t, time.Duration(rapid.IntRange(0, 400).Draw(t, "hours"))*time.Hour)
	case 5:
		_, err = s.Reschedule(ctx, ada)
	case 6:
		found, errFind := s.store.Find(ctx, almanac.And{almanac.ForUser(ada), almanac.InStatus(almanac.Pending)}, almanac.Page{})
		require.NoError(t, errFind)
		for _, e := range found.Items {
			if _, err = s.Cancel(ctx, e.ID, almanac.CancelOptions{}); err == nil && rapid.Bool().Draw(t, "requeue") {
				_, err = s.Requeue(ctx, e.ID, almanac.ForceOptions{})
			}
		}
	}
	if !errors.Is(err, almanac.ErrOptedOut) {
		require.NoError(t, err)
	}
}

func TestCancelledEventIsShownUntilItIsRequeued(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{})
	ada, f := s.ada(t), s.feed(t, icalendar.Settings{Ahead: 1})
	found, err := s.store.Find(t.Context(), almanac.ForUser(ada), almanac.Page{})
	require.NoError(t, err)
	uid := entries(t, f, ada)[0]["UID"]
	_, err = s.Cancel(t.Context(), found.Items[0].ID, almanac.CancelOptions{})
	require.NoError(t, err)
	cancelled := entries(t, f, ada)
	require.Equal(t, []string{"CANCELLED", "CONFIRMED"}, column(cancelled, "STATUS")) // 2027, and 2028 after it
	require.Equal(t, uid, cancelled[0]["UID"])

	_, err = s.Requeue(t.Context(), found.Items[0].ID, almanac.ForceOptions{})
	require.NoError(t, err)
	repeated := entries(t, f, ada)
	require.Equal(t, []string{"CONFIRMED", "CONFIRMED"}, column(repeated, "STATUS"))
	require.Equal(t, column(cancelled, "DTSTART"), column(repeated, "DTSTART"))
	require.NotEqual(t, uid, repeated[0]["UID"])
}

func TestOptedOutTypesAreLeftOut(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{}, daily("DAILY", almanac.Execution{}), daily("LAW", almanac.Execution{OverrideOptOuts: true}))
	ada, f := s.ada(t), s.feed(t, icalendar.Settings{Ahead: 1})
	s.pass(t, 24*time.Hour) // an ended event of each type that is due each day
	require.Subset(t, column(entries(t, f, ada), "SUMMARY"), []string{"BIRTHDAY", "DAILY", "LAW"})
	for _, what := range []almanac.OptOut{{Type: "BIRTHDAY", Channel: "mail"}, {Type: "DAILY"}} {
		_, err := s.OptOut(t.Context(), ada, what)
		require.NoError(t, err)
	}
	summaries := column(entries(t, f, ada), "SUMMARY")
	require.Subset(t, summaries, []string{"BIRTHDAY", "LAW"}, "another channel is another matter")
	require.NotContains(t, summaries, "DAILY")
	_, err := s.OptOut(t.Context(), ada, almanac.OptOut{})
	require.NoError(t, err)
	summaries = column(entries(t, f, ada), "SUMMARY")
	require.NotContains(t, summaries, "BIRTHDAY")
	require.Contains(t, summaries, "LAW")
}

func TestSettingsChooseTypesSummariesAndThePast(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{}, daily("DAILY", almanac.Execution{}))
	ada := s.ada(t)
	for range 5 {
		s.pass(t, 24*time.Hour)
	}
	f := s.feed(t, icalendar.Settings{
		Types: []string{"DAILY"}, Ahead: 2, Past: 48 * time.Hour, Refresh: 90 * time.Minute,
		Summary: func(u almanac.User, e almanac.Event) string { return u.FirstName + " " + e.OccurrenceKey },
	})
	text, err := f.Calendar(t.Context(), ada)
	require.NoError(t, err)
	head, all := parse(t, string(text))
	require.Equal(t, "PT90M", head["X-PUBLISHED-TTL"])
	require.Equal(t, []string{"20270113T140000Z", "20270114T140000Z", "20270115T140000Z", "20270116T140000Z"}, column(all, "DTSTART"))
	require.Contains(t, all[0]["SUMMARY"], "Ada 2027-01-13")
}

// However many events a user has: one page is read, of the newest events, without other types.
func TestOnePageOfTheNewestEventsIsRead(t *testing.T) {
	t.Parallel()
	s := newStage(t, daily("DAILY", almanac.Execution{}), daily("HIDDEN", almanac.Execution{}))
	ada := s.ada(t)
	for range 5 {
		s.pass(t, 24*time.Hour)
	}
	reader := &shortPages{Reader: s.store}
	f, err := icalendar.New(s, reader, s.registry, icalendar.Settings{Types: []string{"DAILY"}, Ahead: 1})
	require.NoError(t, err)

	require.Equal(t, []string{"20270114T140000Z", "20270115T140000Z"}, column(entries(t, f, ada), "DTSTART"))
	require.Len(t, reader.found, 2)
	for _, e := range reader.found {
		require.Equal(t, "DAILY", e.Type)
	}
}

// shortPages is a reader whose pages have two events. It records them.
type shortPages struct {
	icalendar.Reader
	found []almanac.Event
}

func (r *shortPages) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	page.Limit = 2
	found, err := r.Reader.Find(ctx, spec, page)
	r.found = append(r.found, found.Items...)
	return found, err
}

func TestSeriesOfOneHandlerAreApart(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Reminder{})
	created, err := s.CreateUser(t.Context(), almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-03-15", Timezone: "Europe/London",
		Attributes: []byte(`{"reminders": {"tax": {"at": "2027-02-01T09:00:00"}, "rent": {"at": "2027-02-01T09:00:00"}}}`),
	})
	require.NoError(t, err)
	all := entries(t, s.feed(t, icalendar.Settings{}), created.User.ID)
	require.Equal(t, []string{"20270201T090000Z", "20270201T090000Z"}, column(all, "DTSTART"))
	require.NotEqual(t, all[0]["UID"], all[1]["UID"])
}

// A policy that rejects a wall time ends the series in the calendar, and not the calendar.
func TestRejectedWallTimesEndTheirSeriesOnly(t *testing.T) {
	t.Parallel()
	rejecting := almanac.Recurring{Type: "STRICT", Policies: calendar.Policies{Gap: calendar.GapReject},
		Rule: func(almanac.User) (calendar.Recurrence, error) {
			return calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}, nil
		}}
	s := newStage(t, almanac.Birthday{}, rejecting)
	ada := s.ada(t)
	s.pass(t, 61*24*time.Hour) // two days before clocks in New York skip 02:30
	all := entries(t, s.feed(t, icalendar.Settings{Ahead: 5, Past: time.Hour}), ada)
	summaries := column(all, "SUMMARY")
	require.Len(t, summaries, 7)
	require.Contains(t, summaries, "STRICT")
}

// A year of five digits is none that a calendar program can read.
func TestTheFeedEndsWithTheCalendar(t *testing.T) {
	t.Parallel()
	evening := almanac.Recurring{Type: "EVENING", Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Daily{At: calendar.Clock{Hour: 23, Minute: 30}}, nil
	}}
	s := newStage(t, evening)
	s.now = time.Date(9999, time.December, 30, 12, 0, 0, 0, time.UTC)
	ada := s.ada(t)

	require.Equal(t, []string{"99991231T043000Z"}, column(entries(t, s.feed(t, icalendar.Settings{Ahead: 5}), ada), "DTSTART"))

	s.pass(t, 24*time.Hour) // the last event is delivered, and none follows it
	found, err := s.store.Find(t.Context(), almanac.ForUser(ada), almanac.Page{})
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	require.Equal(t, almanac.Completed, found.Items[0].Status)
}

func TestErrorsOfTheRepositoryAndOfHandlersAreReturned(t *testing.T) {
	t.Parallel()
	broken := errors.New("no rule today")
	failing := false
	s := newStage(t, almanac.Recurring{Type: "RULED", Rule: func(almanac.User) (calendar.Recurrence, error) {
		if failing {
			return nil, broken
		}
		return calendar.Daily{}, nil
	}})
	ada := s.ada(t)
	failing = true
	_, err := s.feed(t, icalendar.Settings{}).Calendar(t.Context(), ada)
	require.ErrorIs(t, err, broken)
	_, err = s.feed(t, icalendar.Settings{}).Calendar(t.Context(), uuid.New())
	require.ErrorIs(t, err, almanac.ErrNotFound)
	f, err := icalendar.New(s, away{s.store}, s.registry, icalendar.Settings{})
	require.NoError(t, err)
	_, err = f.Calendar(t.Context(), ada)
	require.ErrorIs(t, err, errAway)
}

var errAway = errors.New("the database is away")

type away struct{ icalendar.Reader }

func (away) Find(context.Context, almanac.Spec, almanac.Page) (almanac.List[almanac.Event], error) {
	return almanac.List[almanac.Event]{}, errAway
}

func TestNewNamesEveryWrongSetting(t *testing.T) {
	t.Parallel()
	s := newStage(t, almanac.Birthday{})
	_, err := icalendar.New(s, s.store, s.registry, icalendar.Settings{
		Types: []string{"BIRTHDAY", "WEDDING"}, Ahead: 1001, Past: -time.Second, Refresh: time.Second})
	for _, want := range []string{"WEDDING", "Ahead of 1001", "Past of -1s", "Refresh of 1s"} {
		require.ErrorContains(t, err, want)
	}
	_, err = icalendar.New(nil, s.store, s.registry, icalendar.Settings{})
	require.ErrorContains(t, err, "is nil")
}
