package almanactest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// TestRepository checks that a repository does what [almanac.Repository] promises.
// It runs parallel subtests, each on a fresh repository that open returns; open
// registers its own cleanup. Nothing in it waits for more than moments. What a
// repository is able to do beyond that, as an [almanac.BulkRepository], is checked
// too.
func TestRepository(t *testing.T, open func(t *testing.T) almanac.Repository) {
	for _, chapter := range []map[string]func(*kit){claimCases, aheadCases, leaseCases, leaseEachCases, markCases, eventCases, specCases, rowCases, zoneCases, zoneMarkCases(), bulkMarkCases, retentionCases, bulkCases, operationCases, oneOffCases} {
		run(t, chapter, open)
	}
	for _, chapter := range []map[string]func(*kit){userCases, deletionCases, editCases, settleCases, rosterCases, turnCases, raceCases} {
		run(t, chapter, open)
		t.Run("with users as they were claimed", func(t *testing.T) {
			run(t, chapter, func(t *testing.T) almanac.Repository { return &remembering{Repository: open(t)} })
		})
	}
}

// run runs the cases of a chapter.
func run(t *testing.T, chapter map[string]func(*kit), open func(t *testing.T) almanac.Repository) {
	for name, check := range chapter {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &kit{T: t, r: open(t)}
			now, err := k.r.Now(t.Context())
			k.ok(err)
			k.now = now
			check(k)
		})
	}
}

// remembering settles with the users that its claims returned, as the engine does.
type remembering struct {
	almanac.Repository
	mu    sync.Mutex
	users map[uuid.UUID]almanac.User // by event, as the last claim had them
}

func (r *remembering) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.Claim, error) {
	claim, err := r.Repository.Claim(ctx, request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil {
		r.users = make(map[uuid.UUID]almanac.User)
	}
	for _, e := range claim.Events {
		r.users[e.ID] = claim.Users[e.UserID]
	}
	return claim, err
}

func (r *remembering) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	r.mu.Lock()
	settlements = slices.Clone(settlements)
	for i := range settlements {
		settlements[i].User = r.users[settlements[i].Event.ID]
	}
	r.mu.Unlock()
	return r.Repository.Settle(ctx, settlements)
}

// kit is one case of the suite on its way.
type kit struct {
	*testing.T
	r   almanac.Repository
	now time.Time // the repository's, when the case began
}

// ok ends the case if err is not nil.
func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("unexpected error: %v", err)
	}
}

// is reports that err does not match the sentinel.
func (k *kit) is(err, sentinel error) {
	k.Helper()
	if !errors.Is(err, sentinel) {
		k.Errorf("error = %v, want one that matches %v", err, sentinel)
	}
}

// same reports that two values differ. Events are compared by what they say: JSON
// can come back with other blanks.
func (k *kit) same(what string, got, want any) {
	k.Helper()
	if !reflect.DeepEqual(normal(got), normal(want)) {
		k.Errorf("%s = %+v, want %+v", what, got, want)
	}
}

func normal(v any) any {
	e, ok := v.(almanac.Event)
	if !ok {
		return v
	}
	var payload any
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return e
	}
	e.Payload, _ = json.Marshal(payload) // of what was JSON a moment ago
	return e
}

// owe stores a user with one event.
func (k *kit) owe(options ...EventOption) almanac.Event {
	k.Helper()
	u := User()
	_, events, err := k.r.CreateUser(k.Context(), u, Event(k.now, append([]EventOption{For(u)}, options...)...))
	k.ok(err)
	return events[0]
}

// request asks for up to limit birthdays for a minute.
func request(limit int) almanac.ClaimRequest {
	return almanac.ClaimRequest{Token: uuid.New(), Owner: "suite", Types: []string{almanac.TypeBirthday}, Limit: limit, Lease: time.Minute}
}

// claim takes exactly n events under one token.
func (k *kit) claim(n int) []almanac.Event {
	k.Helper()
	claim, err := k.r.Claim(k.Context(), request(n))
	k.ok(err)
	if len(claim.Events) != n {
		k.Fatalf("claimed %d events, want %d", len(claim.Events), n)
	}
	return claim.Events
}

// settle stores one outcome and answers what came of it.
func (k *kit) settle(s almanac.Settlement) almanac.Settled {
	k.Helper()
	settled, err := k.settleUnlocked(s)
	k.ok(err)
	return settled
}

// settleUnlocked stores one outcome, and tries again as long as its event is locked.
func (k *kit) settleUnlocked(s almanac.Settlement) (almanac.Settled, error) {
	for {
		settled, err := k.r.Settle(k.Context(), []almanac.Settlement{s})
		if err != nil {
			return almanac.Settled{}, err
		}
		if len(settled) != 1 {
			return almanac.Settled{}, fmt.Errorf("%d answers to one settlement", len(settled))
		}
		if !errors.Is(settled[0].Err, almanac.ErrLocked) {
			return settled[0], nil
		}
	}
}

// stored returns an event as it is stored now.
func (k *kit) stored(id uuid.UUID) almanac.Event {
	k.Helper()
	e, err := k.r.Event(k.Context(), id)
	k.ok(err)
	return e
}

// gone reports that there still is an event or a user.
func (k *kit) gone(err error) {
	k.Helper()
	var missing *almanac.NotFoundError
	if !errors.As(err, &missing) {
		k.Errorf("error = %v, want a *NotFoundError", err)
	}
}

// crash claims n events for an instant and waits for the lease to be taken back.
func (k *kit) crash(n int) (claimed, released []almanac.Event) {
	k.Helper()
	r := request(n)
	r.Lease = time.Microsecond
	claim, err := k.r.Claim(k.Context(), r)
	k.ok(err)
	return claim.Events, k.expire(n, 10)
}

// expire waits until n events have been taken back from leases that ran out, at
// most limit events at a time.
func (k *kit) expire(n, limit int) (released []almanac.Event) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), 10*time.Second)
	defer cancel()
	for len(released) < n {
		events, err := k.r.ReleaseExpired(ctx, limit)
		k.ok(err)
		released = append(released, events...)
	}
	return released
}

// planned returns a planner of one event.
func planned(e almanac.Event) func(almanac.User, time.Time) (almanac.Event, error) {
	return func(almanac.User, time.Time) (almanac.Event, error) { return e, nil }
}

// after returns a planner of successors: an occurrence a year later.
func after(e almanac.Event) func(almanac.User, time.Time) (almanac.Event, error) {
	return func(u almanac.User, now time.Time) (almanac.Event, error) {
		return Event(now, For(u), DueIn(365*24*time.Hour), Of(e.OccurrenceKey+"+1")), nil
	}
}
