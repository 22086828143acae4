// Package excerpt shortens texts that errors quote.
package excerpt

import "unicode/utf8"

// Of returns s, or if s is longer than n bytes, as many whole characters from its start as
// fit into n bytes, followed by an ellipsis.
func Of(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
