package almanac_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// plain is a handler that does what a test says.
type plain struct {
	eventType string
	payload   json.RawMessage
	err       error
}

func (p plain) EventType() string { return p.eventType }

func (p plain) Next(almanac.User, time.Time) (almanac.Occurrence, error) {
	return almanac.Occurrence{}, almanac.ErrNoOccurrence
}

func (p plain) Payload(almanac.User, almanac.Occurrence) (json.RawMessage, error) {
	return p.payload, p.err
}

func (plain) Channel(almanac.Event) almanac.Channel { return almanac.ChannelWebhook }

// digest is an occurrence of a plain handler, in the user's own zone.
func digest(t testing.TB) almanac.Occurrence {
	t.Helper()
	return almanac.Occurrence{Key: "2026-01-15", Wall: wall(t, "2026-01-15T14:00:00")}
}

func TestNewEvent(t *testing.T) {
	t.Parallel()

	u := ada(t)
	tokyo := digest(t)
	tokyo.Zone, tokyo.Policies = zone(t, "Asia/Tokyo"), almanac.Policies{Gap: almanac.GapSkip}
	tests := map[string]struct {
		occurrence almanac.Occurrence
		zone, due  string
		policies   almanac.Policies
		key        almanac.IdempotencyKey
	}{
		"in the user's zone": {
			digest(t), "Europe/London", "2026-01-15T14:00:00Z",
			almanac.Policies{Gap: almanac.GapForward, Fold: almanac.FoldFirst, LeapDay: almanac.LeapDayFeb28, MonthEnd: almanac.MonthEndClamp},
			"event-2d8e0bd97295e5df",
		},
		"in a zone of its own": {
			tokyo, "Asia/Tokyo", "2026-01-15T05:00:00Z",
			almanac.Policies{Gap: almanac.GapSkip, Fold: almanac.FoldFirst, LeapDay: almanac.LeapDayFeb28, MonthEnd: almanac.MonthEndClamp},
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

func TestNewEventJudgesBounds(t *testing.T) {
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

func TestNewEventPassesErrorsOn(t *testing.T) {
	t.Parallel()

	broken := errors.New("template is broken")
	gap := almanac.Occurrence{Key: "1", Wall: wall(t, "2026-03-29T01:30:00")} // skipped in London
	skipped, rejected := gap, gap
	skipped.Policies.Gap, rejected.Policies.Gap = almanac.GapSkip, almanac.GapReject
	nowhere := digest(t)
	nowhere.Zone = almanac.StoredTimezone("America/Atlantis")
	tests := map[string]struct {
		occurrence almanac.Occurrence
		handler    plain
		want       error
	}{
		"of the handler":            {digest(t), plain{eventType: "A", err: broken}, broken},
		"of a gap that is skipped":  {skipped, plain{eventType: "A"}, almanac.ErrSkippedWallTime},
		"of a gap that is rejected": {rejected, plain{eventType: "A"}, almanac.ErrRejectedWallTime},
		"of a zone without data":    {nowhere, plain{eventType: "A"}, almanac.ErrInvalidTimezone},
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
