package rrule

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// maxPosition is the greatest number in BYSETPOS; no other set has a greater one.
const maxPosition = 366

// numbers is a set of whole numbers from -366 to 366. It is an array instead of a map, so
// that rules can be compared with ==.
type numbers struct {
	up, down [6]uint64 // bit n means n in up, and -n in down
	size     int
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) []int {
	values := make([]int, n)
	for i := range values {
		values[i] = i
	}
	return values
}

func (s *numbers) empty() bool { return s.size == 0 }

func (s *numbers) add(n int) {
	if !s.has(n) {
		half, bit := s.half(n)
		half[bit/64] |= 1 << (bit % 64)
		s.size++
	}
}

func (s *numbers) has(n int) bool {
	half, bit := s.half(n)
	return half[bit/64]>>(bit%64)&1 == 1
}

func (s *numbers) half(n int) (*[6]uint64, int) {
	if n < 0 {
		return &s.down, -n
	}
	return &s.up, n
}

// counts reports whether the set contains the n-th of a total, counted from either end.
func (s *numbers) counts(n, of int) bool {
	left := of + 1 - n // years of other calendars have up to 385 days
	return n <= maxPosition && s.has(n) || left <= maxPosition && s.has(-left)
}

// picks returns the indexes that a BYSETPOS of these numbers selects among the given number of readings,
// in order and without repetition. It iterates over the indexes rather than the positions: a rule can
// list hundreds of positions, and have a single reading in each of half a million weeks.
func (s *numbers) picks(of int) []int {
	var places []int
	for n := 1; n <= of; n++ {
		if n > maxPosition {
			n = max(n, of+1-maxPosition) // no position is between these
		}
		front, back := n <= maxPosition, of+1-n <= maxPosition
		if front && s.has(n) || back && s.has(n-of-1) {
			places = append(places, n-1)
		}
	}
	return places
}

// values returns the numbers in calendar order: first the positive ones, then those that
// count from the end, starting with the earliest (-366).
func (s *numbers) values() []int {
	values := make([]int, 0, s.size)
	for i, word := range s.up {
		for ; word != 0; word &= word - 1 {
			values = append(values, i*64+bits.TrailingZeros64(word))
		}
	}
	for i := len(s.down) - 1; i >= 0; i-- {
		for word := s.down[i]; word != 0; {
			bit := bits.Len64(word) - 1
			values = append(values, -i*64-bit)
			word &^= 1 << bit
		}
	}
	return values
}

func (s *numbers) String() string {
	var texts []string
	for _, n := range s.values() {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ",")
}

// weekdays are the entries of a BYDAY part. Bit n of an ordinal set means the n-th of its
// weekday, from the start or from the end.
type weekdays struct {
	every       uint8 // bit w means all days of weekday w
	first, last [7]uint64
	ordinals    bool // whether an entry has a number
}

func (s *weekdays) empty() bool { return s.every == 0 && !s.ordinals }

// add adds the n-th of the weekday w, or all of them when n is 0.
func (s *weekdays) add(w time.Weekday, n int) {
	switch {
	case n == 0:
		s.every |= 1 << w
		return
	case n > 0:
		s.first[w] |= 1 << n
	default:
		s.last[w] |= 1 << -n
	}
	s.ordinals = true
}

// has reports whether the set contains a day of weekday w that is the place-th day, from 1,
// of a month or a year of that length.
func (s *weekdays) has(w time.Weekday, place, length int) bool {
	if s.every>>w&1 == 1 {
		return true
	}
	return s.ordinals && (s.first[w]>>((place-1)/7+1)|s.last[w]>>((length-place)/7+1))&1 == 1
}

// String lists the days from Monday to Sunday.
func (s *weekdays) String() string {
	var texts []string
	for i := range 7 {
		w := (i + 1) % 7
		if s.every>>w&1 == 1 {
			texts = append(texts, dayNames[w])
		}
		for rest := s.first[w]; rest != 0; rest &= rest - 1 {
			texts = append(texts, strconv.Itoa(bits.TrailingZeros64(rest))+dayNames[w])
		}
		for n := 53; n > 0; n-- {
			if s.last[w]>>n&1 == 1 {
				texts = append(texts, strconv.Itoa(-n)+dayNames[w])
			}
		}
	}
	return strings.Join(texts, ",")
}
