package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/fold"
)

var findUsersCases = cases{
	"FindUsers/pages through the users of a filter once": func(k *kit) {
		all := k.crowd()
		for _, f := range []almanac.UserFilter{
			{}, {Name: "a"}, {Name: "A"}, {Name: "ann"}, {Name: "ANN LEE"}, {Name: "ann  "}, {Name: "lee"}, {Name: "lee a"}, {Name: "_"}, {Name: "%"},
			{Name: "\\"}, {Name: " "}, {Name: "z"}, {Name: "zoë"}, {Name: "Ann Lee", Email: "ANN@example.com"}, {Name: "a", ExternalID: "3"}, {Email: "ann@EXAMPLE.com"},
			{Email: "ann"}, {ExternalID: "3"}, {ExternalID: "03"}, {Email: "ann@example.com", ExternalID: "3"},
			{ZoneSource: almanac.ZoneDeclared}, {ZoneSource: almanac.ZoneGuessed}, {ZoneSource: almanac.ZoneDefault}, {Name: "lee", ZoneSource: almanac.ZoneGuessed},
			{Email: "ann@example.com", ZoneSource: almanac.ZoneDefault}, {ExternalID: "3", ZoneSource: almanac.ZoneDeclared},
		} {
			want := peopleOf(f, all)
			for _, limit := range []int{1, 2, 7, len(all), len(all) + 1} {
				k.same(fmt.Sprintf("users of %+v by %d", f, limit), k.findUsers(f, limit, len(all)), want)
			}
		}
	},
	"FindUsers/ignores the case of every script": func(k *kit) {
		for _, is := range []struct{ first, last, name string }{
			{"Åsa", "Öberg", "åSA ö"}, {"åsa", "öberg", "ÅSA"}, {"Ada", "Groß", "GROẞ"}, {"Ada", "GROẞ", "groß"},
			{"Odysseas", "Ελύτης", "ΕΛΎΤΗΣ"}, {"ΟΔΥΣΣΈΑΣ", "Elytis", "Οδυσσέας"}, {"Юлия", "Ёлкина", "юЛИЯ ё"},
			{"İpek", "Ilgaz", "ipek I"}, {"Խաչատուր", "", "խԱՉ"}, {"ᲥᲔᲗᲔᲕᲐᲜ", "", "ქეთევან"}, {"𐐁", "Deseret", "𐐩"},
		} {
			u, _ := k.create(almanactest.User(almanactest.Named(is.first, is.last), almanactest.WithEmail(is.first+"@example.com")))
			k.same(is.name, slices.Contains(k.findUsers(almanac.UserFilter{Name: is.name}, 3, 50), u.ID), true)
			k.same("by address", slices.Contains(k.findUsers(almanac.UserFilter{Email: fold.Text(is.first) + "@EXAMPLE.com"}, 3, 50), u.ID), true)
		}
		for _, name := range []string{"gross", "ılgaz", "asa", "A\u030asa"} { // no letter becomes two, and accents count
			k.same(name, len(k.findUsers(almanac.UserFilter{Name: name}, 3, 50)), 0)
		}
	},
	"FindUsers/finds a user by the names and the address of an edit": func(k *kit) {
		was, _ := k.create(almanactest.User(almanactest.Named("Ann", "Lee"), almanactest.WithEmail("ann@example.com")))
		first, last, email := "Åsa", "ÖBERG", "ÅSA@example.com"
		k.apply(was.ID, func(r almanac.Roster) (almanac.Edit, error) {
			edited := r.User
			edited.FirstName, edited.LastName, edited.Email = first, last, email
			edited.Version++
			return almanac.Edit{User: &edited}, nil
		})
		for _, f := range []almanac.UserFilter{{Name: "åsa ö"}, {Name: "öb"}, {Email: "åsa@EXAMPLE.com"}} {
			k.same(fmt.Sprintf("users of %+v", f), k.findUsers(f, 1, 1), []uuid.UUID{was.ID})
		}
		for _, f := range []almanac.UserFilter{{Name: "ann"}, {Name: "lee"}, {Email: "ann@example.com"}} {
			k.same(fmt.Sprintf("users of %+v", f), len(k.findUsers(f, 1, 1)), 0)
		}
	},
	"FindUsers/finds a user by the source of the zone after an edit": func(k *kit) {
		given := almanactest.User()
		given.ZoneSource = almanac.ZoneDefault
		was, _ := k.create(given)
		for i, source := range []almanac.ZoneSource{almanac.ZoneGuessed, almanac.ZoneDeclared, almanac.ZoneDefault} {
			edited := k.apply(was.ID, func(r almanac.Roster) (almanac.Edit, error) {
				edited := r.User
				edited.ZoneSource = source
				edited.Version++
				return almanac.Edit{User: &edited}, nil
			}).User
			k.same("source", edited.ZoneSource, source)
			for j, other := range []almanac.ZoneSource{almanac.ZoneGuessed, almanac.ZoneDeclared, almanac.ZoneDefault} {
				k.same(string(source)+", by "+string(other), len(k.findUsers(almanac.UserFilter{ZoneSource: other}, 1, 1)) == 1, i == j)
			}
		}
	},
	"FindUsers/leaves deleted users out at once": func(k *kit) {
		u := almanactest.User(almanactest.Named("Ann", "Lee"), almanactest.WithEmail("ann@example.com"), almanactest.WithExternalID("1"))
		k.create(u, k.event(u))
		k.claim(1) // so that the user is hidden and not yet removed
		filters := []almanac.UserFilter{{}, {Name: "ann"}, {Name: "lee"}, {Email: u.Email}, {ExternalID: "1"}}
		for _, f := range filters {
			k.same("users before", k.findUsers(f, 1, 1), []uuid.UUID{u.ID})
		}
		k.deleteUser(u.ID)
		for _, f := range filters {
			k.same("users after", len(k.findUsers(f, 1, 1)), 0)
		}
	},
	"FindUsers/returns users as they are stored": func(k *kit) {
		want, _ := k.create(almanactest.User(almanactest.Named("Ann", "Lee"), almanactest.WithEmail("ann@example.com"), almanactest.WithExternalID("1"), almanactest.WithLocale("de-AT")))
		for _, f := range []almanac.UserFilter{{}, {Name: "ann l"}} {
			found := must(k.r.FindUsers(k.Context(), f, almanac.Page{}))(k)
			k.same("users", len(found.Items), 1)
			k.keptUser(found.Items[0], want)
			k.same("version", found.Items[0].Version, want.Version)
		}
	},
	"FindUsers/refuses invalid pages and filters": func(k *kit) {
		id := almanac.Cursor(uuid.NewString())
		for _, page := range []almanac.Page{{Limit: -1}, {Limit: 1001}, {After: "x"}, {After: id + "/Ann/Lee"}, {Order: almanac.NewestFirst}} {
			k.is(errorOf(k.r.FindUsers(k.Context(), almanac.UserFilter{}, page)), almanac.ErrInvalid)
		}
		for _, page := range []almanac.Page{{After: id}, {After: "x/Ann/Lee"}, {After: id + "/Ann"}, {After: id + "/%zz/Lee"}, {After: id + "/%00/Lee"}, {After: id + "/%ff/Lee"}} {
			k.is(errorOf(k.r.FindUsers(k.Context(), almanac.UserFilter{Name: "a"}, page)), almanac.ErrInvalid)
		}
		for _, text := range []string{"a\x00", "\xff"} {
			_, err := k.r.FindUsers(k.Context(), almanac.UserFilter{Name: text, Email: text, ExternalID: text}, almanac.Page{})
			var invalid *almanac.ValidationError
			if !errors.As(err, &invalid) || len(invalid.Fields) != 3 {
				k.Errorf("error = %v, want a *ValidationError of three fields", err)
			}
		}
		k.is(errorOf(k.r.FindUsers(k.Context(), almanac.UserFilter{ZoneSource: "known"}, almanac.Page{})), almanac.ErrInvalid)
	},
}

// crowd stores users with similar names, or without names, in any order.
func (k *kit) crowd() (all []almanac.User) {
	k.Helper()
	id := 0
	for _, first := range []string{"", "Ann", "ann", "Anna", "ANN Lee", "Lee", "A_n", "A/n"} {
		for _, last := range []string{"", "Lee", "lee", "Leeann", "Ann", "Zoë", "ZOË"} {
			options := []almanactest.UserOption{almanactest.Named(first, last)}
			if id++; id%2 == 0 {
				options = append(options, almanactest.WithEmail("Ann@example.com"))
			}
			given := almanactest.User(append(options, almanactest.WithExternalID(strconv.Itoa(id)))...)
			given.ZoneSource = []almanac.ZoneSource{almanac.ZoneDeclared, almanac.ZoneGuessed, almanac.ZoneDefault}[id*id%7%3]
			u, _ := k.create(given)
			all = append(all, u)
		}
	}
	return all
}

// peopleOf returns the ids of the users whom a filter selects, in order.
func peopleOf(f almanac.UserFilter, all []almanac.User) []uuid.UUID {
	type listed struct {
		name string
		id   uuid.UUID
	}
	var people []listed
	prefix := fold.Text(f.Name)
	for _, u := range all {
		full, last := fold.Text(u.Name()), fold.Text(u.LastName)
		is := listed{full, u.ID}
		if !strings.HasPrefix(full, prefix) {
			is.name = last
		}
		if strings.HasPrefix(is.name, prefix) && (f.Email == "" || strings.EqualFold(f.Email, u.Email)) && (f.ExternalID == "" || f.ExternalID == u.ExternalID) &&
			(f.ZoneSource == "" || f.ZoneSource == u.ZoneSource) {
			people = append(people, is)
		}
	}
	slices.SortFunc(people, func(a, b listed) int {
		if f.Name != "" && a.name != b.name {
			return strings.Compare(a.name, b.name)
		}
		return bytes.Compare(a.id[:], b.id[:])
	})
	ids := make([]uuid.UUID, len(people))
	for i, one := range people {
		ids[i] = one.id
	}
	return ids
}

// findUsers returns the ids of all users of a filter, in pages of limit. It fails the case
// if there are more than most.
func (k *kit) findUsers(f almanac.UserFilter, limit, most int) []uuid.UUID {
	k.Helper()
	got := []uuid.UUID{}
	page := almanac.Page{Limit: limit}
	for {
		found := must(k.r.FindUsers(k.Context(), f, page))(k)
		for _, u := range found.Items {
			got = append(got, u.ID)
		}
		if page.After = found.Next; found.Next == "" {
			return got
		}
		k.same("users on a page that is not the last", len(found.Items), limit)
		if len(got) > most {
			k.Fatalf("%+v finds a user twice by %d", f, limit)
		}
	}
}
