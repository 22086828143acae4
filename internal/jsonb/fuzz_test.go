package jsonb_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/almanac-go/almanac/internal/jsonb"
)

// Decoding keeps each member of an object once. If a member was repeated, fewer tokens are
// left.
func FuzzProblem(f *testing.F) {
	for _, text := range []string{
		`{"a": [1, -2.5e3, "é \ud83c\udf82\n\"\\", null, true], "b": {"a": {}}}`, `{"a": 1, "\u0061": 2}`,
		`[{"b": {"c": [], "a": {"c": 0}, "c": 0}}]`, ` { } `, `"\\"`, `-0`, `""`, `[]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		problem := jsonb.Problem(text)
		if problem != "" && problem != "a member more than once" {
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var value any
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		left, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if lost := tokens(text) - tokens(left); (lost > 0) != (problem != "") {
			t.Errorf("Problem(%s) = %q, and %d tokens were lost", text, problem, lost)
		}
	})
}

// tokens counts what a text is made of.
func tokens(text []byte) (n int) {
	for d := json.NewDecoder(bytes.NewReader(text)); ; n++ {
		if _, err := d.Token(); err != nil {
			return n
		}
	}
}
