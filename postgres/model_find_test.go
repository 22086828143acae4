package postgres_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
)

// find looks for some of what there is, a page at a time: what a specification
// matches is found and counted, and nothing else, in order.
func (m *model) find(rt *rapid.T) {
	spec := m.specs(3).Draw(rt, "specification")
	limit := rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 50)).Draw(rt, "page size")
	order := rapid.SampledFrom([]almanac.Order{almanac.OldestFirst, almanac.NewestFirst, almanac.NextFirst}).Draw(rt, "order")
	for _, r := range []almanac.Repository{m.memory, m.store} {
		everything, err := r.Find(m.Context(), nil, almanac.Page{Limit: 1000})
		require.NoError(rt, err)
		now, err := r.Now(m.Context())
		require.NoError(rt, err)
		matching, want := []almanac.Event{}, []uuid.UUID{}
		for _, e := range everything.Items {
			if spec == nil || spec.Matches(e, now) {
				matching = append(matching, e)
			}
		}
		for _, e := range inOrder(matching, order) {
			want = append(want, e.ID)
		}

		got := []uuid.UUID{}
		for page := (almanac.Page{Limit: limit, Order: order}); ; {
			found, err := r.Find(m.Context(), spec, page)
			require.NoError(rt, err)
			for _, e := range found.Items {
				got = append(got, e.ID)
			}
			if page.After = found.Next; found.Next == "" {
				break
			}
			require.Len(rt, found.Items, limit)
			require.LessOrEqual(rt, len(got), len(want), "%T finds too much, or something twice, of %#v", r, spec)
		}
		n, err := r.Count(m.Context(), spec)
		require.NoError(rt, err)
		require.Equal(rt, want, got, "%T finds by %d in order %d of %#v", r, limit, order, spec)
		require.Equal(rt, len(matching), n, "%T counts of %#v", r, spec)
	}
}

// inOrder lists events as a page of an order does.
func inOrder(events []almanac.Event, order almanac.Order) []almanac.Event {
	if order == almanac.NextFirst {
		events = slices.DeleteFunc(slices.Clone(events), func(e almanac.Event) bool { return e.Status != almanac.Pending })
	}
	slices.SortFunc(events, func(a, b almanac.Event) int {
		byID := slices.Compare(a.ID[:], b.ID[:])
		switch order {
		case almanac.NewestFirst:
			return -byID
		case almanac.NextFirst:
			return cmp.Or(a.AvailableAt.Compare(b.AvailableAt), byID)
		default:
			return byID
		}
	})
	return events
}

// specs generates specifications of what there may be, of at most so many levels.
// Instants are those of events, to the second; what depends on the present is the
// same for both clocks.
func (m *model) specs(levels int) *rapid.Generator[almanac.Spec] {
	users := append([]uuid.UUID{uuid.Max}, m.users...)
	instants := rapid.Map(rapid.IntRange(-1, m.made/3+1), func(n int) time.Time { return m.base.Add(time.Duration(n) * time.Second) })
	leaves := rapid.Custom(func(t *rapid.T) almanac.Spec {
		return rapid.SampledFrom([]almanac.Spec{
			nil, almanac.Ready{}, almanac.And{}, almanac.Or{},
			almanac.OfType(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "type")),
			almanac.InStatus(rapid.SampledFrom([]almanac.Status{almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, "NONE"}).Draw(t, "status")),
			almanac.ForUser(rapid.SampledFrom(users).Draw(t, "user")),
			almanac.InZone(rapid.SliceOfN(rapid.SampledFrom([]string{"", "Asia/Tokyo", "Europe/London"}), 0, 2).Draw(t, "zones")),
			almanac.ForReason(rapid.SampledFrom([]string{"", "HTTP", "gone"}).Draw(t, "reason")),
			almanac.Overdue{By: rapid.SampledFrom([]time.Duration{-48 * time.Hour, 0, time.Minute, 2 * time.Hour}).Draw(t, "by")},
			almanac.DueBetween{From: instants.Draw(t, "from")}, almanac.DueBetween{Until: instants.Draw(t, "until")},
			almanac.DueBetween{From: instants.Draw(t, "from"), Until: instants.Draw(t, "until").Add(24 * time.Hour)},
		}).Draw(t, "leaf")
	})
	for range levels {
		parts := leaves
		leaves = rapid.OneOf(
			parts,
			rapid.Map(parts, func(s almanac.Spec) almanac.Spec { return almanac.Not{Spec: s} }),
			rapid.Map(rapid.SliceOfN(parts, 0, 3), func(s []almanac.Spec) almanac.Spec { return almanac.And(s) }),
			rapid.Map(rapid.SliceOfN(parts, 0, 3), func(s []almanac.Spec) almanac.Spec { return almanac.Or(s) }),
		)
	}
	return leaves
}
