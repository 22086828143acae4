package ops_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
	"github.com/almanac-go/almanac/ops"
)

// chance draws the rules, the users and the edits of a rehearsed program.
type chance struct{ *rand.Rand }

func (c chance) clock() calendar.Clock {
	return calendar.Clock{Hour: c.IntN(24), Minute: 15 * c.IntN(4)}
}

func (c chance) yes(oneIn int) bool { return c.IntN(oneIn) == 0 }

func pick[T any](c chance, from ...T) T { return from[c.IntN(len(from))] }

func (c chance) execution() almanac.Execution {
	x := almanac.Execution{Spread: pick(c, 0, 0, 10*time.Minute, 5*time.Hour), OverrideOptOuts: c.yes(6)}
	x.CatchUpPolicy = pick(c, almanac.CatchUp{}, almanac.CatchUp{}, almanac.CatchUp{All: true}, almanac.CatchUp{SkipOlder: 3 * time.Hour}, almanac.CatchUp{All: true, SkipOlder: 30 * time.Hour, SkipTried: true})
	x.RetryPolicy = almanac.RetryPolicy{Attempts: 5, First: 40 * time.Minute, Factor: 3, Max: 10 * time.Hour}
	return x
}

func (c chance) rule() calendar.Recurrence {
	switch at := c.clock(); c.IntN(4) {
	case 0:
		return calendar.Daily{At: at}
	case 1:
		return calendar.Weekly{On: []time.Weekday{time.Weekday(c.IntN(7)), time.Sunday}, At: at}
	case 2:
		return calendar.Monthly{Day: 1 + c.IntN(31), At: at}
	default:
		return calendar.Daily{At: calendar.Clock{Hour: c.IntN(4), Minute: 30}} // where clocks change
	}
}

// notice is a rule of a user, with follow-ups, and with a lane and a channel for each zone.
type notice struct {
	almanac.Recurring
	lanes, follows bool
}

func (n notice) Follow(u almanac.User, ended almanac.Event) ([]almanac.FollowUp, error) {
	if !n.follows {
		return nil, nil
	}
	wall := ended.Wall
	wall.Date = wall.Date.AddDays(2)
	return []almanac.FollowUp{{Type: almanac.TypeOneOff, Occurrence: calendar.Occurrence{Key: n.Type + " " + ended.OccurrenceKey, Wall: wall}}}, nil
}

func (n notice) Lane(u almanac.User, _ almanac.Occurrence) string {
	if !n.lanes {
		return ""
	}
	return "crm/" + strings.ReplaceAll(u.Timezone.String(), "/", "-")
}

func (n notice) Channel(e almanac.Event) almanac.Channel {
	if strings.HasPrefix(e.Zone, "America/") {
		return "letter"
	}
	return almanac.ChannelWebhook
}

// duties have two series.
type duties struct {
	almanac.OneOff
	rules map[string]calendar.Recurrence
}

func (d duties) Series(u almanac.User) ([]string, error) {
	return slices.Sorted(maps.Keys(d.rules)), nil
}

func (d duties) NextIn(u almanac.User, series string, after time.Time) (calendar.Occurrence, error) {
	return calendar.Next(d.rules[series], u.Timezone, calendar.Policies{}, after)
}

func (c chance) registry(t *testing.T) almanac.Registry {
	rule, policies := c.rule(), calendar.Policies{Gap: pick(c, calendar.GapForward, calendar.GapSkip, calendar.GapBackward), Fold: pick(c, calendar.FoldFirst, calendar.FoldSecond)}
	n := notice{almanac.Recurring{Execution: c.execution(), Type: "NOTICE", Policies: policies, Rule: func(u almanac.User) (calendar.Recurrence, error) {
		if u.Timezone.String() == "Asia/Kolkata" {
			return nil, nil
		}
		return rule, nil
	}}, c.yes(2), c.yes(2)}
	if c.yes(3) {
		n.Fallback = almanac.TypeOneOff
	}
	at := c.clock()
	birthday := almanac.Birthday{Execution: c.execution(), At: func(almanac.User) calendar.Clock { return at }}
	two := duties{almanac.OneOff{Execution: c.execution(), Type: "DUTY"}, map[string]calendar.Recurrence{"a": c.rule(), "b": c.rule()}}
	registry, err := almanac.NewRegistry(n, birthday, two, almanac.OneOff{Execution: c.execution()})
	require.NoError(t, err)
	return registry
}

func (c chance) profile() almanac.Profile {
	p := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", Timezone: c.zone(),
		DateOfBirth: fmt.Sprintf("19%d-%02d-%02d", 50+c.IntN(50), 1+c.IntN(12), 1+c.IntN(28))}
	if c.yes(4) {
		p.OptOuts = []almanac.OptOut{{Type: pick(c, "NOTICE", "DUTY", ""), Channel: pick[almanac.Channel](c, "", "letter"), Until: c.until()}}
	}
	return p
}

func (c chance) until() calendar.Date {
	if c.yes(2) {
		return calendar.Date{}
	}
	return calendar.DateOf(time.Now().AddDate(0, 0, 1+c.IntN(40)))
}

func (c chance) zone() string {
	return pick(c, "Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia")
}

// edit changes a user, or one of the user's events.
func (c chance) edit(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
	var err error
	ctx := t.Context()
	found, errFind := s.Repository().Find(ctx, almanac.And{almanac.ForUser(id), almanac.InStatus(almanac.Pending)}, almanac.Page{})
	require.NoError(t, errFind)
	switch c.IntN(6) {
	case 0:
		zone := c.zone()
		_, err = s.UpdateUser(ctx, id, almanac.ProfileChange{Timezone: &zone})
	case 1:
		_, err = s.OptOut(ctx, id, almanac.OptOut{Type: pick(c, "NOTICE", almanac.TypeBirthday), Until: c.until()})
	case 2:
		_, err = s.ScheduleAt(ctx, id, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: calendar.WallTimeOf(time.Now().Add(time.Duration(c.IntN(900)-20) * time.Hour)), FollowUser: c.yes(2)})
	case 3:
		_, err = s.Reschedule(ctx, id)
	default:
		if len(found.Items) == 0 {
			return
		}
		one := found.Items[c.IntN(len(found.Items))]
		if c.yes(2) {
			_, err = s.Cancel(ctx, one.ID, almanac.CancelOptions{})
		} else {
			_, err = s.RunNow(ctx, one.ID, almanac.ForceOptions{})
		}
	}
	if err != nil {
		require.NotErrorIs(t, err, context.Canceled)
	}
}

// program is a program in virtual time, and what it delivered.
type program struct {
	*almanactest.Rehearsal
	webhook, letter *almanactest.Recorder
	failing         *atomic.Bool
	types           []string
}

func (c chance) program(t *testing.T) program {
	registry := c.registry(t)
	p := program{webhook: new(almanactest.Recorder), letter: new(almanactest.Recorder), failing: new(atomic.Bool), types: registry.EventTypes()}
	p.failing.Store(true)
	p.webhook.Deliverer = almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		if p.failing.Load() && d.Event.ID[15]%3 == 0 {
			return fmt.Errorf("HTTP 503")
		}
		return nil
	})
	options := []almanac.Option{almanac.WithDeliverer(almanac.ChannelWebhook, p.webhook), almanac.WithDeliverer("letter", p.letter)}
	if c.yes(2) {
		open := calendartest.Quiet("20:00-08:00")
		options = append(options, almanac.WithWindow(func(almanac.User) calendar.Window { return open }))
	}
	p.Rehearsal = almanactest.Rehearse(t, registry, options...)
	return p
}

// deliveredSince returns what was accepted from an instant on, and when.
func (p program) deliveredSince(at time.Time) (events map[string]time.Time, counts map[ops.RehearseCount]int) {
	events, counts = make(map[string]time.Time), make(map[ops.RehearseCount]int)
	for channel, recorder := range map[almanac.Channel]*almanactest.Recorder{almanac.ChannelWebhook: p.webhook, "letter": p.letter} {
		for _, a := range recorder.Attempts() {
			if a.Err == nil && !a.At.Before(at) {
				events[textOf(a.Event)] = a.At
				counts[ops.RehearseCount{Date: a.Wall().Date, Type: a.Event.Type, Zone: a.Event.Zone, Channel: channel, Lane: cmp.Or(a.Event.Lane, a.Event.Type)}]++
			}
		}
	}
	return events, counts
}

func textOf(e almanac.Event) string {
	return fmt.Sprint(e.UserID, " ", e.Type, " ", e.Series, " ", e.OccurrenceKey, " ", e.Wall, " ", e.Zone, " ", e.Lane)
}

// foreseen returns what is foreseen from now on, and when.
func (p program) foreseen(t *testing.T, until time.Time) map[string]time.Time {
	foreseen := make(map[string]time.Time)
	read, err := p.Repository.Rosters(t.Context(), p.types, almanac.Page{})
	require.NoError(t, err)
	for _, r := range read.Items {
		events, err := p.Scheduler.Foresee(t.Context(), r, until, false, 0)
		require.NoError(t, err)
		for _, e := range events {
			if e.Status == almanac.Completed {
				foreseen[textOf(e)] = e.ExecutedAt
			}
		}
	}
	return foreseen
}

// Whatever the rules, the users and their edits are: what is foreseen is delivered, at that time, and nothing else.
func TestWhatIsForeseenHappens(t *testing.T) {
	t.Parallel()
	var delivered atomic.Int64
	t.Cleanup(func() { require.Greater(t, int(delivered.Load()), 2000) })
	for seed := range uint64(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := chance{rand.New(rand.NewPCG(seed, 7))}
				time.Sleep(time.Duration(c.IntN(365*24)) * time.Hour)
				p := c.program(t)
				var users []uuid.UUID
				for range 8 {
					created, err := p.Scheduler.CreateUser(t.Context(), c.profile())
					require.NoError(t, err)
					users = append(users, created.User.ID)
				}
				for range 4 {
					p.For(time.Duration(1+c.IntN(100)) * time.Hour)
					for _, id := range users {
						if c.yes(2) {
							c.edit(t, p.Scheduler, id)
						}
					}
					time.Sleep(pick(c, 0, 0, 2*time.Hour, 50*time.Hour)) // a downtime
				}
				p.failing.Store(false)
				horizon := time.Duration(1+c.IntN(60)) * 24 * time.Hour
				now := time.Now()
				want := p.foreseen(t, now.Add(horizon))
				rehearsed := rehearse(t, p.Scheduler, p.Repository, p.types, ops.RehearseOptions{For: horizon})

				p.For(horizon)
				got, counts := p.deliveredSince(now)
				require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
				for e, at := range got {
					require.WithinDuration(t, want[e], at, time.Second, e) // missed events take milliseconds, one after the other
				}
				delivered.Add(int64(len(got)))
				require.Equal(t, counts, countsOf(rehearsed))
				require.Equal(t, len(got), rehearsed.Delivered)
			})
		})
	}
}

// countsOf returns the counts of a rehearsal by their other fields.
func countsOf(r ops.RehearseResult) map[ops.RehearseCount]int {
	counts := make(map[ops.RehearseCount]int)
	for _, one := range r.Counts {
		n := one.Events
		one.Events, one.Digest = 0, 0
		counts[one] = n
	}
	return counts
}

func copied(t testing.TB, r almanac.Repository, types []string, o ops.CopyUsersOptions) *bytes.Buffer {
	t.Helper()
	users := new(bytes.Buffer)
	_, err := ops.CopyUsers(t.Context(), r, types, users, o)
	require.NoError(t, err)
	return users
}

func rehearse(t testing.TB, s almanac.Scheduler, r almanac.Repository, types []string, o ops.RehearseOptions) ops.RehearseResult {
	t.Helper()
	result, err := ops.Rehearse(t.Context(), s, copied(t, r, types, ops.CopyUsersOptions{}), o)
	require.NoError(t, err)
	require.Empty(t, result.Refused)
	return result
}
