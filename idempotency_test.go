package almanac_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

func TestNewIdempotencyKeyGivesKnownAnswers(t *testing.T) {
	t.Parallel()

	const ada = "123e4567-e89b-12d3-a456-426614174000"
	tests := map[string]struct {
		user, due, eventType string
		want                 almanac.IdempotencyKey
	}{
		"an id of letters":          {"user-123", "2025-03-15T14:00:00.000Z", "BIRTHDAY", "event-0da59425d0ba435e"},
		"an id of digits":           {ada, "2026-01-15T14:00:00.000Z", "BIRTHDAY", "event-2d8e0bd97295e5df"},
		"another type":              {ada, "2026-01-15T14:00:00.000Z", "ANNIVERSARY", "event-426e5ef01b06f7c4"},
		"milliseconds":              {ada, "2026-01-15T14:00:00.123Z", "REMINDER", "event-f97aa027076a5a4f"},
		"the beginning of all":      {uuid.Nil.String(), "1970-01-01T00:00:00.000Z", "BIRTHDAY", "event-4f92d258f8c87912"},
		"an instant told elsewhere": {ada, "2026-01-15T09:00:00.000-05:00", "BIRTHDAY", "event-2d8e0bd97295e5df"},
		"an instant on a quarter":   {ada, "2026-01-15T19:45:00+05:45", "BIRTHDAY", "event-2d8e0bd97295e5df"},
		"digits below milliseconds": {ada, "2026-01-15T14:00:00.123999999Z", "REMINDER", "event-f97aa027076a5a4f"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due, err := time.Parse(time.RFC3339, tt.due)
			if err != nil {
				t.Fatal(err)
			}

			if got := almanac.NewIdempotencyKey(tt.user, due, tt.eventType); got != tt.want || got.String() != string(tt.want) {
				t.Errorf("key of %s, %s, %s = %s, want %s", tt.user, tt.due, tt.eventType, got, tt.want)
			}
		})
	}
}

func TestNewLongIdempotencyKeyTellsOccurrencesApart(t *testing.T) {
	t.Parallel()

	due := instant(t, "2026-01-15T14:00:00Z")
	long := almanac.NewLongIdempotencyKey("user-123", due, "BIRTHDAY", "2026")
	if !regexp.MustCompile(`^event-[0-9a-f]{32}$`).MatchString(long.String()) {
		t.Errorf("long key %s, want event- and 32 hexadecimal digits", long)
	}
	if again := almanac.NewLongIdempotencyKey("user-123", due.Add(time.Microsecond).In(time.FixedZone("", -3600)), "BIRTHDAY", "2026"); again != long {
		t.Errorf("long key %s, told elsewhere %s", long, again)
	}
	others := []almanac.IdempotencyKey{
		almanac.NewLongIdempotencyKey("user-123", due, "BIRTHDAY", "2027"),
		almanac.NewLongIdempotencyKey("user-124", due, "BIRTHDAY", "2026"),
		almanac.NewLongIdempotencyKey("user-123", due.Add(time.Millisecond), "BIRTHDAY", "2026"),
		almanac.NewLongIdempotencyKey("user-123", due, "REMINDER", "2026"),
		almanac.NewIdempotencyKey("user-123", due, "BIRTHDAY"),
	}
	for _, other := range others {
		if other == long || other[:22] == long[:22] {
			t.Errorf("the key %s of something else is like %s", other, long)
		}
	}
}
