package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// identity says who the users of a file are, so that stored users are recognised when the
// file is read again.
type identity struct {
	from  string    // the column that ids are made of, "" for none
	space uuid.UUID // the namespace that they are made in
	fresh bool      // a row without an id is a new user
}

func (c *importUsers) identity() (identity, error) {
	who := identity{from: c.IDFrom, fresh: c.NewIDs}
	var errSpace, errBoth error
	if space, ok := parseID(c.Namespace); ok {
		who.space = space
	} else {
		errSpace = fmt.Errorf("--namespace: %q is not a UUID", c.Namespace)
	}
	if c.IDFrom != "" && c.NewIDs {
		errBoth = errors.New("--new-ids: does not go with --id-from")
	}
	return who, errors.Join(errSpace, errBoth)
}

// ownColumn reports that ids are made of a column that is nothing else: no field of a
// profile and no attribute. It is stored as an attribute.
func (who identity) ownColumn() bool {
	switch {
	case who.from == "", who.from == "id", who.from == "attributes", strings.HasPrefix(who.from, attributePrefix):
		return false
	}
	return !slices.Contains(profileColumns(), who.from)
}

// parseID reads a UUID in the one form that is written.
func parseID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && len(text) == len(id.String()) && id != uuid.Nil
}

// of returns the id of a row with the text of its id, if any, and of the column that
// ids are made of. The zero UUID is for a new user. A problem names a field.
func (who identity) of(given, source string) (id uuid.UUID, wrong problem) {
	id, ok := parseID(given)
	switch {
	case given != "" && !ok:
		return uuid.Nil, problem{"id", "is not a UUID"}
	case given != "" || who.fresh:
		return id, problem{}
	case who.from == "":
		return id, problem{"id", "is empty"}
	case source == "":
		return id, problem{who.from, "is empty, so that no id can be made of it"}
	}
	return uuid.NewSHA1(who.space, []byte(source)), problem{}
}
