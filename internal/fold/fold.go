// Package fold removes the case of texts, so that a search need not know it.
package fold

import (
	"strings"
	"unicode"
)

// Text returns a text in which letters that differ only in case are the same letter: two texts have the same result if
// strings.EqualFold says that they are equal. This is the simple case folding of Unicode. It has no locale, and changes
// each character by itself: "Å" is "å", "Σ" and "ς" are "σ", "ẞ" is "ß". So "ß" is not "ss", and a letter with a
// combining accent is not the letter that has the accent built in.
//
// Besides, "İ" is "i", as Unicode's lower case of a single character has it. "ı" stays as it is.
func Text(s string) string { return strings.Map(letter, s) }

// letter returns the lower case of the least of the characters that differ from r only in case.
func letter(r rune) rune {
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return unicode.ToLower(least)
}
