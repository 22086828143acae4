package almanac

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"
)

// BulkPlanner stores what many people are owed, as when a host brings its users
// along, or introduces a type of event.
type BulkPlanner interface {
	// Enrol stores people as [Planner].CreateUser does, many in a transaction: each
	// with all their first events, or not at all. Who is there already stays as they
	// are. So with ids that the host gives, such as UUIDs of version 5 made of its
	// own, an enrolment that was cut short is run again from the beginning and goes on
	// where it was; several processes may even run the same one. Where a profile has
	// no id, each run makes another person of it.
	//
	// A person who cannot be stored is reported and holds up nobody. The error of a
	// profile of people, and any of the repository, ends the enrolment: it comes back
	// with the count of what is stored, unless the repository cannot be asked for that
	// any more either. So does that of ctx; a batch that is being stored by then is
	// waited for. Where the repository is no [BulkRepository], it is
	// done by CreateUser.
	Enrol(ctx context.Context, people iter.Seq2[Profile, error], how Enrol) (Enrolments, error)

	// Backfill stores the next events of one type for all people there are who have
	// none open, as [Planner].Schedule does for one. It can be interrupted at any
	// time, run again and run by several processes at once. People are edited and
	// deliveries go on meanwhile: it locks a page of people at a time, for as long as
	// it takes to plan and store what they are owed. Who is enrolled meanwhile is seen
	// to by the program that enrols them, if it has the handler. It waits for no
	// transaction of others: a user that stays locked for seconds is refused with
	// [ErrLocked], and another Backfill sees to them.
	//
	// The error is an [*UnsupportedEventTypeError] where no handler is registered, and
	// matches [errors.ErrUnsupported] where the repository is no [BulkRepository].
	Backfill(ctx context.Context, eventType string, how Backfill) (Backfilled, error)
}

// Refusal says who could not be stored, and why.
type Refusal struct {
	Position int       // in what Enrol was given, from 0; zero in a Backfill
	UserID   uuid.UUID // zero where a profile has none
	Err      error     // a *ValidationError for bad input; otherwise the handler's, or the database's
}

// BulkRepository is the ability of a repository to store what many people are owed
// at a time.
type BulkRepository interface {
	// CreateUsers stores people as [UserRepository].CreateUser does, at one go where
	// it can, and answers in the order of the list. Each is stored whole or not at all, and
	// who cannot be stored does not hold up the others. An error of the call comes with
	// the answers to those at the beginning of the list of whom it is known what became
	// of them; of the others it is not known. The same call may be repeated.
	CreateUsers(ctx context.Context, people []Enrolment) ([]Enrolled, error)

	// AddEvents locks a page of the users, in order of their ids, against edits, but for
	// those that another transaction has locked: it waits for none. It shows plan what they have of one type of event, and stores the events that plan
	// returns, those left out whose series has an open event or has used up the
	// occurrence. An error of plan is returned as it is, and nothing is stored. Plan
	// must be quick and must not use the repository. It is called again when it returns
	// an event whose occurrence is used up and the standing did not say so, and when the
	// transaction has to be repeated; the last answer counts.
	AddEvents(ctx context.Context, eventType string, page Page, plan func(users []Standing, now time.Time) ([]Event, error)) (Added, error)
}

// Enrolled is what became of one of many people to store.
type Enrolled struct {
	Enrolment       // as stored, if Err is nil
	Err       error // matches ErrExists where the id is taken, also by another of the same list
}

// Standing is a locked user with what they have of one type of event.
type Standing struct {
	User User
	// Open are the keys of the open events, in order.
	Open []string
	// Used are the greatest keys that ended of the series that have none open, in order.
	// A named series can be missing, until plan returns an event of it whose occurrence
	// is used up. To AddSuccessors they are those of the series that wait.
	Used []string
}

// Added is what became of a page of users.
type Added struct {
	Users  int         // how many were looked at
	Locked []uuid.UUID // those that another transaction has locked; they were not looked at
	Events []Event     // as stored
	Next   Cursor      // where the next page begins; empty when this was the last
}
