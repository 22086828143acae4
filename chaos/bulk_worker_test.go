package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/httpapi"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// The points of changes of many users.
const (
	BeforeEdit Point = "before edit" // nothing of a page is stored
	MidEdit    Point = "mid edit"    // stored, in a transaction that is not committed
	AfterEdit  Point = "after edit"  // stored, and not counted
	Served     Point = "served"      // the admin API is at the address in Reason
	Paged      Point = "paged"       // Reason has the result so far
	MidCopy    Point = "mid copy"    // a page of users is read, and not in the copy
	AfterCopy  Point = "after copy"  // the copy is complete, and does not have its name
	MidRun     Point = "mid run"     // some users of the copy are rehearsed
	Done       Point = "done"        // Reason has the result
)

// EditPoints are the points at which a process that changes many users can stop dead.
func EditPoints() []Point { return []Point{BeforeEdit, MidEdit, AfterEdit} }

// RehearsalPoints are the points at which a process that rehearses can stop dead.
func RehearsalPoints() []Point { return []Point{MidCopy, AfterCopy, MidRun} }

// Bulk is a change of many users.
type Bulk struct {
	Work  string // import, serve, rehearse or roll out
	Users int    // how many the import has
	Zone  string // of the users of the import
	Hour  int    // at which the handler plans
	Page  int    // users of a page of a roll-out
	After almanac.Cursor
	File  string // the copy of the users of a rehearsal
}

// BulkType is the event type of [BulkScheduler].
const BulkType = "DIGEST"

// BulkScheduler returns a scheduler with an event for each user, at an hour of the first of each month.
func BulkScheduler(r almanac.Repository, hour int) (almanac.Scheduler, error) {
	registry, err := almanac.NewRegistry(almanac.Recurring{Type: BulkType, Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Monthly{Day: 1, At: calendar.Clock{Hour: hour}}, nil
	}})
	if err != nil {
		return nil, err
	}
	return almanac.NewScheduler(r, registry)
}

// BulkProfile is the profile of a user of an import.
func BulkProfile(n int, zone string) almanac.Profile {
	return almanac.Profile{
		ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, n)), ExternalID: fmt.Sprint("member ", n),
		FirstName: "Ada", LastName: fmt.Sprint("Lovelace ", n), DateOfBirth: "1990-12-10", Timezone: zone,
	}
}

// BulkProfiles yields the profiles of the first users.
func BulkProfiles(n int, zone string) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for i := range n {
			if !yield(BulkProfile(i, zone), nil) {
				return
			}
		}
	}
}

// bulk changes many users, reports the result, and waits for its end.
func (w *worker) bulk(ctx context.Context, store *postgres.Store) error {
	scheduler, err := BulkScheduler(edited{store, w}, w.Bulk.Hour)
	if err != nil {
		return err
	}
	var done any
	switch w.Bulk.Work {
	case "serve":
		return w.serve(ctx, scheduler)
	case "import":
		done, err = ops.PutUsers(ctx, scheduler, BulkProfiles(w.Bulk.Users, w.Bulk.Zone), ops.PutUsersOptions{})
	case "rehearse":
		done, err = w.rehearse(ctx, scheduler)
	default:
		var r ops.RollOutResult
		r, err = ops.RollOut(ctx, scheduler, BulkType, ops.RollOutOptions{PageSize: w.Bulk.Page, After: w.Bulk.After, Progress: func(r ops.RollOutResult) {
			r.Examples = nil
			w.result(Paged, r)
		}})
		r.Examples = nil
		done = r
	}
	if err != nil {
		return err
	}
	w.result(Done, done)
	<-ctx.Done()
	return nil
}

// rehearse rehearses a copy of the users, which it makes first if it does not exist, as the command does.
func (w *worker) rehearse(ctx context.Context, scheduler almanac.Scheduler) (ops.RehearseResult, error) {
	if _, err := os.Stat(w.Bulk.File); err != nil {
		part, err := os.Create(w.Bulk.File + ".part")
		if err != nil {
			return ops.RehearseResult{}, err
		}
		_, err = ops.CopyUsers(ctx, scheduler.Repository(), []string{BulkType}, part, ops.CopyUsersOptions{})
		if err = errors.Join(err, part.Close()); err != nil {
			return ops.RehearseResult{}, err
		}
		w.at(AfterCopy)
		if err := os.Rename(part.Name(), w.Bulk.File); err != nil {
			return ops.RehearseResult{}, err
		}
	}
	users, err := os.Open(w.Bulk.File)
	if err != nil {
		return ops.RehearseResult{}, err
	}
	defer func() { _ = users.Close() }()
	return ops.Rehearse(ctx, scheduler, users, ops.RehearseOptions{For: 60 * 24 * time.Hour, Progress: func(int) { w.at(MidRun) }})
}

func (w *worker) result(p Point, result any) {
	text, err := json.Marshal(result)
	w.say(Report{Point: p, Reason: string(text), Health: fmt.Sprint(err)})
}

// serve serves the admin API.
func (w *worker) serve(ctx context.Context, scheduler almanac.Scheduler) error {
	api, err := httpapi.NewAdmin(scheduler, scheduler.Repository(), httpapi.NoAuthentication{})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := httpapi.Server("", api)
	w.say(Report{Point: Served, Reason: "http://" + listener.Addr().String()})
	go func() {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(stop)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// edited is a store with points around the changes of users.
type edited struct {
	*postgres.Store
	w *worker
}

// Rosters stops before what was read is written. Nothing is open at the server then.
func (p edited) Rosters(ctx context.Context, types []string, page almanac.Page) (almanac.List[almanac.Roster], error) {
	defer p.w.at(MidCopy)
	return p.Store.Rosters(ctx, types, page)
}

// editing marks the context of a change of users.
type editing struct{}

func (p edited) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	p.w.at(BeforeEdit)
	defer p.w.at(AfterEdit)
	return p.Store.EditUser(context.WithValue(ctx, editing{}, true), id, edit)
}

func (p edited) EditUsers(ctx context.Context, ids []uuid.UUID, edit func(int, almanac.Roster) (almanac.Edit, error)) ([]almanac.Edit, []error) {
	p.w.at(BeforeEdit)
	defer p.w.at(AfterEdit)
	return p.Store.EditUsers(context.WithValue(ctx, editing{}, true), ids, edit)
}

func (p edited) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	p.w.at(BeforeEdit)
	defer p.w.at(AfterEdit)
	return p.Store.CreateUsers(context.WithValue(ctx, editing{}, true), users)
}
