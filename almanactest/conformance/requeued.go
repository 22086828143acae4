package conformance

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// inTwoDays returns options of an event at a wall time of the user in two days.
func (k *kit) inTwoDays() almanac.ScheduleAtOptions {
	at := calendar.WallTimeOf(k.now.UTC().Truncate(time.Second).Add(48 * time.Hour))
	return almanac.ScheduleAtOptions{At: at, Key: "sale", FollowUser: true}
}

// requeuedEarly stores an event of a user in UTC, cancels it, and requeues it before its time.
func (k *kit) requeuedEarly(s almanac.Scheduler, o almanac.ScheduleAtOptions) almanac.Event {
	k.Helper()
	user, _ := k.create(almanactest.User(almanactest.LivingIn("UTC")))
	e := must(s.ScheduleAt(k.Context(), user.ID, almanac.TypeOneOff, o))(k).Event
	must(s.Cancel(k.Context(), e.ID, almanac.CancelOptions{}))(k)
	return must(s.Requeue(k.Context(), e.ID, almanac.ForceOptions{}))(k)
}

// requeuedCases change requeued events that were never claimed.
var requeuedCases = cases{
	"Requeue/an event that was never claimed follows its user": func(k *kit) {
		s, o := k.scheduler(almanac.OneOff{}), k.inTwoDays()
		again := k.requeuedEarly(s, o)
		k.same("origin", again.Origin, almanac.Origin{Kind: almanac.OriginRequeued, From: again.Origin.From, FollowsUser: true, PayloadMade: true})
		k.same("claims", again.ClaimCount, 0)
		k.same("pending", ids(k.roster(again.UserID).Pending), []uuid.UUID{again.ID})
		lima := "America/Lima"
		must(s.UpdateUser(k.Context(), again.UserID, almanac.ProfileChange{Timezone: &lima}))(k)
		is := k.stored(again.ID)
		k.same("wall time", is.Wall, o.At)
		k.same("zone", is.Zone, lima)
		k.same("moved by", is.Due.Sub(again.Due), 5*time.Hour)
		k.same("what stays", []any{is.Origin, is.IdempotencyKey, is.OccurrenceKey}, []any{again.Origin, again.IdempotencyKey, again.OccurrenceKey})
		must(s.Cancel(k.Context(), is.ID, almanac.CancelOptions{}))(k)
		twice := must(s.Requeue(k.Context(), is.ID, almanac.ForceOptions{}))(k)
		utc := "UTC"
		must(s.UpdateUser(k.Context(), again.UserID, almanac.ProfileChange{Timezone: &utc}))(k)
		k.same("moved back", k.stored(twice.ID).Due, again.Due)
	},
	"Requeue/an event follows a user who has moved since it was cancelled": func(k *kit) {
		s, o := k.scheduler(almanac.OneOff{}), k.inTwoDays()
		again := k.requeuedEarly(s, o)
		must(s.Cancel(k.Context(), again.ID, almanac.CancelOptions{}))(k)
		lima := "America/Lima"
		must(s.UpdateUser(k.Context(), again.UserID, almanac.ProfileChange{Timezone: &lima}))(k)
		is := must(s.Requeue(k.Context(), again.ID, almanac.ForceOptions{}))(k)
		k.same("version", is.Version, 1)
		k.same("moved by", is.Due.Sub(again.Due), 5*time.Hour)
		k.same("available", is.AvailableAt, is.Due)
		k.same("key", is.IdempotencyKey, again.IdempotencyKey)
	},
	"Requeue/an event that does not follow its user keeps its instant": func(k *kit) {
		o := k.inTwoDays()
		o.FollowUser = false
		s := k.scheduler(almanac.OneOff{})
		again := k.requeuedEarly(s, o)
		lima := "America/Lima"
		must(s.UpdateUser(k.Context(), again.UserID, almanac.ProfileChange{Timezone: &lima}))(k)
		k.same("instant", k.stored(again.ID).Due, again.Due)
	},
	"Requeue/an event that was never claimed can be run now": func(k *kit) {
		s := k.scheduler(almanac.OneOff{})
		again := k.requeuedEarly(s, k.inTwoDays())
		now := must(s.RunNow(k.Context(), again.ID, almanac.ForceOptions{}))(k)
		k.same("due", !now.Due.After(k.clock()), true)
		k.same("claimed", ids(k.take(almanac.ClaimRequest{Token: uuid.New(), Owner: "test", Types: []string{almanac.TypeOneOff}, Limit: 1, Lease: time.Minute}).Events), []uuid.UUID{again.ID})
	},
	"Requeue/an event that was claimed keeps its instant": func(k *kit) {
		failed := k.failed()
		again := k.apply(failed.UserID, requeuing(failed)).New[0]
		k.same("origin", again.Origin, almanac.Origin{Kind: almanac.OriginRequeued, From: failed.ID})
		k.same("in flight", ids(k.roster(failed.UserID).InFlight), []uuid.UUID{again.ID})
	},
	"Requeue/an opt-out cancels a requeued event, and does not remove it": func(k *kit) {
		s := k.scheduler(almanac.OneOff{})
		again := k.requeuedEarly(s, k.inTwoDays())
		edit := must(s.OptOut(k.Context(), again.UserID, almanac.OptOut{Type: almanac.TypeOneOff}))(k)
		k.same("cancelled", ids(edit.Cancelled), []uuid.UUID{again.ID})
		k.same("removed", len(edit.Removed), 0)
		k.same("reason", k.stored(again.ID).FailureReason, almanac.ReasonOptedOut)
		must(s.OptIn(k.Context(), again.UserID, almanac.OptOut{Type: almanac.TypeOneOff}))(k)
		forced := must(s.Requeue(k.Context(), again.ID, almanac.ForceOptions{Force: true}))(k)
		edit = must(s.OptOut(k.Context(), again.UserID, almanac.OptOut{Type: almanac.TypeOneOff}))(k)
		k.same("cancelled by force", len(edit.Cancelled), 0)
		k.same("by force", k.stored(forced.ID).Status, almanac.Pending)
	},
}

// broadcastRequeueCases resume broadcasts before they are due.
var broadcastRequeueCases = map[string]func(*broadcastKit){
	"a program without the handler requeues events where their users are": func(k *broadcastKit) {
		user := k.citizens(1, "UTC")[0]
		b := k.news("sale", 48*time.Hour)
		k.send(b)
		was := k.events("sale")[user]
		must(k.Stop(k.Context(), "sale", ""))(k.kit)
		k.stores("sale")
		must(k.scheduler(almanac.OneOff{Type: "NEWS"}).UpdateUser(k.Context(), user, almanac.ProfileChange{Timezone: new("America/Lima")}))(k.kit)
		must(k.Resume(k.Context(), "sale"))(k.kit)
		other := must(broadcast.New(k.scheduler(almanac.OneOff{Type: "OTHER"}), k.store))(k.kit)
		k.is(other.RunOnce(k.Context(), broadcast.RunOptions{}), almanac.ErrUnsupportedEventType) // the zones that are read again
		found := k.find(almanac.And{almanac.ForUser(user), almanac.InStatus(almanac.Pending)})
		k.same("open events", len(found), 1)
		is := found[0]
		k.same("moved by", is.Due.Sub(was.Due), 5*time.Hour)
		k.same("what stays", []any{is.Version, is.Wall, is.Lane, is.IdempotencyKey}, []any{1, b.At, b.Lane(), was.IdempotencyKey})
		k.same("payload", string(is.Payload), string(was.Payload))
		must(k.Stop(k.Context(), "sale", ""))(k.kit)
		k.same("cancelled", k.stores("sale").Total().Cancelled, 1)
	},
	"events that a resume requeues follow their users": func(k *broadcastKit) {
		users := k.citizens(2, "UTC")
		b := k.news("sale", 48*time.Hour)
		k.send(b)
		due := k.events("sale")[users[0]].Due
		must(k.Stop(k.Context(), "sale", "typo"))(k.kit)
		k.stores("sale")
		s, lima, tokyo := k.scheduler(almanac.OneOff{Type: "NEWS"}), "America/Lima", "Asia/Tokyo"
		must(s.UpdateUser(k.Context(), users[0], almanac.ProfileChange{Timezone: &lima}))(k.kit)
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.stores("sale")
		open := func(user uuid.UUID) almanac.Event {
			k.Helper()
			found := k.find(almanac.And{almanac.ForUser(user), almanac.InStatus(almanac.Pending)})
			k.same("open events", len(found), 1)
			return found[0]
		}
		k.same("moved while it was stopped", open(users[0]).Due.Sub(due), 5*time.Hour)
		must(s.UpdateUser(k.Context(), users[1], almanac.ProfileChange{Timezone: &tokyo}))(k.kit)
		moved := open(users[1])
		k.same("moved later", moved.Due.Sub(due), -9*time.Hour)
		k.same("lane", moved.Lane, b.Lane())
		k.same("payload", string(moved.Payload) != "", true)
		must(s.RunNow(k.Context(), moved.ID, almanac.ForceOptions{}))(k.kit)
		k.same("claimed", k.claimNews(1)[0].ID, moved.ID)
	},
	"users who are deleted and events that are pruned still count": func(k *broadcastKit) {
		k.citizens(4, "UTC")
		b := k.news("sale", -time.Hour)
		b.Passed = broadcast.Now
		k.send(b)
		sent := k.claimNews(2)
		k.deliver(sent[0])
		k.giveUp(sent[1], "no such address")
		must(k.Stop(k.Context(), "sale", ""))(k.kit)
		outcomes := func() []int {
			k.Helper()
			p := k.stores("sale")
			return []int{p.Total().Stored, p.Total().Delivered, p.Total().Failed, p.Total().Cancelled, p.Withdrawn()}
		}
		k.same("stopped", outcomes(), []int{4, 1, 1, 2, 0})
		k.deleteUser(sent[0].UserID) // of a stopped broadcast whose events were counted
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.same("resumed", outcomes(), []int{4, 1, 1, 0, 0})
		k.prune(k.now.Add(time.Hour))
		k.same("pruned", outcomes(), []int{4, 1, 1, 0, 0})
		again := k.claimNews(2)
		k.deleteUser(sent[1].UserID)
		k.deliver(again[0])
		k.same("delivered", outcomes(), []int{4, 2, 1, 0, 0})
		k.deleteUser(again[0].UserID)
		k.same("deleted", outcomes(), []int{4, 2, 1, 0, 0})
		k.giveUp(again[1], "no such address")
		must(k.Stop(k.Context(), "sale", ""))(k.kit) // so that the next look at it is not seconds away
		k.same("ended", outcomes(), []int{4, 2, 2, 0, 0})
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.same("ended again", outcomes(), []int{4, 2, 2, 0, 0})
		k.ok(k.Delete(k.Context(), "sale"))
		k.prune(k.now.Add(time.Hour))
		k.same("another one with the name", k.send(b).Total().Delivered, 0)
	},
}
