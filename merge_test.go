package almanac_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestEditMergesAttributes(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("‹", 20_000) // 60,000 bytes, which an escape would double
	tests := map[string]struct{ attributes, merge, want string }{
		"a member more":       {`{"a": 1}`, `{"b": 2}`, `{"a":1,"b":2}`},
		"a member replaced":   {`{"a": 1, "b": [1, 2]}`, `{"b": [3]}`, `{"a":1,"b":[3]}`},
		"a member removed":    {`{"a": 1, "b": 2}`, `{"b": null}`, `{"a":1}`},
		"a member within":     {`{"a": {"b": 1, "c": 2}}`, `{"a": {"c": 3}}`, `{"a":{"b":1,"c":3}}`},
		"what browsers avoid": {`{"a": "<&>"}`, `{"b": "<"}`, `{"a":"<&>","b":"<"}`},
		"beside a long text":  {`{"a": "` + long + `"}`, `{"b": 1}`, `{"a":"` + long + `","b":1}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := almanactest.User(almanactest.WithAttributes(tt.attributes))

			got, err := u.Edit(almanac.ProfileChange{Merge: json.RawMessage(tt.merge)}, time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC))

			if err != nil || string(got.Attributes) != tt.want {
				t.Errorf("attributes %.80s, %v; want %.80s", got.Attributes, err, tt.want)
			}
		})
	}
}

// A patch is judged before any work is done on it, as attributes themselves are.
func TestEditRefusesToMerge(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ merge, problem string }{
		"no object":              {`[1]`, "merge are not a JSON object"},
		"no JSON":                {`{"a":`, "merge are not a JSON object"},
		"half a character":       {`{"\ud83c": 1}`, "merge contain characters that cannot be stored"},
		"a byte that is no text": {"{\"\xff\": 1}", "merge contain characters that cannot be stored"},
		"deeper than is kept":    {strings.Repeat(`{"a":`, 9_999) + "1" + strings.Repeat("}", 9_999), "merge contain"},
		"a member twice":         {`{"a": 1, "a": null}`, "merge contain a member more than once"},
		"longer than is kept":    {`{"a": "` + strings.Repeat("x", 64<<10) + `"}`, "merge are longer than 65536 bytes"},
		"too long in the end":    {`{"a": "` + strings.Repeat("x", 63<<10) + `"}`, "attributes are longer than 65536 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := almanactest.User(almanactest.WithAttributes(`{"kept": "` + strings.Repeat("y", 2<<10) + `"}`))

			_, err := u.Edit(almanac.ProfileChange{Merge: json.RawMessage(tt.merge)}, time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC))

			if !errors.Is(err, almanac.ErrInvalid) || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %.120v, want one that says %q", err, tt.problem)
			}
		})
	}
}
