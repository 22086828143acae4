package shards_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/shards"
)

// The parts of a lane add up to its limits, and each schema with users has one.
func TestALaneIsDividedAmongTheSchemas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 70).Draw(t, "schemas")
		var places []shards.Place
		var schemas []shards.Schema
		var memories []*almanactest.Repository
		for i := range n {
			memories = append(memories, almanactest.NewRepository(nil))
			places = append(places, shards.Place{Schema: fmt.Sprint(i)})
			schemas = append(schemas, shards.Schema{Name: fmt.Sprint(i), Repository: memories[i]})
		}
		d := shards.NewDirectory(places...)
		if rapid.Bool().Draw(t, "one schema has no users") && n > 1 {
			for slot := range d.Slots {
				d.Slots[slot] = max(d.Slots[slot], 1)
			}
		}
		store := open(t, shards.Options{Directory: d, Schemas: schemas})
		l := almanac.Lane{
			Name: "crm/a", Weight: 3, Rate: rapid.Float64Range(0.001, 1e6).Draw(t, "rate"), Burst: rapid.IntRange(70, 1e6).Draw(t, "burst"),
			Places: rapid.IntRange(70, 1e4).Draw(t, "places"), Daily: rapid.IntRange(70, 1e9).Draw(t, "daily"),
		}
		if err := store.PutLane(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		got, err := store.Lanes(t.Context())
		if err != nil || len(got) != 1 || math.Abs(got[0].Rate/l.Rate-1) > 1e-9 {
			t.Fatalf("lanes = %+v, want %+v: %v", got, l, err)
		}
		if got[0].Rate = l.Rate; got[0] != l {
			t.Errorf("lane = %+v, want %+v", got[0], l)
		}
		for i, one := range memories {
			part, err := one.Lanes(t.Context())
			users := slices.Contains(d.Slots[:], uint16(i))
			if err != nil || len(part) != 1 || (part[0].Rate > 0 && part[0].Burst > 0 && part[0].Places > 0 && part[0].Daily > 0) != users {
				t.Errorf("the part of schema %d, which has users: %v, is %+v, %v", i, users, part, err)
			}
		}
		few := store.PutLane(t.Context(), almanac.Lane{Name: "crm", Rate: 1, Burst: 1, Places: 1, Daily: 1})
		if refused, is := errors.AsType[*almanac.ValidationError](few); is != (n > 1 && !(n == 2 && d.Slots[0] == 1)) || is && len(refused.Fields) != 3 {
			t.Errorf("limits of 1 over %d schemas: %v", n, few)
		}
	})
}

// In any time, no more events are admitted than burst and rate allow, and no more are in flight than there are places, over all
// schemas and programs. A schema that is down takes only its part with it.
func TestLimitsHoldOverSchemas(t *testing.T) {
	t.Parallel()
	ctx, start := t.Context(), time.Now().UTC()
	b := newBroken(t, 4)
	now := start
	for _, one := range b.schemas {
		one.Repository = almanactest.NewRepository(func() time.Time { return now })
	}
	schemas := make([]shards.Schema, len(b.schemas))
	for i, one := range b.schemas {
		schemas[i] = shards.Schema{Name: fmt.Sprint("s", i), Repository: one}
	}
	store := open(t, shards.Options{Directory: shards.NewDirectory(places4()...), Schemas: schemas})
	const rate, burst, places = 20, 8, 12
	if err := store.PutLane(ctx, almanac.Lane{Name: almanac.TypeBirthday, Rate: rate, Burst: burst, Places: places}); err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		u := b.userIn(i % 4)
		if _, _, err := almanactest.CreateUser(ctx, store, u, almanactest.Event(start, almanactest.For(u), almanactest.ReadyFor(time.Minute))); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Minute) // all buckets are full
	var flying []almanac.Event
	var admitted []time.Time
	for step := range 80 {
		now = now.Add(50 * time.Millisecond)
		b.schemas[3].down.Store(step >= 40)
		for range 2 { // two programs
			claim, err := store.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 50, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			for range claim.Events {
				admitted = append(admitted, now)
			}
			flying = append(flying, claim.Events...)
		}
		if len(flying) > places {
			t.Fatalf("%d events are in flight", len(flying))
		}
		for len(flying) > 6 {
			settled, err := store.Settle(ctx, []almanac.Settlement{{Event: flying[0], Outcome: almanac.Delivered(now)}})
			if err != nil || settled[0].Err != nil {
				break // its schema is down
			}
			flying = flying[1:]
		}
	}
	for i := range admitted {
		for k := i; k < len(admitted); k++ {
			if most := burst + rate*admitted[k].Sub(admitted[i]).Seconds(); float64(k-i+1) > most+1e-6 {
				t.Fatalf("%d events are admitted in %v", k-i+1, admitted[k].Sub(admitted[i]))
			}
		}
	}
	if len(admitted) < 50 {
		t.Errorf("only %d events are admitted", len(admitted))
	}
}

func places4() (list []shards.Place) {
	for i := range 4 {
		list = append(list, shards.Place{Schema: fmt.Sprint("s", i)})
	}
	return list
}

// A breaker is open in all schemas after a report, and a copy that was missed is made by the next one.
func TestABreakerHoldsOverSchemas(t *testing.T) {
	t.Parallel()
	b, ctx, now := newBroken(t, 3), t.Context(), time.Now().UTC()
	opened := almanac.Breaker{Allowed: 1, RetryAt: now.Add(time.Hour), OpenedAt: now, Pause: "it fails"}
	report := func(is almanac.Breaker) (was almanac.Breaker) {
		t.Helper()
		if _, err := b.Report(ctx, "crm", func(b almanac.Breaker, _ time.Time) almanac.Breaker { was = b; return is }); err != nil {
			t.Fatal(err)
		}
		return was
	}
	stored := func(schema int) (is almanac.Breaker) {
		t.Helper()
		_, err := b.schemas[schema].Repository.Report(ctx, "crm", func(b almanac.Breaker, _ time.Time) almanac.Breaker { is = b; return b })
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	b.schemas[0].down.Store(true)
	report(opened)
	b.schemas[0].down.Store(false)
	for i, want := range []int{0, 1, 1} {
		if is := stored(i); is.Allowed != want {
			t.Errorf("schema %d allows %d, want %d", i, is.Allowed, want)
		}
		if paused, err := b.schemas[i].Paused(ctx); err != nil || len(paused) != want {
			t.Errorf("schema %d has pauses %v, %v", i, paused, err)
		}
	}
	if pauses, err := b.Paused(ctx); err != nil || len(pauses) != 1 || pauses[0].Reason != "it fails" {
		t.Errorf("pauses = %v, %v", pauses, err)
	}
	report(opened)
	if is := stored(0); is.Allowed != 1 {
		t.Errorf("after the next report, schema 0 allows %d", is.Allowed)
	}
	for _, one := range b.schemas {
		one.down.Store(true)
	}
	_, err := b.Report(ctx, "crm", func(b almanac.Breaker, _ time.Time) almanac.Breaker { return b })
	missing(t, "Report", err, "s0", "s1", "s2")
	for _, one := range b.schemas {
		one.down.Store(false)
	}
	if err := b.Resume(ctx, "crm"); err != nil {
		t.Fatal(err)
	}
	for i := range b.schemas {
		if is := stored(i); is.Allowed != 0 {
			t.Errorf("after Resume, schema %d allows %d", i, is.Allowed)
		}
	}
}

// Changes of lanes name the schema that they have not reached, and reads return the limits of the others.
func TestLanesWithoutASchema(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 2), t.Context()
	b.schemas[1].down.Store(true)
	crm := almanac.Lane{Name: "crm", Places: 6}
	missing(t, "PutLane", b.PutLane(ctx, crm), "s1")
	missing(t, "Pause", b.Pause(ctx, almanac.Pause{Lane: "crm"}), "s1")
	lanes, err := b.Lanes(ctx)
	missing(t, "Lanes", err, "s1")
	if len(lanes) != 1 || lanes[0].Places != 3 {
		t.Errorf("lanes = %+v", lanes)
	}
	b.schemas[1].down.Store(false)
	if err := errors.Join(b.PutLane(ctx, crm), b.Pause(ctx, almanac.Pause{Lane: "crm"})); err != nil {
		t.Fatal(err)
	}
	if lanes, err = b.Lanes(ctx); err != nil || lanes[0] != crm {
		t.Errorf("lanes = %+v, %v", lanes, err)
	}
}

// Old events of one schema that wait for their lane leave the room of a claim to another schema.
func TestWaitingEventsOfOneSchemaLeaveRoomToOthers(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 2), t.Context()
	for i := range 25 {
		u := b.userIn(0)
		options := []almanactest.EventOption{almanactest.InLane("crm"), almanactest.ReadyFor(time.Hour)}
		if i < 5 {
			u, options = b.userIn(1), []almanactest.EventOption{almanactest.ReadyFor(time.Minute)}
		}
		if _, _, err := almanactest.CreateUser(ctx, b, u, event(u, options...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Pause(ctx, almanac.Pause{Lane: "crm"}); err != nil {
		t.Fatal(err)
	}
	claim, err := b.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 4, Lease: time.Minute})
	if err != nil || len(claim.Events) != 4 {
		t.Fatalf("claimed %d, %v", len(claim.Events), err)
	}
	for _, e := range claim.Events {
		if e.Lane != "" {
			t.Errorf("claimed an event of lane %s", e.Lane)
		}
	}
}
