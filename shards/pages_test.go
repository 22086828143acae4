package shards_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/shards"
)

// pages returns the names of the items of all pages of a list.
func pages[T any](t *rapid.T, limit int, page func(almanac.Page) (almanac.List[T], error), name func(T) string) (names []string) {
	p := almanac.Page{Limit: limit}
	for {
		found, err := page(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Items) > limit {
			t.Fatalf("%d items on a page of %d", len(found.Items), limit)
		}
		for _, one := range found.Items {
			names = append(names, name(one))
		}
		if p.After = found.Next; p.After == "" {
			return names
		}
		if len(found.Items) == 0 {
			t.Fatal("an empty page that is not the last one")
		}
	}
}

// The pages of several memories are those of one memory that has everything: nothing is lost, repeated or out of order.
func TestPagesOverSchemasAreThoseOfOne(t *testing.T) {
	t.Parallel()
	names := rapid.SampledFrom([]string{"Ada", "ada", "Åsa", "åsa", "Adam", "Bo", "Ελύτης", "ΕΛΎΤΗΣ", "Straße"})
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		n := rapid.IntRange(1, 5).Draw(t, "schemas")
		now := time.Now().UTC().Truncate(time.Second)
		clock := func() time.Time { return now }
		one := almanactest.NewRepository(clock)
		var places []shards.Place
		var schemas []shards.Schema
		for i := range n {
			places = append(places, shards.Place{Schema: fmt.Sprint("s", i)})
			schemas = append(schemas, shards.Schema{Name: fmt.Sprint("s", i), Repository: almanactest.NewRepository(clock)})
		}
		directory := shards.NewDirectory(places...)
		for slot := range directory.Slots { // uneven, too
			directory.Slots[slot] = uint16(min(n-1, slot*slot/40_000))
		}
		store, err := shards.New(shards.Options{Directory: directory, Schemas: schemas})
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 25).Draw(t, "users") {
			u := almanactest.User(almanactest.Named(names.Draw(t, "first"), names.Draw(t, "last")), almanactest.WithUserID(uuid.New()))
			var events []almanac.Event
			for k := range rapid.IntRange(0, 3).Draw(t, "events") {
				due := time.Duration(rapid.IntRange(-2, 2).Draw(t, "due")) * time.Hour
				events = append(events, almanactest.Event(now, almanactest.For(u), almanactest.DueIn(due), almanactest.OfSeries(fmt.Sprint(k), "2027")))
			}
			for _, r := range []almanac.Repository{one, store} {
				if _, _, err := almanactest.CreateUser(ctx, r, u, events...); err != nil {
					t.Fatal(err)
				}
			}
		}
		limit := rapid.IntRange(1, 30).Draw(t, "limit")
		same := func(what string, of func(almanac.Repository) []string) {
			if got, want := of(store), of(one); !slices.Equal(got, want) {
				t.Fatalf("%s by %d: %v, want %v", what, limit, got, want)
			}
		}
		ofEvent := func(e almanac.Event) string { return e.ID.String() }
		for _, order := range []almanac.Order{almanac.OldestFirst, almanac.NewestFirst, almanac.NextFirst} {
			same(fmt.Sprint("Find in order ", order), func(r almanac.Repository) []string {
				return pages(t, limit, func(p almanac.Page) (almanac.List[almanac.Event], error) {
					p.Order = order
					return r.Find(ctx, nil, p)
				}, ofEvent)
			})
		}
		for _, filter := range []almanac.UserFilter{{}, {Name: "a"}, {Name: "åsa"}, {Name: "ελύ"}, {Name: "ada a"}} {
			same(fmt.Sprintf("FindUsers %+v", filter), func(r almanac.Repository) []string {
				return pages(t, limit, func(p almanac.Page) (almanac.List[almanac.User], error) { return r.FindUsers(ctx, filter, p) },
					func(u almanac.User) string { return u.ID.String() })
			})
		}
		same("Rosters", func(r almanac.Repository) []string {
			return pages(t, limit, func(p almanac.Page) (almanac.List[almanac.Roster], error) {
				return r.Rosters(ctx, []string{almanac.TypeBirthday}, p)
			}, func(r almanac.Roster) string { return fmt.Sprint(r.User.ID, len(r.Pending)) })
		})
		same("AddEvents", func(r almanac.Repository) []string {
			return pages(t, limit, func(p almanac.Page) (list almanac.List[string], err error) {
				added, err := r.AddEvents(ctx, almanac.TypeBirthday, p, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, error) {
					for _, u := range users {
						list.Items = append(list.Items, u.User.ID.String())
					}
					return nil, nil
				})
				slices.Sort(list.Items)
				list.Next = added.Next
				if len(list.Items) == 0 {
					list.Next = "" // the page before was full
				}
				return list, err
			}, func(id string) string { return id })
		})
		same("FindMissed", func(r almanac.Repository) []string {
			events, err := r.FindMissed(ctx, []string{almanac.TypeBirthday}, 0, limit)
			ids := make([]string, len(events))
			for i, e := range events {
				ids[i] = e.AvailableAt.String() // the order of events that became available at once is open
			}
			return append(ids, fmt.Sprint(errors.Join(err)))
		})
	})
}

// A claim takes the oldest events, whatever their schemas are, and its mark loses none.
func TestClaimsOverSchemasAreThoseOfOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		store := overMemories(t, rapid.IntRange(1, 4).Draw(t, "schemas"))
		now := time.Now().UTC()
		var left []time.Time
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			u := almanactest.User()
			e := almanactest.Event(now, almanactest.For(u), almanactest.ReadyFor(time.Duration(rapid.IntRange(1, 9).Draw(t, "for"))*time.Minute))
			_, stored, err := almanactest.CreateUser(ctx, store, u, e)
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, stored[0].Due)
		}
		slices.SortFunc(left, time.Time.Compare)
		var mark time.Time
		for len(left) > 0 {
			limit := rapid.IntRange(1, 12).Draw(t, "limit")
			claim, err := store.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: limit, Lease: time.Minute, Mark: mark})
			if err != nil || len(claim.Events) != min(limit, len(left)) {
				t.Fatalf("claimed %d of %d, limit %d: %v", len(claim.Events), len(left), limit, err)
			}
			for i, e := range claim.Events {
				if !e.Due.Equal(left[i]) {
					t.Fatalf("event %d is due at %v, want %v", i, e.Due, left[i])
				}
			}
			if left, mark = left[len(claim.Events):], claim.Reached; len(left) > 0 && mark.After(left[0]) {
				t.Fatalf("the mark %v is after %v, which is left", mark, left[0])
			}
		}
	})
}
