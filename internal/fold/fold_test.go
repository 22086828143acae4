package fold_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/almanac-go/almanac/internal/fold"
)

func TestTextHasNoCase(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"åsa", "Åsa", "ÅSA", "Åsa"},         // the last begins with the sign for ångström
		{"οδυσσεύς", "ΟΔΥΣΣΕΎΣ", "Οδυσσεύσ"}, // each sigma
		{"юлия", "ЮЛИЯ"}, {"groß", "GROẞ"},   //
		{"istanbul", "İSTANBUL", "ISTANBUL"}, // the dotted capital
		{"ılgaz"}, {"ǆ", "ǅ", "Ǆ"}, {"Ꭰ", "ꭰ"}, {"k", "K", "K"}, {"", ""}, {"𐐀", "𐐨"},
	} {
		for _, text := range same {
			if got, want := fold.Text(text), fold.Text(same[0]); got != want {
				t.Errorf("Text(%q) = %q, and Text(%q) = %q", text, got, same[0], want)
			}
		}
	}
	for _, different := range [][2]string{{"groß", "gross"}, {"ılgaz", "ilgaz"}, {"é", "e\u0301"}, {"ada", "adá"}} {
		if fold.Text(different[0]) == fold.Text(different[1]) {
			t.Errorf("%q and %q are the same", different[0], different[1])
		}
	}
}

// Every character has the result of those that differ from it only in case, and the result stays.
func TestTextAgreesWithEqualFold(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		text, other := string(r), string(unicode.SimpleFold(r))
		got := fold.Text(text)
		if again := fold.Text(got); again != got {
			t.Fatalf("Text(%q) = %q, and Text of that is %q", text, got, again)
		}
		if fold.Text(other) != got || !strings.EqualFold(text, other) {
			t.Fatalf("Text(%q) = %q, and Text(%q) = %q", text, got, other, fold.Text(other))
		}
	}
}
