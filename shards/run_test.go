package shards_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/shards"
)

// ready stores events of a schema that are due, or will be after each of some waits.
func (b *broken) ready(t *testing.T, schema int, after ...time.Duration) {
	t.Helper()
	for _, wait := range after {
		u := b.userIn(schema)
		e := event(u, almanactest.ReadyFor(time.Second))
		if wait > 0 {
			e = event(u, almanactest.DueIn(wait))
		}
		if _, _, err := almanactest.CreateUser(t.Context(), b, u, e); err != nil {
			t.Fatal(err)
		}
	}
}

// claimFor claims once for Run, and returns how many events of each schema it got, and how long it took.
func (b *broken) claimFor(t *testing.T, limit int) (n map[string]int, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // as long as a call of Run may take
	defer cancel()
	began := time.Now()
	claim, err := b.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: limit, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	n = make(map[string]int)
	for _, e := range claim.Events {
		n[b.SchemaOf(e.UserID)]++
	}
	return n, time.Since(began)
}

// A server that does not answer delays a claim of the others once, by a quarter of the patience. Later claims leave it out. When it answers again, its
// events are claimed within seconds.
func TestAServerThatHangsDelaysOtherClaimsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroken(t, 3)
		b.ready(t, 0, make([]time.Duration, 300)...)
		b.ready(t, 1, 0)
		b.schemas[1].hangs.Store(true)
		if n, took := b.claimFor(t, 2); n["s0"] != 2 || took > 2750*time.Millisecond {
			t.Fatalf("the first claim took %v and got %v", took, n)
		}
		var delayed time.Duration
		began, claims := time.Now(), 0
		for ; time.Since(began) < time.Minute; claims++ {
			n, took := b.claimFor(t, 1)
			if delayed += took; n["s0"] != 1 && claims < 290 {
				t.Fatalf("claim %d got %v", claims, n)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if delayed > 2*time.Second { // a question of 250 ms after 1, 2, 4, 8 and each 15 seconds
			t.Errorf("%d claims of a minute were delayed by %v", claims, delayed)
		}
		if calls := b.schemas[1].calls.Load(); calls > 12 {
			t.Errorf("the server was asked %d times", calls)
		}
		b.schemas[1].hangs.Store(false)
		began = time.Now()
		for found := false; !found; time.Sleep(100 * time.Millisecond) {
			n, _ := b.claimFor(t, 1000)
			if found = n["s1"] > 0; time.Since(began) > 20*time.Second {
				t.Fatal("its event is not claimed")
			}
		}
	})
}

// Calls over all schemas leave out a server that did not answer a claim, at once and with an error that names it.
func TestCallsLeaveOutAServerThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroken(t, 2)
		b.ready(t, 0, 0, 0)
		b.schemas[1].hangs.Store(true)
		b.claimFor(t, 1)
		began := time.Now()
		n, err := b.Count(t.Context(), nil)
		partial := b.Pause(t.Context(), almanac.Pause{Lane: "crm"})
		if n != 2 || err == nil || partial == nil || time.Since(began) > 0 {
			t.Errorf("counted %d, %v and %v, in %v", n, err, partial, time.Since(began))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.noted) != 1 {
			t.Errorf("OnError was called for %v", b.noted)
		}
	})
}

// One Run delivers the events of all schemas with the same workers. While a server hangs, the events of the others are delivered, and on time but
// for those that are due while it is first missed.
func TestOneRunSharesItsWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const workers = 4
		b := newBroken(t, 3)
		var flying, most, delivered, late atomic.Int32
		deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
			if n := flying.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(500 * time.Millisecond)
			flying.Add(-1)
			delivered.Add(1)
			if d.At.Sub(d.Event.Due) > 3*time.Second {
				late.Add(1)
			}
			return nil
		})
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := almanac.NewScheduler(b.Store, registry, almanac.WithWorkers(workers), almanac.WithLogger(slog.New(slog.DiscardHandler)),
			almanac.WithDeliverer(almanac.Birthday{}.Channel(almanac.Event{}), deliver))
		if err != nil {
			t.Fatal(err)
		}
		for schema := range 3 {
			b.ready(t, schema, make([]time.Duration, 8)...)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(10 * time.Second)
		if delivered.Load() != 24 || most.Load() != workers {
			t.Errorf("%d delivered, %d at once", delivered.Load(), most.Load())
		}
		late.Store(0)
		var due []time.Duration
		for i := range 60 {
			due = append(due, time.Duration(1+i)*time.Second)
		}
		b.ready(t, 0, due...)
		b.ready(t, 1, due[:5]...)
		b.schemas[1].hangs.Store(true)
		time.Sleep(65 * time.Second)
		if delivered.Load() != 84 || late.Load() > 0 {
			t.Errorf("%d delivered while a server hangs, %d late", delivered.Load(), late.Load())
		}
		b.schemas[1].hangs.Store(false)
		time.Sleep(30 * time.Second)
		if delivered.Load() != 89 {
			t.Errorf("%d delivered in all", delivered.Load())
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A claim over schemas gives the events of each schema a token of their own. So Renew without a schema still says which leases are held as a whole.
func TestRenewWithoutASchema(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 3), t.Context()
	for schema := range 3 {
		b.ready(t, schema, 0, 0)
	}
	claim, err := b.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 6, Lease: time.Minute})
	if err != nil || len(claim.Events) != 6 {
		t.Fatalf("claimed %d, %v", len(claim.Events), err)
	}
	tokens := make(map[uuid.UUID]string)
	for _, e := range claim.Events {
		if is := b.SchemaOf(e.UserID); cmp.Or(tokens[e.LeaseToken], is) != is {
			t.Errorf("a token of %s and %s", tokens[e.LeaseToken], is)
		} else {
			tokens[e.LeaseToken] = is
		}
	}
	b.schemas[1].down.Store(true)
	held, err := b.Renew(ctx, slices.Collect(maps.Keys(tokens)), time.Minute)
	missing(t, "Renew", err, "s1")
	if len(held) != 2 || tokens[held[0]] == "s1" || tokens[held[1]] == "s1" {
		t.Errorf("held %d of %d tokens", len(held), len(tokens))
	}
}

// What is held of a server whose claims are slow is renewed, confirmed and settled.
func TestAServerWithSlowClaimsStoresOutcomes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroken(t, 2)
		b.ready(t, 1, 0, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		request := almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute}
		claim, err := b.Claim(ctx, request)
		if err != nil || len(claim.Events) != 1 {
			t.Fatalf("claimed %d, %v", len(claim.Events), err)
		}
		e := claim.Events[0]
		b.schemas[1].slow.Store(true)
		request.Token = uuid.New()
		if another, err := b.Claim(ctx, request); err != nil || len(another.Events) > 0 {
			t.Fatalf("another claim has %d, %v", len(another.Events), err)
		}
		if _, err := b.Count(ctx, nil); err == nil {
			t.Error("other calls do not leave the server out")
		}
		if held, err := b.Renew(ctx, []uuid.UUID{e.LeaseToken}, time.Minute); err != nil || len(held) != 1 {
			t.Errorf("renewed %d, %v", len(held), err)
		}
		if is, err := b.Confirm(ctx, claim.Events); err != nil || len(is.Held) != 1 {
			t.Errorf("confirmed %+v, %v", is, err)
		}
		settled, err := b.Settle(ctx, []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(claim.At)}})
		if err != nil || settled[0].Err != nil {
			t.Errorf("settled %+v, %v", settled, err)
		}
		if _, err := b.Count(ctx, nil); err == nil {
			t.Error("an outcome that is stored ends the absence of a server whose claims are slow")
		}
	})
}

// A call that had little time says nothing about the server.
func TestACallWithLittleTimeLeavesNoServerOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroken(t, 2)
		for _, given := range []time.Duration{450 * time.Millisecond, 3 * time.Second} {
			b.schemas[1].hangs.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), given)
			_, err := b.Renew(ctx, []uuid.UUID{uuid.New()}, time.Minute)
			if _, partial := errors.AsType[*shards.PartialError](err); !partial {
				t.Errorf("Renew = %v", err)
			}
			cancel()
			b.schemas[1].hangs.Store(false)
			if _, err = b.Count(t.Context(), nil); (err != nil) != (given > time.Second) {
				t.Errorf("after a call of %v: %v", given, err)
			}
		}
	})
}

// Claims ask all schemas in turn, also if a look finds nothing after the mark: after a pause has ended, events before it can be claimed.
func TestClaimsAskAllSchemasInTurn(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 5), t.Context()
	b.ready(t, 4, 0)
	now, err := b.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.schemas {
		b.schemas[i].calls.Store(0)
	}
	for range 5 {
		if _, err := b.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute, Mark: now}); err != nil {
			t.Fatal(err)
		}
	}
	for i, one := range b.schemas {
		if one.calls.Load() < 11 { // twice for each look
			t.Errorf("schema %d was not asked for events", i)
		}
	}
}
