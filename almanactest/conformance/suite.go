package conformance

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
	"github.com/almanac-go/almanac/almanactest"
)

// TestRepository checks that a repository does what [almanac.Repository] promises. It runs
// parallel subtests, each on a new repository from open; open registers its own cleanup. No
// subtest waits longer than moments.
//
// A repository may lack an ability and implement it trivially, as [almanac.MaintenanceRepository]
// describes for pausing. The suite then checks that it does so consistently.
func TestRepository(t *testing.T, open func(t *testing.T) almanac.Repository) {
	for _, chapter := range []map[string]func(*kit){claimCases, aheadCases, leaseCases, leaseEachCases, markCases, eventCases, findUsersCases, specCases, statsCases, stalledCases, dueCases, rowCases, fieldCases, zoneCases, zoneMarkCases(), bulkMarkCases, retentionCases, bulkCases, operationCases, optOutCases, oneOffCases, abilityCases, seriesCases, usedCases} {
		run(t, chapter, open)
	}
	for _, chapter := range []map[string]func(*kit){userCases, deletionCases, editCases, settleCases, rosterCases, orderCases, raceCases} {
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
			k.countsAgree()
		})
	}
}

// remembering settles with the users that its claims returned, as the scheduler does.
type remembering struct {
	almanac.Repository
	mu    sync.Mutex
	users map[uuid.UUID]almanac.User // by event, as returned by the last claim
}

func (r *remembering) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.ClaimResult, error) {
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

func (r *remembering) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.SettleResult, error) {
	r.mu.Lock()
	settlements = slices.Clone(settlements)
	for i := range settlements {
		settlements[i].User = r.users[settlements[i].Event.ID]
	}
	r.mu.Unlock()
	return r.Repository.Settle(ctx, settlements)
}

// kit is the state of one running case.
type kit struct {
	*testing.T
	r   almanac.Repository
	now time.Time // the repository's time when the case began
}

// ok fails the case at once if err is not nil.
func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("unexpected error: %v", err)
	}
}

// is fails the case if err does not match the sentinel.
func (k *kit) is(err, sentinel error) {
	k.Helper()
	if !errors.Is(err, sentinel) {
		k.Errorf("error = %v, want one that matches %v", err, sentinel)
	}
}

// same fails the case if two values differ. Payloads and attributes are compared as JSON
// values, because a repository may change their white space.
func (k *kit) same(what string, got, want any) {
	k.Helper()
	if !reflect.DeepEqual(normal(got), normal(want)) {
		k.Errorf("%s = %+v, want %+v", what, got, want)
	}
}

func normal(v any) any {
	switch v := v.(type) {
	case almanac.Event:
		v.Payload = normalJSON(v.Payload)
		return v
	case almanac.User:
		v.Attributes = normalJSON(v.Attributes)
		return v
	}
	return v
}

func normalJSON(text json.RawMessage) json.RawMessage {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return text
	}
	text, _ = json.Marshal(value) // err was nil above, so this cannot fail
	return text
}

// create stores a user with their first events.
func (k *kit) create(u almanac.User, events ...almanac.Event) (almanac.User, []almanac.Event, error) {
	return almanactest.CreateUser(k.Context(), k.r, u, events...)
}

// newEvent stores a user with one event, and returns the event.
func (k *kit) newEvent(options ...almanactest.EventOption) almanac.Event {
	k.Helper()
	u := almanactest.User()
	_, events, err := k.create(u, almanactest.Event(k.now, append([]almanactest.EventOption{almanactest.For(u)}, options...)...))
	k.ok(err)
	return events[0]
}

// request returns a claim of up to limit birthdays with a lease of a minute.
func request(limit int) almanac.ClaimRequest {
	return almanac.ClaimRequest{Token: uuid.New(), Owner: "suite", Types: []string{almanac.TypeBirthday}, Limit: limit, Lease: time.Minute}
}

// claim claims exactly n events under one token.
func (k *kit) claim(n int) []almanac.Event {
	k.Helper()
	claim, err := k.r.Claim(k.Context(), request(n))
	k.ok(err)
	if len(claim.Events) != n {
		k.Fatalf("claimed %d events, want %d", len(claim.Events), n)
	}
	return claim.Events
}

// settle stores one outcome and returns its result.
func (k *kit) settle(s almanac.Settlement) almanac.SettleResult {
	k.Helper()
	settled, err := k.settleUnlocked(s)
	k.ok(err)
	return settled
}

// settleUnlocked stores one outcome. It tries again while the event is locked.
func (k *kit) settleUnlocked(s almanac.Settlement) (almanac.SettleResult, error) {
	for {
		settled, err := k.r.Settle(k.Context(), []almanac.Settlement{s})
		if err != nil {
			return almanac.SettleResult{}, err
		}
		if len(settled) != 1 {
			return almanac.SettleResult{}, fmt.Errorf("%d results for one settlement", len(settled))
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

// gone fails the case unless err is a *NotFoundError.
func (k *kit) gone(err error) {
	k.Helper()
	var missing *almanac.NotFoundError
	if !errors.As(err, &missing) {
		k.Errorf("error = %v, want a *NotFoundError", err)
	}
}

// crash claims n events with a lease of a microsecond and waits until they are released.
func (k *kit) crash(n int) (claimed, released []almanac.Event) {
	k.Helper()
	r := request(n)
	r.Lease = time.Microsecond
	claim, err := k.r.Claim(k.Context(), r)
	k.ok(err)
	return claim.Events, k.expire(n, 10)
}

// expire waits until n events of expired leases are released, at most limit in one call.
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

// birthdays returns the birthday series of a name.
func birthdays(name string) almanac.Series {
	return almanac.Series{Type: almanac.TypeBirthday, Name: name}
}

// asFollowUp makes an event a follow-up of another.
var asFollowUp = almanactest.WithOrigin(almanac.Origin{Kind: almanac.OriginFollowUp, From: uuid.MustParse("0190a0a0-0000-7000-8000-000000000001")})

// planned returns a planner that plans one given event.
func planned(e almanac.Event) func(almanac.User, time.Time) (almanac.Event, error) {
	return func(almanac.User, time.Time) (almanac.Event, error) { return e, nil }
}

// after returns a planner that plans a successor: an occurrence a year later.
func after(e almanac.Event) func(almanac.User, time.Time) (almanac.Event, error) {
	return func(u almanac.User, now time.Time) (almanac.Event, error) {
		return almanactest.Event(now, almanactest.For(u), almanactest.DueIn(365*24*time.Hour), almanactest.OfSeries(e.Series, e.OccurrenceKey+"+1")), nil
	}
}

// place sets the instant of an event, truncated to the second.
func place(e *almanac.Event, due time.Time) { almanactest.DueIn(0)(e, due) }
