package shards_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/shards"
)

var errDown = errors.New("the server is down")

// failing is a repository whose server can be down.
type failing struct {
	*almanactest.Repository
	down     atomic.Bool
	hangs    atomic.Bool // whether calls of Run do not answer
	slow     atomic.Bool // whether claims do not answer
	calls    atomic.Int32
	creating func() // called before users are stored
	lacking  func() // called when a user who is edited does not exist
}

func (f *failing) err() error {
	if f.down.Load() {
		return errDown
	}
	return nil
}

// hung waits for the end of ctx while the server does not answer.
func (f *failing) hung(ctx context.Context) error {
	f.calls.Add(1)
	if f.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err()
}

func (f *failing) Now(ctx context.Context) (time.Time, error) {
	if err := f.hung(ctx); err != nil {
		return time.Time{}, err
	}
	return f.Repository.Now(ctx)
}

func (f *failing) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	if err := f.hung(ctx); err != nil {
		return almanac.List[almanac.Event]{}, err
	}
	return f.Repository.Find(ctx, spec, page)
}

func (f *failing) FindUsers(ctx context.Context, filter almanac.UserFilter, page almanac.Page) (almanac.List[almanac.User], error) {
	if err := f.err(); err != nil {
		return almanac.List[almanac.User]{}, err
	}
	return f.Repository.FindUsers(ctx, filter, page)
}

func (f *failing) Users(ctx context.Context, ids []uuid.UUID, externalIDs []string) ([]almanac.User, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Repository.Users(ctx, ids, externalIDs)
}

func (f *failing) Count(ctx context.Context, spec almanac.Spec) (int, error) {
	if err := f.err(); err != nil {
		return 0, err
	}
	return f.Repository.Count(ctx, spec)
}

func (f *failing) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	if f.creating != nil {
		f.creating()
	}
	return f.Repository.CreateUsers(ctx, users)
}

func (f *failing) EditUsers(ctx context.Context, ids []uuid.UUID, edit func(int, almanac.Roster) (almanac.Edit, error)) ([]almanac.Edit, []error) {
	if err := f.err(); err != nil {
		return make([]almanac.Edit, len(ids)), slices.Repeat([]error{err}, len(ids))
	}
	return f.Repository.EditUsers(ctx, ids, edit)
}

func (f *failing) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	if err := f.err(); err != nil {
		return almanac.Edit{}, err
	}
	e, err := f.Repository.EditUser(ctx, id, edit)
	if f.lacking != nil && errors.Is(err, almanac.ErrNotFound) {
		f.lacking()
	}
	return e, err
}

func (f *failing) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if f.slow.Load() {
		<-ctx.Done()
		return almanac.ClaimResult{}, ctx.Err()
	}
	if err := f.hung(ctx); err != nil {
		return almanac.ClaimResult{}, err
	}
	return f.Repository.Claim(ctx, r)
}

func (f *failing) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.SettleResult, error) {
	if err := f.hung(ctx); err != nil {
		return nil, err
	}
	return f.Repository.Settle(ctx, settlements)
}

func (f *failing) Pause(ctx context.Context, p almanac.Pause) error {
	return errors.Join(f.err(), f.Repository.Pause(ctx, p))
}

func (f *failing) PutLane(ctx context.Context, l almanac.Lane) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Repository.PutLane(ctx, l)
}

func (f *failing) Lanes(ctx context.Context) ([]almanac.Lane, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Repository.Lanes(ctx)
}

func (f *failing) Report(ctx context.Context, lane string, change func(almanac.Breaker, time.Time) almanac.Breaker) (almanac.Breaker, error) {
	if err := f.err(); err != nil {
		return almanac.Breaker{}, err
	}
	return f.Repository.Report(ctx, lane, change)
}

func (f *failing) EditZoneRules(ctx context.Context, edit func(almanac.ZoneBook) (almanac.ZoneBook, error)) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Repository.EditZoneRules(ctx, edit)
}

// broken is a store of which a server can be down.
type broken struct {
	*shards.Store
	schemas []*failing
	mu      sync.Mutex
	noted   []string // the schemas of OnError
}

func newBroken(t testing.TB, n int) *broken {
	t.Helper()
	b := new(broken)
	var places []shards.Place
	var schemas []shards.Schema
	for i := range n {
		one := &failing{Repository: almanactest.NewRepository(nil)}
		b.schemas = append(b.schemas, one)
		places = append(places, shards.Place{Schema: fmt.Sprint("s", i)})
		schemas = append(schemas, shards.Schema{Name: fmt.Sprint("s", i), Repository: one, Broadcasts: one})
	}
	b.Store = open(t, shards.Options{
		Directory: shards.NewDirectory(places...), Schemas: schemas, Reservations: shards.NewMemoryReservations(),
		OnError: func(schema string, _ error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.noted = append(b.noted, schema)
		},
	})
	return b
}

// userIn returns a user of a schema.
func (b *broken) userIn(schema int, options ...almanactest.UserOption) almanac.User {
	for {
		if u := almanactest.User(options...); b.SchemaOf(u.ID) == fmt.Sprint("s", schema) {
			return u
		}
	}
}

func event(u almanac.User, options ...almanactest.EventOption) almanac.Event {
	return almanactest.Event(time.Now().UTC(), append([]almanactest.EventOption{almanactest.For(u)}, options...)...)
}

// missing fails the test unless err is a *PartialError that names these schemas.
func missing(t *testing.T, what string, err error, schemas ...string) {
	t.Helper()
	partial, is := errors.AsType[*shards.PartialError](err)
	if !is || !slices.Equal(partial.Missing, schemas) || !errors.Is(err, errDown) {
		t.Errorf("%s: error = %v, want one without %v", what, err, schemas)
	}
}

func TestAServerThatIsDownTakesOnlyItsUsers(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 3), t.Context()
	var users []almanac.User
	for i := range 3 {
		u := b.userIn(i, almanactest.WithExternalID(fmt.Sprint("x", i)))
		if _, _, err := almanactest.CreateUser(ctx, b, u, event(u, almanactest.ReadyFor(time.Minute))); err != nil {
			t.Fatal(err)
		}
		users = append(users, u)
	}
	b.schemas[1].down.Store(true)

	found, err := b.Find(ctx, nil, almanac.Page{})
	missing(t, "Find", err, "s1")
	if len(found.Items) != 2 {
		t.Errorf("Find returns %d events, want 2", len(found.Items))
	}
	n, err := b.Count(ctx, nil)
	missing(t, "Count", err, "s1")
	if n != 2 {
		t.Errorf("counted %d, want 2", n)
	}
	if u, err := b.UserByExternalID(ctx, "x2"); err != nil || u.ID != users[2].ID {
		t.Errorf("the user of another schema is %v, %v", u.ID, err)
	}
	_, err = b.UserByExternalID(ctx, "x1")
	missing(t, "UserByExternalID", err, "s1")

	results, err := b.CreateUsers(ctx, []almanac.UserWithEvents{{User: b.userIn(0)}, {User: b.userIn(1)}, {User: b.userIn(2)}})
	if err != nil || results[0].Err != nil || !errors.Is(results[1].Err, errDown) || results[2].Err != nil {
		t.Errorf("CreateUsers: %v, %v", results, err)
	}
	_, errs := b.EditUsers(ctx, []uuid.UUID{users[1].ID, users[0].ID, users[2].ID}, func(int, almanac.Roster) (almanac.Edit, error) {
		return almanac.Edit{}, nil
	})
	if !errors.Is(errs[0], errDown) || errs[1] != nil || errs[2] != nil {
		t.Errorf("EditUsers: %v", errs)
	}

	claim, err := b.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 10, Lease: time.Minute})
	if err != nil || len(claim.Events) != 2 || !claim.Reached.IsZero() {
		t.Errorf("Claim: %d events, reached %v, %v; want 2 and no mark, because a schema is missing", len(claim.Events), claim.Reached, err)
	}
	b.schemas[2].down.Store(true)
	var settlements []almanac.Settlement
	for _, e := range claim.Events {
		settlements = append(settlements, almanac.Settlement{Event: e, Outcome: almanac.Delivered(claim.At)})
	}
	settled, err := b.Settle(ctx, settlements)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range settled {
		lost := b.SchemaOf(settlements[i].Event.UserID) == "s2"
		if errors.Is(s.Err, almanac.ErrLocked) != lost || errors.Is(s.Err, errDown) != lost {
			t.Errorf("Settle: %v, of a schema that is down: %v", s.Err, lost)
		}
	}
	missing(t, "Pause", b.Pause(ctx, almanac.Pause{Lane: almanac.TypeBirthday}), "s1", "s2")
	edited := false
	err = b.EditZoneRules(ctx, func(book almanac.ZoneBook) (almanac.ZoneBook, error) { edited = true; return book, nil })
	if !errors.Is(err, errDown) || edited {
		t.Errorf("EditZoneRules: %v, edited %v; want an error before the edit", err, edited)
	}
	b.schemas[0].down.Store(true)
	_, err = b.Now(ctx)
	missing(t, "Now", err, "s0", "s1", "s2")
	if !slices.Contains(b.noted, "s1") {
		t.Errorf("noted are %v, want s1 among them", b.noted)
	}
}

func TestAStoreBoundToATransactionRefusesOtherSchemas(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 2), t.Context()
	in, out := b.userIn(0), b.userIn(1)
	bound := b.With("s0", b.schemas[0])
	if !bound.InTransaction() || b.InTransaction() {
		t.Error("the bound store is in a transaction, and the other is not")
	}
	results, err := bound.CreateUsers(ctx, []almanac.UserWithEvents{{User: in, Events: []almanac.Event{event(in)}}, {User: out}})
	if err != nil || results[0].Err != nil {
		t.Fatalf("CreateUsers: %v, %v", results, err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if is, ok := errors.AsType[*shards.BoundError](err); !ok || is.Bound != "s0" || is.Schema != "s1" {
			t.Errorf("%s: error = %v, want a *BoundError", what, err)
		}
	}
	refused("CreateUsers", results[1].Err)
	_, err = bound.User(ctx, out.ID)
	refused("User", err)
	_, errs := bound.EditUsers(ctx, []uuid.UUID{out.ID}, nil)
	refused("EditUsers", errs[0])
	refused("Pause", bound.Pause(ctx, almanac.Pause{Lane: almanac.TypeBirthday}))
	found, err := bound.Find(ctx, nil, almanac.Page{})
	refused("Find", err)
	if len(found.Items) != 1 {
		t.Errorf("found %d events of the schema of the transaction, want 1", len(found.Items))
	}
	if _, err := bound.ZoneRules(ctx); err != nil {
		t.Errorf("ZoneRules, of which each schema has a copy: %v", err)
	}
}

func TestEventsAreFoundUnderAnyID(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 3), t.Context()
	for range 20 { // the ids of the fixtures name any slot
		u := almanactest.User()
		e := event(u)
		if _, _, err := almanactest.CreateUser(ctx, b, u, e); err != nil {
			t.Fatal(err)
		}
		got, err := b.Event(ctx, e.ID)
		if err != nil || got.ID != e.ID {
			t.Errorf("Event: %v", err)
		}
		several, err := b.Events(ctx, []uuid.UUID{e.ID, uuid.New()})
		if err != nil || len(several) != 1 {
			t.Errorf("Events: %d, %v", len(several), err)
		}
	}
}

// The scheduler's events name the slots of their users, so one schema answers.
func TestIDsOfAScheduler(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 3), t.Context()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := almanac.NewScheduler(b, registry)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		u := b.userIn(i)
		created, err := scheduler.CreateUser(ctx, almanac.Profile{ID: u.ID, FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: "UTC"})
		if err != nil {
			t.Fatal(err)
		}
		e := created.Events[0]
		for k, one := range b.schemas {
			one.down.Store(k != i)
		}
		if got, err := b.Event(ctx, e.ID); err != nil || got.ID != e.ID {
			t.Errorf("with the other servers down: %v", err)
		}
		for _, one := range b.schemas {
			one.down.Store(false)
		}
		if _, err := scheduler.Cancel(ctx, e.ID, almanac.CancelOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := scheduler.Requeue(ctx, e.ID, almanac.ForceOptions{}); err != nil {
			t.Fatal(err)
		}
		found, err := b.Find(ctx, almanac.ForUser(u.ID), almanac.Page{})
		if err != nil || len(found.Items) != 3 {
			t.Fatalf("%d events, want the first one, its successor and the requeued one: %v", len(found.Items), err)
		}
		for _, e := range found.Items {
			if slot := int(e.ID[14]&3)<<8 | int(e.ID[15]); slot != shards.SlotOf(u.ID) {
				t.Errorf("event %s names slot %d, want %d", e.ID, slot, shards.SlotOf(u.ID))
			}
		}
	}
}

// A user is created just after another call has found that the user does not exist. Then the reservation is not busy any more.
func TestAnExternalIDIsNotTakenFromAUserWhoIsBeingCreated(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 2), t.Context()
	first, second := b.userIn(0, almanactest.WithExternalID("x")), b.userIn(1, almanactest.WithExternalID("x"))
	reserved, goOn, created := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	b.schemas[0].creating = func() { close(reserved); <-goOn }
	looked := false
	b.schemas[0].lacking = func() {
		looked = true
		close(goOn)
		created <- <-created
	}
	go func() {
		_, _, err := almanactest.CreateUser(ctx, b, first)
		created <- err
	}()
	<-reserved
	_, _, err := almanactest.CreateUser(ctx, b, second)
	if !looked || !errors.Is(err, almanac.ErrExternalIDTaken) {
		t.Errorf("error = %v, want that the external id is taken; looked for the user: %v", err, looked)
	}
	if err := <-created; err != nil {
		t.Errorf("the first user: %v", err)
	}
}

// A reservation of a user who was not stored does not last.
func TestAReservationWithoutAUserIsTakenOver(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 2), t.Context()
	first := b.userIn(0, almanactest.WithExternalID("x"))
	e := event(first)
	e.Payload = []byte("{") // cannot be stored
	if _, _, err := almanactest.CreateUser(ctx, b, first, e); err == nil {
		t.Fatal("the user is stored")
	}
	second := b.userIn(1, almanactest.WithExternalID("x"))
	if _, _, err := almanactest.CreateUser(ctx, b, second); err != nil {
		t.Errorf("after a user who was not stored: %v", err)
	}
	b.schemas[0].down.Store(true)
	third, fourth := b.userIn(0, almanactest.WithExternalID("y")), b.userIn(1, almanactest.WithExternalID("y"))
	if _, _, err := almanactest.CreateUser(ctx, b, third); !errors.Is(err, errDown) {
		t.Errorf("a schema that is down: %v", err)
	}
	b.schemas[0].down.Store(false)
	if _, _, err := almanactest.CreateUser(ctx, b, fourth); !errors.Is(err, almanac.ErrExternalIDTaken) {
		t.Errorf("while it is unknown whether another user was stored: %v", err)
	}
	if _, _, err := almanactest.CreateUser(ctx, b, third); err != nil {
		t.Errorf("the same user again: %v", err)
	}
}

// Of concurrent calls that want one external id, at most one gets it.
func TestAnExternalIDHasOneUser(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 3), t.Context()
	var ids []uuid.UUID
	for i := range 6 {
		u := b.userIn(i % 3)
		if _, _, err := almanactest.CreateUser(ctx, b, u); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, u.ID)
	}
	var wg sync.WaitGroup
	for k := range 200 {
		wg.Go(func() {
			want := ""
			if k%3 > 0 {
				want = "wanted"
			}
			_, err := b.EditUser(ctx, ids[k%len(ids)], func(r almanac.Roster) (almanac.Edit, error) {
				edited, err := r.User.Edit(almanac.ProfileChange{ExternalID: &want}, r.Now)
				return almanac.Edit{User: &edited}, err
			})
			if err != nil && !errors.Is(err, almanac.ErrExternalIDTaken) && !errors.Is(err, almanac.ErrLocked) {
				t.Error(err)
			}
			u := b.userIn(k%3, almanactest.WithExternalID("wanted"))
			if _, _, err := almanactest.CreateUser(ctx, b, u); err == nil && k%2 == 0 {
				_, err = b.DeleteUser(ctx, u.ID, almanac.DeleteOptions{})
				if err != nil {
					t.Error(err)
				}
			}
			if holders, err := b.Users(ctx, nil, []string{"wanted"}); err != nil || len(distinct(holders)) > 1 && stays(ctx, b, holders) {
				t.Errorf("%d users have the external id, %v", len(holders), err)
			}
		})
	}
	wg.Wait()
	holders, err := b.Users(ctx, nil, []string{"wanted"})
	if err != nil || len(holders) > 1 {
		t.Fatalf("%d users have the external id, %v", len(holders), err)
	}
	for _, u := range holders { // so that it is free
		if _, err := b.DeleteUser(ctx, u.ID, almanac.DeleteOptions{AtOnce: true}); err != nil {
			t.Fatal(err)
		}
	}
	u := b.userIn(2, almanactest.WithExternalID("wanted"))
	if _, _, err := almanactest.CreateUser(ctx, b, u); err != nil {
		t.Errorf("a free external id: %v", err)
	}
}

func distinct(users []almanac.User) map[uuid.UUID]bool {
	ids := make(map[uuid.UUID]bool)
	for _, u := range users {
		ids[u.ID] = true
	}
	return ids
}

// stays reports whether two of these users have the external id at once: each schema is read at a moment of its own.
func stays(ctx context.Context, b *broken, users []almanac.User) bool {
	again, err := b.Users(ctx, nil, []string{"wanted"})
	same := func(a, b almanac.User) bool { return a.ID == b.ID && a.Version == b.Version }
	return err == nil && slices.EqualFunc(users, again, same)
}

func TestDirectoryNamesEachInvalidField(t *testing.T) {
	t.Parallel()
	d := shards.NewDirectory(shards.Place{Schema: "a"}, shards.Place{Schema: "a"}, shards.Place{})
	d.Version, d.Slots[7] = 0, 9
	_, err := shards.New(shards.Options{Directory: d, Patience: -1, Schemas: []shards.Schema{{Name: "b"}}})
	bad, is := errors.AsType[*almanac.ValidationError](err)
	if !is {
		t.Fatalf("error = %v", err)
	}
	var fields []string
	for _, f := range bad.Fields {
		fields = append(fields, f.Field)
	}
	want := []string{"version", "schemas[1]", "schemas[2]", "slots[7]", "schemas[0]", "schemas", "schemas", "schemas", "patience"}
	if !reflect.DeepEqual(fields, want) {
		t.Errorf("fields = %v, want %v", fields, want)
	}
	even := shards.NewDirectory(shards.Place{Schema: "a"}, shards.Place{Schema: "b"}, shards.Place{Schema: "c"})
	if err := even.Check(); err != nil || even.Slots[0] != 0 || even.Slots[1023] != 2 {
		t.Errorf("an even directory: %v", err)
	}
}

// While types take turns, the events of one schema are claimed before older ones of another. The mark stays before those.
func TestTheMarkStaysBeforeWhatAnotherSchemaHas(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 2), t.Context()
	for i := range 8 {
		u, options := b.userIn(0), []almanactest.EventOption{almanactest.ReadyFor(time.Duration(10+i) * time.Minute)}
		if i%4 == 0 {
			u, options = b.userIn(1), []almanactest.EventOption{almanactest.OfType("DIGEST"), almanactest.ReadyFor(time.Minute)}
		}
		if _, _, err := almanactest.CreateUser(ctx, b, u, event(u, options...)); err != nil {
			t.Fatal(err)
		}
	}
	claim, err := b.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday, "DIGEST"}, Limit: 4, Lease: time.Minute})
	if err != nil || len(claim.Events) != 4 {
		t.Fatalf("claimed %d, %v", len(claim.Events), err)
	}
	left, err := b.Find(ctx, almanac.InStatus(almanac.Pending), almanac.Page{Order: almanac.NextFirst})
	if err != nil || left.Items[0].Type != almanac.TypeBirthday || claim.Reached.IsZero() || claim.Reached.After(left.Items[0].AvailableAt) {
		t.Errorf("the mark is %v, and %v is left, %v", claim.Reached, left.Items[0].AvailableAt, err)
	}
}
