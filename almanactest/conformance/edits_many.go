package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

var editUsersCases = cases{
	"EditUsers/edits no user if there is none": func(k *kit) {
		edits, errs := k.r.EditUsers(k.Context(), nil, nil)
		k.same("results", len(edits)+len(errs), 0)
	},
	"EditUsers/gives a user who is edited twice the result of the first edit": func(k *kit) {
		a, b := k.newEvent().UserID, k.newEvent().UserID
		var versions []int
		edits, errs := k.r.EditUsers(k.Context(), []uuid.UUID{a, b, a, a}, func(i int, r almanac.Roster) (almanac.Edit, error) {
			if i != 1 {
				versions = append(versions, r.User.Version)
			}
			return renamed(r, fmt.Sprint("name ", i)), nil
		})
		k.ok(errors.Join(errs...))
		k.same("versions", versions, []int{1, 2, 3})
		k.same("name", k.storedUser(a).FirstName, "name 3")
		k.same("first result", edits[0].User.FirstName, "name 0")
		k.same("other", k.storedUser(b).FirstName, "name 1")
	},
	"EditUsers/hands an external id from user to user in the order given": func(k *kit) {
		with := func(external string) uuid.UUID {
			u, _ := k.create(almanactest.User(almanactest.WithExternalID(external)))
			return u.ID
		}
		take := func(ids []uuid.UUID, wanted ...string) []error {
			_, errs := k.r.EditUsers(k.Context(), ids, func(i int, r almanac.Roster) (almanac.Edit, error) {
				edit := renamed(r, "Ada")
				edit.User.ExternalID = wanted[i]
				return edit, nil
			})
			return errs
		}
		a, b, c := with("a"), with("b"), with("c")
		k.ok(errors.Join(take([]uuid.UUID{a, b, c}, "", "a", "b")...))
		k.same("external ids", []string{k.storedUser(b).ExternalID, k.storedUser(c).ExternalID}, []string{"a", "b"})
		errs := take([]uuid.UUID{a, b, c}, "b", "new", "") // c still has it
		var taken *almanac.ExternalIDTakenError
		k.same("taken", errors.As(errs[0], &taken), true)
		k.same("holder", taken.Holder, c)
		k.ok(errors.Join(errs[1:]...))
	},
	"EditUsers/stores the others when one is refused": func(k *kit) {
		var ids []uuid.UUID
		for range 7 {
			ids = append(ids, k.newEvent().UserID)
		}
		missing := uuid.New()
		ids = slices.Insert(ids, 3, missing)
		edits, errs := k.r.EditUsers(k.Context(), ids, func(i int, r almanac.Roster) (almanac.Edit, error) {
			edit := renamed(r, "Grace")
			edit.Changed = []almanac.Event{later(r.Pending[0])}
			switch i {
			case 0:
				return edit, errRefused
			case 5:
				edit.Changed[0].Version++
			}
			return edit, nil
		})
		k.same("error of the edit", errs[0], errRefused)
		k.gone(errs[3])
		k.is(errs[5], almanac.ErrOptimisticLock)
		for i, id := range ids {
			if i == 3 {
				continue
			}
			refused := i == 0 || i == 5
			k.same("refused", errs[i] != nil, refused)
			k.same("edited", k.storedUser(id).FirstName == "Grace", !refused)
			k.same("moved", len(edits[i].Changed) == 1, !refused)
		}
	},
	"EditUsers/does what EditUser does for each": func(k *kit) {
		seed := rand.Uint64()
		k.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 1))
		for range 5 {
			k.editsAlike(random, random.IntN(12)+2)
		}
	},
}

// renamed is an edit that gives a user a first name.
func renamed(r almanac.Roster, name string) almanac.Edit {
	u := r.User
	u.FirstName = name
	u.Version++
	return almanac.Edit{User: &u}
}

// editsAlike stores pairs of equal users, draws an edit for each pair, edits the first ones of all pairs by EditUsers
// and the others by EditUser, and compares the results and what is stored.
func (k *kit) editsAlike(random *rand.Rand, n int) {
	k.Helper()
	var many, single []uuid.UUID
	var draws [][]int
	for range n {
		events := random.IntN(4)
		for _, ids := range []*[]uuid.UUID{&many, &single} {
			u := almanactest.User()
			var list []almanac.Event
			for i := range events {
				list = append(list, k.event(u, almanactest.OfSeries(fmt.Sprint("s", i), "2026"), almanactest.DueIn(time.Duration(i+1)*time.Hour)))
			}
			k.create(u, list...)
			*ids = append(*ids, u.ID)
		}
		draws = append(draws, random.Perm(8))
	}
	edits, errs := k.r.EditUsers(k.Context(), many, func(i int, r almanac.Roster) (almanac.Edit, error) { return k.drawn(draws[i], r) })
	for i, id := range single {
		edit, err := k.r.EditUser(k.Context(), id, func(r almanac.Roster) (almanac.Edit, error) { return k.drawn(draws[i], r) })
		k.same("error", errorKind(errs[i]), errorKind(err))
		k.same("edit", outline(edits[i]), outline(edit))
		of := func(id uuid.UUID) string {
			r := k.roster(id)
			return outline(almanac.Edit{User: &r.User, Changed: r.Pending, New: r.InFlight, Removed: k.find(almanac.ForUser(id))})
		}
		k.same("stored", of(many[i]), of(id))
	}
}

// drawn makes an edit of a roster from random numbers.
func (k *kit) drawn(draw []int, r almanac.Roster) (edit almanac.Edit, err error) {
	if draw[0] < 4 {
		edit = renamed(r, fmt.Sprint("name ", draw[0]))
		edit.User.Timezone = calendar.StoredTimezone([]string{"UTC", "Asia/Tokyo"}[draw[1]%2])
	}
	for i, e := range r.Pending {
		switch draw[i+1] {
		case 0, 1:
			edit.Changed = append(edit.Changed, later(e))
		case 2:
			edit.Removed = append(edit.Removed, e)
		case 3, 4:
			done, err := e.Cancel("drawn")
			k.ok(err)
			edit.Changed = append(edit.Changed, done)
			next := k.event(r.User, almanactest.OfSeries(e.Series, []string{"2025", "2027"}[draw[i+1]-3]))
			edit.New = append(edit.New, next)
		case 5: // the series has an open event
			edit.New = append(edit.New, k.event(r.User, almanactest.OfSeries(e.Series, "2028")))
		}
	}
	switch draw[7] {
	case 0:
		return edit, errRefused
	case 1:
		edit.Changed = append(edit.Changed, k.event(r.User))
	case 2, 3:
		edit.New = append(edit.New, k.event(r.User, almanactest.OfSeries("new", "2026")))
	}
	return edit, nil
}

func errorKind(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, almanac.ErrOptimisticLock):
		return "conflict"
	}
	return err.Error()
}

// outline is what two equal edits of different users have in common.
func outline(e almanac.Edit) (text string) {
	if u := e.User; u != nil {
		text = fmt.Sprintln(u.FirstName, u.Timezone, u.Version)
	}
	for _, events := range [][]almanac.Event{e.Changed, e.New, e.Removed} {
		for _, e := range events {
			text += fmt.Sprintln(e.Series, e.OccurrenceKey, e.Status, e.Version, e.ClaimCount, e.FailureReason)
		}
		text += "·\n"
	}
	return text
}
