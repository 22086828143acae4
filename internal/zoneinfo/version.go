package zoneinfo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// releases maps a Go release to the version of its data, from its lib/time/update.bash. Minor releases
// have the same data: 1.26.0 and 1.26.8 agree. Older releases than 1.26 cannot build this module.
var releases = map[string]string{
	"go1.26": "2025c",
	"go1.27": "2026c",
}

// Compare compares two versions of the IANA data: -1 when a is older than b, 0 when they
// are equal, 1 when a is newer. "2026f" is newer than "2025c", and "2026za" newer than
// "2026z", its predecessor. It returns ok false if either is not a release, such as "".
func Compare(a, b string) (order int, ok bool) {
	if !isLabel(a) || !isLabel(b) {
		return 0, false
	}
	return strings.Compare(a, b), true
}

// isLabel reports whether text is a year and the letters of a release: a to z, then za to zz, then zza.
func isLabel(text string) bool {
	if len(text) < len("2026a") || len(text) > len("2026zzza") {
		return false
	}
	year, letters := text[:4], text[4:]
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	last := letters[len(letters)-1]
	return strings.TrimFunc(year, isDigit) == "" && strings.Trim(letters[:len(letters)-1], "z") == "" && 'a' <= last && last <= 'z'
}

// readVersion returns the first release that a file of s states, or "".
func (s Source) readVersion() string {
	for _, place := range []struct{ file, prefix string }{
		{"+VERSION", ""},
		{"version", ""},
		{"tzdata.zi", "# version "},
	} {
		line, _, _ := strings.Cut(s.start(place.file, 64), "\n")
		label, found := strings.CutPrefix(line, place.prefix)
		if label = strings.TrimSpace(label); found && isLabel(label) {
			return label
		}
	}
	return s.scriptVersion()
}

// scriptVersion returns the release of a Go installation's zip file from the script beside it, or "".
func (s Source) scriptVersion() string {
	if s.archive == nil || filepath.Base(s.path) != "zoneinfo.zip" {
		return ""
	}
	beside := Source{path: filepath.Dir(s.path)}
	_, rest, _ := strings.Cut(beside.start("update.bash", 4096), "\nDATA=")
	if label, _, ended := strings.Cut(rest, "\n"); ended && isLabel(label) {
		return label
	}
	return ""
}

// builtin returns the version of the data of the Go release goVersion, or "".
func builtin(goVersion string) string {
	release, _, _ := strings.Cut(goVersion, " ") // names of experiments may follow
	parts := strings.SplitN(release, ".", 3)
	return releases[strings.Join(parts[:min(2, len(parts))], ".")]
}

// ownVersion returns the version of the data that time.LoadLocation uses when no directory has any.
func ownVersion() string {
	switch runtime.GOOS {
	case "android", "ios": // the system's data has its own format there
		return ""
	}
	return builtin(runtime.Version())
}

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

// complete reports whether a zone file has all parts of the format of RFC 9636. These are a block
// with 32-bit times and, since version 2, one with 64-bit times and a line of printable ASCII.
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
