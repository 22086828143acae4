// Package slots assigns each user to one of a fixed number of slots.
package slots

import "crypto/sha256"

// Count is the number of slots. It can never change, because event ids name slots.
const Count = 1024

// Of returns the slot of a user, 0 to 1023: the first 10 bits of SHA-256 over the 16 bytes of the user's id.
func Of(user [16]byte) int {
	sum := sha256.Sum256(user[:])
	return int(sum[0])<<2 | int(sum[1])>>6
}

// In returns the slot that an event id names: its last 10 bits.
func In(event [16]byte) int { return int(event[14]&3)<<8 | int(event[15]) }

// Name sets the last 10 bits of an event id to the slot of the event's user.
func Name(event *[16]byte, user [16]byte) {
	slot := Of(user)
	event[14] = event[14]&^3 | byte(slot>>8)
	event[15] = byte(slot)
}
