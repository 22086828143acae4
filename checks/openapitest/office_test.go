package openapitest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/httpapi"
)

// today is the repository's time: before clocks in New York go forward on Sunday, 8 March.
var today = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

const (
	stranger    = "018f6a2b-7c1d-7e3f-8a4b-5c6d7e8f9a0b"
	typeWeekend = "WEEKEND"
)

// weekend is a handler for Sundays at 02:30, which clocks in New York skip on 8 March, for
// the users with the attribute sunday. Those with the attribute weekend have Saturdays too.
func weekend() almanac.Recurring {
	return almanac.Recurring{
		Type: typeWeekend, Policies: calendar.Policies{Gap: calendar.GapReject},
		Rule: func(u almanac.User) (calendar.Recurrence, error) {
			days := []time.Weekday{time.Sunday, time.Saturday}
			switch attributes := string(u.Attributes); {
			case strings.Contains(attributes, "sunday"):
				days = days[:1]
			case !strings.Contains(attributes, "weekend"):
				return nil, nil
			}
			return calendar.Weekly{On: days, At: calendar.Clock{Hour: 2, Minute: 30}}, nil
		},
	}
}

// rent is a handler for the first working day of each month.
func rent(t *testing.T) almanac.Recurring {
	t.Helper()
	days, err := calendar.ParseWorkCalendar("name LAND\nrelease 2026-01-01\nuntil 2026-12-31")
	require.NoError(t, err)
	return almanac.Recurring{
		Type: "RENT",
		Rule: func(u almanac.User) (calendar.Recurrence, error) {
			if !strings.Contains(string(u.Attributes), "rent") {
				return nil, nil
			}
			return calendar.Within{Of: calendar.Monthly{Day: 1, At: calendar.Clock{Hour: 9}}, WorkDays: days}, nil
		},
	}
}

// office is a program with both APIs.
type office struct {
	repository almanac.Repository
	scheduler  almanac.Scheduler
	sender     *broadcast.Sender
	auth       httpapi.Authenticator
	fail       error // what deliveries return
}

func newOffice(t *testing.T) *office {
	t.Helper()
	return openOffice(t, almanactest.NewRepository(func() time.Time { return today }))
}

func openOffice(t *testing.T, r almanac.Repository) *office {
	t.Helper()
	o := &office{repository: r, auth: httpapi.NoAuthentication{}}
	registry, err := almanac.NewRegistry(almanac.Birthday{}, almanac.OneOff{}, weekend(), rent(t))
	require.NoError(t, err)
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return o.fail })
	o.scheduler, err = almanac.NewScheduler(r, registry, almanac.WithOptionalProfile(), almanac.WithZoneGuess("UTC", nil), almanac.WithDeliverer(almanac.ChannelWebhook, deliver))
	require.NoError(t, err)
	o.sender, err = broadcast.New(o.scheduler, storeOf(r))
	require.NoError(t, err)
	return o
}

// storeOf returns the store of broadcasts of a repository.
func storeOf(r almanac.Repository) broadcast.Store {
	switch r := r.(type) {
	case down:
		return noBroadcasts{err: r.err}
	case locked:
		return noBroadcasts{err: almanac.ErrLocked}
	}
	return r.(broadcast.Store)
}

func (o *office) api(t *testing.T, options ...httpapi.Option) http.Handler {
	t.Helper()
	h, err := httpapi.New(o.scheduler, o.repository, o.auth, append(options, httpapi.WithOptionalProfile(), httpapi.WithOptionalTimezone())...)
	require.NoError(t, err)
	return h
}

func (o *office) admin(t *testing.T, options ...httpapi.Option) http.Handler {
	t.Helper()
	h, err := httpapi.NewAdmin(o.scheduler, o.repository, o.auth, append(options, httpapi.WithBroadcasts(o.sender))...)
	require.NoError(t, err)
	return h
}

// hire stores a user, whose events wait.
func (o *office) hire(t *testing.T, attributes string) almanac.UserWithEvents {
	t.Helper()
	id := uuid.NewString()
	created, err := o.scheduler.CreateUser(t.Context(), almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "America/New_York", Locale: "en", Email: id + "@example.com",
		ExternalID: id, Attributes: []byte(attributes), OptOuts: []almanac.OptOut{{Channel: "push"}},
	})
	require.NoError(t, err)
	return created
}

// unplanned stores a user of another program, which has no handler for weekends.
func (o *office) unplanned(t *testing.T) almanac.User {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	other, err := almanac.NewScheduler(o.repository, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(nil)))
	require.NoError(t, err)
	return (&office{repository: o.repository, scheduler: other}).hire(t, `{"sunday":1}`).User
}

// failed stores a user with an event that is FAILED.
func (o *office) failed(t *testing.T) almanac.Event {
	t.Helper()
	e := o.hire(t, `{}`).Events[0]
	_, err := o.scheduler.RunNow(t.Context(), e.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	o.fail = almanac.Permanent(errors.New("receiver answered 404"))
	done, err := o.scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, done.Failed)
	return e
}

// down is a repository whose every call that the APIs cause fails.
type down struct {
	almanac.Repository
	err error
}

func (d down) User(context.Context, uuid.UUID) (almanac.User, error) { return almanac.User{}, d.err }

func (d down) Event(context.Context, uuid.UUID) (almanac.Event, error) {
	return almanac.Event{}, d.err
}

func (d down) Find(context.Context, almanac.Spec, almanac.Page) (almanac.List[almanac.Event], error) {
	return almanac.List[almanac.Event]{}, d.err
}

func (d down) FindUsers(context.Context, almanac.UserFilter, almanac.Page) (almanac.List[almanac.User], error) {
	return almanac.List[almanac.User]{}, d.err
}

func (d down) CreateUsers(context.Context, []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	return nil, d.err
}

func (d down) Rosters(context.Context, []string, almanac.Page) (almanac.List[almanac.Roster], error) {
	return almanac.List[almanac.Roster]{}, d.err
}

func (d down) EditUser(context.Context, uuid.UUID, func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	return almanac.Edit{}, d.err
}

func (d down) AddEvents(context.Context, string, almanac.Page, func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) (almanac.AddEventsResult, error) {
	return almanac.AddEventsResult{}, d.err
}

func (d down) DeleteUser(context.Context, uuid.UUID, almanac.DeleteOptions) (almanac.DeleteResult, error) {
	return almanac.DeleteResult{}, d.err
}

func (d down) Pause(context.Context, almanac.Pause) error      { return d.err }
func (d down) Resume(context.Context, string) error            { return d.err }
func (d down) Paused(context.Context) ([]almanac.Pause, error) { return nil, d.err }
func (d down) PutLane(context.Context, almanac.Lane) error     { return d.err }
func (d down) Lanes(context.Context) ([]almanac.Lane, error)   { return nil, d.err }
func (d down) Now(context.Context) (time.Time, error)          { return today, d.err }

// locked is a repository whose users are locked.
type locked struct{ almanac.Repository }

func (locked) EditUser(context.Context, uuid.UUID, func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	return almanac.Edit{}, fmt.Errorf("user: %w", almanac.ErrLocked)
}

func (locked) DeleteUser(context.Context, uuid.UUID, almanac.DeleteOptions) (almanac.DeleteResult, error) {
	return almanac.DeleteResult{}, fmt.Errorf("user: %w", almanac.ErrLocked)
}

// noBroadcasts is a store whose every call that the admin API causes fails.
type noBroadcasts struct {
	broadcast.Store
	err error
}

func (n noBroadcasts) CreateBroadcast(context.Context, broadcast.Broadcast) (broadcast.Status, bool, error) {
	return broadcast.Status{}, false, n.err
}

func (n noBroadcasts) Broadcasts(context.Context, string, int) ([]broadcast.Status, error) {
	return nil, n.err
}

func (n noBroadcasts) AddBroadcastUsers(context.Context, string, []uuid.UUID, []string) (broadcast.AddUsersResult, error) {
	return broadcast.AddUsersResult{}, n.err
}

func (n noBroadcasts) StepBroadcast(context.Context, string, broadcast.Action, string) (broadcast.Status, error) {
	return broadcast.Status{}, n.err
}

func (n noBroadcasts) BroadcastProgress(context.Context, string) (broadcast.Progress, error) {
	return broadcast.Progress{}, n.err
}

func (n noBroadcasts) DeleteBroadcast(context.Context, string) (bool, error) { return false, n.err }
