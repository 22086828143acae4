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

var (
	shortKey = regexp.MustCompile(`^event-[0-9a-f]{16}$`)
	longKey  = regexp.MustCompile(`^event-[0-9a-f]{32}$`)
)

// FuzzIdempotencyKeys derives keys of two events, each of a person and a type with
// a slash between: they are what is documented, in whatever zone an instant is
// told, and the same only where both are due to the same person in the same
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
