package almanac_test

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
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
		"an id of letters":           {"user-123", "2025-03-15T14:00:00.000Z", "BIRTHDAY", "event-0da59425d0ba435e"},
		"an id of digits":            {ada, "2026-01-15T14:00:00.000Z", "BIRTHDAY", "event-2d8e0bd97295e5df"},
		"another type":               {ada, "2026-01-15T14:00:00.000Z", "ANNIVERSARY", "event-426e5ef01b06f7c4"},
		"milliseconds":               {ada, "2026-01-15T14:00:00.123Z", "REMINDER", "event-f97aa027076a5a4f"},
		"the beginning of all":       {uuid.Nil.String(), "1970-01-01T00:00:00.000Z", "BIRTHDAY", "event-4f92d258f8c87912"},
		"an instant in another zone": {ada, "2026-01-15T09:00:00.000-05:00", "BIRTHDAY", "event-2d8e0bd97295e5df"},
		"an instant on a quarter":    {ada, "2026-01-15T19:45:00+05:45", "BIRTHDAY", "event-2d8e0bd97295e5df"},
		"digits below milliseconds":  {ada, "2026-01-15T14:00:00.123999999Z", "REMINDER", "event-f97aa027076a5a4f"},
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

func TestNewLongIdempotencyKeyDiffersByOccurrence(t *testing.T) {
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

var (
	shortKey = regexp.MustCompile(`^event-[0-9a-f]{16}$`)
	longKey  = regexp.MustCompile(`^event-[0-9a-f]{32}$`)
)

// FuzzIdempotencyKeys derives keys of two events, each of a user and a type with
// a slash between: they are what is documented, in whatever zone an instant is
// told, and the same only where both are due to the same user in the same
// millisecond for the same reason.
func FuzzIdempotencyKeys(f *testing.F) {
	f.Add("one/BIRTHDAY", "two/BIRTHDAY", int64(1774746000_000), int64(0))
	f.Add("one/BIRTHDAY", "one/BIRTHDAY-2026", int64(1774746000_000), int64(0))
	f.Add("one/BIRTHDAY", "one/BIRTHDAY", int64(1774746000_000), int64(1))
	f.Add("", "/", int64(-1), int64(1))
	f.Add("one/A", "one/A", int64(-62135596800_000), int64(315537897599_999)) // the first millisecond that can be written, and the last
	f.Fuzz(func(t *testing.T, one, other string, millis, apart int64) {
		a, b := keyed(one, millis), keyed(other, millis+apart)
		if y := a.due.Year(); y < 1 || y > 9999 || b.due.Year() < 1 || b.due.Year() > 9999 {
			return
		}
		key, long := a.key(), a.long("2026")
		if !shortKey.MatchString(key.String()) || !longKey.MatchString(long.String()) {
			t.Errorf("keys %s and %s", key, long)
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s-%s.%03dZ-%s", a.user, a.due.Format("2006-01-02T15:04:05"), a.due.Nanosecond()/1e6, a.eventType))
		if want := fmt.Sprintf("event-%x", sum[:8]); key.String() != want {
			t.Errorf("key %s, want %s", key, want)
		}
		told := a
		told.due = a.due.Add(999_999 * time.Nanosecond).In(time.FixedZone("", int(millis%50400)))
		if told.key() != key || told.long("2026") != long {
			t.Errorf("key %s and %s, and told elsewhere %s and %s", key, long, told.key(), told.long("2026"))
		}
		if (b.key() == key) != (a == b) || (b.long("2026") == long) != (a == b) {
			t.Errorf("%+v has the keys %s and %s, and %+v has %s and %s", a, key, long, b, b.key(), b.long("2026"))
		}
		if a.long(other) == a.long(other+"x") {
			t.Errorf("two occurrences have the key %s", a.long(other))
		}
	})
}

// owedTo is what a key is made of.
type owedTo struct {
	user, eventType string
	due             time.Time
}

func keyed(text string, millis int64) owedTo {
	person, eventType, _ := strings.Cut(text, "/")
	return owedTo{uuid.NewSHA1(uuid.Nil, []byte(person)).String(), eventType, time.UnixMilli(millis).UTC()}
}

func (o owedTo) key() almanac.IdempotencyKey {
	return almanac.NewIdempotencyKey(o.user, o.due, o.eventType)
}

func (o owedTo) long(occurrence string) almanac.IdempotencyKey {
	return almanac.NewLongIdempotencyKey(o.user, o.due, o.eventType, occurrence)
}
