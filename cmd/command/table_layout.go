package command

import (
	"cmp"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/width"
)

// gap is the space between two columns.
const gap = 2

// span says how wide a column of a table is, and what it may do without.
type span struct {
	widest int // the width of its widest text; 0 means that the column is empty
	// least is the width down to which a narrow terminal shortens the column. Zero means
	// that the column is never shortened.
	least int
	rank  int // a terminal that is too narrow leaves out the columns with the highest ranks
	// passed means that columns of higher ranks are shown even if this one does not fit, as
	// for an id, which is of no use when shortened.
	passed bool
}

// fit returns the width of each column on a terminal. The width 0 means that the column is
// left out. Columns are taken in the order of their ranks, shortened as far as they may be,
// up to the first that does not fit. The rest of the width goes to them in the same order.
func fit(spans []span, terminal int) []int {
	byRank := make([]int, len(spans))
	for i := range byRank {
		byRank[i] = i
	}
	slices.SortStableFunc(byRank, func(a, b int) int { return cmp.Compare(spans[a].rank, spans[b].rank) })
	widths, left := make([]int, len(spans)), terminal+gap
taking:
	for _, i := range byRank {
		need := spans[i].widest
		if spans[i].least > 0 {
			need = min(need, spans[i].least)
		}
		switch {
		case need == 0:
		case need+gap <= left:
			widths[i], left = need, left-need-gap
		case !spans[i].passed:
			break taking
		}
	}
	for _, i := range byRank {
		if widths[i] > 0 {
			more := min(spans[i].widest-widths[i], left)
			widths[i], left = widths[i]+more, left-more
		}
	}
	if slices.Max(widths) == 0 { // no column fits: show some of the most important one
		widths[byRank[0]] = terminal
	}
	return widths
}

// displayWidth returns how many columns of a terminal a printable text takes.
func displayWidth(text string) (columns int) {
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

// runeWidth returns 0 for what combines with the rune before, such as accents and the vowels
// of Hangul, 2 for wide runes such as those of Japanese, and else 1.
func runeWidth(r rune) int {
	const firstVowel, lastFinal = '\u1160', '\u11ff' // they combine to one syllable
	if unicode.In(r, unicode.Mn, unicode.Me) || r >= firstVowel && r <= lastFinal {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// ellipsis ends a text that was shortened. It takes one column.
const ellipsis = "…"

// shortened returns the beginning of a text that takes at most so many columns.
func shortened(text string, columns int) string {
	if displayWidth(text) <= columns {
		return text
	}
	var b strings.Builder
	left := columns - len([]rune(ellipsis))
	for _, r := range text {
		if left -= runeWidth(r); left < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + ellipsis
}

// isolated returns a text after which columns go on from left to right. Without the mark a
// terminal that knows bidirectional text would swap a Hebrew name and the date beside it.
func isolated(text string) string {
	const leftToRightMark = "\u200e"
	for _, r := range text {
		if p, _ := bidi.LookupRune(r); p.Class() == bidi.R || p.Class() == bidi.AL {
			return text + leftToRightMark
		}
	}
	return text
}

// terminal is what is known of the terminal that output goes to.
type terminal struct {
	width  int  // in columns; 0 means that the output does not go to a terminal
	colour bool // it takes colours, and the user wants them
}

// defaultWidth is for terminals that do not know their size.
const defaultWidth = 80

// terminalOf describes what out writes to. The variable COLUMNS overrides the width.
// NO_COLOR (https://no-color.org) and TERM=dumb turn colours off.
func terminalOf(out io.Writer) terminal {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return terminal{}
	}
	t := terminal{width: defaultWidth, colour: os.Getenv("NO_COLOR") == "" && !dumb()}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		t.width = width
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		t.width = width
	}
	return t
}

// dumb reports whether the terminal prints control sequences instead of obeying them.
func dumb() bool { return os.Getenv("TERM") == "dumb" }
