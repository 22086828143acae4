package command

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/width"

	"github.com/almanac-go/almanac"
)

// listing says how much of a list is written, and in which form.
type listing struct {
	Limit string `help:"How many to list (default ${default})." short:"n" placeholder:"N" default:"50"`
	After string `help:"Continue after the end of another list." placeholder:"CURSOR"`

	Form form `embed:""`
}

// maxListed bounds a list, which is read a page at a time.
const maxListed = 1_000_000

// parse returns the limit, and everything that is wrong. A cursor is judged by bounds.
func (l *listing) parse(bounds func(almanac.Page) error) (limit int, err error) {
	limit, errLimit := number("--limit", l.Limit, 1, maxListed)
	var errAfter error
	if l.After != "" && bounds(almanac.Page{After: almanac.Cursor(l.After)}) != nil {
		errAfter = fmt.Errorf("--after: %q is not where a list ended", l.After)
	}
	return limit, errors.Join(errLimit, errAfter, l.Form.validate())
}

// form is a form for programs. Without one, a list is a table.
type form struct {
	JSON bool `help:"Write JSON, a line for each entry." name:"json"`
	CSV  bool `help:"Write comma-separated values, with a header." name:"csv"`
}

func (f *form) validate() error {
	if f.JSON && f.CSV {
		return errors.New("--csv: does not go with --json")
	}
	return nil
}

// list says how entries are written.
type list[T any] struct {
	form    form
	none    string // is written instead of an empty table
	columns []column[T]
	fields  []field[T]  // of CSV
	line    func(T) any // of JSON
}

// column is a column of a table.
type column[T any] struct {
	title string
	value func(T) string // need not be printable
	span                 // without its widest
	style func(T) string // an escape sequence, or ""; nil for a column without colours
}

// field is a column of CSV.
type field[T any] struct {
	name  string
	value func(T) string
}

// listPage is the most entries that are read at a time.
const listPage = 1000

// writeAll writes up to limit entries, which read returns a page at a time. It says on
// standard error how to continue if there are more.
func (l list[T]) writeAll(ctx context.Context, env *environment, first almanac.Page, read func(context.Context, almanac.Page) ([]T, almanac.Cursor, error)) (found int, err error) {
	page := first
	for left := first.Limit; left > 0 && (found == 0 || page.After != ""); {
		page.Limit = min(left, listPage)
		entries, next, err := read(ctx, page)
		if err != nil {
			return found, err
		}
		if err := l.write(env, entries, found == 0); err != nil {
			return found, err
		}
		found, left, page.After = found+len(entries), left-len(entries), next
		if len(entries) == 0 {
			break
		}
	}
	if page.After != "" {
		fmt.Fprintf(env.errs, "there are more: go on with --after %s\n", shellWord(string(page.After)))
	}
	return found, nil
}

var safeWord = regexp.MustCompile(`^[A-Za-z0-9%:/._-]+$`)

// shellWord quotes a cursor for a shell if need be. No cursor has an apostrophe.
func shellWord(text string) string {
	if safeWord.MatchString(text) {
		return text
	}
	return "'" + text + "'"
}

// write writes a page of a list. The first page begins with a header, unless it is JSON.
func (l list[T]) write(env *environment, page []T, first bool) error {
	switch {
	case l.form.JSON:
		return l.writeLines(env, page)
	case l.form.CSV:
		return l.writeCSV(env, page, first)
	case len(page) > 0:
		return l.writeTable(env, page, first)
	case first:
		_, err := fmt.Fprintln(env.out, l.none)
		return err
	}
	return nil
}

func (l list[T]) writeLines(env *environment, page []T) error {
	encoder := json.NewEncoder(env.out)
	encoder.SetEscapeHTML(false)
	for _, entry := range page {
		if err := encoder.Encode(l.line(entry)); err != nil {
			return err
		}
	}
	return nil
}

func (l list[T]) writeCSV(env *environment, page []T, first bool) error {
	out := csv.NewWriter(env.out)
	record := make([]string, len(l.fields))
	if first {
		for i, f := range l.fields {
			record[i] = f.name
		}
		_ = out.Write(record) // Error returns what went wrong
	}
	for _, entry := range page {
		for i, f := range l.fields {
			if record[i] = f.value(entry); env.terminal.width > 0 {
				record[i] = printable(record[i])
			}
		}
		_ = out.Write(record)
	}
	out.Flush()
	return out.Error()
}

// writeTable writes a page as a table: for a terminal one that fits its width, with a header
// on each page, and else all columns, with a header on the first page.
func (l list[T]) writeTable(env *environment, page []T, first bool) error {
	screen := env.terminal
	header := first || screen.width > 0
	texts, widths := make([][]string, len(page)), make([]int, len(l.columns))
	for i, c := range l.columns {
		if header {
			widths[i] = displayWidth(c.title)
		}
		empty := true
		for row, entry := range page {
			text := printable(c.value(entry))
			texts[row] = append(texts[row], text)
			widths[i] = max(widths[i], displayWidth(text))
			empty = empty && text == ""
		}
		if empty && screen.width > 0 {
			widths[i] = 0
		}
	}
	if screen.width > 0 {
		spans := make([]span, len(l.columns))
		for i, c := range l.columns {
			spans[i] = c.span
			spans[i].widest = widths[i]
		}
		widths = fit(spans, screen.width)
	}
	out := bufio.NewWriter(env.out)
	if header {
		l.writeRow(out, screen, widths, func(i int) (text, style string) { return l.columns[i].title, "" })
	}
	for row, entry := range page {
		l.writeRow(out, screen, widths, func(i int) (text, style string) {
			if paint := l.columns[i].style; paint != nil && screen.colour {
				style = paint(entry)
			}
			return texts[row][i], style
		})
	}
	return out.Flush()
}

// plainStyle ends a style.
const plainStyle = "\x1b[m"

// writeRow writes a row of a table. Outside of a terminal no column is left out.
func (l list[T]) writeRow(out *bufio.Writer, screen terminal, widths []int, cell func(i int) (text, style string)) {
	padding, begun := 0, false
	for i, columns := range widths {
		if columns == 0 && screen.width > 0 {
			continue
		}
		if begun {
			padding += gap
		}
		begun = true
		text, style := cell(i)
		if screen.width > 0 {
			text = shortened(text, columns)
		}
		taken := displayWidth(text)
		if screen.width > 0 {
			text = isolated(text)
		}
		if style != "" {
			text = style + text + plainStyle
		}
		if text != "" {
			_, _ = out.WriteString(strings.Repeat(" ", padding) + text) // Flush returns the error
			padding = 0
		}
		padding += columns - taken
	}
	_ = out.WriteByte('\n')
}

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
