package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// party is a series after which guests are asked how it was.
type party struct {
	series
	follow func(u almanac.User, ended almanac.Event) ([]almanac.FollowUp, error)
}

func (p party) Follow(u almanac.User, ended almanac.Event) ([]almanac.FollowUp, error) {
	return p.follow(u, ended)
}

// question is what happens only after something else.
type question struct{}

func (question) EventType() string { return "QUESTION" }
func (question) Next(almanac.User, time.Time) (calendar.Occurrence, error) {
	return calendar.Occurrence{}, calendar.ErrNoOccurrence
}

func (question) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"key": o.Key, "name": u.FirstName})
}
func (question) Channel(almanac.Event) almanac.Channel { return almanac.ChannelWebhook }

func TestFollowUpsAreStoredWithTheOutcome(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			digest := party{series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}, nil}
			asked := calendar.WallTimeOf(time.Now().UTC().Add(48 * time.Hour))
			digest.follow = func(_ almanac.User, ended almanac.Event) ([]almanac.FollowUp, error) {
				require.Equal(t, almanac.Completed, ended.Status)
				return []almanac.FollowUp{{"QUESTION", calendar.Occurrence{Key: "how-was-" + ended.OccurrenceKey, Wall: asked}}}, nil
			}
			stored := storeEvent(t, w.store, digest.series)

			scheduler := w.runAll(t, []almanac.EventHandler{digest, question{}})

			w.await(t, almanac.EventCompleted)
			successor, follows := w.await(t, almanac.EventCreated), w.await(t, almanac.EventCreated)
			require.NoError(t, w.stop())
			require.Equal(t, "DIGEST", successor.Type)
			require.Equal(t, "QUESTION", follows.Type)
			require.Equal(t, "how-was-"+stored.OccurrenceKey, follows.OccurrenceKey, "as the handler gave it")
			require.Equal(t, almanac.Origin{Kind: almanac.OriginFollowUp, From: stored.ID}, follows.Origin)
			require.Equal(t, asked, follows.Wall)
			require.Equal(t, w.event(t, follows), follows)
			user, err := w.store.User(t.Context(), stored.UserID)
			require.NoError(t, err)
			require.JSONEq(t, `{"key": "how-was-`+stored.OccurrenceKey+`", "name": "`+user.FirstName+`"}`, string(follows.Payload))

			moved, err := scheduler.UpdateUser(t.Context(), stored.UserID, almanac.ProfileChange{Timezone: ptr("Pacific/Kiritimati"), FirstName: ptr("Augusta")})
			require.NoError(t, err)
			require.Len(t, moved.Moved, 1, "at the same wall time in the new zone")
			is := moved.Moved[0]
			require.Equal(t, []any{follows.ID, follows.OccurrenceKey, follows.Wall, "Pacific/Kiritimati"}, []any{is.ID, is.OccurrenceKey, is.Wall, is.Zone})
			require.JSONEq(t, `{"key": "how-was-`+stored.OccurrenceKey+`", "name": "Augusta"}`, string(is.Payload))
		})
	}
}

// The interval is not stored with the event.
func TestASpreadFollowUpStaysInItsIntervalWhenTheUserMoves(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			asking := almanac.OneOff{Execution: almanac.Execution{Spread: 3 * time.Hour}, Type: "QUESTION"}
			digest := party{series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}, nil}
			digest.follow = func(u almanac.User, _ almanac.Event) ([]almanac.FollowUp, error) {
				o, err := inHours(t, "09:00-09:30", 0).Next(u, time.Now().Add(48*time.Hour))
				return []almanac.FollowUp{{"QUESTION", o}}, err
			}
			stored := storeEvent(t, w.store, digest.series)
			scheduler := w.runAll(t, []almanac.EventHandler{digest, asking})
			w.await(t, almanac.EventCompleted)
			w.await(t, almanac.EventCreated)
			follows := w.await(t, almanac.EventCreated)
			require.NoError(t, w.stop())
			by := almanac.SeriesOf(follows).Spread(stored.UserID, 30*time.Minute)
			require.Equal(t, by, follows.FirstAvailable().Sub(follows.Due))

			for _, zone := range []string{"Pacific/Kiritimati", "America/New_York"} {
				moved, err := scheduler.UpdateUser(t.Context(), stored.UserID, almanac.ProfileChange{Timezone: &zone})

				require.NoError(t, err)
				require.Len(t, moved.Moved, 1)
				is := w.event(t, moved.Moved[0])
				require.Equal(t, []any{zone, follows.Wall, by}, []any{is.Zone, is.Wall, is.AvailableAt.Sub(is.Due)})
			}
		})
	}
}

func TestADetachedEventIsNotSpreadFurtherThanItWas(t *testing.T) {
	t.Parallel()
	handler := almanac.OneOff{Execution: almanac.Execution{Spread: time.Hour}}
	u := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
	wall := calendar.WallTime{Date: calendar.Date{Year: 2027, Month: 1, Day: 5}, Clock: calendar.Clock{Hour: 9}}
	e, err := almanac.NewEvent(u, handler, almanac.Occurrence{Occurrence: calendar.Occurrence{Key: "a", Wall: wall}})
	require.NoError(t, err)
	e.Origin.Kind = almanac.OriginScheduled
	by := almanac.SeriesOf(e).Spread(u.ID, time.Hour)
	for was, want := range map[time.Duration]time.Duration{
		0:              0, // Spread is newer than the event
		by / 2:         by / 2,
		by:             by,
		30 * time.Hour: by, // the instant had passed when the event got it
	} {
		e.ReadyAt = e.Due.Add(was)
		if was == 0 {
			e.ReadyAt = time.Time{}
		}
		o := e.Occurrence()
		o.Zone = calendar.StoredTimezone("Europe/Paris")

		next, err := e.Reschedule(u, handler, o)

		require.NoError(t, err)
		require.Equal(t, want, next.FirstAvailable().Sub(next.Due), "was %v", was)
		require.Equal(t, next.FirstAvailable(), next.AvailableAt, "was %v", was)
		require.Equal(t, want == 0, next.ReadyAt.IsZero(), "was %v", was)
	}
}

// Clocks of a user's new zone may never show what a follow-up waits for.
func TestASkippedFollowUpIsRemoved(t *testing.T) {
	t.Parallel()
	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	change, _ := berlin.NextChange(time.Now().Add(48 * time.Hour))
	for change.Width() < 0 {
		change, _ = berlin.NextChange(change.At)
	}
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			digest := party{series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}, nil}
			digest.follow = func(almanac.User, almanac.Event) ([]almanac.FollowUp, error) {
				never := calendar.Occurrence{Key: "a", Wall: change.From(), Policies: calendar.Policies{Gap: calendar.GapSkip}}
				return []almanac.FollowUp{{"QUESTION", never}}, nil
			}
			stored := storeEvent(t, w.store, digest.series)
			scheduler := w.runAll(t, []almanac.EventHandler{digest, question{}})
			w.await(t, almanac.EventCompleted)
			w.await(t, almanac.EventCreated)
			follows := w.await(t, almanac.EventCreated)
			require.NoError(t, w.stop())
			require.Equal(t, "QUESTION", follows.Type)

			moved, err := scheduler.UpdateUser(t.Context(), stored.UserID, almanac.ProfileChange{Timezone: ptr("Europe/Berlin")})

			require.NoError(t, err)
			require.Len(t, moved.Removed, 1)
			require.Equal(t, follows.ID, moved.Removed[0].ID)
		})
	}
}

func TestAFollowUpHasNoSuccessor(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), new(receiver)
			digest := party{series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}, nil}
			digest.follow = func(almanac.User, almanac.Event) ([]almanac.FollowUp, error) {
				at, utc := calendar.WallTimeOf(time.Now().UTC()), calendar.StoredTimezone("UTC")
				return []almanac.FollowUp{
					{"QUESTION", calendar.Occurrence{Key: "a", Wall: at, Zone: utc}}, {"QUESTION", calendar.Occurrence{Key: "b", Wall: at, Zone: utc}},
				}, nil
			}
			storeEvent(t, w.store, digest.series)

			w.runAll(t, []almanac.EventHandler{digest, question{}}, almanac.WithDeliverer(almanac.ChannelWebhook, r))

			for range 3 {
				w.await(t, almanac.EventCompleted)
			}
			require.NoError(t, w.stop())
			require.Len(t, w.all(t), 3)
			for _, e := range w.all(t) {
				require.Equal(t, almanac.Completed, e.Status)
			}
		})
	}
}

func TestAnOutcomeIsStoredWhenFollowFails(t *testing.T) {
	t.Parallel()
	at := calendar.WallTimeOf(time.Now().UTC())
	tests := map[string]func(almanac.User, almanac.Event) ([]almanac.FollowUp, error){
		"the handler fails":  func(almanac.User, almanac.Event) ([]almanac.FollowUp, error) { return nil, errors.New("no idea") },
		"the handler panics": func(almanac.User, almanac.Event) ([]almanac.FollowUp, error) { panic("no idea") },
		"of an unknown type": func(almanac.User, almanac.Event) ([]almanac.FollowUp, error) {
			return []almanac.FollowUp{{"UNKNOWN", calendar.Occurrence{Key: "a", Wall: at}}}, nil
		},
		"without a key": func(almanac.User, almanac.Event) ([]almanac.FollowUp, error) {
			return []almanac.FollowUp{{"QUESTION", calendar.Occurrence{Wall: at}}}, nil
		},
		"with a long key": func(almanac.User, almanac.Event) ([]almanac.FollowUp, error) {
			return []almanac.FollowUp{{"QUESTION", calendar.Occurrence{Key: strings.Repeat("k", 91), Wall: at}}}, nil
		},
		"on the 30th of Feb.": func(almanac.User, almanac.Event) ([]almanac.FollowUp, error) {
			return []almanac.FollowUp{{"QUESTION", calendar.Occurrence{Key: "a", Wall: calendar.WallTime{Date: calendar.Date{Year: 2027, Month: 2, Day: 30}}}}}, nil
		},
	}
	for name, follow := range tests {
		for where, repository := range onBoth {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				w, r := openOn(repository(t)), new(receiver)
				digest := party{series{eventType: "DIGEST", seconds: ago(time.Minute, nextYear), execute: r.Deliver}, follow}
				stored := storeEvent(t, w.store, digest.series)

				w.runAll(t, []almanac.EventHandler{digest, question{}})

				w.await(t, almanac.EventCompleted)
				w.await(t, almanac.EventCreated)
				require.Equal(t, stored.ID, w.await(t, almanac.FollowUpsLost).ID)
				require.NoError(t, w.stop())
				require.Equal(t, almanac.Completed, w.event(t, stored).Status)
				require.Len(t, w.all(t), 2, "the series goes on")
			})
		}
	}
}

// A letter follows a message that the receiver refuses, also if that is tried again.
func TestAFallbackFollowsAFailedEvent(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, r := openOn(repository(t)), &receiver{answers: []error{almanac.Permanent(errBusy), nil, almanac.Permanent(errBusy)}}
			message := series{almanac.Execution{Fallback: "QUESTION"}, "MESSAGE", ago(time.Minute, nextYear), r.Deliver}
			stored := storeEvent(t, w.store, message)
			scheduler := w.runAll(t, []almanac.EventHandler{message, question{}}, almanac.WithDeliverer(almanac.ChannelWebhook, r))

			failed := w.await(t, almanac.EventFailed)
			w.await(t, almanac.EventCreated)
			letter := w.await(t, almanac.EventCreated)
			require.Equal(t, []any{"QUESTION", "MESSAGE/" + stored.OccurrenceKey, almanac.Origin{Kind: almanac.OriginFollowUp, From: stored.ID}},
				[]any{letter.Type, letter.OccurrenceKey, letter.Origin})
			require.Equal(t, letter.ID, w.await(t, almanac.EventCompleted).ID, "it is due at once")
			_, err := scheduler.Requeue(t.Context(), failed.ID, almanac.ForceOptions{})
			require.NoError(t, err)
			w.await(t, almanac.EventFailed)
			require.NoError(t, w.stop())
			n, err := w.store.Count(t.Context(), almanac.OfType("QUESTION"))
			require.NoError(t, err)
			require.Equal(t, 1, n)
		})
	}
	for _, to := range []string{"MESSAGE", "NONE"} {
		_, err := almanac.NewRegistry(series{Execution: almanac.Execution{Fallback: to}, eventType: "MESSAGE"}, question{})
		require.EqualError(t, err, `almanac: handler of "MESSAGE": fallback "`+to+`" is not the type of another handler`)
	}
}

// Years of two calendars can be the same text. A user who changes the calendar gets the second letter, too.
func TestFallbacksOfTwoCalendarsDiffer(t *testing.T) {
	t.Parallel()
	r := openAges("2027-01-01T08:00:00Z")
	rule := slots{{Key: "2027", Unit: calendar.UnitYear, Wall: wall(t, "2027-01-20T09:00:00")}, {Key: "2027", Unit: "year:lunar", Wall: wall(t, "2028-01-19T09:00:00")}}
	greeting := almanac.Recurring{Execution: almanac.Execution{Fallback: "QUESTION"}, Type: "GREETING", Rule: func(almanac.User) (calendar.Recurrence, error) { return rule, nil }}
	registry, err := almanac.NewRegistry(greeting, question{})
	require.NoError(t, err)
	s, err := almanac.NewScheduler(r, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		if d.Event.Type == "GREETING" {
			return almanac.Permanent(errBusy)
		}
		return nil
	})))
	require.NoError(t, err)
	_, err = s.CreateUser(t.Context(), inLondon)
	require.NoError(t, err)
	for _, slot := range rule {
		*r.now = slot.Wall.Labelled()
		_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.NoError(t, err)
	}
	found, err := r.Find(t.Context(), almanac.OfType("QUESTION"), almanac.Page{})
	require.NoError(t, err)
	var keys []string
	for _, e := range found.Items {
		keys = append(keys, e.OccurrenceKey)
	}
	require.ElementsMatch(t, []string{"GREETING/2027", "GREETING/lunar:2027"}, keys)
}

// A new release moves no follow-up, because no rule plans it again.
func TestAFollowUpHasConsultedNoCalendar(t *testing.T) {
	t.Parallel()
	r := openAges("2026-12-01T10:00:00Z")
	zones := rulesOf(t, "2026a", beirutAsItIs)
	program := func(c *calendar.WorkCalendar) almanac.Scheduler {
		rule := onWorkDays(the28th, "")(c)
		digest := party{series{eventType: "DIGEST", seconds: []time.Time{r.now.Add(time.Hour)}, execute: new(receiver).Deliver}, nil}
		digest.follow = func(u almanac.User, ended almanac.Event) ([]almanac.FollowUp, error) {
			slot, err := calendar.Next(rule, u.Timezone, calendar.Policies{}, ended.Due)
			require.NotEmpty(t, slot.Consulted.Calendars)
			return []almanac.FollowUp{{"RENT", slot}}, err
		}
		registry, err := almanac.NewRegistry(digest, office(c, nil))
		require.NoError(t, err)
		s, err := almanac.NewScheduler(r, registry, almanac.WithDeliverer(almanac.ChannelWebhook, new(receiver)))
		require.NoError(t, err)
		return s
	}
	older := program(land(t, "2026-11-01"))
	follow(t, older, zones)
	_, err := older.CreateUser(t.Context(), inLondon)
	require.NoError(t, err)
	*r.now = r.now.Add(2 * time.Hour)
	_, err = older.RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.NoError(t, err)
	require.Empty(t, follow(t, program(land(t, "2026-12-01", "2026-12-28")), zones))
	found, err := r.Find(t.Context(), almanac.OfType("RENT"), almanac.Page{})
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	require.Equal(t, "2026-12-28T09:00:00", found.Items[0].Wall.String())
	require.Zero(t, found.Items[0].Consulted)
}
