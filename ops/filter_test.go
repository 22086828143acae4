package ops_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

func ExampleFilterText() {
	_, err := ops.FilterText{Status: "LOST", From: "yesterday", Days: "Europe/London"}.Parse()
	fmt.Println(err)
	// Output: almanac: invalid input: status is not one of PENDING, PROCESSING, COMPLETED, FAILED, CANCELLED; from is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15
}

// A date begins at midnight, in the given zone.
func ExampleParseInstant() {
	at, err := ops.ParseInstant("2027-06-01", "Europe/London")
	fmt.Println(at, err)
	// Output: 2027-05-31 23:00:00 +0000 UTC <nil>
}

func TestAFilterSelectsByEveryField(t *testing.T) {
	t.Parallel()
	user := uuid.MustParse("0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55")
	spec, err := ops.FilterText{
		Status: "FAILED", Type: "BIRTHDAY", User: user.String(), Zone: "Asia/Tokyo", Reason: "webhook: ",
		From: "2026-03-15T14:00:00+01:00", Until: "2026-03-16T00:00:00Z",
	}.Parse()
	require.NoError(t, err)
	require.Equal(t, almanac.And{
		almanac.InStatus(almanac.Failed), almanac.OfType("BIRTHDAY"), almanac.ForUser(user), almanac.InZone{"Asia/Tokyo"}, almanac.ForReason("webhook: "),
		almanac.DueBetween{From: time.Date(2026, 3, 15, 13, 0, 0, 0, time.UTC), Until: time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC)},
	}, spec)
	spec, err = ops.FilterText{}.Parse()
	require.NoError(t, err)
	require.Empty(t, spec)
}

func TestAFilterNamesEveryWrongField(t *testing.T) {
	t.Parallel()
	const status, kind = "is not one of PENDING, PROCESSING, COMPLETED, FAILED, CANCELLED", "is not an event type: 1 to 50 bytes without control characters"
	const zone, reason = "is not the name of a time zone: 1 to 100 bytes without control characters", "is not the beginning of a reason: 1 to 1,000 bytes of text"
	const instant = "is not an instant of RFC 3339 since 1900, such as 2026-03-15T14:00:00Z"
	for name, tt := range map[string]struct {
		text ops.FilterText
		want []almanac.FieldError
	}{
		"all": {
			ops.FilterText{Status: "failed", Type: "\n", User: "7", Zone: "\xff", Reason: "a\x00", From: "2026-03-15", Until: "x"},
			[]almanac.FieldError{{Field: "status", Problem: status}, {Field: "type", Problem: kind}, {Field: "user", Problem: "is not a UUID"}, {Field: "zone", Problem: zone},
				{Field: "reason", Problem: reason}, {Field: "from", Problem: instant}, {Field: "until", Problem: instant}},
		},
		"too long": {
			ops.FilterText{Type: strings.Repeat("x", 51), Zone: strings.Repeat("x", 101), Reason: strings.Repeat("x", 1001)},
			[]almanac.FieldError{{Field: "type", Problem: kind}, {Field: "zone", Problem: zone}, {Field: "reason", Problem: reason}},
		},
		"no range":      {ops.FilterText{From: "2026-03-15", Until: "2026-03-15", Days: "UTC"}, []almanac.FieldError{{Field: "until", Problem: "is not after from"}}},
		"another UUID":  {ops.FilterText{User: "0198a1f07c3e7d6a9b1f2f6d1c0e4a55"}, []almanac.FieldError{{Field: "user", Problem: "is not a UUID"}}},
		"an early year": {ops.FilterText{From: "1899-12-31T23:59:59Z"}, []almanac.FieldError{{Field: "from", Problem: instant}}},
	} {
		spec, err := tt.text.Parse()
		var invalid *almanac.ValidationError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, tt.want, invalid.Fields, name)
		require.Empty(t, spec, name)
	}
}

func TestInstantsOfDays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, days, want string }{
		{"2026-03-15T14:00:00Z", "", "2026-03-15T14:00:00Z"},
		{"2026-03-15T14:00+01:00", "", "2026-03-15T13:00:00Z"},
		{"2026-03-15", "UTC", "2026-03-15T00:00:00Z"},
		{"2026-03-15", "Asia/Tokyo", "2026-03-14T15:00:00Z"},
		{"2026-03-15T14:00", "Asia/Tokyo", "2026-03-15T05:00:00Z"},
		{"2026-03-15 14:00:07", "UTC", "2026-03-15T14:00:07Z"},
		{"2026-03-29", "Asia/Beirut", "2026-03-28T22:00:00Z"},         // clocks skip midnight
		{"2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30:00Z"}, // clocks show it twice
	} {
		at, err := ops.ParseInstant(tt.text, tt.days)
		require.NoError(t, err, tt)
		require.Equal(t, tt.want, at.Format(time.RFC3339), tt)
	}
	for _, tt := range []struct{ text, days, problem string }{
		{"2026-03-15", "", "is not an instant of RFC 3339 since 1900"},
		{"now", "UTC", "is neither an instant such as 2026-03-15T14:00:00Z nor a date such as 2026-03-15"},
		{"2026-02-29", "UTC", "is neither"},
		{"2026-03-15T25:00", "UTC", "is neither"},
		{"0001-01-01", "Asia/Tokyo", "is not in the years 1900 to 9999"},
		{"2026-03-15", "Mars/Base", "is a day in a zone that this program does not know"},
	} {
		_, err := ops.ParseInstant(tt.text, tt.days)
		var wrong *calendar.FormatError
		require.ErrorAs(t, err, &wrong, tt)
		require.Contains(t, wrong.Problem, tt.problem)
		require.Equal(t, tt.text, wrong.Text)
	}
}
