package broadcast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// State is the state of a broadcast.
type State string

// The states.
const (
	Collecting State = "collecting" // its list of users is not complete
	Storing    State = "storing"    // its events are being stored
	Stored     State = "stored"     // all its events are stored
	Stopped    State = "stopped"    // an operator has stopped it: what is pending is cancelled
	Ended      State = "ended"      // all its events have ended
)

// Action is what a program or an operator has done to a broadcast.
type Action string

// The actions.
const (
	Create   Action = "create"
	Complete Action = "complete" // the list of users is complete
	Stop     Action = "stop"
	Resume   Action = "resume"
)

// Step is an action as it is stored.
type Step struct {
	Action Action
	At     time.Time // UTC
	By     string    // the principal (see almanac.WithPrincipal), or else the role of the database; may be empty
	Reason string    // why it was stopped, at most 1,000 bytes
}

// Status is a stored broadcast.
type Status struct {
	Broadcast
	State     State
	CreatedAt time.Time // by the clock of the database, UTC
	EndedAt   time.Time // when all events of it had ended, UTC; zero before, and until what a stop leaves is cancelled
	Steps     []Step    // oldest first
}

// WasStopped is the beginning of each [Status.StopReason].
const WasStopped = "broadcast stopped"

// StopReason is the reason with which the events of a stopped broadcast are CANCELLED: that of the last stop.
func (s Status) StopReason() string {
	if reason := s.lastStop().Reason; reason != "" {
		return WasStopped + ": " + reason
	}
	return WasStopped
}

// lastStop returns the last stop, or the zero Step.
func (s Status) lastStop() (stop Step) {
	for _, step := range s.Steps {
		if step.Action == Stop {
			stop = step
		}
	}
	return stop
}

// StopsAnew reports whether a stop of a stopped broadcast is stored as another Step: if it gives another reason. Every [Store] calls it.
func (s Status) StopsAnew(reason string) bool { return reason != "" && reason != s.lastStop().Reason }

// After returns the state of a broadcast after an action. The error matches [almanac.ErrInvalidStateTransition]. Every
// [Store] calls it. An action that has been done already changes nothing: then the state is the present one.
func (s Status) After(a Action) (State, error) {
	switch {
	case a == Complete && s.State == Collecting:
		return Storing, nil
	case a == Complete && s.State != Stopped && s.Audience.Listed,
		a == Stop && s.State == Stopped,
		a == Resume && (s.State == Collecting || s.State == Storing || s.State == Stored):
		return s.State, nil
	case a == Stop && s.State != Ended:
		return Stopped, nil
	case a == Resume && s.State == Stopped && s.completed():
		return Storing, nil
	case a == Resume && s.State == Stopped:
		return Collecting, nil
	}
	return s.State, fmt.Errorf("%w: broadcast %q is %s, and takes no %s", almanac.ErrInvalidStateTransition, s.Name, s.State, a)
}

// completed reports whether the users are known.
func (s Status) completed() bool {
	for _, step := range s.Steps {
		if step.Action == Complete {
			return true
		}
	}
	return !s.Audience.Listed
}

// Counts are the users of a zone. Users, Stored and LeftOut never go down. OptedOut and Refused are those of the last reading of the zone that has
// come to the end, or of the first one so far: a user who opts in again and gets an event no longer counts there.
type Counts struct {
	Users    int // users of the audience who were read, each once: the sum of the others, and users of earlier readings who are gone
	Stored   int // events that were stored
	OptedOut int // users who have opted out of the type
	Refused  int // users whose event could not be planned or stored, or who were locked
	LeftOut  int // users of a zone that is left out
}

// Add adds other counts.
func (c *Counts) Add(o Counts) {
	c.Users += o.Users
	c.Stored += o.Stored
	c.OptedOut += o.OptedOut
	c.Refused += o.Refused
	c.LeftOut += o.LeftOut
}

// ZoneProgress is how far a broadcast is in a zone. The ended events also count when they were pruned, or when their users were deleted.
// So Delivered and Failed never go down, and Cancelled only by a resume.
type ZoneProgress struct {
	Zone
	Counts
	Read      bool // whether all users of the zone were read, once at least
	Delivered int  // events that are COMPLETED; this and the next two count by the zone of the event
	Failed    int  // events that are FAILED
	Cancelled int  // events that are CANCELLED, without those that a resume has requeued
}

// Progress is how far a broadcast is.
type Progress struct {
	Status
	At    time.Time      // by the clock of the repository, UTC
	Zones []ZoneProgress // those that are due first, first; zones that are left out last
}

// Total returns the sum of all zones. Its Zone is the one that is due first, and Read is whether all zones were read.
func (p Progress) Total() ZoneProgress {
	var all ZoneProgress
	for i, z := range p.Zones {
		if i == 0 {
			all.Zone, all.Read = z.Zone, true
		}
		all.Counts.Add(z.Counts)
		all.Delivered, all.Failed, all.Cancelled = all.Delivered+z.Delivered, all.Failed+z.Failed, all.Cancelled+z.Cancelled
		all.Read = all.Read && z.Read
	}
	return all
}

// Due returns about how many of the stored events are due or have been: those that were stored for zones that are due. Users who have moved to another
// zone since then count for the one that they have left.
func (p Progress) Due() (n int) {
	for _, z := range p.Zones {
		if !z.Skipped && !z.Due.After(p.At) {
			n += z.Stored
		}
	}
	return n
}

// Withdrawn returns how many of the stored events were removed before they ended: their users opted out, or were deleted. Until the
// broadcast has ended, it returns 0. An event that an operator requeues counts as another one, and so hides a removed one.
func (p Progress) Withdrawn() int {
	if all := p.Total(); !p.EndedAt.IsZero() {
		return max(0, all.Stored-all.Delivered-all.Failed-all.Cancelled)
	}
	return 0
}

// AddUsersResult is the result of adding users to a list.
type AddUsersResult struct {
	Added   int         // users who were not in the list before
	Unknown []uuid.UUID // ids of no user
	// UnknownExternalIDs are external ids of no user.
	UnknownExternalIDs []string
}

// Task is what a program does next for a broadcast that it has leased.
type Task struct {
	Status
	Token uuid.UUID
	// Requeue is whether there may be events that a stop has CANCELLED and that are to be delivered after all. They come first.
	Requeue bool
	Zone    Zone // of the users to read next; unused if the broadcast is Stopped, or with Requeue
}

// ErrTaken means that a program may no longer do a [Task]: the broadcast was stopped, or another program has leased it.
var ErrTaken = errors.New("broadcast: stopped, or taken by another program")

// ErrStillClaimed means that a broadcast is stopped, and that claims of its events that began before have not ended within seconds. It
// comes with an error that matches [almanac.ErrLocked].
var ErrStillClaimed = errors.New("broadcast: stopped, but claims of its events have not ended")

// Store keeps broadcasts. A postgres.Store and the Repository of package almanactest are Stores, and the
// suite conformance.TestBroadcasts defines what every Store must do. The store is that of the users and events.
// Names of no broadcast are errors that match [almanac.ErrNotFound].
type Store interface {
	// CreateBroadcast stores a broadcast with the zones that users have, by [ZonesOf]. If the name is taken, it changes nothing
	// and returns the stored one and true. The error matches [almanac.ErrExists] if there are events of a deleted broadcast with the
	// name: events of its lane with the name as occurrence key.
	CreateBroadcast(ctx context.Context, b Broadcast) (s Status, existed bool, err error)

	// Broadcast returns a broadcast.
	Broadcast(ctx context.Context, name string) (Status, error)

	// Broadcasts returns up to limit broadcasts, newest first, after the one with a name. With the name "" it begins with the newest.
	Broadcasts(ctx context.Context, after string, limit int) ([]Status, error)

	// AddBroadcastUsers adds users to the list of a broadcast that is [Collecting]. Otherwise the error matches
	// [almanac.ErrInvalidStateTransition].
	AddBroadcastUsers(ctx context.Context, name string, ids []uuid.UUID, externalIDs []string) (AddUsersResult, error)

	// StepBroadcast does an action, if the state allows it (see [Status.After]). A stop pauses the lane of the broadcast in the
	// same transaction, and a resume ends the pause. When StepBroadcast has returned from a stop, no event of the broadcast is stored or claimed. If it cannot wait for that, the
	// error matches [ErrStillClaimed]. After any other error, nothing has changed.
	StepBroadcast(ctx context.Context, name string, a Action, reason string) (Status, error)

	// BroadcastProgress returns how far a broadcast is.
	BroadcastProgress(ctx context.Context, name string) (Progress, error)

	// BroadcastsAbout returns the broadcasts of a type that are due for a user on a day, newest first, at most [MostAbout], as
	// [Sender.About] does. It counts nothing and locks nothing.
	BroadcastsAbout(ctx context.Context, u almanac.User, eventType string, day calendar.Date) ([]About, error)

	// CountBroadcast returns how many users an audience has in each zone, and the time. It changes nothing.
	CountBroadcast(ctx context.Context, b Broadcast) (users map[string]int, now time.Time, err error)

	// TakeBroadcast leases a broadcast for a term and returns what to do next, or false if there is nothing to do now. Stopped broadcasts come
	// first, then those that were looked at least recently. A stopped one is taken again at once after a CancelBroadcast, and otherwise after ten
	// seconds. It leaves out broadcasts that another program has leased. Without has types, and
	// lanes of broadcasts, whose events the program cannot plan: it gets no zones to read of those, and loses its leases of them. The zones of a
	// broadcast come in this order: those that were read less often, then those that are due earlier. When all zones were read and nothing
	// is to be requeued, TakeBroadcast makes the broadcast [Stored]. When all its events have ended, it counts them, sets EndedAt, and
	// sets the state [Ended] unless the broadcast is Stopped.
	TakeBroadcast(ctx context.Context, token uuid.UUID, term time.Duration, without []string) (t Task, found bool, err error)

	// StoreBroadcast reads up to limit users of the zone of a task who have no event of the broadcast, in the order of their ids, from where
	// the last call ended. It stores events for them as [almanac.UserRepository].AddEvents does, in transactions that each store counts of the zone
	// and extend the lease by a term. The place of the zone is stored with the last of them, or after it. The error is [ErrTaken] if the broadcast
	// is not [Storing] or the lease is another one; then that transaction stores nothing. It calls plan from one goroutine at a time. After the last user,
	// [Task.Next] says when the zone is read again.
	StoreBroadcast(ctx context.Context, t Task, term time.Duration, limit int, plan func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, []almanac.Refusal, error)) (almanac.AddEventsResult, error)

	// CancelBroadcast cancels up to limit pending events of a task whose broadcast is [Stopped], for its [Status.StopReason], and
	// returns them, also with an error. It leaves out events that another transaction has locked, and those that the database refuses to cancel: they
	// are tried again after the others. The error is [ErrTaken] as in StoreBroadcast.
	CancelBroadcast(ctx context.Context, t Task, term time.Duration, limit int) ([]almanac.Event, error)

	// RequeueBroadcast takes the next events, up to limit and in the order of their ids, that are CANCELLED for a reason that begins with
	// [WasStopped]. It stores the events that again returns for them and their users, who are locked, but none for an event that was requeued before, and none for a user
	// who is deleted. Events whose users another transaction has locked are taken again ten seconds after the last event, until they are requeued. An event that the
	// database refuses to requeue stays CANCELLED. RequeueBroadcast stores how far it has come, and extends the lease by a term. It returns
	// what it has stored, also with an error. After the last event, tasks have no Requeue any more. The error is [ErrTaken] as in StoreBroadcast.
	RequeueBroadcast(ctx context.Context, t Task, term time.Duration, limit int, again func(events []almanac.Event, users []almanac.User, now time.Time) ([]almanac.Event, error)) ([]almanac.Event, error)

	// DeleteBroadcast deletes a broadcast whose EndedAt is set, with its list of users. Its events stay until they are pruned. It deletes a
	// part of a long list, without users whom another transaction is moving, and returns true if more is left; the broadcast is [Ended] then. The error matches [almanac.ErrInvalidStateTransition] if EndedAt is zero.
	DeleteBroadcast(ctx context.Context, name string) (more bool, err error)
}

// Next returns when to read a zone again after its n-th reading, which was due at an instant, and in which some users were
// locked. The zero time means never. Zones with locked users are read again after 10 seconds, and then after twice as long each time: seven
// times in 21 minutes. A zone is read at least twice, unless it is Skipped: the second reading finds users who have moved to it from a
// zone that was not read yet. With Newcomers, it is also read a minute before it is due, and once more when it is due.
func (t Task) Next(n, locked int, was, now time.Time) time.Time {
	const tries, again, early = 8, 10 * time.Second, time.Minute
	nearly := t.Zone.Due.Add(-early)
	switch {
	case t.Zone.Skipped:
		return time.Time{}
	case locked > 0 && n < tries:
		return now.Add(again << max(0, n-1))
	case t.Until().After(t.CreatedAt) && now.Before(nearly):
		return nearly
	case t.Until().After(t.CreatedAt) && was.Before(t.Zone.Due): // users may have been created while the zone was read
		return latest(now, t.Zone.Due)
	case n == 1:
		return now
	}
	return time.Time{}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Until returns until when users must have been created to be read.
func (t Task) Until() time.Time {
	if t.Newcomers && t.Zone.Due.After(t.CreatedAt) {
		return t.Zone.Due
	}
	return t.CreatedAt
}
