// Package profile checks the texts of a user.
package profile

import (
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxEmail is the most bytes of an address (RFC 5321, erratum 1690).
const MaxEmail = 254

const (
	maxNameLength = 100
	maxExternalID = 200
)

// Printable reports whether s is at most n bytes of ASCII without control characters.
func Printable(s string, n int) bool {
	return len(s) <= n && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// BareAddress reports whether s is an e-mail address of at most MaxEmail bytes and nothing else.
func BareAddress(s string) bool {
	if len(s) > MaxEmail || strings.ContainsFunc(s, func(r rune) bool { return hidden(r) || r > '~' && unicode.IsSpace(r) }) {
		return false
	}
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Name != "" {
		return false
	}
	return (&mail.Address{Address: parsed.Address}).String() == "<"+s+">"
}

// ExternalIDProblem returns what is wrong with an external id, or "". It returns "" for "".
func ExternalIDProblem(id string) string {
	switch {
	case len(id) > maxExternalID:
		return fmt.Sprintf("is longer than %d bytes", maxExternalID)
	case !utf8.ValidString(id):
		return "is not valid UTF-8"
	case strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "contains characters that cannot be printed"
	case strings.Trim(id, " ") != id:
		return "begins or ends with a space"
	}
	return ""
}

// NameProblem returns what is wrong with a name, or "". It refuses "".
func NameProblem(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.TrimFunc(name, blank) == "":
		return "is empty"
	case utf8.RuneCountInString(name) > maxNameLength:
		return fmt.Sprintf("is longer than %d characters", maxNameLength)
	case strings.ContainsFunc(name, hidden):
		return "contains control characters"
	case strings.TrimSpace(name) != name: // it would be found by no beginning of the name
		return "begins or ends with a space"
	}
	return ""
}

// blank reports whether r is a space or a format character, which alone make no name.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

// hidden reports whether r breaks a line or changes the direction of text: controls,
// separators and the bidirectional overrides.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || r >= '\u202A' && r <= '\u202E' || r >= '\u2066' && r <= '\u2069'
}
