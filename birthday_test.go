package almanac_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
)

func TestBirthdayGreetsAtNineWhereThePersonLives(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		born, zone, after string
		key, due          string
	}{
		"an ordinary birthday":                {"1990-12-10", "Europe/London", "2026-01-01T00:00:00Z", "2026", "2026-12-10T09:00:00Z"},
		"in summer time":                      {"1990-07-10", "Europe/London", "2026-01-01T00:00:00Z", "2026", "2026-07-10T08:00:00Z"},
		"born on New Year's Eve, far east":    {"1990-12-31", "Pacific/Kiritimati", "2026-06-01T00:00:00Z", "2026", "2026-12-30T19:00:00Z"},
		"born on New Year's Eve, far west":    {"1990-12-31", "Pacific/Niue", "2026-06-01T00:00:00Z", "2026", "2026-12-31T20:00:00Z"},
		"born on New Year's Day, far east":    {"1990-01-01", "Pacific/Kiritimati", "2026-06-01T00:00:00Z", "2027", "2026-12-31T19:00:00Z"},
		"born on New Year's Day, far west":    {"1990-01-01", "Pacific/Niue", "2026-06-01T00:00:00Z", "2027", "2027-01-01T20:00:00Z"},
		"born on a leap day, common year":     {"1992-02-29", "America/New_York", "2026-06-01T00:00:00Z", "2027", "2027-02-28T14:00:00Z"},
		"born on a leap day, leap year":       {"1992-02-29", "America/New_York", "2027-06-01T00:00:00Z", "2028", "2028-02-29T14:00:00Z"},
		"born today, the day of birth counts": {"2026-03-15", "Asia/Tokyo", "2026-03-14T15:00:00Z", "2026", "2026-03-15T00:00:00Z"},
		"born today, the greeting was missed": {"2026-03-15", "Asia/Tokyo", "2026-03-15T00:00:00Z", "2027", "2027-03-15T00:00:00Z"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := user(t, almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: tt.born, Timezone: tt.zone}, tt.after)

			o, err := almanac.Birthday{}.Next(u, instant(t, tt.after))
			if err != nil {
				t.Fatal(err)
			}
			r, err := o.Zone.Resolve(o.Wall, o.Policies)

			if err != nil || o.Key != tt.key || !r.Instant.Equal(instant(t, tt.due)) || o.Wall.Clock != (almanac.Clock{Hour: 9}) {
				t.Errorf("born %s in %s, after %s: %+v at %v, %v; want %s at %s", tt.born, tt.zone, tt.after, o, r, err, tt.key, tt.due)
			}
		})
	}
}

func TestBirthdayObeysItsSettings(t *testing.T) {
	t.Parallel()

	u := user(t, almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1992-02-29", Timezone: "Asia/Tokyo"}, "2026-06-01T00:00:00Z")
	b := almanac.Birthday{
		At:       func(u almanac.User) almanac.Clock { return almanac.Clock{Hour: 7, Minute: len(u.FirstName)} },
		Message:  func(u almanac.User) string { return "Many happy returns, " + u.FirstName },
		Policies: almanac.Policies{LeapDay: almanac.LeapDayMar1},
		Via:      "sms",
	}

	o, err := b.Next(u, instant(t, "2026-06-01T00:00:00Z"))
	want := almanac.Occurrence{Key: "2027", Wall: wall(t, "2027-03-01T07:03:00"), Zone: u.Timezone, Policies: b.Policies, Named: almanac.Date{Year: 2027, Month: 2, Day: 29}}
	if err != nil || o != want {
		t.Errorf("Next = %+v, %v; want %+v", o, err, want)
	}
	payload, err := b.Payload(u, o)
	if got, want := string(payload), `{"message":"Many happy returns, Ada"}`; err != nil || got != want {
		t.Errorf("Payload = %s, %v; want %s", got, err, want)
	}
	if got := b.Channel(almanac.Event{}); got != "sms" {
		t.Errorf("Channel = %q, want sms", got)
	}
}

func TestBirthdayByDefault(t *testing.T) {
	t.Parallel()

	u := ada(t)
	var b almanac.Birthday
	if got, want := almanac.BirthdayMessage(u), "Hey, Ada Lovelace it's your birthday"; got != want {
		t.Errorf("BirthdayMessage = %q, want %q", got, want)
	}
	payload, err := b.Payload(u, almanac.Occurrence{})
	var said struct{ Message string }
	if err := json.Unmarshal(payload, &said); err != nil {
		t.Fatal(err)
	}
	if err != nil || said.Message != almanac.BirthdayMessage(u) {
		t.Errorf("Payload = %s, %v; want the default message", payload, err)
	}
	if b.EventType() != "BIRTHDAY" || b.Channel(almanac.Event{}) != almanac.ChannelWebhook {
		t.Errorf("type %q, channel %q; want BIRTHDAY by webhook", b.EventType(), b.Channel(almanac.Event{}))
	}
}

func TestBirthdayIsExecutedAsItsSettingsSay(t *testing.T) {
	t.Parallel()

	b := almanac.Birthday{Execution: almanac.Execution{AttemptTimeout: time.Second, RetryPolicy: almanac.PatientRetry(), CatchUpPolicy: almanac.CatchUp{All: true}}}
	var h almanac.EventHandler = b
	timeouter, retrier, catchUpper := h.(almanac.Timeouter), h.(almanac.Retrier), h.(almanac.CatchUpper)
	if timeouter.Timeout() != time.Second || retrier.Retry() != almanac.PatientRetry() || !catchUpper.CatchUp().All {
		t.Errorf("an embedded Execution is %v, %+v, %+v", timeouter.Timeout(), retrier.Retry(), catchUpper.CatchUp())
	}
}
