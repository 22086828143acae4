package excerpt_test

import (
	"testing"

	"github.com/almanac-go/almanac/internal/excerpt"
)

func TestOfCutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		n    int
		want string
	}{
		{"", 0, ""},
		{"Tokyo", 5, "Tokyo"},
		{"Tokyo", 4, "Toky…"},
		{"Zürich", 2, "Z…"},
		{"Zürich", 3, "Zü…"},
		{"\xbf\xbf\xbf", 2, "…"},
	} {
		if got := excerpt.Of(tt.text, tt.n); got != tt.want {
			t.Errorf("Of(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.want)
		}
	}
}
