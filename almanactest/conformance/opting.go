package conformance

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// offer is a handler whose events are at given instants, and whose failed attempts can be
// repeated at once.
type offer struct {
	almanac.Execution
	eventType string
	at        []time.Time // ascending
	follow    []almanac.FollowUp
}

func (o offer) EventType() string { return o.eventType }

func (o offer) Next(_ almanac.User, after time.Time) (calendar.Occurrence, error) {
	i := slices.IndexFunc(o.at, func(t time.Time) bool { return t.After(after) })
	if i < 0 {
		return calendar.Occurrence{}, calendar.ErrNoOccurrence
	}
	wall := calendar.WallTimeOf(o.at[i].UTC())
	return calendar.Occurrence{Key: wall.String(), Wall: wall, Zone: calendar.StoredTimezone("UTC")}, nil
}

func (offer) Payload(almanac.User, almanac.Occurrence) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}

func (offer) Channel(almanac.Event) almanac.Channel { return "mail" }

func (o offer) Follow(_ almanac.User, ended almanac.Event) ([]almanac.FollowUp, error) {
	if ended.Origin.Kind == almanac.OriginFollowUp {
		return nil, nil
	}
	return o.follow, nil
}

// executed is an offer that makes its attempts itself.
type executed struct {
	offer
	deliver almanac.DelivererFunc
}

func (e executed) Execute(ctx context.Context, d almanac.Delivery) error { return e.deliver(ctx, d) }

// opting is a kit with a user of two types of events, of which NOTICE is mandatory. The
// first OFFER was due a minute ago, and the next one is due in an hour.
type opting struct {
	*kit
	s       almanac.Scheduler
	user    almanac.User
	first   almanac.Event
	deliver func(almanac.Delivery) error // nil accepts
	sent    []almanac.Event
}

// everything and offers are opt-outs.
var (
	everything almanac.OptOut
	offers     = almanac.OptOut{Type: "OFFER"}
	byMail     = almanac.OptOut{Channel: "mail"}
)

// onOffers returns a case about the user.
func onOffers(check func(*opting)) func(*kit) {
	return func(k *kit) {
		o := &opting{kit: k}
		second := k.now.Truncate(time.Second)
		at := []time.Time{second.Add(-time.Minute), second.Add(time.Hour), second.Add(2 * time.Hour)}
		quick := almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: 1, Factor: 1}}
		follow := []almanac.FollowUp{{Type: "THANKS", Occurrence: calendar.Occurrence{Key: "a", Wall: calendar.WallTimeOf(at[1]), Zone: calendar.StoredTimezone("UTC")}}}
		o.s = o.scheduler(offer{quick, "OFFER", at, follow}, offer{almanac.Execution{OverrideOptOuts: true}, "NOTICE", at[1:], nil}, offer{quick, "THANKS", nil, nil})
		o.user = almanactest.User()
		first, err := almanac.NewEvent(o.user, offer{eventType: "OFFER"}, almanac.Occurrence{Occurrence: calendar.Occurrence{
			Key: calendar.WallTimeOf(at[0]).String(), Wall: calendar.WallTimeOf(at[0]), Zone: calendar.StoredTimezone("UTC"),
		}})
		k.ok(err)
		_, events := k.create(o.user, first)
		o.first = events[0]
		check(o)
	}
}

// scheduler returns a scheduler of handlers that delivers as the case says.
func (o *opting) scheduler(handlers ...almanac.EventHandler) almanac.Scheduler {
	o.Helper()
	registry := must(almanac.NewRegistry(handlers...))(o.kit)
	deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		o.sent = append(o.sent, d.Event)
		if o.deliver == nil {
			return nil
		}
		return o.deliver(d)
	})
	s, err := almanac.NewScheduler(o.r, registry, almanac.WithDeliverer("mail", deliver), almanac.WithWorkers(1),
		almanac.WithLogger(slog.New(slog.DiscardHandler)))
	o.ok(err)
	return s
}

// out opts the user out, and in opts the user in again.
func (o *opting) out(what almanac.OptOut) almanac.UpdateUserResult {
	o.Helper()
	return must(o.s.OptOut(o.Context(), o.user.ID, what))(o.kit)
}

func (o *opting) in(what almanac.OptOut) almanac.UpdateUserResult {
	o.Helper()
	return must(o.s.OptIn(o.Context(), o.user.ID, what))(o.kit)
}

// pass runs a pass, and returns what it did.
func (o *opting) pass() almanac.RunOnceResult {
	o.Helper()
	return must(o.s.RunOnce(o.Context(), almanac.RunOnceOptions{Limit: 1}))(o.kit)
}

// openEvents returns the user's open events of a type.
func (o *opting) openEvents(eventType string) []almanac.Event {
	o.Helper()
	found, err := o.r.Find(o.Context(), almanac.And{
		almanac.ForUser(o.user.ID), almanac.OfType(eventType), almanac.Or{almanac.InStatus(almanac.Pending), almanac.InStatus(almanac.Processing)},
	}, almanac.Page{})
	o.ok(err)
	return found.Items
}

// ended checks how an event ended.
func (o *opting) ended(e almanac.Event, status almanac.Status, reason string) almanac.Event {
	o.Helper()
	is := o.stored(e.ID)
	o.same("status", is.Status, status)
	o.same("reason", is.FailureReason, reason)
	return is
}

// failed lets the first event fail for good.
func (o *opting) failed() almanac.Event {
	o.Helper()
	o.deliver = func(almanac.Delivery) error { return almanac.Permanent(errPlan) }
	o.same("failed", o.pass().Failed, 1)
	o.deliver = nil
	return o.stored(o.first.ID)
}
