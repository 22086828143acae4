package zoneinfo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"
)

// magic is what a zone file begins with. The version follows: NUL or a digit.
const magic = "TZif"

var errMalformed = errors.New("malformed zone file")

// parse is time.LoadLocationFromTZData for files that may be broken. That function
// takes a file that was cut off in its last line, or continues after it, for one
// without rules for the future; and where an int has 32 bits it panics on counts
// that become negative.
func parse(name string, data []byte) (*time.Location, error) {
	if !complete(data) {
		return nil, errMalformed
	}
	location, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, errMalformed // all that err says
	}
	return location, nil
}

// complete says whether a zone file has all parts of its form, which is that of
// RFC 9636: a block with 32-bit times and, since version 2, one with 64-bit times
// and a line of printable ASCII.
func complete(data []byte) bool {
	rest, ok := cutBlock(data, 4)
	if !ok || data[len(magic)] == 0 {
		return ok
	}
	if rest, ok = cutBlock(rest, 8); !ok {
		return false
	}
	footer, begun := bytes.CutPrefix(rest, []byte{'\n'})
	footer, ended := bytes.CutSuffix(footer, []byte{'\n'})
	return begun && ended && !bytes.ContainsFunc(footer, func(r rune) bool { return r < ' ' || r > '~' })
}

// cutBlock returns what follows a header and the data that it announces, in which
// a time has width bytes.
func cutBlock(data []byte, width int64) (rest []byte, ok bool) {
	const counts, header = 20, 20 + 6*4
	if len(data) < header || !bytes.HasPrefix(data, []byte(magic)) {
		return nil, false
	}
	count := func(i int) int64 { return int64(binary.BigEndian.Uint32(data[counts+4*i:])) }
	indicators, leapSeconds, changes, types, chars := count(0)+count(1), count(2), count(3), count(4), count(5)
	size := header + changes*(width+1) + types*6 + chars + leapSeconds*(width+4) + indicators
	if size > int64(len(data)) {
		return nil, false
	}
	return data[size:], true
}
