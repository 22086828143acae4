package almanac_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
)

func TestSpecMatches(t *testing.T) {
	t.Parallel()

	due := instant(t, "2026-12-10T09:00:00Z")
	mine, other := uuid.New(), uuid.New()
	pending := almanac.Event{UserID: mine, Type: "BIRTHDAY", Status: almanac.Pending, Zone: "Europe/Berlin", Due: due, AvailableAt: due}
	retrying := pending
	retrying.AvailableAt = due.Add(time.Minute)
	processing := pending
	processing.Status, processing.AvailableAt = almanac.Processing, time.Time{}
	failed, cancelled := processing, processing
	failed.Status, failed.FailureReason = almanac.Failed, "HTTP 404"
	cancelled.Status, cancelled.FailureReason = almanac.Cancelled, "moved house"
	tests := map[string]struct {
		spec  almanac.Spec
		event almanac.Event
		now   time.Time
		want  bool
	}{
		"its type":             {almanac.OfType("BIRTHDAY"), pending, due, true},
		"another type":         {almanac.OfType("birthday"), pending, due, false},
		"its status":           {almanac.InStatus(almanac.Pending), pending, due, true},
		"another status":       {almanac.InStatus(almanac.Failed), pending, due, false},
		"its user":             {almanac.ForUser(mine), pending, due, true},
		"another user":         {almanac.ForUser(other), pending, due, false},
		"ready at its instant": {almanac.Ready{}, pending, due, true},
		"not ready before":     {almanac.Ready{}, pending, due.Add(-1), false},
		"not ready while waiting for another attempt": {almanac.Ready{}, retrying, due, false},
		"ready when that has come":                    {almanac.Ready{}, retrying, due.Add(time.Minute), true},
		"not ready once claimed":                      {almanac.Ready{}, processing, due.Add(time.Hour), false},
		"overdue by nothing a moment later":           {almanac.Overdue{}, pending, due.Add(1), true},
		"not overdue at its instant":                  {almanac.Overdue{}, pending, due, false},
		"overdue by more":                             {almanac.Overdue{By: time.Hour}, pending, due.Add(time.Hour + 1), true},
		"not overdue by exactly that":                 {almanac.Overdue{By: time.Hour}, pending, due.Add(time.Hour), false},
		"overdue while waiting for another attempt":   {almanac.Overdue{}, retrying, due.Add(time.Second), true},
		"not overdue once claimed":                    {almanac.Overdue{}, processing, due.Add(time.Hour), false},
		"due from then on":                            {almanac.DueBetween{From: due}, pending, due, true},
		"due earlier":                                 {almanac.DueBetween{From: due.Add(1)}, pending, due, false},
		"due until then, which is left out":           {almanac.DueBetween{Until: due}, pending, due, false},
		"due until a moment later":                    {almanac.DueBetween{Until: due.Add(1)}, pending, due, true},
		"due at any time":                             {almanac.DueBetween{}, pending, due, true},
		"in one of the zones":                         {almanac.InZone{"UTC", pending.Zone}, pending, due, true},
		"in none of the zones":                        {almanac.InZone{"UTC", "Asia/Tokyo"}, pending, due, false},
		"in no zone":                                  {almanac.InZone{}, pending, due, false},
		"due in no time":                              {almanac.DueBetween{From: due, Until: due}, pending, due, false},
		"an empty And":                                {almanac.And{}, pending, due, true},
		"an empty Or":                                 {almanac.Or{}, pending, due, false},
		"every part":                                  {almanac.And{almanac.Ready{}, almanac.OfType("BIRTHDAY")}, pending, due, true},
		"all parts but one":                           {almanac.And{almanac.Ready{}, almanac.OfType("REMINDER")}, pending, due, false},
		"one part":                                    {almanac.Or{almanac.OfType("REMINDER"), almanac.Ready{}}, pending, due, true},
		"no part":                                     {almanac.Or{almanac.OfType("REMINDER"), almanac.ForUser(other)}, pending, due, false},
		"failed for a reason":                         {almanac.ForReason("HTTP"), failed, due, true},
		"failed for the whole reason":                 {almanac.ForReason("HTTP 404"), failed, due, true},
		"failed for a longer reason":                  {almanac.ForReason("HTTP 404 "), failed, due, false},
		"failed for a reason in other letters":        {almanac.ForReason("http"), failed, due, false},
		"cancelled for a reason":                      {almanac.ForReason("moved"), cancelled, due, true},
		"cancelled for any reason":                    {almanac.ForReason(""), cancelled, due, true},
		"not failed for any reason":                   {almanac.ForReason(""), pending, due, false},
		"the contrary":                                {almanac.Not{Spec: almanac.OfType("REMINDER")}, pending, due, true},
		"parts within parts":                          {almanac.And{almanac.Or{almanac.Not{Spec: almanac.And{}}, almanac.Ready{}}}, pending, due, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := tt.spec.Matches(tt.event, tt.now); got != tt.want {
				t.Errorf("%#v matches %+v at %v: %v, want %v", tt.spec, tt.event, tt.now, got, tt.want)
			}
		})
	}
}

func TestSpecsObeyTheLawsOfLogic(t *testing.T) {
	t.Parallel()

	noon := time.Date(2026, 12, 10, 12, 0, 0, 0, time.UTC)
	near := rapid.Map(rapid.Int64Range(-3, 3), func(n int64) time.Time { return noon.Add(time.Duration(n)) })
	events := rapid.Custom(func(t *rapid.T) almanac.Event {
		return almanac.Event{
			UserID: uuid.UUID{rapid.ByteMax(1).Draw(t, "user")},
			Type:   rapid.SampledFrom([]string{"A", "B"}).Draw(t, "type"),
			Status: rapid.SampledFrom(statuses).Draw(t, "status"),
			Due:    near.Draw(t, "due"), AvailableAt: near.Draw(t, "available"),
		}
	})
	leaves := rapid.Custom(func(t *rapid.T) almanac.Spec {
		return rapid.SampledFrom([]almanac.Spec{
			almanac.OfType("A"), almanac.InStatus(almanac.Pending), almanac.ForUser{1}, almanac.Ready{}, almanac.Overdue{By: 1},
			almanac.DueBetween{From: noon}, almanac.DueBetween{Until: noon}, almanac.And{}, almanac.Or{},
		}).Draw(t, "leaf")
	})
	specs := rapid.Deferred(func() *rapid.Generator[almanac.Spec] { return nested(leaves, 3) })
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := specs.Draw(t, "a"), specs.Draw(t, "b"), specs.Draw(t, "c")
		e, now := events.Draw(t, "event"), near.Draw(t, "now")
		not := func(s almanac.Spec) almanac.Spec { return almanac.Not{Spec: s} }
		laws := map[string][2]almanac.Spec{
			"not not":             {not(not(a)), a},
			"de Morgan on And":    {not(almanac.And{a, b}), almanac.Or{not(a), not(b)}},
			"de Morgan on Or":     {not(almanac.Or{a, b}), almanac.And{not(a), not(b)}},
			"And in any order":    {almanac.And{a, b}, almanac.And{b, a}},
			"Or in any order":     {almanac.Or{a, b}, almanac.Or{b, a}},
			"And nested":          {almanac.And{a, almanac.And{b, c}}, almanac.And{a, b, c}},
			"Or nested":           {almanac.Or{a, almanac.Or{b, c}}, almanac.Or{a, b, c}},
			"And over Or":         {almanac.And{a, almanac.Or{b, c}}, almanac.Or{almanac.And{a, b}, almanac.And{a, c}}},
			"one part":            {almanac.And{a}, almanac.Or{a}},
			"with everything":     {almanac.And{a, almanac.And{}}, a},
			"with nothing":        {almanac.Or{a, almanac.Or{}}, a},
			"never both":          {almanac.And{a, not(a)}, almanac.Or{}},
			"always one of two":   {almanac.Or{a, not(a)}, almanac.And{}},
			"ready means pending": {almanac.And{almanac.Ready{}, almanac.InStatus(almanac.Pending)}, almanac.Ready{}},
		}
		for law, sides := range laws {
			if left, right := sides[0].Matches(e, now), sides[1].Matches(e, now); left != right {
				t.Fatalf("%s: %#v is %v, %#v is %v", law, sides[0], left, sides[1], right)
			}
		}
	})
}

// nested generates specs of at most so many levels.
func nested(leaves *rapid.Generator[almanac.Spec], levels int) *rapid.Generator[almanac.Spec] {
	if levels == 0 {
		return leaves
	}
	parts := nested(leaves, levels-1)
	return rapid.OneOf(
		leaves,
		rapid.Map(parts, func(s almanac.Spec) almanac.Spec { return almanac.Not{Spec: s} }),
		rapid.Map(rapid.SliceOfN(parts, 0, 3), func(s []almanac.Spec) almanac.Spec { return almanac.And(s) }),
		rapid.Map(rapid.SliceOfN(parts, 0, 3), func(s []almanac.Spec) almanac.Spec { return almanac.Or(s) }),
	)
}

func TestPageBounds(t *testing.T) {
	t.Parallel()

	const id = "123e4567-e89b-12d3-a456-426614174000"
	tests := map[string]struct {
		page  almanac.Page
		limit int
		after uuid.UUID
		want  []string // complaints
	}{
		"the first page, by default":    {almanac.Page{}, 50, uuid.Nil, nil},
		"one event":                     {almanac.Page{Limit: 1}, 1, uuid.Nil, nil},
		"as many as may be":             {almanac.Page{Limit: 1000, After: id}, 1000, uuid.MustParse(id), nil},
		"more":                          {almanac.Page{Limit: 1001}, 0, uuid.Nil, []string{"limit is not between 1 and 1000"}},
		"fewer than none":               {almanac.Page{Limit: -1}, 0, uuid.Nil, []string{"limit is not between 1 and 1000"}},
		"a cursor of another's making":  {almanac.Page{After: "42"}, 0, uuid.Nil, []string{"cursor is not a cursor of an earlier page"}},
		"nothing right, both are named": {almanac.Page{Limit: -1, After: "42"}, 0, uuid.Nil, []string{"limit is not between 1 and 1000", "cursor is not a cursor of an earlier page"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			limit, after, err := tt.page.Bounds()

			if got := complaints(t, err); limit != tt.limit || after != tt.after || !slices.Equal(got, tt.want) {
				t.Errorf("Bounds = %d, %v, %q; want %d, %v, %q", limit, after, got, tt.limit, tt.after, tt.want)
			}
		})
	}
}

func TestPageOfKnowsWhetherThereIsMore(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 12, 10, 9, 0, 0, 1000, time.UTC)
	events := []almanac.Event{{ID: uuid.New(), AvailableAt: at}, {ID: uuid.New(), AvailableAt: at}, {ID: uuid.New(), AvailableAt: at}}
	for n, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 2} {
		for _, order := range []almanac.Order{almanac.OldestFirst, almanac.NewestFirst, almanac.NextFirst} {
			found := almanac.PageOf(events[:n], 2, order)
			if len(found.Items) != want || (found.Next != "") != (n > 2) {
				t.Errorf("PageOf %d events in order %d: %d and %q, want %d", n, order, len(found.Items), found.Next, want)
			}
			if found.Next == "" {
				continue
			}
			limit, at, after, err := almanac.Page{Limit: 2, After: found.Next, Order: order}.EventBounds()
			if last := events[1]; err != nil || limit != 2 || after != last.ID || order == almanac.NextFirst && !at.Equal(last.AvailableAt) {
				t.Errorf("the next page of order %d begins after %v at %v (%v), want %v at %v", order, after, at, err, last.ID, last.AvailableAt)
			}
		}
	}
}
