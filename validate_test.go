package almanac_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

func TestStockChecks(t *testing.T) {
	t.Parallel()

	due := instant(t, "2026-12-10T09:00:00Z")
	event := almanac.Event{Status: almanac.Processing, Due: due, RetryCount: 2, CrashCount: 4}
	requeued := func(check almanac.Check) almanac.Check { // two hours after its instant
		return func(e almanac.Event, now time.Time) error {
			e.Origin, e.CreatedAt = almanac.Origin{Kind: almanac.OriginRequeued, From: uuid.New()}, due.Add(2*time.Hour)
			return check(e, now)
		}
	}
	scheduled := func(check almanac.Check) almanac.Check {
		return func(e almanac.Event, now time.Time) error {
			e.Origin, e.CreatedAt = almanac.Origin{Kind: almanac.OriginScheduled}, due.Add(2*time.Hour)
			return check(e, now)
		}
	}
	moved := func(check almanac.Check) almanac.Check {
		return func(e almanac.Event, now time.Time) error {
			e.ReadyAt = due.Add(2 * time.Hour)
			return check(e, now)
		}
	}
	tests := map[string]struct {
		check almanac.Check
		now   time.Time
		want  string // the refusal; "" means that it passes
	}{
		"the status":                      {almanac.HasStatus(almanac.Processing), due, ""},
		"another status":                  {almanac.HasStatus(almanac.Pending), due, "event is PROCESSING, not PENDING"},
		"due just now":                    {almanac.IsDue(), due, ""},
		"due long since":                  {almanac.IsDue(), due.Add(time.Hour), ""},
		"due in a moment":                 {almanac.IsDue(), due.Add(-time.Nanosecond), "event is due in 1ns"},
		"one attempt left":                {almanac.AttemptsLeft(3), due, ""},
		"no attempt left":                 {almanac.AttemptsLeft(2), due, "2 of 2 attempts have failed"},
		"more attempts than there were":   {almanac.AttemptsLeft(1), due, "2 of 1 attempts have failed"},
		"one crash left":                  {almanac.CrashesBelow(5), due, ""},
		"no crash left":                   {almanac.CrashesBelow(4), due, "worker died 4 times"},
		"as old as may be":                {almanac.NotOlderThan(time.Hour), due.Add(time.Hour), ""},
		"older":                           {almanac.NotOlderThan(time.Hour), due.Add(time.Hour + time.Minute), "missed: 1h1m0s after its instant, more than 1h0m0s"},
		"requeued, as old as may be":      {requeued(almanac.NotOlderThan(time.Hour)), due.Add(3 * time.Hour), ""},
		"requeued, older":                 {requeued(almanac.NotOlderThan(time.Hour)), due.Add(4 * time.Hour), "missed: 2h0m0s after it was requeued, more than 1h0m0s"},
		"scheduled, as old as may be":     {scheduled(almanac.NotOlderThan(time.Hour)), due.Add(3 * time.Hour), ""},
		"scheduled, older":                {scheduled(almanac.NotOlderThan(time.Hour)), due.Add(4 * time.Hour), "missed: 2h0m0s after it was scheduled, more than 1h0m0s"},
		"moved, as old as may be":         {moved(almanac.NotOlderThan(time.Hour)), due.Add(3 * time.Hour), ""},
		"moved, older":                    {moved(almanac.NotOlderThan(time.Hour)), due.Add(4 * time.Hour), "missed: 2h0m0s after it was ready, more than 1h0m0s"},
		"early, which is never too late":  {almanac.NotOlderThan(0), due.Add(-time.Hour), ""},
		"on time, when nothing is waited": {almanac.NotOlderThan(0), due, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := ""
			if err := tt.check(event, tt.now); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("refusal %q, want %q", got, tt.want)
			}
		})
	}
}

// The refusals of a chain are joined, and each is found by its type.
func TestTheRetryLimitMatchesItsError(t *testing.T) {
	t.Parallel()

	event := almanac.Event{ID: uuid.New(), Status: almanac.Failed, RetryCount: 3}
	err := almanac.Checks{almanac.HasStatus(almanac.Processing), almanac.AttemptsLeft(3)}.All(event, instant(t, "2026-12-10T09:00:00Z"))
	var limit *almanac.MaxRetriesExceededError
	if !errors.Is(err, almanac.ErrMaxRetriesExceeded) || !errors.As(err, &limit) || *limit != (almanac.MaxRetriesExceededError{EventID: event.ID, Failed: 3, Limit: 3}) {
		t.Errorf("refusal %v, %+v", err, limit)
	}
}

func TestChecksAreCalledInOrder(t *testing.T) {
	t.Parallel()

	first, second := errors.New("on holiday"), errors.New("has unsubscribed")
	var asked []string
	check := func(name string, answer error) almanac.Check {
		return func(almanac.Event, time.Time) error {
			asked = append(asked, name)
			return answer
		}
	}
	chain := almanac.Checks{check("a", nil), check("b", first), check("c", nil), check("d", second)}

	if err := chain.First(almanac.Event{}, time.Time{}); !errors.Is(err, first) || errors.Is(err, second) {
		t.Errorf("First = %v, want %v alone", err, first)
	}
	if got := len(asked); got != 2 {
		t.Errorf("First asked %q, want only up to the refusal", asked)
	}
	asked = nil
	err := chain.All(almanac.Event{}, time.Time{})
	if !errors.Is(err, first) || !errors.Is(err, second) || err.Error() != "on holiday\nhas unsubscribed" {
		t.Errorf("All = %v, want both in order", err)
	}
	if got := len(asked); got != 4 {
		t.Errorf("All asked %q, want everybody", asked)
	}
	for name, passing := range map[string]almanac.Checks{"empty": nil, "content": {check("a", nil)}} {
		if first, all := passing.First(almanac.Event{}, time.Time{}), passing.All(almanac.Event{}, time.Time{}); first != nil || all != nil {
			t.Errorf("the %s chain says %v and %v, want nil", name, first, all)
		}
	}
}

// byCountry guesses the zone of a user from the country among the attributes, if it has one zone.
func byCountry(u almanac.User) string {
	var facts struct{ Country, Zone string }
	_ = json.Unmarshal(u.Attributes, &facts)
	if zones, err := calendar.ZonesOf(facts.Country); err == nil && len(zones) == 1 {
		return zones[0].String()
	}
	return facts.Zone // a host's table may be wrong
}

func country(code string) json.RawMessage { return json.RawMessage(`{"country": "` + code + `"}`) }

func TestTheZoneOfANewUser(t *testing.T) {
	t.Parallel()

	both, guess, fallback := almanac.WithZoneGuess("Etc/UTC", byCountry), almanac.WithZoneGuess("", byCountry), almanac.WithZoneGuess("asia/calcutta", nil)
	tests := map[string]struct {
		zone, attributes string
		option           almanac.Option
		want             string // the zone and its source, or what is wrong
	}{
		"given":                                {"Asia/Tokyo", `{"country": "NO"}`, both, "Asia/Tokyo declared"},
		"given without the option":             {"Asia/Tokyo", `{}`, nil, "Asia/Tokyo declared"},
		"not given without the option":         {"", `{"country": "NO"}`, nil, "timezone is empty"},
		"guessed":                              {"", `{"country": "NO"}`, both, "Europe/Oslo guessed"},
		"guessed to be the default":            {"", `{"zone": "Etc/UTC"}`, both, "Etc/UTC guessed"},
		"not to be guessed":                    {"", `{"country": "US"}`, both, "Etc/UTC default"},
		"not to be guessed, without a default": {"", `{"country": "US"}`, guess, "timezone is empty, and cannot be guessed"},
		"the default alone":                    {"", `{"country": "NO"}`, fallback, "Asia/Calcutta default"},
		"guessed to be no zone":                {"", `{"zone": "PST"}`, both, `timezone is not given, and the guessed zone "PST" is not a known time zone; did you mean "America/Los_Angeles"?`},
		"given, and no zone":                   {"W. Europe Standard Time", `{"country": "NO"}`, both, `timezone is not a known time zone; did you mean "Europe/Berlin"?`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := adasProfile()
			p.Timezone, p.Attributes = tt.zone, json.RawMessage(tt.attributes)
			var options []almanac.Option
			if tt.option != nil {
				options = append(options, tt.option)
			}

			u, err := almanac.NewUser(p, instant(t, "2026-01-01T00:00:00Z"), options...)

			got := u.Timezone.String() + " " + string(u.ZoneSource)
			if err != nil {
				got = strings.Join(complaints(t, err), "; ")
				require.ErrorIs(t, err, calendar.ErrInvalidTimezone)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// Whether a date of birth is in the future is judged by the zone that is guessed.
func TestADateOfBirthIsJudgedInTheGuessedZone(t *testing.T) {
	t.Parallel()

	p := adasProfile()
	p.Timezone, p.Attributes, p.DateOfBirth = "", country("NZ"), "2026-01-01"
	now := instant(t, "2025-12-31T12:00:00Z")
	_, err := almanac.NewUser(p, now, almanac.WithZoneGuess("America/New_York", byCountry))
	require.Equal(t, []string{"dateOfBirth is in the future"}, complaints(t, err), "NZ has two zones, so New York counts")
	p.Attributes = country("TO")
	u, err := almanac.NewUser(p, now, almanac.WithZoneGuess("America/New_York", byCountry))
	require.NoError(t, err)
	require.Equal(t, "Pacific/Tongatapu", u.Timezone.String())
}

// A better source replaces the zone in one edit, and the events follow in the same transaction. A worse one does not.
func TestABetterSourceReplacesTheZone(t *testing.T) {
	t.Parallel()
	for name, open := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openOn(open(t))
			scheduler := w.scheduler(t, almanac.Birthday{}, almanac.WithZoneGuess("Etc/UTC", byCountry))
			without := w.scheduler(t, almanac.Birthday{})
			p := adasProfile()
			p.Timezone = ""
			_, err := without.CreateUser(t.Context(), p)
			require.Equal(t, []string{"timezone is empty"}, complaints(t, err))
			created, err := scheduler.CreateUser(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, "Etc/UTC", created.Events[0].Zone)

			oslo, locale, none := "Europe/Oslo", "nb", ""
			for i, step := range []struct {
				by    almanac.Scheduler
				c     almanac.ProfileChange
				want  string
				moved int
			}{
				{scheduler, almanac.ProfileChange{Locale: &locale}, "Etc/UTC default", 0},
				{scheduler, almanac.ProfileChange{Merge: country("JP")}, "Asia/Tokyo guessed", 1},
				{scheduler, almanac.ProfileChange{Merge: country("US")}, "Asia/Tokyo guessed", 0},
				{without, almanac.ProfileChange{Merge: country("NO")}, "Asia/Tokyo guessed", 0},
				{scheduler, almanac.ProfileChange{OptOut: []almanac.OptOut{{Channel: "sms"}}}, "Asia/Tokyo guessed", 0},
				{scheduler, almanac.ProfileChange{FirstName: &locale}, "Europe/Oslo guessed", 1},
				{scheduler, almanac.ProfileChange{Timezone: &oslo}, "Europe/Oslo declared", 0},
				{scheduler, almanac.ProfileChange{Merge: country("JP")}, "Europe/Oslo declared", 0},
				{scheduler, almanac.ProfileChange{Timezone: &none, Merge: country("US")}, "Etc/UTC default", 1},
			} {
				done, err := step.by.UpdateUser(t.Context(), p.ID, step.c)
				require.NoError(t, err, "step %d", i)
				u, err := w.store.User(t.Context(), p.ID)
				require.NoError(t, err)
				require.Equal(t, step.want, u.Timezone.String()+" "+string(u.ZoneSource), "step %d", i)
				require.Len(t, done.Moved, step.moved, "step %d", i)
				events := w.all(t)
				require.Len(t, events, 1)
				require.Equal(t, u.Timezone.String(), events[0].Zone, "step %d", i)
				require.Equal(t, "09:00:00", u.Timezone.WallTime(events[0].Due).Clock.String(), "step %d", i)
			}
			_, err = without.UpdateUser(t.Context(), p.ID, almanac.ProfileChange{Timezone: &none})
			require.Equal(t, []string{"timezone is empty"}, complaints(t, err), "nothing can be withdrawn without the option")
		})
	}
}

func TestCreateUsersGuessesEachZone(t *testing.T) {
	t.Parallel()
	for name, open := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openOn(open(t))
			scheduler := w.scheduler(t, almanac.Birthday{}, almanac.WithZoneGuess("", func(u almanac.User) string {
				if !u.Timezone.IsZero() || u.ZoneSource != "" {
					panic("a guess depends on the zone")
				}
				if strings.Contains(string(u.Attributes), "panic") {
					panic("no table")
				}
				return byCountry(u)
			}))
			users := folk(4)
			for i, attributes := range []json.RawMessage{country("NO"), country("US"), country("panic"), country("JP")} {
				users[i].Timezone, users[i].Attributes = "", attributes
			}
			users[3].Timezone = "Europe/Paris"

			done, err := scheduler.CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})

			require.NoError(t, err)
			require.Equal(t, 2, done.Created)
			require.Equal(t, []int{1, 2}, []int{done.Refused[0].Position, done.Refused[1].Position})
			require.Equal(t, []string{"timezone is empty, and cannot be guessed"}, complaints(t, done.Refused[0].Err))
			require.ErrorContains(t, done.Refused[1].Err, "almanac: guessing a time zone panicked: no table")
			for source, want := range map[almanac.ZoneSource][]string{almanac.ZoneGuessed: {"Europe/Oslo"}, almanac.ZoneDeclared: {"Europe/Paris"}, almanac.ZoneDefault: nil} {
				found, err := w.store.FindUsers(t.Context(), almanac.UserFilter{ZoneSource: source}, almanac.Page{})
				require.NoError(t, err)
				var zones []string
				for _, u := range found.Items {
					zones = append(zones, u.Timezone.String())
				}
				require.Equal(t, want, zones, source)
			}
		})
	}
}

// Whatever is edited in any order: a declared zone changes only when another one is declared or it is
// withdrawn, and a guess gives way to a guess only.
func TestAZoneNeverGivesWayToAWorseSource(t *testing.T) {
	t.Parallel()

	rank := []almanac.ZoneSource{almanac.ZoneDefault, almanac.ZoneGuessed, almanac.ZoneDeclared}
	rapid.Check(t, func(t *rapid.T) {
		codes, zones := []string{"NO", "JP", "US", ""}, []string{"Europe/Oslo", "Asia/Tokyo", "Europe/Paris", ""}
		options := almanac.WithZoneGuess("Etc/UTC", byCountry)
		p := adasProfile()
		p.Timezone, p.Attributes = rapid.SampledFrom(zones).Draw(t, "zone"), country(rapid.SampledFrom(codes).Draw(t, "country"))
		now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
		u, err := almanac.NewUser(p, now, options)
		require.NoError(t, err)
		for range rapid.IntRange(1, 8).Draw(t, "edits") {
			var c almanac.ProfileChange
			if rapid.Bool().Draw(t, "moves") {
				c.Attributes = country(rapid.SampledFrom(codes).Draw(t, "country"))
			}
			if rapid.IntRange(0, 2).Draw(t, "declares") == 0 {
				zone := rapid.SampledFrom(zones).Draw(t, "zone")
				c.Timezone = &zone
			}
			edited, err := u.Edit(c, now, options)
			require.NoError(t, err)
			switch guess := byCountry(edited); {
			case c.Timezone != nil && *c.Timezone != "":
				require.Equal(t, *c.Timezone+" declared", edited.Timezone.String()+" "+string(edited.ZoneSource))
			case c.Timezone != nil && guess == "":
				require.Equal(t, "Etc/UTC default", edited.Timezone.String()+" "+string(edited.ZoneSource))
			case guess != "" && (c.Timezone != nil || c.Attributes != nil && u.ZoneSource != almanac.ZoneDeclared):
				require.Equal(t, guess+" guessed", edited.Timezone.String()+" "+string(edited.ZoneSource))
			default:
				require.Equal(t, u.Timezone, edited.Timezone)
				require.Equal(t, u.ZoneSource, edited.ZoneSource)
			}
			if c.Timezone == nil {
				require.GreaterOrEqual(t, slices.Index(rank, edited.ZoneSource), slices.Index(rank, u.ZoneSource))
			}
			u = edited
		}
	})
}
