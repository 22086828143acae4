package almanac_test

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

var (
	shortKey = regexp.MustCompile(`^event-[0-9a-f]{16}$`)
	longKey  = regexp.MustCompile(`^event-[0-9a-f]{32}$`)
)

// FuzzIdempotencyKeys derives keys of two events: they are what is documented, in
// whatever zone an instant is told, and the same only where both are due to the
// same person in the same millisecond for the same reason.
func FuzzIdempotencyKeys(f *testing.F) {
	f.Add([]byte("one"), int64(1774746000_000), "BIRTHDAY", []byte("two"), int64(1774746000_000), "BIRTHDAY", "2026")
	f.Add([]byte("one"), int64(1774746000_000), "BIRTHDAY", []byte("one"), int64(1774746000_000), "BIRTHDAY-2026", "")
	f.Add([]byte{}, int64(0), "", []byte{}, int64(1), "", "-")
	f.Add([]byte("one"), int64(-62135596800_000), "A", []byte("one"), int64(253402300799_999), "A", "a-b")
	f.Fuzz(func(t *testing.T, a []byte, aMillis int64, aType string, b []byte, bMillis int64, bType, occurrence string) {
		const first, last = -62135596800_000, 253402300799_999 // the years 1 to 9999
		if aMillis < first || aMillis > last || bMillis < first || bMillis > last {
			return
		}
		aID, bID := uuid.NewSHA1(uuid.Nil, a).String(), uuid.NewSHA1(uuid.Nil, b).String()
		due := time.UnixMilli(aMillis)
		key := almanac.NewIdempotencyKey(aID, due, aType)
		long := almanac.NewLongIdempotencyKey(aID, due, aType, occurrence)
		if !shortKey.MatchString(key.String()) || !longKey.MatchString(long.String()) {
			t.Errorf("keys %s and %s", key, long)
		}
		written := due.UTC()
		sum := sha256.Sum256(fmt.Appendf(nil, "%s-%s.%03dZ-%s", aID, written.Format("2006-01-02T15:04:05"), written.Nanosecond()/1e6, aType))
		if want := fmt.Sprintf("event-%x", sum[:8]); key.String() != want {
			t.Errorf("key %s, want %s", key, want)
		}
		elsewhere := due.Add(999_999 * time.Nanosecond).In(time.FixedZone("", int(aMillis%50400)))
		if again := almanac.NewIdempotencyKey(aID, elsewhere, aType); again != key {
			t.Errorf("key %s, and told elsewhere %s", key, again)
		}
		other := almanac.NewIdempotencyKey(bID, time.UnixMilli(bMillis), bType)
		same := aID == bID && aMillis == bMillis && aType == bType
		if (other == key) != same {
			t.Errorf("%s %d %q has the key %s, and %s %d %q has %s", aID, aMillis, aType, key, bID, bMillis, bType, other)
		}
		if longer := almanac.NewLongIdempotencyKey(bID, time.UnixMilli(bMillis), bType, occurrence+"x"); longer == long {
			t.Errorf("two occurrences have the key %s", long)
		}
	})
}
