package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// knownLimit is how many events a search for types looks at, of those that no index
// finds by type.
const knownLimit = 10_000

// querier is a connection, or a pool of connections.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// unknownType says that neither a handler of this command nor the database knows a type,
// which may be misspelt. It returns "" for a known type.
func (t *tables) unknownType(ctx context.Context, env *environment, database querier, eventType string) (string, error) {
	registry, err := env.registry()
	if err != nil || slices.Contains(registry.EventTypes(), eventType) {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	rows, err := database.Query(ctx, statement("known_types", t.Schema), pgx.StrictNamedArgs{"most": knownLimit})
	if err != nil {
		return "", err
	}
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || slices.Contains(known, eventType) {
		return "", err
	}
	known = append(known, registry.EventTypes()...)
	slices.Sort(known)
	return fmt.Sprintf("no event of type %q is pending, in flight or among the last %d that ended; %s", eventType, knownLimit, typesText(slices.Compact(known), eventType)), nil
}

// hintType writes to standard error that a type is not known, if so.
func (t *tables) hintType(ctx context.Context, env *environment, database querier, eventType string) error {
	unknown, err := t.unknownType(ctx, env, database, eventType)
	if err == nil && unknown != "" {
		fmt.Fprintln(env.errs, printable(unknown))
	}
	return err
}

// typesText lists known types, and says which of them may be meant by another one.
func typesText(known []string, meant string) string {
	if len(known) == 0 {
		return "no type is known"
	}
	text := "known types are " + strings.Join(mapped(known, strconv.Quote), ", ")
	if near := closest(known, meant); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}

// closest returns the word that becomes another one by the fewest changes of single letters,
// whatever the case: at most two changes, and at most a third of the letters. It returns ""
// if there is none.
func closest(words []string, meant string) (found string) {
	fewest := min(2, len(meant)/3) + 1
	for _, word := range words {
		if changes := distance(strings.ToLower(word), strings.ToLower(meant)); changes < fewest {
			found, fewest = word, changes
		}
	}
	return found
}

// distance counts the letters to insert, delete or replace to make one word from another.
func distance(from, to string) int {
	row := make([]int, len(to)+1) // of the first letters of from: the distances to the beginnings of to
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		before := row[0]
		row[0] = i + 1
		for j := range len(to) {
			replaced := before
			if from[i] != to[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(to)]
}
