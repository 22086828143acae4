package almanac_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
)

// plain is a handler that does what a test says.
type plain struct {
	eventType string
	payload   json.RawMessage
	err       error
}

func (p plain) EventType() string { return p.eventType }

func (p plain) Next(almanac.User, time.Time) (calendar.Occurrence, error) {
	return calendar.Occurrence{}, calendar.ErrNoOccurrence
}

func (p plain) Payload(almanac.User, almanac.Occurrence) (json.RawMessage, error) {
	return p.payload, p.err
}

func (plain) Channel(almanac.Event) almanac.Channel { return almanac.ChannelWebhook }

// digest is an occurrence of a plain handler, in the user's own zone.
func digest(t testing.TB) almanac.Occurrence {
	t.Helper()
	return almanac.Occurrence{Occurrence: calendar.Occurrence{Key: "2026-01-15", Wall: wall(t, "2026-01-15T14:00:00")}}
}

func TestNewEvent(t *testing.T) {
	t.Parallel()

	u := ada(t)
	tokyo := digest(t)
	tokyo.Zone, tokyo.Policies = zone(t, "Asia/Tokyo"), calendar.Policies{Gap: calendar.GapSkip}
	tests := map[string]struct {
		occurrence almanac.Occurrence
		zone, due  string
		policies   calendar.Policies
		key        almanac.IdempotencyKey
	}{
		"in the user's zone": {
			digest(t), "Europe/London", "2026-01-15T14:00:00Z",
			calendar.Policies{Gap: calendar.GapForward, Fold: calendar.FoldFirst, LeapDay: calendar.LeapDayFeb28, MonthEnd: calendar.MonthEndClamp},
			"event-2d8e0bd97295e5df",
		},
		"in a zone of its own": {
			tokyo, "Asia/Tokyo", "2026-01-15T05:00:00Z",
			calendar.Policies{Gap: calendar.GapSkip, Fold: calendar.FoldFirst, LeapDay: calendar.LeapDayFeb28, MonthEnd: calendar.MonthEndClamp},
			almanac.NewIdempotencyKey(u.ID.String(), instant(t, "2026-01-15T05:00:00Z"), "BIRTHDAY"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := almanac.NewEvent(u, plain{eventType: "BIRTHDAY", payload: json.RawMessage(`{"a":1}`)}, tt.occurrence)

			due := instant(t, tt.due)
			want := almanac.Event{
				ID: got.ID, UserID: u.ID, Type: "BIRTHDAY", OccurrenceKey: "2026-01-15", Status: almanac.Pending, Due: due,
				Wall: tt.occurrence.Wall, Zone: tt.zone, Policies: tt.policies, IdempotencyKey: tt.key, Payload: json.RawMessage(`{"a":1}`),
				UserVersion: 1, AvailableAt: due, Version: 1,
			}
			if err != nil || got.ID.Version() != 7 || !reflect.DeepEqual(got, want) {
				t.Errorf("NewEvent = %+v, %v\nwant %+v", got, err, want)
			}
			long := almanac.NewLongIdempotencyKey(u.ID.String(), due, "BIRTHDAY", "2026-01-15")
			if got.LongKey() != long {
				t.Errorf("LongKey = %s, want %s", got.LongKey(), long)
			}
		})
	}
}

func TestNewEventChecksBounds(t *testing.T) {
	t.Parallel()

	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	tests := map[string]struct {
		eventType, key string
		payload        json.RawMessage
		want           []string // the fields that are refused
	}{
		"at the lower bounds":             {"A", "1", json.RawMessage(`0`), nil},
		"at the upper bounds":             {strings.Repeat("A", 50), strings.Repeat("1", 100), text(64 << 10), nil},
		"payload of null":                 {"A", "1", json.RawMessage(`null`), nil},
		"payload with a surrogate pair":   {"A", "1", json.RawMessage(`"\ud83c\udf82"`), nil},
		"no type":                         {"", "1", json.RawMessage(`0`), []string{"event type"}},
		"type too long":                   {strings.Repeat("A", 51), "1", json.RawMessage(`0`), []string{"event type"}},
		"no key":                          {"A", "", json.RawMessage(`0`), []string{"occurrence key"}},
		"key too long":                    {"A", strings.Repeat("1", 101), json.RawMessage(`0`), []string{"occurrence key"}},
		"no payload":                      {"A", "1", nil, []string{"payload"}},
		"payload too long":                {"A", "1", text(64<<10 + 1), []string{"payload"}},
		"payload text too long":           {"A", "1", json.RawMessage(strings.Repeat(" ", 256<<10) + "1"), []string{"payload"}},
		"payload that grows":              {"A", "1", json.RawMessage("[" + strings.Repeat("1e308,", 10_000) + "1]"), []string{"payload"}},
		"payload that is no JSON":         {"A", "1", json.RawMessage(`{`), []string{"payload"}},
		"payload of two values":           {"A", "1", json.RawMessage(`0 0`), []string{"payload"}},
		"payload with a NUL":              {"A", "1", json.RawMessage(`"\u0000"`), []string{"payload"}},
		"payload that is not UTF-8":       {"A", "1", json.RawMessage("\"\xff\""), []string{"payload"}},
		"payload with half a pair":        {"A", "1", json.RawMessage(`"\ud83c"`), []string{"payload"}},
		"payload of a number too great":   {"A", "1", json.RawMessage(`1e200000`), []string{"payload"}},
		"everything at once, in an order": {"", "", nil, []string{"event type", "occurrence key", "payload"}},
		"type with a NUL":                 {"A\x00", "1", json.RawMessage(`0`), []string{"event type"}},
		"type that is not UTF-8":          {"\xff", "1", json.RawMessage(`0`), []string{"event type"}},
		"key with a NUL":                  {"A", "1\x00", json.RawMessage(`0`), []string{"occurrence key"}},
		"key that is not UTF-8":           {"A", "\xff", json.RawMessage(`0`), []string{"occurrence key"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := digest(t)
			o.Key = tt.key

			e, err := almanac.NewEvent(ada(t), plain{eventType: tt.eventType, payload: tt.payload}, o)

			var invalid *almanac.ValidationError
			var fields []string
			if errors.As(err, &invalid) {
				for _, f := range invalid.Fields {
					fields = append(fields, f.Field)
				}
			}
			if !slices.Equal(fields, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("NewEvent: %v, want %q refused", err, tt.want)
			}
			if err != nil && e.ID != uuid.Nil {
				t.Errorf("NewEvent refused, but returned %+v", e)
			}
		})
	}
}

// What the calendar refuses of an occurrence is bad input like the rest.
func TestNewEventNamesFieldsThatTheCalendarRefuses(t *testing.T) {
	t.Parallel()

	o := digest(t)
	o.Policies.Gap, o.Wall.Date.Day = "sideways", 32

	_, err := almanac.NewEvent(ada(t), plain{eventType: "A"}, o)

	var invalid *almanac.ValidationError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 2 || invalid.Fields[0].Field != "gap" || invalid.Fields[1].Field != "wall time" {
		t.Errorf("NewEvent: %v, want gap and wall time refused", err)
	}
}

func TestNewEventPassesErrorsOn(t *testing.T) {
	t.Parallel()

	broken := errors.New("template is broken")
	gap := digest(t)
	gap.Wall = wall(t, "2026-03-29T01:30:00") // skipped in London
	skipped, rejected := gap, gap
	skipped.Policies.Gap, rejected.Policies.Gap = calendar.GapSkip, calendar.GapReject
	nowhere := digest(t)
	nowhere.Zone = calendar.StoredTimezone("America/Atlantis")
	tests := map[string]struct {
		occurrence almanac.Occurrence
		handler    plain
		want       error
	}{
		"of the handler":            {digest(t), plain{eventType: "A", err: broken}, broken},
		"of a gap that is skipped":  {skipped, plain{eventType: "A"}, calendar.ErrSkippedWallTime},
		"of a gap that is rejected": {rejected, plain{eventType: "A"}, calendar.ErrRejectedWallTime},
		"of a zone without data":    {nowhere, plain{eventType: "A"}, calendar.ErrInvalidTimezone},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if e, err := almanac.NewEvent(ada(t), tt.handler, tt.occurrence); !errors.Is(err, tt.want) || e.ID != uuid.Nil {
				t.Errorf("NewEvent = %+v, %v; want %v", e, err, tt.want)
			}
		})
	}
}

// The instant that Next found is the event's. Rules that are replaced between the two are what a
// second resolution would follow.
func TestAnOccurrenceIsResolvedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	east := func(hours int) {
		file := zonetest.File(hours*3600, nil, "")
		require.NoError(t, zonetest.WriteDir(dir, "", map[string][]byte{"Asia/Beirut": file}))
	}
	east(2)
	data, err := calendar.OpenZoneData(dir)
	require.NoError(t, err)
	there, err := data.Timezone("Asia/Beirut")
	require.NoError(t, err)
	u := ada(t)
	u.Timezone = there

	next, err := almanac.Birthday{}.Next(u, instant(t, "2027-01-01T00:00:00Z"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "Asia", "Beirut")))
	east(3)
	require.NoError(t, data.Reload())

	for name, tt := range map[string]struct {
		change func(o *almanac.Occurrence)
		hours  time.Duration // east of UTC
	}{
		"as it was found":  {func(*almanac.Occurrence) {}, 2},
		"at another time":  {func(o *almanac.Occurrence) { o.Wall.Clock.Minute = 30 }, 3},
		"by other rules":   {func(o *almanac.Occurrence) { o.Policies.Gap = calendar.GapSkip }, 3},
		"in another zone":  {func(o *almanac.Occurrence) { o.Zone = zone(t, "Europe/Moscow") }, 3},
		"made by the host": {func(o *almanac.Occurrence) { o.Occurrence = calendar.Occurrence{Key: o.Key, Wall: o.Wall} }, 3},
	} {
		o := almanac.Occurrence{Occurrence: next}
		tt.change(&o)
		e, err := almanac.NewEvent(u, almanac.Birthday{}, o)
		require.NoError(t, err)
		require.Equal(t, o.Wall.Labelled().Add(-tt.hours*time.Hour), e.Due, name)
	}
}
