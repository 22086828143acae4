package almanac

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
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
	return hashKey(16, userID, due, eventType)
}

// NewLongIdempotencyKey derives the key that an event takes if its short key already belongs to another
// occurrence. That happens if two hashes of 64 bits are equal, or if the other occurrence was planned for
// the same instant and has moved since. The long key also hashes the occurrence key and has 32 digits.
func NewLongIdempotencyKey(userID string, due time.Time, eventType, occurrenceKey string) IdempotencyKey {
	return hashKey(32, userID, due, eventType, occurrenceKey)
}

// hashKey returns the key with a number of digits of the hash over the parts, joined by "-". The key is
// not the identity of the event, because its instant can move: see docs/adr/0006-identity.md.
func hashKey(digits int, userID string, due time.Time, rest ...string) IdempotencyKey {
	text := append(make([]byte, 0, 128), userID...) // long enough for most, so that it stays on the stack
	text = due.UTC().AppendFormat(append(text, '-'), keyInstant)
	for _, part := range rest {
		text = append(append(text, '-'), part...)
	}
	sum := sha256.Sum256(text)
	key := hex.AppendEncode(append(make([]byte, 0, 80), "event-"...), sum[:])
	return IdempotencyKey(key[:len("event-")+digits])
}

// String returns the key in the form in which it is sent.
func (k IdempotencyKey) String() string { return string(k) }
