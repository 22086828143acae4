package conformance

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// TestBroadcasts checks that a store does what [broadcast.Store] promises, on a repository for the same data. It runs subtests as
// [TestRepository] does. The repository must be able to pause.
func TestBroadcasts(t *testing.T, open func(t *testing.T) (almanac.Repository, broadcast.Store)) {
	for _, chapter := range []map[string]func(*broadcastKit){
		broadcastCases, broadcastStateCases, broadcastNeighbourCases, broadcastListCases, broadcastRequeueCases, whyBroadcastCases,
	} {
		for name, check := range chapter {
			t.Run("Broadcasts/"+name, func(t *testing.T) {
				t.Parallel()
				k := &broadcastKit{kit: &kit{T: t}}
				k.r, k.store = open(t)
				k.now = k.clock()
				k.Sender = must(broadcast.New(k.scheduler(almanac.OneOff{Type: "NEWS"}), k.store))(k.kit)
				check(k)
			})
		}
	}
}

// broadcastKit is a kit with a sender.
type broadcastKit struct {
	*kit
	*broadcast.Sender
	store broadcast.Store
}

// citizens stores users, a number in each zone.
func (k *broadcastKit) citizens(n int, zones ...string) (ids []uuid.UUID) {
	for _, zone := range zones {
		for range n {
			u := almanactest.User(almanactest.LivingIn(zone))
			k.create(u)
			ids = append(ids, u.ID)
		}
	}
	return ids
}

// news returns a broadcast at the time that clocks in UTC show after a duration.
func (k *broadcastKit) news(name string, after time.Duration) broadcast.Broadcast {
	at := calendar.WallTimeOf(k.now.UTC().Add(after).Truncate(time.Second))
	return broadcast.Broadcast{Name: name, Type: "NEWS", At: at, Passed: broadcast.Skip, Payload: json.RawMessage(`{"text":"hello"}`)}
}

// send starts a broadcast, and stores what is to be stored now.
func (k *broadcastKit) send(b broadcast.Broadcast) broadcast.Progress {
	k.Helper()
	must(k.Start(k.Context(), b))(k.kit)
	return k.stores(b.Name)
}

// stores stores what is to be stored now.
func (k *broadcastKit) stores(name string) broadcast.Progress {
	k.Helper()
	k.ok(k.RunOnce(k.Context(), broadcast.RunOptions{}))
	return must(k.Progress(k.Context(), name))(k.kit)
}

// events returns the events of a broadcast by user.
func (k *broadcastKit) events(name string) map[uuid.UUID]almanac.Event {
	k.Helper()
	events := make(map[uuid.UUID]almanac.Event)
	for page := (almanac.Page{}); ; {
		found := must(k.r.Find(k.Context(), almanac.OfType("NEWS"), page))(k.kit)
		for _, e := range found.Items {
			if e.OccurrenceKey != name {
				continue
			}
			if _, twice := events[e.UserID]; twice {
				k.Errorf("user %s has two events", e.UserID)
			}
			events[e.UserID] = e
		}
		if page.After = found.Next; page.After == "" {
			return events
		}
	}
}

// broadcastCases store events.
var broadcastCases = map[string]func(*broadcastKit){
	"each user has one event at the wall time of their zone": func(k *broadcastKit) {
		k.citizens(2, "Asia/Tokyo", "UTC", "America/Lima")
		b := k.news("sale", 48*time.Hour)
		p := k.send(b)
		k.same("total", p.Total().Counts, broadcast.Counts{Users: 6, Stored: 6})
		k.same("state", p.State, broadcast.Stored)
		events := k.events("sale")
		k.same("events", len(events), 6)
		for _, e := range events {
			u := k.storedUser(e.UserID)
			due := must(u.Timezone.Resolve(b.At, calendar.Policies{}))(k.kit).Instant
			k.same("due", e.Due, due.UTC())
			k.same("lane and origin", e.Lane+" "+string(e.Origin.Kind), "NEWS/sale "+string(almanac.OriginScheduled))
			k.same("key", e.IdempotencyKey, almanac.NewIdempotencyKey(e.UserID.String(), due, "NEWS"))
			k.same("follows", e.Origin.FollowsUser, true)
		}
		k.same("again", k.stores("sale").Total().Counts, p.Total().Counts)
	},
	"an event keeps its lane when its user moves": func(k *broadcastKit) {
		id := k.citizens(1, "UTC")[0]
		k.send(k.news("sale", 48*time.Hour))
		s := k.scheduler(almanac.OneOff{Type: "NEWS"})
		must(s.UpdateUser(k.Context(), id, almanac.ProfileChange{Timezone: new("Asia/Tokyo")}))(k.kit)
		e := k.events("sale")[id]
		k.same("zone and lane", e.Zone+" "+e.Lane, "Asia/Tokyo NEWS/sale")
	},
	"where the time has passed, the rule decides": func(k *broadcastKit) {
		ids := k.citizens(1, "UTC")
		for _, passed := range []broadcast.Passed{broadcast.Now, broadcast.Skip, broadcast.NextDay} {
			b := k.news(string(passed), -time.Hour)
			b.Passed = passed
			p := k.send(b)
			e, has := k.events(b.Name)[ids[0]]
			k.same(b.Name, has, passed != broadcast.Skip)
			switch passed {
			case broadcast.Now:
				k.same("due now", e.Due, p.CreatedAt.Truncate(time.Second))
			case broadcast.NextDay:
				k.same("due tomorrow", e.Due, k.now.UTC().Truncate(time.Second).Add(23*time.Hour))
			case broadcast.Skip:
				k.same("left out", p.Total().Counts, broadcast.Counts{Users: 1, LeftOut: 1})
			}
		}
	},
	"an instant is the same everywhere": func(k *broadcastKit) {
		k.citizens(1, "Asia/Tokyo", "UTC")
		b := k.news("sale", 0)
		b.At, b.Instant = calendar.WallTime{}, k.now.UTC().Add(time.Hour).Truncate(time.Second)
		k.send(b)
		for _, e := range k.events("sale") {
			k.same("due", e.Due, b.Instant)
			k.same("follows", e.Origin.FollowsUser, false)
		}
	},
	"an audience is a filter or a list": func(k *broadcastKit) {
		gold, austrian := almanactest.User(almanactest.WithAttributes(`{"plan":"gold","age":40}`)), almanactest.User(almanactest.WithLocale("de-AT"))
		listed := almanactest.User(almanactest.WithExternalID("m-1"))
		for _, u := range []almanac.User{gold, austrian, listed} {
			k.create(u)
		}
		k.citizens(1, "Asia/Tokyo")
		for name, a := range map[string]broadcast.Audience{
			gold.ID.String():     {Attributes: json.RawMessage(`{"plan":"gold","age":4e1}`)},
			austrian.ID.String(): {Locale: "de"},
			listed.ID.String():   {Listed: true, Zones: []string{listed.Timezone.String()}},
		} {
			b := k.news(name, 48*time.Hour)
			b.Audience = a
			started := must(k.Start(k.Context(), b))(k.kit)
			k.same("previewed again", must(k.Preview(k.Context(), b))(k.kit).Stored, started.State)
			other := b
			other.Payload = json.RawMessage(`{"other":1}`)
			_, err := k.Preview(k.Context(), other)
			k.is(err, almanac.ErrExists)
			if a.Listed {
				k.same("state", started.State, broadcast.Collecting)
				added := must(k.AddUsers(k.Context(), name, []uuid.UUID{listed.ID, uuid.Max}, []string{"m-1", "m-2"}))(k.kit)
				k.same("added", added, broadcast.AddUsersResult{Added: 1, Unknown: []uuid.UUID{uuid.Max}, UnknownExternalIDs: []string{"m-2"}})
				k.same("nothing before", k.stores(name).Total().Stored, 0)
				k.same("preview", must(k.Preview(k.Context(), b))(k.kit).Users, 1)
				must(k.Complete(k.Context(), name))(k.kit)
				_, err := k.AddUsers(k.Context(), name, []uuid.UUID{gold.ID}, nil)
				k.is(err, almanac.ErrInvalidStateTransition)
			}
			k.same("stored", k.stores(name).Total().Counts, broadcast.Counts{Users: 1, Stored: 1})
			k.same("users", slices.Collect(maps.Keys(k.events(name))), []uuid.UUID{uuid.MustParse(name)})
		}
	},
	"users who have opted out get nothing": func(k *broadcastKit) {
		ids := k.citizens(1, "UTC", "Asia/Tokyo")
		s := k.scheduler(almanac.OneOff{Type: "NEWS"})
		must(s.OptOut(k.Context(), ids[0], almanac.OptOut{Type: "NEWS"}))(k.kit)
		k.same("counts", k.send(k.news("sale", 48*time.Hour)).Total().Counts, broadcast.Counts{Users: 2, Stored: 1, OptedOut: 1})
	},
	"users who come later are in or out": func(k *broadcastKit) {
		k.citizens(1, "UTC")
		for name, newcomers := range map[string]bool{"in": true, "out": false} {
			b := k.news(name, 48*time.Hour)
			b.Newcomers = newcomers
			p := k.send(b)
			k.same("state", p.State == broadcast.Stored, !newcomers)
		}
		b := k.news("late", 30*time.Second)
		b.Newcomers = true
		must(k.Start(k.Context(), b))(k.kit)
		must(k.Start(k.Context(), k.news("early", 48*time.Hour)))(k.kit)
		k.citizens(1, "UTC")
		k.same("in", k.stores("late").Total().Stored, 2)
		k.same("out", k.stores("early").Total().Stored, 1)
	},
}

// broadcastStateCases change the state of broadcasts.
var broadcastStateCases = map[string]func(*broadcastKit){
	"the same name with another content is a conflict": func(k *broadcastKit) {
		b := k.news("sale", 48*time.Hour)
		b.Audience = broadcast.Audience{Attributes: json.RawMessage(`{"a": 1}`), Zones: []string{"UTC", "Asia/Tokyo"}}
		k.same("existed", must(k.Start(k.Context(), b))(k.kit).Existed, false)
		stored := must(k.Get(k.Context(), "sale"))(k.kit)
		k.same("created", stored.Steps[0].At, stored.CreatedAt)
		k.same("existed", must(k.Start(k.Context(), b))(k.kit).Existed, true)
		b.Passed, b.Payload = broadcast.Now, nil
		_, err := k.Start(k.Context(), b)
		conflict, is := errors.AsType[*broadcast.ConflictError](err)
		k.same("conflict", is && slices.Equal(conflict.Fields, []string{"payload", "passed"}), true)
		k.same("list", len(must(k.List(k.Context(), "", 0))(k.kit)), 1)
		k.same("second page", len(must(k.List(k.Context(), "sale", 0))(k.kit)), 0)
		_, err = k.Get(k.Context(), "none")
		k.is(err, almanac.ErrNotFound)
	},
	"a stop ends it and a resume continues it": func(k *broadcastKit) {
		k.citizens(3, "UTC")
		b := k.news("sale", -time.Hour)
		b.Passed = broadcast.Now
		k.send(b)
		begun := k.claimNews(1)
		ctx := almanac.WithPrincipal(k.Context(), "grace")
		stopped := must(k.Stop(ctx, "sale", "typo"))(k.kit)
		k.same("state", stopped.State, broadcast.Stopped)
		k.same("author and reason", stopped.Steps[1].By+" "+stopped.Steps[1].Reason, "grace typo")
		k.claimNews(0)
		k.same("not over", k.stores("sale").EndedAt.IsZero(), true)
		k.deliver(begun[0])
		for _, e := range k.events("sale") {
			if e.ID != begun[0].ID {
				k.same("reason", string(e.Status)+" "+e.FailureReason, "CANCELLED broadcast stopped: typo")
			}
		}
		p := must(k.Progress(k.Context(), "sale"))(k.kit)
		k.same("outcomes", []int{p.Total().Delivered, p.Total().Cancelled, p.Due()}, []int{1, 2, 3})
		k.citizens(1, "UTC")
		k.same("resumed", must(k.Resume(k.Context(), "sale"))(k.kit).State, broadcast.Storing)
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.same("all were read before the resume", must(k.Progress(k.Context(), "sale"))(k.kit).Total().Read, true)
		p = k.stores("sale")
		k.same("stored", []int{p.Total().Stored, p.Total().Delivered, p.Total().Cancelled}, []int{3, 1, 0})
		must(k.Stop(k.Context(), "sale", strings.Repeat("typo", 250)))(k.kit)
		k.same("cancelled again", k.stores("sale").Total().Cancelled, 2)
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.stores("sale")
		keys := map[almanac.IdempotencyKey]bool{begun[0].IdempotencyKey: true}
		for _, e := range k.claimNews(2) {
			keys[e.IdempotencyKey] = true
			k.deliver(e)
		}
		k.same("keys", len(keys), 3)
		must(k.Stop(k.Context(), "sale", ""))(k.kit) // so that the next look at it is not seconds away
		must(k.Resume(k.Context(), "sale"))(k.kit)
		p = k.stores("sale")
		k.same("outcomes", []int{p.Total().Delivered, p.Total().Cancelled}, []int{3, 0})
		k.same("state", p.State, broadcast.Ended)
		_, err := k.Resume(k.Context(), "sale")
		k.is(err, almanac.ErrInvalidStateTransition)
	},
	"nothing is stored after a stop, and the rest after a resume": func(k *broadcastKit) {
		k.citizens(3, "UTC")
		must(k.Start(k.Context(), k.news("sale", 48*time.Hour)))(k.kit)
		task, found, err := k.store.TakeBroadcast(k.Context(), uuid.New(), time.Minute, nil)
		k.ok(err)
		k.same("task", found, true)
		_, other, err := k.store.TakeBroadcast(k.Context(), uuid.New(), time.Minute, nil)
		k.ok(err)
		k.same("another program", other, false)
		must(k.Stop(k.Context(), "sale", ""))(k.kit)
		_, err = k.store.StoreBroadcast(k.Context(), task, time.Minute, 10, func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error) {
			k.Error("planned after a stop")
			return nil, nil, nil
		})
		k.is(err, broadcast.ErrTaken)
		k.same("stored", k.stores("sale").Total().Stored, 0)
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.same("stored", k.stores("sale").Total().Stored, 3)
		_, err = k.Stop(k.Context(), "none", "")
		k.is(err, almanac.ErrNotFound)
	},
	"it ends when all events have, and can be deleted then": func(k *broadcastKit) {
		k.citizens(2, "UTC")
		b := k.news("sale", -time.Hour)
		b.Passed = broadcast.Now
		k.send(b)
		k.is(k.Delete(k.Context(), "sale"), almanac.ErrInvalidStateTransition)
		events := k.claimNews(2)
		k.deliver(events[0])
		k.giveUp(events[1], "no such user")
		must(k.Stop(k.Context(), "sale", ""))(k.kit)
		p := k.stores("sale")
		k.same("ended", p.EndedAt.IsZero(), false)
		k.same("outcomes", []int{p.Total().Delivered, p.Total().Failed}, []int{1, 1})
		k.same("pruned", must(k.Prune(k.Context(), p.EndedAt))(k.kit), 0)
		k.same("pruned", must(k.Prune(k.Context(), p.EndedAt.Add(time.Second)))(k.kit), 1)
		k.same("pauses", len(must(k.r.Paused(k.Context()))(k.kit)), 0)
		k.same("events stay", len(k.events("sale")), 2)
		_, err := k.Start(k.Context(), b)
		k.is(err, almanac.ErrExists)
		k.prune(k.now.Add(time.Hour))
		k.same("the name is used", k.send(b).Total().Counts, broadcast.Counts{})
	},
}

// claimNews claims events until there are none, and returns them.
func (k *broadcastKit) claimNews(n int) (events []almanac.Event) {
	k.Helper()
	for range 3 {
		claim := must(k.r.Claim(k.Context(), almanac.ClaimRequest{Token: uuid.New(), Owner: "test", Types: []string{"NEWS"}, Limit: max(1, n-len(events)), Lease: time.Minute}))(k.kit)
		if events = append(events, claim.Events...); n > 0 && len(events) >= n {
			break
		}
	}
	k.same("claimed", len(events), n)
	return events
}
