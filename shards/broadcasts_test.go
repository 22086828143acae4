package shards_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/shards"
)

// sender returns a sender over a store, and creates users in each schema.
func (b *broken) sender(t *testing.T, users int) *broadcast.Sender {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.OneOff{Type: "NEWS"})
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := almanac.NewScheduler(b.Store, registry)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := broadcast.New(scheduler, b.Store)
	if err != nil {
		t.Fatal(err)
	}
	for i := range users * len(b.schemas) {
		if _, _, err := almanactest.CreateUser(t.Context(), b, b.userIn(i%len(b.schemas))); err != nil {
			t.Fatal(err)
		}
	}
	return sender
}

func news(name string) broadcast.Broadcast {
	return broadcast.Broadcast{Name: name, Type: "NEWS", Instant: time.Now().Add(time.Hour), Passed: broadcast.Now, Payload: []byte(`{"text":"hello"}`)}
}

// A broadcast over a schema that is down reaches the users of the others, and its users after the calls were repeated.
func TestABroadcastWithoutASchema(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 3), t.Context()
	s := b.sender(t, 2)
	b.schemas[1].down.Store(true)
	sale := news("sale")
	_, err := s.Start(ctx, sale)
	missing(t, "Start", err, "s1")
	missing(t, "RunOnce", s.RunOnce(ctx, broadcast.RunOptions{}), "s1")
	p, err := s.Progress(ctx, "sale")
	missing(t, "Progress", err, "s1")
	if got := p.Total().Counts; got != (broadcast.Counts{Users: 4, Stored: 4}) || p.State != broadcast.Stored {
		t.Errorf("without a schema: %+v, %s", got, p.State)
	}
	_, err = s.Preview(ctx, sale)
	missing(t, "Preview", err, "s1")
	missing(t, "Delete", s.Delete(ctx, "sale"), "s1")

	b.schemas[1].down.Store(false)
	started, err := s.Start(ctx, sale)
	if err != nil || !started.Existed {
		t.Fatalf("Start again: %+v, %v", started, err)
	}
	if err := s.RunOnce(ctx, broadcast.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if p, err = s.Progress(ctx, "sale"); err != nil || p.Total().Stored != 6 {
		t.Errorf("with all schemas: %+v, %v", p.Total(), err)
	}

	b.schemas[1].down.Store(true)
	stopped, err := s.Stop(ctx, "sale", "typo")
	missing(t, "Stop", err, "s1")
	if stopped.State != broadcast.Stopped || stopped.StopReason() != "broadcast stopped: typo" {
		t.Errorf("stopped: %+v", stopped)
	}
	missing(t, "RunOnce", s.RunOnce(ctx, broadcast.RunOptions{}), "s1")
	b.schemas[1].down.Store(false)
	if _, err := s.Stop(ctx, "sale", "typo"); err != nil {
		t.Fatal(err)
	}
	if err := s.RunOnce(ctx, broadcast.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if p, err = s.Progress(ctx, "sale"); err != nil || p.Total().Cancelled != 6 {
		t.Errorf("stopped everywhere: %+v, %v", p.Total(), err)
	}
}

// A name that one schema has with another content is a conflict, and no other schema stores the broadcast.
func TestABroadcastThatOneSchemaRefuses(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 3), t.Context()
	s := b.sender(t, 1)
	other := news("sale")
	other.Instant = other.Instant.UTC().Add(time.Hour).Truncate(time.Second)
	if _, _, err := b.schemas[2].CreateBroadcast(ctx, other); err != nil {
		t.Fatal(err)
	}
	_, err := s.Start(ctx, news("sale"))
	if conflict, is := errors.AsType[*broadcast.ConflictError](err); !is || fmt.Sprint(conflict.Fields) != "[instant]" {
		t.Errorf("Start = %v", err)
	}
	if _, err := b.schemas[0].Broadcast(ctx, "sale"); !errors.Is(err, almanac.ErrNotFound) {
		t.Errorf("the first schema: %v", err)
	}

	// events of a deleted broadcast, in the last schema alone
	u := b.userIn(2)
	e := almanactest.Event(time.Now(), almanactest.For(u), almanactest.OfType("NEWS"), almanactest.InLane("NEWS/old"))
	e.OccurrenceKey, e.Origin = "old", almanac.Origin{Kind: almanac.OriginScheduled}
	if _, _, err := almanactest.CreateUser(ctx, b, u, e); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx, news("old")); !errors.Is(err, almanac.ErrExists) {
		t.Errorf("Start = %v", err)
	}
	if err := s.RunOnce(ctx, broadcast.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	is, err := s.Get(ctx, "old")
	if err != nil || is.State != broadcast.Stopped || is.StopReason() != "broadcast stopped: schema s2 has refused it" {
		t.Errorf("it is %+v, %v", is, err)
	}
	if n, err := b.Count(ctx, almanac.And{almanac.OfType("NEWS"), almanac.InStatus(almanac.Pending)}); err != nil || n != 2 {
		t.Errorf("%d events, %v", n, err) // this one, and that of the other broadcast
	}
}

// Programs that take tasks get those of different schemas, and a page is done in the schema of its task.
func TestSchemasTakeTurnsInABroadcast(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 3), t.Context()
	s := b.sender(t, 1)
	if _, err := s.Start(ctx, news("sale")); err != nil {
		t.Fatal(err)
	}
	users := make(map[string]bool)
	for range 3 {
		task, found, err := b.TakeBroadcast(ctx, uuid.New(), time.Minute, nil)
		if err != nil || !found {
			t.Fatalf("found %v, %v", found, err)
		}
		_, err = b.StoreBroadcast(ctx, task, time.Minute, 10, func(list []almanac.UserSeries, _ time.Time) ([]almanac.Event, []almanac.Refusal, error) {
			for _, one := range list {
				users[b.SchemaOf(one.User.ID)] = true
			}
			return nil, nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		task.Token = uuid.Max
		if _, err := b.CancelBroadcast(ctx, task, time.Minute, 10); !errors.Is(err, broadcast.ErrTaken) {
			t.Errorf("of no schema: %v", err)
		}
	}
	if len(users) != 3 {
		t.Errorf("pages of %v", users)
	}
}

// A schema without broadcasts refuses all calls.
func TestSchemasWithoutBroadcasts(t *testing.T) {
	t.Parallel()
	r := almanactest.NewRepository(nil)
	store := open(t, shards.Options{Directory: shards.NewDirectory(shards.Place{Schema: "a"}), Schemas: []shards.Schema{{Name: "a", Repository: r}}})
	_, err := store.Broadcasts(t.Context(), "", 10)
	_, _, created := store.CreateBroadcast(t.Context(), news("sale"))
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(created, errors.ErrUnsupported) {
		t.Errorf("errors %v, %v", err, created)
	}
}

// A broadcast that was stopped while a schema was down is stopped there, too, when it is started again.
func TestABroadcastThatIsStoppedBeforeASchemaHasIt(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 2), t.Context()
	s := b.sender(t, 2)
	sale := news("sale")
	b.schemas[1].down.Store(true)
	_, err := s.Start(ctx, sale)
	missing(t, "Start", err, "s1")
	b.schemas[1].down.Store(false)
	if _, err := s.Stop(ctx, "sale", "typo"); err != nil {
		t.Fatal(err)
	}
	started, err := s.Start(ctx, sale)
	if err != nil || !started.Existed || started.State != broadcast.Stopped {
		t.Fatalf("Start again: %+v, %v", started, err)
	}
	if is, err := b.schemas[1].Broadcast(ctx, "sale"); err != nil || is.State != broadcast.Stopped || is.StopReason() != "broadcast stopped: typo" {
		t.Errorf("the schema that was down has %+v, %v", is, err)
	}
	if err := s.RunOnce(ctx, broadcast.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Count(ctx, almanac.InStatus(almanac.Pending)); err != nil || n != 0 {
		t.Errorf("%d events are pending, %v", n, err)
	}
	if paused, err := b.schemas[1].Paused(ctx); err != nil || len(paused) != 1 || paused[0].Lane != sale.Lane() {
		t.Errorf("paused is %v, %v", paused, err)
	}
	if _, err := s.Resume(ctx, "sale"); err != nil {
		t.Fatal(err)
	}
	if err := s.RunOnce(ctx, broadcast.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Progress(ctx, "sale"); err != nil || p.Total().Stored != 4 {
		t.Errorf("resumed: %+v, %v", p.Total(), err)
	}
}

// Users of a schema that does not have the broadcast are not left out without an error.
func TestUsersOfASchemaWithoutTheBroadcast(t *testing.T) {
	t.Parallel()
	b, ctx := newBroken(t, 2), t.Context()
	s := b.sender(t, 0)
	var ids []uuid.UUID
	for i := range 2 {
		u := b.userIn(i, almanactest.WithExternalID(fmt.Sprint("x", i)))
		if _, _, err := almanactest.CreateUser(ctx, b, u); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, u.ID)
	}
	list := news("list")
	list.Audience.Listed = true
	b.schemas[1].down.Store(true)
	_, err := s.Start(ctx, list)
	missing(t, "Start", err, "s1")
	b.schemas[1].down.Store(false)
	add := func(ids []uuid.UUID, externalIDs ...string) []string {
		added, err := s.AddUsers(ctx, "list", ids, externalIDs)
		partial, is := errors.AsType[*shards.PartialError](err)
		if err == nil {
			return nil
		}
		if !is || errors.Is(err, almanac.ErrNotFound) {
			t.Fatalf("AddUsers: %+v, %v", added, err)
		}
		return partial.Missing
	}
	if got := add(ids[:1], "x0"); got != nil {
		t.Errorf("users of the other schema: without %v", got)
	}
	if got := fmt.Sprint(add(ids), add(nil, "x1")); got != "[s1] [s1]" {
		t.Errorf("without %v", got)
	}
	if _, err := s.Start(ctx, list); err != nil {
		t.Fatal(err)
	}
	if got := add(ids, "x1"); got != nil {
		t.Errorf("after another start: without %v", got)
	}
}
