package almanac_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// These tests are those of a program whose own zone data are older than what a
// database follows: there Beirut has summer time all the year.
const beirut = "Asia/Beirut"

func newest(t *testing.T) almanac.Reconcile {
	return almanac.Reconcile{Data: rulesOf(t, "2099b", beirutAllSummer)}
}

// adopt has a repository follow the newest rules, without a doubt left.
func (w *world) adopt(t *testing.T, s almanac.Scheduler) {
	t.Helper()
	_, err := s.Reconcile(t.Context(), newest(t))
	require.NoError(t, err)
	w.endDoubts(t)
}

func (w *world) endDoubts(t *testing.T) {
	t.Helper()
	require.NoError(t, w.store.EditZoneRules(t.Context(), func(book almanac.ZoneBook) ([]almanac.ZoneRules, error) {
		for i := range book.Rules {
			book.Rules[i].Recheck = time.Time{}
		}
		return book.Rules, nil
	}))
}

// inStep checks that the one pending event of Beirut follows the newest rules once they
// were compared.
func (w *world) inStep(t *testing.T, s almanac.Scheduler) {
	t.Helper()
	_, err := s.Reconcile(t.Context(), newest(t))
	require.NoError(t, err)
	found, err := w.store.Find(t.Context(), almanac.And{almanac.InStatus(almanac.Pending), almanac.InZone{beirut}}, almanac.Page{})
	require.NoError(t, err)
	require.NotEmpty(t, found.Events)
	for _, e := range found.Events {
		require.Equal(t, e.Wall.Labelled().Add(-3*time.Hour), e.Due, "of %s %s", e.Type, e.OccurrenceKey)
	}
}

var inBeirut = almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-15", Timezone: beirut}

// What an older program plans by its own rules, a newer one moves when it looks next,
// though nothing was in doubt and the older one has compared nothing.
func TestWhatOlderRulesPlanIsLookedAt(t *testing.T) {
	t.Parallel()
	create := func(p almanac.Profile) func(*testing.T, almanac.Scheduler) uuid.UUID {
		return func(t *testing.T, s almanac.Scheduler) uuid.UUID {
			e, err := s.CreateUser(t.Context(), p)
			require.NoError(t, err)
			return e.User.ID
		}
	}
	elsewhere := inBeirut
	elsewhere.Timezone = "Europe/Berlin"
	tests := map[string]struct {
		before func(*testing.T, almanac.Scheduler) uuid.UUID
		plan   func(*testing.T, almanac.Scheduler, uuid.UUID)
	}{
		"created": {plan: func(t *testing.T, s almanac.Scheduler, _ uuid.UUID) { create(inBeirut)(t, s) }},
		"enrolled": {plan: func(t *testing.T, s almanac.Scheduler, _ uuid.UUID) {
			_, err := s.Enrol(t.Context(), func(yield func(almanac.Profile, error) bool) { yield(inBeirut, nil) }, almanac.Enrol{})
			require.NoError(t, err)
		}},
		"moved there": {before: create(elsewhere), plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
			_, err := s.UpdateUser(t.Context(), id, almanac.ProfileChange{Timezone: new(beirut)})
			require.NoError(t, err)
		}},
		"born on another day": {before: create(inBeirut), plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
			_, err := s.UpdateUser(t.Context(), id, almanac.ProfileChange{DateOfBirth: new("1990-02-15")})
			require.NoError(t, err)
		}},
		"cancelled, and followed": {before: create(inBeirut), plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
			done, err := s.Operate(t.Context(), almanac.OperationCancel, almanac.ForUser(id), almanac.Operate{})
			require.NoError(t, err)
			require.Len(t, done.Events, 1)
		}},
		"scheduled anew": {
			before: create(inBeirut),
			plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
				_, err := s.Operate(t.Context(), almanac.OperationCancel, almanac.ForUser(id), almanac.Operate{Cancel: almanac.Cancel{EndSeries: true}})
				require.NoError(t, err)
				_, err = s.Schedule(t.Context(), id, almanac.TypeBirthday)
				require.NoError(t, err)
			},
		},
		"backfilled": {
			before: create(inBeirut),
			plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
				_, err := s.Operate(t.Context(), almanac.OperationCancel, almanac.ForUser(id), almanac.Operate{Cancel: almanac.Cancel{EndSeries: true}})
				require.NoError(t, err)
				done, err := s.Backfill(t.Context(), almanac.TypeBirthday, almanac.Backfill{})
				require.NoError(t, err)
				require.Equal(t, 1, done.Events)
			},
		},
	}
	for name, tt := range tests {
		for where, repository := range onBoth {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				w := openOn(repository(t))
				newer, older := w.scheduler(t, almanac.Birthday{}), w.scheduler(t, almanac.Birthday{})
				var id uuid.UUID
				if tt.before != nil {
					id = tt.before(t, newer)
				}
				w.adopt(t, newer)

				tt.plan(t, older, id)

				w.inStep(t, newer)
			})
		}
	}
}

// What an older program does not plan anew keeps the instant that newer rules gave it.
func TestOlderRulesLeaveWhatTheyDoNotPlan(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T, almanac.Scheduler, uuid.UUID) error{
		"another first name": func(t *testing.T, s almanac.Scheduler, id uuid.UUID) error {
			_, err := s.UpdateUser(t.Context(), id, almanac.ProfileChange{FirstName: new("Augusta")})
			return err
		},
		"other attributes": func(t *testing.T, s almanac.Scheduler, id uuid.UUID) error {
			_, err := s.UpdateUser(t.Context(), id, almanac.ProfileChange{Merge: json.RawMessage(`{"shoes": 39}`)})
			return err
		},
		"rescheduled": func(t *testing.T, s almanac.Scheduler, id uuid.UUID) error {
			_, err := s.Reschedule(t.Context(), id)
			return err
		},
	}
	for name, edit := range tests {
		for where, repository := range onBoth {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				w := openOn(repository(t))
				s := w.scheduler(t, almanac.Birthday{})
				owed := enrol(t, s, beirut, "1990-01-15")
				w.adopt(t, s)
				require.Equal(t, owed.Due.Add(-time.Hour), w.event(t, owed).Due)

				require.NoError(t, edit(t, s, owed.UserID))

				kept := w.event(t, owed)
				require.Equal(t, owed.Due.Add(-time.Hour), kept.Due)
				require.Equal(t, 3, kept.Version, "the payload was made anew")
				book, err := w.store.ZoneRules(t.Context())
				require.NoError(t, err)
				require.Empty(t, book.Marks, "nothing was planned")
			})
		}
	}
}

// By the older rules clocks skip the wall time, and the policy with them: an edit of
// something else leaves the occurrence where it is, and a correction moves it.
func TestOlderRulesLeaveWhatTheyWouldSkip(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	w := openOn(almanactest.NewRepository(func() time.Time { return now }))
	at := almanac.Clock{Minute: 30} // in 2027 summer time begins on 28 March at midnight, as far as this program knows
	s := w.scheduler(t, almanac.Birthday{At: func(almanac.User) almanac.Clock { return at }, Policies: almanac.Policies{Gap: almanac.GapSkip}})
	owed := enrol(t, s, beirut, "1990-03-29")
	moved := owed
	moved.OccurrenceKey, moved.Wall.Date.Day, moved.Version = "2027", 28, 2 // as a program with the newest rules has it
	moved.Due = moved.Wall.Labelled().Add(-3 * time.Hour)
	moved.AvailableAt = moved.Due
	_, err := w.store.EditUser(t.Context(), owed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
		u, err := r.User.Edit(almanac.ProfileChange{DateOfBirth: new("1990-03-28")}, now)
		return almanac.Edit{User: &u, Moved: []almanac.Event{moved}}, err
	})
	require.NoError(t, err)
	w.adopt(t, s)

	_, err = s.UpdateUser(t.Context(), owed.UserID, almanac.ProfileChange{FirstName: new("Augusta")})
	require.NoError(t, err)
	kept := w.event(t, owed)
	require.Equal(t, moved.Wall, kept.Wall)
	require.Equal(t, moved.Due, kept.Due)
	require.Contains(t, string(kept.Payload), "Augusta")

	_, err = s.UpdateUser(t.Context(), owed.UserID, almanac.ProfileChange{DateOfBirth: new("1990-04-15")})
	require.NoError(t, err)
	require.Equal(t, "2027-04-15T00:30:00", w.event(t, owed).Wall.String())
}

// An event that is to run now has an instant, whatever clocks show there by then.
func TestOlderRulesDoNotNameTheTimeOfWhatRunsNow(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			s := w.scheduler(t, almanac.Birthday{})
			owed := enrol(t, s, beirut, "1990-01-15")
			w.adopt(t, s)

			now, err := s.RunNow(t.Context(), owed.ID)
			require.NoError(t, err)

			how := newest(t)
			how.Trust = true
			_, err = s.Reconcile(t.Context(), how)
			require.NoError(t, err)
			require.Equal(t, now.Due, w.event(t, owed).Due)
			_, err = s.Reschedule(t.Context(), owed.UserID)
			require.NoError(t, err)
			back := w.event(t, owed)
			require.Equal(t, beirut, back.Zone, "an edit puts it back")
			require.Equal(t, owed.Wall, back.Wall)
			w.inStep(t, s)
		})
	}
}
