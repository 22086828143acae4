package pgtest

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/postgres"
)

// migrate applies the schema to the template.
func migrate(ctx context.Context, conn *pgx.Conn) error {
	return postgres.Migrate(ctx, conn)
}
