package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// oneReader is a repository of one user without events. Only the user, the events and the
// time can be read: everything else panics.
type oneReader struct {
	almanac.Repository
	person almanac.User
	now    time.Time
}

func (r oneReader) Now(context.Context) (time.Time, error) { return r.now, nil }

func (r oneReader) User(_ context.Context, id uuid.UUID) (almanac.User, error) {
	if id != r.person.ID {
		return almanac.User{}, &almanac.NotFoundError{Kind: "user", ID: id}
	}
	return r.person, nil
}

func (r oneReader) UsedKeys(context.Context, uuid.UUID, []almanac.Series) (map[almanac.Series]almanac.UsedKeys, error) {
	return nil, nil // nothing was planned yet
}

// preview asks for the next n occurrences that a handler sees for a user.
func preview(t testing.TB, h almanac.EventHandler, u almanac.User, now string, n int) ([]almanac.Occurrence, error) {
	t.Helper()
	registry, err := almanac.NewRegistry(h)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := almanac.NewScheduler(oneReader{person: u, now: instant(t, now)}, registry)
	if err != nil {
		t.Fatal(err)
	}
	found, err := scheduler.Preview(t.Context(), u.ID, h.EventType(), n)
	return found.Ahead, err
}

// lines says of each occurrence what a user would want to know.
func lines(ahead []almanac.Occurrence) []string {
	var lines []string
	for _, next := range ahead {
		key := next.Key
		if next.Series != "" {
			key = next.Series + "/" + key
		}
		lines = append(lines, key+" "+next.Resolution.Instant.Format(time.RFC3339)+" "+next.Reason())
	}
	return lines
}

func TestPreviewSaysWhenAndWhy(t *testing.T) {
	t.Parallel()

	at := func(hour, minute int) calendar.Clock { return calendar.Clock{Hour: hour, Minute: minute} }
	daily := func(c calendar.Clock, p calendar.Policies) almanac.Recurring {
		h := always(calendar.Daily{At: c})
		h.Policies = p
		return h
	}
	tests := map[string]struct {
		handler almanac.EventHandler
		now     string
		want    []string
	}{
		"birthdays of a leap day": {almanac.Birthday{}, "2026-06-01T00:00:00Z", []string{
			"2027 2027-02-28T14:00:00Z 29 February moved to 28 February",
			"2028 2028-02-29T14:00:00Z exact",
			"2029 2029-02-28T14:00:00Z 29 February moved to 28 February",
		}},
		"and on 1 March": {almanac.Birthday{Policies: calendar.Policies{LeapDay: calendar.LeapDayMar1}}, "2027-06-01T00:00:00Z", []string{
			"2028 2028-02-29T14:00:00Z exact",
			"2029 2029-03-01T14:00:00Z 29 February moved to 1 March",
		}},
		"every day, over a gap": {daily(at(2, 30), calendar.Policies{}), "2026-03-07T00:00:00Z", []string{
			"2026-03-07 2026-03-07T07:30:00Z exact",
			"2026-03-08 2026-03-08T07:30:00Z moved forward 60 min because clocks skip 02:00–03:00",
			"2026-03-09 2026-03-09T06:30:00Z exact",
		}},
		"every day, back from a gap": {daily(at(2, 30), calendar.Policies{Gap: calendar.GapBackward}), "2026-03-08T00:00:00Z", []string{
			"2026-03-08 2026-03-08T06:30:00Z moved back 60 min because clocks skip 02:00–03:00",
		}},
		"every day but where clocks skip it": {daily(at(2, 30), calendar.Policies{Gap: calendar.GapSkip}), "2026-03-07T00:00:00Z", []string{
			"2026-03-07 2026-03-07T07:30:00Z exact",
			"2026-03-09 2026-03-09T06:30:00Z exact",
		}},
		"every day, over a fold": {daily(at(1, 30), calendar.Policies{}), "2026-10-31T12:00:00Z", []string{
			"2026-11-01 2026-11-01T05:30:00Z first of two showings: clocks go back from 02:00 to 01:00",
			"2026-11-02 2026-11-02T06:30:00Z exact",
		}},
		"the other showing": {daily(at(1, 30), calendar.Policies{Fold: calendar.FoldSecond}), "2026-10-31T12:00:00Z", []string{
			"2026-11-01 2026-11-01T06:30:00Z second of two showings: clocks go back from 02:00 to 01:00",
		}},
		"reminders in the order of instants": {almanac.Reminder{}, "2026-01-01T00:00:00Z", []string{
			"zoo/2026-03-08T02:30:00 2026-03-08T07:30:00Z moved forward 60 min because clocks skip 02:00–03:00",
			"flight/2027-03-15T09:00:00 2027-03-15T00:00:00Z exact",
			"call/2027-03-15T09:00:00 2027-03-15T13:00:00Z exact",
			"dentist/2027-03-15T09:00:00 2027-03-15T13:00:00Z exact",
		}},
		"of those, the first two": {almanac.Reminder{}, "2026-06-01T00:00:00Z", []string{
			"flight/2027-03-15T09:00:00 2027-03-15T00:00:00Z exact",
			"call/2027-03-15T09:00:00 2027-03-15T13:00:00Z exact",
		}},
	}
	p := adasProfile()
	p.DateOfBirth, p.Timezone = "1992-02-29", "America/New_York"
	p.Attributes = json.RawMessage(`{"reminders": {
		"dentist": {"at": "2027-03-15T09:00:00"}, "call": {"at": "2027-03-15T09:00:00"}, "old": {"at": "2025-03-15T09:00:00"},
		"flight": {"at": "2027-03-15T09:00:00", "timezone": "Asia/Tokyo"}, "zoo": {"at": "2026-03-08T02:30:00"}}}`)
	u := user(t, p, "2026-01-01T00:00:00Z")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			ahead, err := preview(t, tt.handler, u, tt.now, len(tt.want))

			if got := lines(ahead); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("Preview after %s, %v:\n got %q\nwant %q", tt.now, err, got, tt.want)
			}
		})
	}
}

func TestPreviewEndsWithTheRecurrence(t *testing.T) {
	t.Parallel()

	three := calendar.Bounded{Rule: calendar.Daily{At: calendar.Clock{Hour: 8}}, Start: wall(t, "2026-01-10T00:00:00"), Count: 3}
	tests := map[string]struct {
		handler almanac.EventHandler
		want    []string
	}{
		"after its last one": {always(three), []string{
			"2026-01-10 2026-01-10T08:00:00Z exact", "2026-01-11 2026-01-11T08:00:00Z exact", "2026-01-12 2026-01-12T08:00:00Z exact",
		}},
		"before it begins":               {always(calendar.Once{At: wall(t, "2025-12-31T08:00:00")}), nil},
		"for a user without occurrences": {almanac.Anniversary{}, nil},
		"where no reminders were set":    {almanac.Reminder{}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ahead, err := preview(t, tt.handler, ada(t), "2026-01-01T00:00:00Z", 1000)
			if got := lines(ahead); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("Preview = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// The last evening of the year 9999 in New York is of the year 10000 in UTC.
func TestPreviewEndsWithTheCalendar(t *testing.T) {
	t.Parallel()

	p := adasProfile()
	p.Timezone = "America/New_York"
	evening := always(calendar.Daily{At: calendar.Clock{Hour: 23, Minute: 30}})

	ahead, err := preview(t, evening, user(t, p, "2026-01-01T00:00:00Z"), "9999-12-30T12:00:00Z", 1000)

	if got, want := lines(ahead), []string{"9999-12-30 9999-12-31T04:30:00Z exact"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Preview = %q, %v; want %q", got, err, want)
	}
}

func TestPreviewReturnsOccurrencesBeforeAnError(t *testing.T) {
	t.Parallel()

	nightly := always(calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}})
	nightly.Policies = calendar.Policies{Gap: calendar.GapReject}
	tests := map[string]struct {
		handler almanac.EventHandler
		n       int
		want    []string
		gone    []string // the wall times that cannot be resolved
	}{
		"every night until one is rejected": {nightly, 5, []string{"2026-03-06 2026-03-06T07:30:00Z exact", "2026-03-07 2026-03-07T07:30:00Z exact"}, []string{"2026-03-08T02:30:00"}},
		"no error before it is reached":     {nightly, 2, []string{"2026-03-06 2026-03-06T07:30:00Z exact", "2026-03-07 2026-03-07T07:30:00Z exact"}, nil},
		"of several series, the others": {almanac.Reminder{Policies: nightly.Policies}, 5, []string{
			"early/2026-03-07T09:00:00 2026-03-07T14:00:00Z exact", "late/2026-04-01T09:00:00 2026-04-01T13:00:00Z exact",
		}, []string{"2026-03-08T02:10:00", "2026-03-08T02:30:00"}},
	}
	p := adasProfile()
	p.Timezone = "America/New_York"
	p.Attributes = json.RawMessage(`{"reminders": {
		"early": {"at": "2026-03-07T09:00:00"}, "gap": {"at": "2026-03-08T02:10:00"}, "gap2": {"at": "2026-03-08T02:30:00"}, "late": {"at": "2026-04-01T09:00:00"}}}`)
	u := user(t, p, "2026-01-01T00:00:00Z")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			ahead, err := preview(t, tt.handler, u, "2026-03-06T00:00:00Z", tt.n)

			if got := lines(ahead); !slices.Equal(got, tt.want) || errors.Is(err, calendar.ErrRejectedWallTime) != (tt.gone != nil) {
				t.Errorf("Preview = %q, %v; want %q", got, err, tt.want)
			}
			for _, wall := range tt.gone {
				if !strings.Contains(err.Error(), wall) {
					t.Errorf("Preview: %v, which does not tell %s", err, wall)
				}
			}
		})
	}
}

func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()

	for n, want := range map[int]bool{-1: false, 0: false, 1: true, 2: true, 999: true, 1000: true, 1001: false, 1 << 40: false} {
		ahead, err := preview(t, almanac.Birthday{}, ada(t), "2026-01-01T00:00:00Z", n)
		if want && (err != nil || len(ahead) != n) {
			t.Errorf("Preview of %d = %d of them, %v", n, len(ahead), err)
		}
		if said := complaints(t, err); !want && (ahead != nil || !slices.Equal(said, []string{"number of occurrences is not between 1 and 1000"})) {
			t.Errorf("Preview of %d = %v, %q; want it refused", n, ahead, said)
		}
	}
}

func TestPreviewNamesAnUnknownUserOrType(t *testing.T) {
	t.Parallel()

	u := ada(t)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := almanac.NewScheduler(oneReader{person: u, now: instant(t, "2026-01-01T00:00:00Z")}, registry)
	if err != nil {
		t.Fatal(err)
	}

	stranger := uuid.New()
	_, err = scheduler.Preview(t.Context(), stranger, almanac.TypeBirthday, 1)
	if missing := (*almanac.NotFoundError)(nil); !errors.As(err, &missing) || missing.ID != stranger {
		t.Errorf("of a stranger: %v, want a *NotFoundError", err)
	}
	_, err = scheduler.Preview(t.Context(), u.ID, "DIGEST", 1)
	if unknown := (*almanac.UnsupportedEventTypeError)(nil); !errors.As(err, &unknown) || unknown.EventType != "DIGEST" {
		t.Errorf("of an unknown type: %v, want an *UnsupportedEventTypeError", err)
	}
}

// capricious is a handler that yields what a function of the instant says.
type capricious struct {
	series
	next func(after time.Time) calendar.Occurrence
}

func (c capricious) Next(_ almanac.User, after time.Time) (calendar.Occurrence, error) {
	return c.next(after), nil
}

func TestPreviewRecoversFromPanicsOfHandlers(t *testing.T) {
	t.Parallel()

	// Half past one on each day where the user lives, by a handler that leaves the
	// zone, and what clocks skip, to the library.
	nightly := func(after time.Time) calendar.Occurrence {
		day := calendar.DateOf(after.UTC().Add(24 * time.Hour))
		return calendar.Occurrence{Key: day.String(), Wall: calendar.WallTime{Date: day, Clock: calendar.Clock{Hour: 1, Minute: 30}}, Policies: calendar.Policies{Gap: calendar.GapSkip}}
	}
	tests := map[string]struct {
		next func(after time.Time) calendar.Occurrence
		want []string
		fail bool
	}{
		"without a zone and in a gap": {nightly, []string{"2026-03-28 2026-03-28T01:30:00Z exact", "2026-03-30 2026-03-30T00:30:00Z exact"}, false},
		"that does not advance": {func(time.Time) calendar.Occurrence {
			return calendar.Occurrence{Key: "k", Wall: wall(t, "2026-03-01T09:00:00")}
		}, nil, true},
		"that names no day": {func(time.Time) calendar.Occurrence { return calendar.Occurrence{Key: "k"} }, nil, true},
		"that panics":       {func(time.Time) calendar.Occurrence { panic("no") }, nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ahead, err := preview(t, capricious{series{eventType: "DIGEST"}, tt.next}, ada(t), "2026-03-27T12:00:00Z", 2)
			if got := lines(ahead); (err != nil) != tt.fail || !slices.Equal(got, tt.want) {
				t.Errorf("Preview = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestPreviewStoresNothing(t *testing.T) {
	t.Parallel()

	now := instant(t, "2026-01-01T00:00:00Z")
	repository := almanactest.NewRepository(func() time.Time { return now })
	registry, err := almanac.NewRegistry(almanac.Birthday{}, almanac.Reminder{})
	if err != nil {
		t.Fatal(err)
	}
	var notices []almanac.Notice
	observer := almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { notices = append(notices, n) })
	scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithObserver(observer))
	if err != nil {
		t.Fatal(err)
	}
	p := adasProfile()
	p.Attributes = json.RawMessage(agenda)
	enrolment, err := scheduler.CreateUser(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	stored := func() almanac.List[almanac.Event] {
		found, err := repository.Find(t.Context(), nil, almanac.Page{})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before, noticesBefore := stored(), len(notices)

	for _, eventType := range registry.EventTypes() {
		if ahead, err := scheduler.Preview(t.Context(), enrolment.User.ID, eventType, 10); err != nil || len(ahead.Ahead) < 3 {
			t.Errorf("Preview of %s = %v, %v; want some", eventType, ahead, err)
		}
		if ahead, err := scheduler.PreviewUser(t.Context(), enrolment.User, eventType, 10); err != nil || len(ahead.Ahead) < 3 {
			t.Errorf("PreviewUser of %s = %v, %v; want some", eventType, ahead, err)
		}
	}

	after := stored()
	same := func(a, b almanac.Event) bool { return a.ID == b.ID && a.Version == b.Version && a.Due.Equal(b.Due) }
	if !slices.EqualFunc(before.Items, after.Items, same) || len(notices) != noticesBefore {
		t.Errorf("after a preview %+v are stored and %d notices, before %+v and %d", after, len(notices), before, noticesBefore)
	}
	if u, err := repository.User(t.Context(), enrolment.User.ID); err != nil || u.Version != 1 {
		t.Errorf("after a preview the person is at version %d, %v; want 1", u.Version, err)
	}
}

// previewUser is preview for a user whom the repository does not know.
func previewUser(t testing.TB, h almanac.EventHandler, u almanac.User, now string, n int) ([]almanac.Occurrence, error) {
	t.Helper()
	registry, err := almanac.NewRegistry(h)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := almanac.NewScheduler(oneReader{now: instant(t, now)}, registry)
	if err != nil {
		t.Fatal(err)
	}
	found, err := scheduler.PreviewUser(t.Context(), u, h.EventType(), n)
	return found.Ahead, err
}

func TestPreviewUserOfAStoredUserIsPreview(t *testing.T) {
	t.Parallel()

	nightly := always(calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}})
	rejecting := nightly
	rejecting.Policies = calendar.Policies{Gap: calendar.GapReject}
	handlers := []almanac.EventHandler{almanac.Birthday{}, almanac.Reminder{}, almanac.Anniversary{}, nightly, rejecting}
	optOuts := [][]almanac.OptOut{nil, {{Type: almanac.TypeBirthday}}, {{Type: "DIGEST"}}, {{}}}
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	rapid.Check(t, func(r *rapid.T) {
		p := adasProfile()
		p.DateOfBirth = rapid.SampledFrom([]string{"1990-12-10", "1992-02-29", "2000-03-08"}).Draw(r, "birth")
		p.Timezone = rapid.SampledFrom([]string{"Europe/London", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"}).Draw(r, "zone")
		p.Attributes = json.RawMessage(rapid.SampledFrom([]string{`{}`, agenda, `{"hireDate": "2016-02-29"}`}).Draw(r, "attributes"))
		p.OptOuts = rapid.SampledFrom(optOuts).Draw(r, "opt-outs")
		u := user(t, p, "2026-01-01T00:00:00Z")
		h := rapid.SampledFrom(handlers).Draw(r, "handler")
		now := instant(t, "2026-01-01T00:00:00Z").Add(time.Duration(rapid.IntRange(0, 3*365*24).Draw(r, "hours")) * time.Hour).Format(time.RFC3339)
		n := rapid.SampledFrom([]int{-1, 0, 1, 2, 7, 40, 1001}).Draw(r, "n")

		want, errWant := preview(t, h, u, now, n)
		got, err := previewUser(t, h, u, now, n)

		if !slices.Equal(lines(got), lines(want)) || text(err) != text(errWant) {
			r.Fatalf("PreviewUser = %q, %v; Preview = %q, %v", lines(got), err, lines(want), errWant)
		}
	})
}

func TestPreviewUserShowsWhatAnEditWouldMove(t *testing.T) {
	t.Parallel()

	now := "2026-06-01T00:00:00Z"
	u := ada(t)
	tests := map[string]struct {
		change almanac.ProfileChange
		want   []string
	}{
		"nothing":                 {almanac.ProfileChange{}, []string{"2026 2026-12-10T09:00:00Z exact", "2027 2027-12-10T09:00:00Z exact"}},
		"another zone":            {almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")}, []string{"2026 2026-12-10T00:00:00Z exact", "2027 2027-12-10T00:00:00Z exact"}},
		"another birth date":      {almanac.ProfileChange{DateOfBirth: ptr("1990-03-15")}, []string{"2027 2027-03-15T09:00:00Z exact", "2028 2028-03-15T09:00:00Z exact"}},
		"an opt-out of the type":  {almanac.ProfileChange{OptOut: []almanac.OptOut{{Type: almanac.TypeBirthday}}}, nil},
		"an opt-out of some type": {almanac.ProfileChange{OptOut: []almanac.OptOut{{Type: "DIGEST"}}}, []string{"2026 2026-12-10T09:00:00Z exact", "2027 2027-12-10T09:00:00Z exact"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edited, err := u.Edit(tt.change, instant(t, now))
			if err != nil {
				t.Fatal(err)
			}
			ahead, err := previewUser(t, almanac.Birthday{}, edited, now, 2)
			if got := lines(ahead); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("PreviewUser = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestPreviewUserRefusesAnInvalidZone(t *testing.T) {
	t.Parallel()

	for name, zone := range map[string]calendar.Timezone{"none": {}, "without rules in this program": calendar.StoredTimezone("Mars/Olympus")} {
		u := ada(t)
		u.Timezone = zone
		ahead, err := previewUser(t, almanac.Birthday{}, u, "2026-01-01T00:00:00Z", 1)
		if said := complaints(t, err); ahead != nil || len(said) != 1 || !strings.HasPrefix(said[0], "timezone ") || !errors.Is(err, calendar.ErrInvalidTimezone) {
			t.Errorf("in a zone that is %s: %v, %q; want it refused", name, ahead, said)
		}
	}
}

func TestPreviewLeavesOutUsedOccurrences(t *testing.T) {
	t.Parallel()

	sundays := always(calendar.Weekly{On: []time.Weekday{time.Sunday}, At: calendar.Clock{Hour: 9}})
	now := instant(t, "2026-11-24T12:00:00Z")
	setUp := func(t *testing.T) (almanac.Scheduler, almanac.UserWithEvents) {
		registry, err := almanac.NewRegistry(sundays, almanac.Reminder{})
		if err != nil {
			t.Fatal(err)
		}
		scheduler, err := almanac.NewScheduler(almanactest.NewRepository(func() time.Time { return now }), registry)
		if err != nil {
			t.Fatal(err)
		}
		p := adasProfile()
		p.Attributes = json.RawMessage(`{"reminders": {"a": {"at": "2026-12-24T09:00:00"}, "b": {"at": "2026-12-24T09:00:00"}}}`)
		created, err := scheduler.CreateUser(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return scheduler, created
	}
	firstKey := func(t *testing.T, scheduler almanac.Scheduler, id uuid.UUID) string {
		t.Helper()
		ahead, err := scheduler.Preview(t.Context(), id, sundays.Type, 2)
		if err != nil || len(ahead.Ahead) != 2 || ahead.LeftOut != nil {
			t.Fatalf("Preview = %v, %v; want two occurrences", ahead, err)
		}
		return ahead.Ahead[0].Key
	}
	eventOf := func(created almanac.UserWithEvents, series almanac.Series) uuid.UUID {
		i := slices.IndexFunc(created.Events, func(e almanac.Event) bool { return almanac.SeriesOf(e) == series })
		return created.Events[i].ID
	}

	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		scheduler, created := setUp(t)
		if key := firstKey(t, scheduler, created.User.ID); key != "2026-11-29" {
			t.Fatalf("before the cancellation the preview begins with %s", key)
		}
		if _, err := scheduler.Cancel(t.Context(), eventOf(created, almanac.Series{Type: sundays.Type}), almanac.CancelOptions{}); err != nil {
			t.Fatal(err)
		}
		if key := firstKey(t, scheduler, created.User.ID); key != "2026-12-06" {
			t.Errorf("the preview begins with %s; want the event that is next", key)
		}
	})
	t.Run("made due", func(t *testing.T) {
		t.Parallel()
		scheduler, created := setUp(t)
		if _, err := scheduler.RunNow(t.Context(), eventOf(created, almanac.Series{Type: sundays.Type}), almanac.ForceOptions{}); err != nil {
			t.Fatal(err)
		}
		if key := firstKey(t, scheduler, created.User.ID); key != "2026-12-06" {
			t.Errorf("the preview begins with %s; want the event that is next", key)
		}
	})
	t.Run("of one series", func(t *testing.T) {
		t.Parallel()
		scheduler, created := setUp(t)
		if _, err := scheduler.Cancel(t.Context(), eventOf(created, almanac.Series{Type: almanac.TypeReminder, Name: "a"}), almanac.CancelOptions{}); err != nil {
			t.Fatal(err)
		}
		ahead, err := scheduler.Preview(t.Context(), created.User.ID, almanac.TypeReminder, 5)
		if got := lines(ahead.Ahead); err != nil || !slices.Equal(got, []string{"b/2026-12-24T09:00:00 2026-12-24T09:00:00Z exact"}) {
			t.Errorf("Preview = %q, %v; want the other series only", got, err)
		}
	})
}

// After any edit of the rule, the zone or the name, the pending event is the occurrence that a preview shows first.
func TestAnEditLeavesWhatAPreviewShows(t *testing.T) {
	t.Parallel()
	nine := calendar.Clock{Hour: 9}
	start, err := calendar.ParseWallTime("2025-01-06T09:00:00")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]calendar.Recurrence{
		"mondays": calendar.Weekly{On: []time.Weekday{time.Monday}, At: nine}, "twice a week": calendar.Weekly{On: []time.Weekday{time.Monday, time.Thursday}, At: nine},
		"daily": calendar.Daily{At: nine}, "daily at ten": calendar.Daily{At: calendar.Clock{Hour: 10}}, "monthly": calendar.Monthly{Day: 15, At: nine},
		"yearly": calendar.Yearly{Month: time.December, Day: 25, At: nine}, "the day before": calendar.Offset{Of: calendar.Daily{At: nine}, Days: -1, At: nine},
	}
	for name, rule := range map[string]string{"every other day": "FREQ=DAILY;INTERVAL=2", "thrice a week": "FREQ=WEEKLY;BYDAY=MO,WE,FR"} {
		if rules[name], err = calendar.ParseRRule(rule, start); err != nil {
			t.Fatal(err)
		}
	}
	if rules["on workdays"], err = calendar.ParseCron("0 9 * * 1-5"); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(rules))
	h := almanac.Recurring{Type: "DOSE", Rule: func(u almanac.User) (calendar.Recurrence, error) { return rules[u.LastName], nil }}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		store := almanactest.NewRepository(func() time.Time { return now })
		registry, err := almanac.NewRegistry(h)
		if err != nil {
			t.Fatal(err)
		}
		s, err := almanac.NewScheduler(store, registry, almanac.WithLogger(slog.New(slog.DiscardHandler)), almanac.WithDeliverer(almanac.ChannelWebhook, new(receiver)))
		if err != nil {
			t.Fatal(err)
		}
		p := grace
		p.LastName = rapid.SampledFrom(names).Draw(t, "rule")
		created, err := s.CreateUser(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		id := created.User.ID
		for range rapid.IntRange(1, 8).Draw(t, "edits") {
			now = now.Add(time.Duration(rapid.IntRange(0, 12*24).Draw(t, "hours")) * time.Hour)
			for more := true; more; {
				did, err := s.RunOnce(context.Background(), almanac.RunOnceOptions{})
				if err != nil {
					t.Fatal(err)
				}
				more = did.More
			}
			var change almanac.ProfileChange
			switch text := ""; rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				text = rapid.SampledFrom(names).Draw(t, "rule")
				change.LastName = &text
			case 1:
				text = rapid.SampledFrom([]string{"UTC", "America/Los_Angeles", "Europe/Berlin", "Pacific/Auckland"}).Draw(t, "zone")
				change.Timezone = &text
			default:
				text = rapid.StringMatching("[A-Z][a-z]{3}").Draw(t, "name")
				change.FirstName = &text
			}
			if _, err := s.UpdateUser(context.Background(), id, change); err != nil {
				t.Fatal(err)
			}
			found, err := store.Find(context.Background(), almanac.InStatus(almanac.Pending), almanac.Page{})
			if err != nil || len(found.Items) != 1 {
				t.Fatalf("%d pending events, %v", len(found.Items), err)
			}
			shown, err := s.Preview(context.Background(), id, "DOSE", 1)
			if err != nil {
				t.Fatal(err)
			}
			if is := found.Items[0]; is.Due.After(now) && is.Wall != shown.Ahead[0].Wall {
				t.Fatalf("the event is of %s, the preview shows %s", is.Wall, shown.Ahead[0].Wall)
			}
		}
	})
}

// channels is a handler whose channel follows from the payload, and fails for none.
type channels struct{ almanac.Birthday }

func (channels) Channel(e almanac.Event) almanac.Channel {
	if e.ID == uuid.Nil {
		return ""
	}
	return almanac.Channel(e.Payload[1 : len(e.Payload)-1])
}

func TestChannelOfAsksTheHandler(t *testing.T) {
	t.Parallel()
	registry, err := almanac.NewRegistry(channels{})
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry, almanac.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	e := almanac.Event{ID: uuid.New(), Type: almanac.TypeBirthday, Payload: json.RawMessage(`"mail"`)}
	if by, err := scheduler.ChannelOf(t.Context(), e); by != "mail" || err != nil {
		t.Errorf("channel = %q, %v", by, err)
	}
	e.Payload = nil
	if _, err := scheduler.ChannelOf(t.Context(), e); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("error of a handler that panics = %v", err)
	}
	e.Type = "CARD"
	if _, err := scheduler.ChannelOf(t.Context(), e); !errors.Is(err, almanac.ErrUnsupportedEventType) {
		t.Errorf("error of another type = %v", err)
	}
}

// foresee returns what a scheduler without a repository foresees for a user in the next 48 hours.
func foresee(t *testing.T, h almanac.EventHandler, r almanac.Roster, replan bool) ([]string, error) {
	t.Helper()
	registry, err := almanac.NewRegistry(h)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := almanac.NewScheduler(struct{ almanac.Repository }{}, registry) // each call of it would panic
	if err != nil {
		t.Fatal(err)
	}
	events, err := scheduler.Foresee(t.Context(), r, r.Now.Add(48*time.Hour), replan, 0)
	var lines []string
	for _, e := range events {
		lines = append(lines, string(e.Status)+" "+e.Wall.String()+" at "+e.UpdatedAt.Format("02T15:04"))
	}
	return lines, err
}

// noonly is due each day at an hour.
func noonly(hour int) almanac.Recurring {
	return almanac.Recurring{Type: "DAILY", Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Daily{At: calendar.Clock{Hour: hour}}, nil
	}}
}

func TestForeseeKeepsPendingEventsUnlessTheyAreReplanned(t *testing.T) {
	t.Parallel()
	u := almanactest.User(almanactest.LivingIn("UTC"))
	now := instant(t, "2027-03-01T00:00:00Z")
	o, err := noonly(12).Next(u, now)
	if err != nil {
		t.Fatal(err)
	}
	e, err := almanac.NewEvent(u, noonly(12), almanac.Occurrence{Occurrence: o})
	if err != nil {
		t.Fatal(err)
	}
	r := almanac.Roster{User: u, Pending: []almanac.Event{e}, Now: now}
	for replan, want := range map[bool][]string{
		false: {"COMPLETED 2027-03-01T12:00:00 at 01T12:00", "COMPLETED 2027-03-02T20:00:00 at 02T20:00"},
		true:  {"COMPLETED 2027-03-01T20:00:00 at 01T20:00", "COMPLETED 2027-03-02T20:00:00 at 02T20:00"},
	} {
		if got, err := foresee(t, noonly(20), r, replan); err != nil || !slices.Equal(got, want) {
			t.Errorf("replan %v: %q, %v; want %q", replan, got, err, want)
		}
	}
	if got, err := foresee(t, noonly(20), almanac.Roster{User: u, Now: now}, false); err != nil || got != nil {
		t.Errorf("without an open event: %q, %v", got, err)
	}
	if got, err := foresee(t, noonly(20), almanac.Roster{User: u, Now: now}, true); err != nil || len(got) != 2 {
		t.Errorf("a roll-out adds what is missing: %q, %v", got, err)
	}
	stalled := []almanac.StalledSeries{{UserID: u.ID, Series: almanac.Series{Type: "DAILY"}, Due: now.Add(-5 * time.Hour), RetryAt: now.Add(21 * time.Hour)}}
	want := []string{"COMPLETED 2027-03-02T20:00:00 at 02T20:00"}
	if got, err := foresee(t, noonly(20), almanac.Roster{User: u, Now: now, Stalled: stalled}, false); err != nil || !slices.Equal(got, want) {
		t.Errorf("a stalled series: %q, %v; want %q", got, err, want)
	}
}

func TestForeseeEndsAtTheFirstEventThatCannotBePlanned(t *testing.T) {
	t.Parallel()
	u := almanactest.User(almanactest.LivingIn("UTC"))
	now := instant(t, "2027-03-01T00:00:00Z")
	begun := func(h almanac.EventHandler) almanac.Roster {
		e, err := almanac.NewEvent(u, h, almanac.Occurrence{Occurrence: calendar.Occurrence{Key: "0", Wall: calendar.WallTimeOf(now)}})
		if err != nil {
			t.Fatal(err)
		}
		return almanac.Roster{User: u, Pending: []almanac.Event{e}, Now: now}
	}
	often := noonly(0)
	often.Rule = func(almanac.User) (calendar.Recurrence, error) { return calendar.ParseCron("* * * * * *") }
	got, err := foresee(t, often, begun(often), false)
	if len(got) != 10_000 || err == nil || !strings.Contains(err.Error(), "more than 10000 events") {
		t.Errorf("%d events, %v", len(got), err)
	}
	bad := noonly(0)
	bad.Rule = func(almanac.User) (calendar.Recurrence, error) { panic("out of cheese") }
	got, err = foresee(t, bad, begun(bad), false)
	if len(got) > 1 || err == nil || !strings.Contains(err.Error(), "out of cheese") {
		t.Errorf("%q, %v", got, err)
	}
}
