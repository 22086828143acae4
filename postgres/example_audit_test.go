package postgres_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/postgres"
)

// The trail is switched on once, by the role that owns the tables, which also prunes
// it now and then. Roles that may read events may read it. It would print
//
//	created 1 app planner
//	claimed 2 app worker-3
//	failed 3 app worker-3 receiver answered 410
func ExampleStore_Audit() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	if err := postgres.EnableAudit(ctx, pool); err != nil {
		panic(err)
	}
	store, err := postgres.New(pool)
	if err != nil {
		panic(err)
	}

	steps, err := store.Audit(ctx, uuid.MustParse("0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55"))
	if err != nil {
		panic(err)
	}
	for _, s := range steps {
		fmt.Println(s.Kind, s.Version, s.Actor, s.Detail)
	}

	const page = 5000
	for pruned := page; pruned == page; {
		if pruned, err = store.PruneAudit(ctx, time.Now().AddDate(-1, 0, 0), page); err != nil {
			panic(err)
		}
	}
}
