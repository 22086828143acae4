package almanac_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

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

	events := []almanac.Event{{ID: uuid.New()}, {ID: uuid.New()}, {ID: uuid.New()}}
	for n, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 2} {
		found := almanac.PageOf(events[:n], 2)
		var next almanac.Cursor
		if n > 2 {
			next = almanac.Cursor(events[1].ID.String())
		}
		if len(found.Events) != want || found.Next != next {
			t.Errorf("PageOf %d events: %d and %q, want %d and %q", n, len(found.Events), found.Next, want, next)
		}
	}
}
