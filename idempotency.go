package almanac

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/google/uuid"
)

// IdempotencyKey lets a receiver recognize repeated deliveries of the same event. It is
// fixed when the event is created, and is the same on every attempt. It has the form
// "event-" and 16 hexadecimal digits, or 32 if the short form was taken.
type IdempotencyKey string

// keyInstant is ISO 8601 in UTC with exactly three fractional digits.
const keyInstant = "2006-01-02T15:04:05.000Z"

// NewIdempotencyKey derives the key of an event from its user, its due instant at creation,
// and its type. The key is "event-" and the first 16 hexadecimal digits of SHA-256 over
//
//	userID-2025-03-15T14:00:00.000Z-EVENTTYPE
//
// The hash hides the user and the instant from the receiver. It is not a signature.
func NewIdempotencyKey(userID string, due time.Time, eventType string) IdempotencyKey {
	return hashKey(16, append(make([]byte, 0, keyText), userID...), due, eventType)
}

// NewLongIdempotencyKey derives the key that an event takes if its short key already belongs to another
// occurrence. That happens if two hashes of 64 bits are equal, or if the other occurrence was planned for
// the same instant and has moved since. The long key also hashes the occurrence key and has 32 digits.
func NewLongIdempotencyKey(userID string, due time.Time, eventType, occurrenceKey string) IdempotencyKey {
	return hashKey(32, append(make([]byte, 0, keyText), userID...), due, eventType, occurrenceKey)
}

// keyText is the capacity of the text of a key: long enough for most, so that it stays on the stack.
const keyText = 128

// hashKey returns the key with a number of digits of the hash over the parts, joined by "-". The first
// part is the user id in text. The key is not the identity of the event, because its instant can move:
// see docs/adr/0006-identity.md.
func hashKey(digits int, text []byte, due time.Time, rest ...string) IdempotencyKey {
	text = appendInstant(append(text, '-'), due.UTC())
	for _, part := range rest {
		text = append(append(text, '-'), part...)
	}
	sum := sha256.Sum256(text)
	key := hex.AppendEncode(append(make([]byte, 0, 80), "event-"...), sum[:])
	return IdempotencyKey(key[:len("event-")+digits])
}

// LongKey returns the key that the event takes if its short key already belongs to
// another occurrence when the event is stored.
func (e Event) LongKey() IdempotencyKey {
	return hashKey(32, appendID(make([]byte, 0, keyText), e.UserID), e.Due, e.Type, e.longName())
}

// longName returns a name of the occurrence that is unique for its user and type. It is
// the key, or "series/key". If a slash or a detached series would make that name
// ambiguous, it is a form with zero bytes, which no key contains.
func (e Event) longName() string {
	one := SeriesOf(e)
	switch {
	case one.Detached != "" || strings.Contains(one.Name+e.OccurrenceKey, "/"):
		return one.Detached + "\x00" + one.Name + "\x00" + e.OccurrenceKey
	case one.Name != "":
		return one.Name + "/" + e.OccurrenceKey
	default:
		return e.OccurrenceKey
	}
}

// appendInstant appends an instant in the form of keyInstant. Package time has a fast way for RFC 3339, and
// each event needs this once.
func appendInstant(text []byte, due time.Time) []byte {
	if year := due.Year(); year < 0 || year > 9999 {
		return due.AppendFormat(text, keyInstant)
	}
	text = due.AppendFormat(text, time.RFC3339)
	ms := due.Nanosecond() / int(time.Millisecond)
	return append(text[:len(text)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// appendID appends an id in the form of [uuid.UUID.String].
func appendID(text []byte, id uuid.UUID) []byte {
	text = append(hex.AppendEncode(text, id[:4]), '-')
	text = append(hex.AppendEncode(text, id[4:6]), '-')
	text = append(hex.AppendEncode(text, id[6:8]), '-')
	text = append(hex.AppendEncode(text, id[8:10]), '-')
	return hex.AppendEncode(text, id[10:])
}

// String returns the key in the form in which it is sent.
func (k IdempotencyKey) String() string { return string(k) }

// ticks is the time in a UUIDv7, counted from 1970. The 12 bits below the milliseconds have the fraction
// of a millisecond in steps of 256 ns, as in package uuid (RFC 9562, section 6.2, method 3).
type ticks uint64

func ticksOf(t time.Time) ticks {
	return ticks(max(t.UnixMilli(), 0))<<12 | ticks(t.Nanosecond()%int(time.Millisecond))>>8
}

// ticksIn returns the time in a UUIDv7.
func ticksIn(id uuid.UUID) ticks {
	high := binary.BigEndian.Uint64(id[:8])
	return ticks(high>>16<<12 | high&0xfff)
}

// stamped returns id as a UUIDv7 of the given time. The other bits stay.
func stamped(id uuid.UUID, at ticks) uuid.UUID {
	const version7 = 0x7000
	binary.BigEndian.PutUint64(id[:8], uint64(at>>12)<<16|version7|uint64(at&0xfff))
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id
}
