package jsonb_test

import (
	"strings"
	"testing"

	"github.com/almanac-go/almanac/internal/jsonb"
)

func TestProblem(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	const unfit, great = "characters that cannot be stored", "a number that is out of range"
	tests := map[string]struct{ text, want string }{
		"an ordinary object":          {`{"a": [1, -2.5e3, "é \ud83c\udf82", null]}`, ""},
		"a NUL":                       {`"\u0000"`, unfit},
		"a backslash before u0000":    {`"\\u0000"`, ""},
		"a NUL in a name":             {`{"\u0000": 1}`, unfit},
		"the first half of a pair":    {`"\ud83c"`, unfit},
		"the second half of a pair":   {`"\udf82"`, unfit},
		"halves the wrong way round":  {`"\udf82\ud83c"`, unfit},
		"no UTF-8":                    {"\"\xff\"", unfit},
		"a number too great":          {`1e999999`, great},
		"a number that vanishes":      {`1e-999999`, great},
		"zero, written at length":     {`0.0e-999999`, ""},
		"a number of too many digits": {strings.Repeat("1", 65), great},
		"a member twice":              {`{"a": 1, "a": 1}`, "a member more than once"},
		"a member twice, escaped":     {`{"a": 1, "\u0061": {}}`, "a member more than once"},
		"a member twice, further in":  {`[{"b": {"c": [], "a": {"c": 0}, "c": 0}}]`, "a member more than once"},
		"one name here and there":     {`{"a": {"a": [{"a": "a"}, {"a": "a"}]}, "b": "a"}`, ""},
		"one text twice in a list":    {`["a", "a", {"a": ["a", "a"]}]`, ""},
		"the greatest depth":          {nested(32), ""},
		"too deep":                    {nested(33), "more than 32 levels of nesting"},
	}
	for name, tt := range tests {
		if got := jsonb.Problem([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: Problem(%s) = %q, want %q", name, tt.text, got, tt.want)
		}
	}
}
