package zoneinfo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"
)

// magic is the start of a zone file. The version follows: NUL or a digit.
const magic = "TZif"

var errMalformed = errors.New("malformed zone file")

// parse is time.LoadLocationFromTZData for files that may be damaged. That function treats
// a file with a truncated or extended last line as one without rules for the future. Where
// an int has 32 bits, it panics on counts that become negative.
func parse(name string, data []byte) (*time.Location, error) {
	if !complete(data) {
		return nil, errMalformed
	}
	location, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, errMalformed // err contains nothing more
	}
	return location, nil
}

// complete reports whether a zone file has all parts of the format of RFC 9636. These are a
// block with 32-bit times and, since version 2, one with 64-bit times and a line of
// printable ASCII.
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

// cutBlock returns the data after a header and the block that the header announces, with
// times of width bytes.
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
