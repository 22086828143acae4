package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// loopBatch is how many events the bare loop claims and settles at a time.
const loopBatch = 1000

// runLoop claims on one connection and settles on another, side by side, with the
// library's statements and without its engine.
func runLoop(ctx context.Context, db database, want int, limit time.Duration) (tally, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return tally{}, err
	}
	m, err := db.meter(ctx, want)
	if err != nil {
		return tally{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	claims := make(chan almanac.ClaimResult, 1)
	claiming := make(chan struct{})
	go func() {
		defer close(claiming)
		defer close(claims)
		var mark time.Time
		for time.Since(m.began) < limit {
			claim, err := claimBatch(ctx, store, loopBatch, &mark)
			if err != nil {
				cancel(err)
				return
			}
			if len(claim.Events) == 0 {
				return
			}
			claims <- claim
		}
	}()
	for claim := range claims {
		if err := settleBatch(ctx, store, claim); err != nil {
			cancel(err)
			continue // until the claims end
		}
		m.add(len(claim.Events))
	}
	<-claiming
	if cause := context.Cause(ctx); cause != nil {
		return tally{}, cause
	}
	return m.tally(ctx)
}

// claimBatch claims from a mark on, and moves it to where the claim came to, as Run
// does.
func claimBatch(ctx context.Context, store *postgres.Store, limit int, mark *time.Time) (almanac.ClaimResult, error) {
	claim, err := store.Claim(ctx, almanac.ClaimRequest{
		Token: uuid.New(), Owner: "bench", Types: []string{almanac.TypeBirthday}, Limit: limit, Lease: time.Minute, Mark: *mark,
	})
	*mark = claim.Reached
	return claim, err
}

// settleBatch completes what was claimed and stores the successors.
func settleBatch(ctx context.Context, store *postgres.Store, claim almanac.ClaimResult) error {
	settlements := make([]almanac.Settlement, len(claim.Events))
	for i, e := range claim.Events {
		settlements[i] = almanac.Settlement{Event: e, User: claim.Users[e.UserID], Outcome: almanac.Delivered(claim.At), Next: nextBirthday}
	}
	settled, err := store.Settle(ctx, settlements)
	if err != nil {
		return err
	}
	for _, s := range settled {
		if err := errors.Join(s.Err, s.PlanErr); err != nil || s.Successor == nil {
			return fmt.Errorf("event %s was not settled with a successor: %w", s.Event.ID, err)
		}
	}
	return nil
}

func nextBirthday(u almanac.User, now time.Time) (almanac.Event, error) {
	o, err := almanac.Birthday{}.Next(u, now)
	if err != nil {
		return almanac.Event{}, err
	}
	return almanac.NewEvent(u, almanac.Birthday{}, almanac.Occurrence{Occurrence: o})
}
