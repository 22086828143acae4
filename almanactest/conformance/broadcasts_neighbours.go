package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// broadcastNeighbourCases have other events, other broadcasts and changed users beside a broadcast.
var broadcastNeighbourCases = map[string]func(*broadcastKit){
	"another event of its lane is none of its events": func(k *broadcastKit) {
		id := k.citizens(1, "UTC")[0]
		b := k.news("sale", -time.Hour)
		b.Passed = broadcast.Now
		must(k.Start(k.Context(), b))(k.kit)
		s := k.scheduler(almanac.OneOff{Type: "NEWS"})
		at := calendar.WallTimeOf(k.now.UTC().Add(48 * time.Hour).Truncate(time.Second))
		other := must(s.ScheduleAt(k.Context(), id, "NEWS", almanac.ScheduleAtOptions{At: at, Key: "other", Lane: b.Lane()}))(k.kit).Event
		k.stores("sale")
		must(k.Stop(k.Context(), "sale", ""))(k.kit)
		p := k.stores("sale")
		k.same("counts", []int{p.Total().Stored, p.Total().Cancelled}, []int{1, 1})
		k.same("ended", p.EndedAt.IsZero(), false)
		k.same("other event", k.stored(other.ID).Status, almanac.Pending)
		must(s.Cancel(k.Context(), other.ID, almanac.CancelOptions{Reason: broadcast.WasStopped}))(k.kit)
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.same("counts", k.stores("sale").Total().Cancelled, 0)
		k.same("other event", k.stored(other.ID).Status, almanac.Cancelled)
		k.claimNews(1)
	},
	"a resume tries users again": func(k *broadcastKit) {
		ids := k.citizens(2, "UTC")
		s := k.scheduler(almanac.OneOff{Type: "NEWS"})
		must(s.OptOut(k.Context(), ids[0], almanac.OptOut{Type: "NEWS"}))(k.kit)
		k.same("before", k.send(k.news("sale", 48*time.Hour)).Total().Counts, broadcast.Counts{Users: 2, Stored: 1, OptedOut: 1})
		must(s.OptIn(k.Context(), ids[0], almanac.OptOut{Type: "NEWS"}))(k.kit)
		must(k.Stop(k.Context(), "sale", ""))(k.kit)
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.same("counts", k.stores("sale").Total().Counts, broadcast.Counts{Users: 2, Stored: 2})
		k.same("events", len(k.events("sale")), 2)
	},
	"events of users who opt out or are deleted are withdrawn": func(k *broadcastKit) {
		ids := k.citizens(3, "UTC")
		k.send(k.news("sale", 48*time.Hour))
		s := k.scheduler(almanac.OneOff{Type: "NEWS"})
		must(s.OptOut(k.Context(), ids[0], almanac.OptOut{Type: "NEWS"}))(k.kit)
		k.deleteUser(ids[1])
		p := must(k.Progress(k.Context(), "sale"))(k.kit)
		k.same("before the end", p.Withdrawn(), 0)
		must(k.Stop(k.Context(), "sale", ""))(k.kit)
		p = k.stores("sale")
		k.same("outcomes", []int{p.Total().Stored, p.Total().Cancelled, p.Withdrawn()}, []int{3, 1, 2})
	},
	"outcomes count in zones that users have moved to": func(k *broadcastKit) {
		ids := k.citizens(1, "UTC", "Asia/Tokyo")
		b := k.news("sale", 48*time.Hour)
		b.Audience.Zones = []string{"UTC", "Asia/Tokyo"}
		k.send(b)
		s := k.scheduler(almanac.OneOff{Type: "NEWS"})
		must(s.UpdateUser(k.Context(), ids[0], almanac.ProfileChange{Timezone: new("Africa/Lagos")}))(k.kit)
		must(k.Stop(k.Context(), "sale", ""))(k.kit)
		for _, when := range []string{"when all have ended", "later"} {
			p := k.stores("sale")
			k.same("cancelled "+when, []int{p.Total().Cancelled, len(p.Zones)}, []int{2, 3})
			k.same("ended", p.EndedAt.IsZero(), false)
		}
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.same("nothing is cancelled", k.stores("sale").Total().Cancelled, 0)
		k.same("only the audience", k.stores("sale").Total().Counts, broadcast.Counts{Users: 2, Stored: 2})
	},
	"a stop comes before everything else": func(k *broadcastKit) {
		k.citizens(2, "UTC")
		b := k.news("b", 48*time.Hour)
		k.send(b)
		must(k.Start(k.Context(), k.news("a", 48*time.Hour)))(k.kit)
		must(k.Stop(k.Context(), "b", "first"))(k.kit)
		again := must(k.Stop(k.Context(), "b", ""))(k.kit)
		k.same("steps", len(again.Steps), 2)
		again = must(k.Stop(k.Context(), "b", "second"))(k.kit)
		k.same("reason", again.StopReason(), "broadcast stopped: second")
		token := uuid.New()
		for _, without := range [][]string{nil, {"NEWS"}} { // a program without the handler cancels events, too
			task, found, err := k.store.TakeBroadcast(k.Context(), token, time.Minute, without)
			k.ok(err)
			k.same("task", []any{found, task.Name}, []any{true, "b"})
			cancelled := must(k.store.CancelBroadcast(k.Context(), task, time.Minute, 1))(k.kit)
			k.same("cancelled", len(cancelled), 1)
		}
		must(k.Resume(k.Context(), "b"))(k.kit)
		must(k.Stop(k.Context(), "b", ""))(k.kit)
		k.same("no reason", must(k.Get(k.Context(), "b"))(k.kit).StopReason(), "broadcast stopped")
	},
	"a stop that fails keeps no other broadcast waiting": func(k *broadcastKit) {
		k.citizens(2, "UTC")
		k.send(k.news("b", 48*time.Hour))
		must(k.Start(k.Context(), k.news("a", 48*time.Hour)))(k.kit)
		must(k.Stop(k.Context(), "b", ""))(k.kit)
		failed := errors.New("the database refuses")
		other := must(broadcast.New(k.scheduler(almanac.OneOff{Type: "NEWS"}), refusing{k.store, failed}))(k.kit)
		ctx, cancel := context.WithTimeout(k.Context(), 20*time.Second)
		defer cancel()
		k.is(other.RunOnce(ctx, broadcast.RunOptions{}), failed)
		k.same("stored", must(k.Progress(k.Context(), "a"))(k.kit).Total().Stored, 2)
	},
}

// refusing is a store that cancels nothing.
type refusing struct {
	broadcast.Store
	err error
}

func (s refusing) CancelBroadcast(context.Context, broadcast.Task, time.Duration, int) ([]almanac.Event, error) {
	return nil, s.err
}

// broadcastListCases have programs without the handler, lists, and wrong arguments.
var broadcastListCases = map[string]func(*broadcastKit){
	"a broadcast that a program cannot plan is left to others": func(k *broadcastKit) {
		k.citizens(1, "UTC")
		must(k.Start(k.Context(), k.news("sale", 48*time.Hour)))(k.kit)
		for _, without := range []string{"NEWS", "NEWS/sale"} {
			token := uuid.New()
			_, found, err := k.store.TakeBroadcast(k.Context(), token, time.Minute, nil)
			k.ok(err)
			k.same("taken", found, true)
			_, found, err = k.store.TakeBroadcast(k.Context(), token, time.Minute, []string{without})
			k.ok(err)
			k.same("taken again", found, false)
		}
		other := must(broadcast.New(k.scheduler(almanac.OneOff{Type: "OTHER"}), k.store))(k.kit)
		k.is(other.RunOnce(k.Context(), broadcast.RunOptions{}), almanac.ErrUnsupportedEventType)
		_, found, err := k.store.TakeBroadcast(k.Context(), uuid.New(), time.Minute, nil)
		k.ok(err)
		k.same("left", found, true)
	},
	"a listed user may move": func(k *broadcastKit) {
		ids := k.citizens(2, "UTC")
		b := k.news("sale", 48*time.Hour)
		b.Audience.Listed = true
		must(k.Start(k.Context(), b))(k.kit)
		must(k.AddUsers(k.Context(), "sale", ids[:1], nil))(k.kit)
		s := k.scheduler(almanac.OneOff{Type: "NEWS"})
		must(s.UpdateUser(k.Context(), ids[0], almanac.ProfileChange{Timezone: new("Asia/Tokyo")}))(k.kit)
		must(k.Complete(k.Context(), "sale"))(k.kit)
		k.same("counts", k.stores("sale").Total().Counts, broadcast.Counts{Users: 1, Stored: 1})
		k.same("zone", k.events("sale")[ids[0]].Zone, "Asia/Tokyo")
	},
	"texts that cannot be stored are refused, each by its name": func(k *broadcastKit) {
		b := k.news("a\x00", time.Hour)
		b.Payload, b.Audience = json.RawMessage(`{`), broadcast.Audience{
			Attributes: json.RawMessage(`{"a":"\u0000"}`), Locale: "\xff", Zones: []string{"UTC", "\x00"},
		}
		_, err := k.Start(k.Context(), b)
		k.refuses(err, "name payload attributes locale zones")
		b = k.news("sale", time.Hour)
		b.Audience.Attributes = json.RawMessage(`{"a":"` + strings.Repeat("a", 9000) + `"}`)
		_, err = k.Preview(k.Context(), b)
		k.refuses(err, "attributes")
		_, err = k.AddUsers(k.Context(), "\xff", nil, []string{"a", "\x00"})
		k.refuses(err, "name external_ids")
		_, err = k.Get(k.Context(), "\x00")
		k.refuses(err, "name")
		_, err = k.Progress(k.Context(), "\x00")
		k.refuses(err, "name")
		_, err = k.List(k.Context(), "\x00", -1)
		k.refuses(err, "after limit")
		_, err = k.Stop(k.Context(), "\x00", "\xff")
		k.refuses(err, "name reason")
		k.refuses(k.Delete(k.Context(), "\x00"), "name")
	},
}

// refuses checks that an error names fields.
func (k *broadcastKit) refuses(err error, fields string) {
	k.Helper()
	refused, _ := errors.AsType[*almanac.ValidationError](err)
	if refused == nil {
		k.Errorf("error %v, and no ValidationError", err)
		return
	}
	var names []string
	for _, one := range refused.Fields {
		names = append(names, one.Field)
	}
	k.same("fields", strings.Join(names, " "), fields)
}
