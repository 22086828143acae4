package almanac

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// IdempotencyKey tells a receiver that two deliveries are one: it is fixed when
// an event is created and is the same on every attempt. It has the form "event-"
// and 16 hexadecimal digits, or 32 where the short form was taken.
type IdempotencyKey string

// keyInstant is ISO 8601 in UTC with exactly three digits of fraction.
const keyInstant = "2006-01-02T15:04:05.000Z"

// NewIdempotencyKey derives the key of an event from the user, the instant at
// which it is due when it is created, and its type: "event-" and the first 16
// hexadecimal digits of SHA-256 over
//
//	userID-2025-03-15T14:00:00.000Z-EVENTTYPE
//
// The hash hides who and when from the receiver; it is no signature.
func NewIdempotencyKey(userID string, due time.Time, eventType string) IdempotencyKey {
	return hashKey(userID+"-"+due.UTC().Format(keyInstant)+"-"+eventType, 16)
}

// NewLongIdempotencyKey derives the key that an event takes when its short key
// already belongs to another occurrence: because 64 bits collided, or because the
// user moved back to where the old key was made. It hashes the occurrence key as
// well and keeps 32 digits. Where an event has it that was created for the same
// occurrence and has moved away since, the 32 digits are those of the new event's
// id.
func NewLongIdempotencyKey(userID string, due time.Time, eventType, occurrenceKey string) IdempotencyKey {
	return hashKey(userID+"-"+due.UTC().Format(keyInstant)+"-"+eventType+"-"+occurrenceKey, 32)
}

func hashKey(text string, digits int) IdempotencyKey {
	sum := sha256.Sum256([]byte(text))
	return IdempotencyKey("event-" + hex.EncodeToString(sum[:])[:digits])
}

// String returns the key as it is sent.
func (k IdempotencyKey) String() string { return string(k) }
