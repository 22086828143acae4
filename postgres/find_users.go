package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/fold"
)

// FindUsers returns the users whom filter selects, a page at a time.
func (s *Store) FindUsers(ctx context.Context, filter almanac.UserFilter, page almanac.Page) (almanac.List[almanac.User], error) {
	limit, after, err := filter.Bounds(page)
	if err != nil {
		return almanac.List[almanac.User]{}, err
	}
	sql, args := s.statements.FindUsers, pgx.StrictNamedArgs{
		"email": fold.Text(filter.Email), "external_id": filter.ExternalID, "after": after.ID, "limit": limit + 1,
	}
	if filter.Name != "" {
		sql = s.statements.FindUsersByName
		args["least"], args["after_name"] = nameBounds(filter.Name, after)
	}
	var found almanac.List[almanac.User]
	err = s.list(ctx, "find users", func(ctx context.Context, db DB) error {
		users, err := all(ctx, db, sql, args, scanUsers())
		found = filter.PageOf(users, limit)
		return err
	})
	return found, err
}

// nameBounds returns the beginning of the names that a page lists, and the name after which the page begins. The user after whom it
// begins was listed by the full name if that matches, and otherwise by the last name. The first page begins after no name.
func nameBounds(name string, after almanac.User) (least, afterName string) {
	least, afterName = fold.Text(name), fold.Text(after.Name())
	if !strings.HasPrefix(afterName, least) {
		afterName = fold.Text(after.LastName)
	}
	return least, max(least, afterName)
}
