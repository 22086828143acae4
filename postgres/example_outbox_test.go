package postgres_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// A service that must not miss a change reads the outbox, and stores what it makes of it
// in the transaction that moves its position.
func ExampleStore_Consume() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		mustDo(errOf(pool.Exec(ctx, "CREATE TABLE accounts (user_id uuid PRIMARY KEY)")))
		store := must(postgres.New(pool))
		mustDo(store.CreateConsumer(ctx, "accounts"))
		mustDo(postgres.EnableOutbox(ctx, pool)) // once, as the owner of the tables
		must(birthdaysOn(store).CreateUser(ctx, adaInLondon))

		read := must(store.Consume(ctx, "accounts", 100, func(ctx context.Context, tx pgx.Tx, events []postgres.DomainEvent) error {
			for _, e := range events {
				fmt.Println(e.Kind)
				if e.Kind == postgres.UserCreated {
					if _, err := tx.Exec(ctx, "INSERT INTO accounts VALUES ($1)", e.UserID); err != nil {
						return err // and all of these are read again
					}
				}
			}
			return nil
		}))
		pruned := must(store.PruneOutbox(ctx, 5000))
		fmt.Println("read", read, "pruned", pruned)
	})
	// Output:
	// user_created
	// event_created
	// read 2 pruned 2
}

func errOf[T any](_ T, err error) error { return err }

// A domain event says what happened to whom, and holds nothing personal but ids, and the time zones
// of a move.
func ExampleDomainEvent() {
	e := postgres.DomainEvent{Kind: postgres.UserTimezoneChanged, UserID: uuid.MustParse("5f3b1c9e-0000-4000-8000-000000000001"), Version: 2}
	fmt.Println(e.Kind, e.UserID, e.Version, e.EventID == uuid.Nil)
	// Output: user_timezone_changed 5f3b1c9e-0000-4000-8000-000000000001 2 true
}

// Consumers take the kinds that concern them.
func ExampleDomainEventKind() {
	for _, kind := range []postgres.DomainEventKind{postgres.UserDeleted, postgres.EventCompleted} {
		switch kind {
		case postgres.UserDeleted:
			fmt.Println("forget the user")
		case postgres.EventCompleted, postgres.EventFailed, postgres.EventCancelled:
			fmt.Println("the event has ended")
		}
	}
	// Output:
	// forget the user
	// the event has ended
}

// The oldest row that a consumer has not read shows how far it is behind.
func ExampleConsumer() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		store := must(postgres.New(pool))
		mustDo(store.CreateConsumer(ctx, "accounts"))
		for _, c := range must(store.Consumers(ctx)) {
			fmt.Println(c.Name, c.Oldest.IsZero())
		}
	})
	// Output: accounts true
}

// A consumer has to be created before it reads.
func ExampleNoConsumerError() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		err := must(postgres.New(pool)).DeleteConsumer(ctx, "acounts")
		var missing *postgres.NoConsumerError
		fmt.Println(errors.As(err, &missing), errors.Is(err, almanac.ErrNotFound), err)
	})
	// Output: true true postgres: no consumer "acounts"
}
