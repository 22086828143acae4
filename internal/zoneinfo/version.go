package zoneinfo

import (
	"path/filepath"
	"runtime"
	"strings"
)

// releases holds the version of the data that a Go release brings along, as its
// lib/time/update.bash names it. Minor releases keep it: 1.26.0 and 1.26.8 have the
// same. There are none before 1.26, with which this module cannot be built.
var releases = map[string]string{
	"go1.26": "2025c",
	"go1.27": "2026c",
}

// Compare orders two versions of the IANA data: -1 when a is older than b, 0 when
// they are the same, 1 when a is newer. "2026f" is newer than "2025c", and "2026za"
// newer than "2026z", after which it comes. It is not ok where either is no label of
// a release, as "" is none.
func Compare(a, b string) (order int, ok bool) {
	if !isLabel(a) || !isLabel(b) {
		return 0, false
	}
	return strings.Compare(a, b), true
}

// isLabel says whether text is a year and the letter of a release, which after z
// goes on with za to zz, then zza.
func isLabel(text string) bool {
	if len(text) < len("2026a") || len(text) > len("2026zzza") {
		return false
	}
	year, letters := text[:4], text[4:]
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	last := letters[len(letters)-1]
	return strings.TrimFunc(year, isDigit) == "" && strings.Trim(letters[:len(letters)-1], "z") == "" && 'a' <= last && last <= 'z'
}

// readVersion returns the first label that a file of s gives, or "".
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

// scriptVersion returns the label of the release that the zip file of a Go
// installation was made from, which only the script beside it says, or "".
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

// builtin returns the version of the data that the Go release called goVersion
// brings along, or "".
func builtin(goVersion string) string {
	release, _, _ := strings.Cut(goVersion, " ") // names of experiments may follow
	parts := strings.SplitN(release, ".", 3)
	return releases[strings.Join(parts[:min(2, len(parts))], ".")]
}

// ownVersion is that of the data which time.LoadLocation has where no directory
// has any.
func ownVersion() string {
	switch runtime.GOOS {
	case "android", "ios": // their data is the system's, in a form of its own
		return ""
	}
	return builtin(runtime.Version())
}
