package pgtest

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/postgres"
)

// migrate brings the schema into the template.
func migrate(ctx context.Context, conn *pgx.Conn) error {
	return postgres.Migrate(ctx, conn)
}
