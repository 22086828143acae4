package migrators_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-ical"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/icalendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/signedlink"
)

// A program that knows nothing of Almanac reads what a host serves.
func TestGoIcalReadsTheCalendarOfAUser(t *testing.T) {
	t.Parallel()
	store, err := postgres.New(pgtest.Pool(t))
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	created, err := scheduler.CreateUser(t.Context(), almanac.Profile{
		FirstName: "Zoë; \"the\"", LastName: "O'Neil,\\n", DateOfBirth: "1992-02-29", Timezone: "Asia/Kolkata"})
	require.NoError(t, err)
	_, err = scheduler.Cancel(t.Context(), created.Events[0].ID, almanac.CancelOptions{Reason: "moved house"})
	require.NoError(t, err)

	title := "🎂 " + created.User.Name() + "\n" + strings.Repeat("日本語", 40)
	feed, err := icalendar.New(scheduler, store, registry, icalendar.Settings{
		Name: "Acme; and friends", Ahead: 5, Refresh: 12 * time.Hour, Summary: func(almanac.User, almanac.Event) string { return title }})
	require.NoError(t, err)
	links, err := icalendar.NewLinks("https://example.com/calendar/", signedlink.Key{ID: "1", Secret: bytes.Repeat([]byte("k"), 32)})
	require.NoError(t, err)
	answer := httptest.NewRecorder()
	feed.Handler(links).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, links.URL(created.User.ID), nil))
	require.Equal(t, http.StatusOK, answer.Code)

	read, err := ical.NewDecoder(answer.Body).Decode()
	require.NoError(t, err)
	name, err := read.Props.Text(ical.PropName)
	require.NoError(t, err)
	require.Equal(t, "Acme; and friends", name)
	refresh, err := read.Props.Get(ical.PropRefreshInterval).Duration()
	require.NoError(t, err)
	require.Equal(t, 12*time.Hour, refresh)

	ahead, err := scheduler.Preview(t.Context(), created.User.ID, almanac.TypeBirthday, 5)
	require.NoError(t, err)
	starts, statuses := []time.Time{created.Events[0].Due}, []ical.EventStatus{ical.EventCancelled}
	for _, o := range ahead.Ahead {
		starts, statuses = append(starts, o.Resolution.Instant), append(statuses, ical.EventConfirmed)
	}
	require.Len(t, read.Events(), len(starts))
	uids := map[string]bool{}
	for i, e := range read.Events() {
		summary, err := e.Props.Text(ical.PropSummary)
		require.NoError(t, err)
		require.Equal(t, title, summary)
		start, err := e.DateTimeStart(time.Local)
		require.NoError(t, err)
		require.True(t, starts[i].Equal(start), "%v, want %v", start, starts[i])
		require.Equal(t, time.UTC, start.Location())
		status, err := e.Status()
		require.NoError(t, err)
		require.Equal(t, statuses[i], status)
		uid, err := e.Props.Text(ical.PropUID)
		require.NoError(t, err)
		uids[uid] = true
	}
	require.Len(t, uids, len(starts))
	require.NoError(t, ical.NewEncoder(new(bytes.Buffer)).Encode(read), "go-ical wants of a calendar what RFC 5545 does")
}

// A calendar is one by RFC 5545's grammar, however many events it has: none, too.
func TestGoIcalAcceptsCalendarsOfAnyLength(t *testing.T) {
	t.Parallel()
	store, err := postgres.New(pgtest.Pool(t))
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	for events, optOuts := range map[int][]almanac.OptOut{0: {{}}, 1: nil, 30: nil} {
		created, err := scheduler.CreateUser(t.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London", OptOuts: optOuts})
		require.NoError(t, err)
		feed, err := icalendar.New(scheduler, store, registry, icalendar.Settings{Ahead: max(events, 1)})
		require.NoError(t, err)
		text, err := feed.Calendar(t.Context(), created.User.ID)
		require.NoError(t, err)

		read, err := ical.NewDecoder(bytes.NewReader(text)).Decode()
		require.NoError(t, err)
		require.Len(t, read.Events(), events)
		require.NoError(t, ical.NewEncoder(new(bytes.Buffer)).Encode(read), "%d events:\n%s", events, text)
	}
}
