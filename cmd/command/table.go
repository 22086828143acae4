package command

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

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
