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
		"zero, written at length":     {`-0.00e-396`, ""},
		"zero with too many places":   {`0.0e-999999`, great}, // PostgreSQL has no so long fraction
		"zero with a great exponent":  {`0e99999999999999999999`, great},
		"a number of many digits":     {strings.Repeat("1", 309), ""},
		"a number of too many digits": {"0." + strings.Repeat("1", 399), great},
		"a number that gets too long": {"0." + strings.Repeat("1", 100) + "e-300", great},
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

func TestCheckReturnsTheLengthThatPostgreSQLWrites(t *testing.T) {
	t.Parallel()
	for text, written := range map[string]string{
		`{"a":[1,2],"b":{}}`:   `{"a": [1, 2], "b": {}}`,
		" [ ]\r\n\t":           `[]`,
		`[true,false,null]`:    `[true, false, null]`,
		`"\u0041\/é\u00e9"`:    `"A/éé"`,
		`"\ud83c\udf82"`:       `"🎂"`,
		`"\u0008\t\n\f\r\""`:   `"\b\t\n\f\r\""`,
		`"\u000b\u001f\u007f"`: "\"\\u000b\\u001f\u007f\"",
		`"\\u0000"`:            `"\\u0000"`,
		`-0`:                   `0`,
		`-0.0`:                 `0.0`,
		`0E2`:                  `0`,
		`0e-3`:                 `0.000`,
		`0.00e1`:               `0.0`,
		`1.0`:                  `1.0`,
		`1.50e1`:               `15.0`,
		`-12.5E+1`:             `-125`,
		`0.001e3`:              `1`,
		`1e-5`:                 `0.00001`,
		`-1.0e-2`:              `-0.010`,
		`100e-1`:               `10.0`,
		`1e20`:                 `100000000000000000000`,
	} {
		if length, problem := jsonb.Check([]byte(text)); length != len(written) || problem != "" {
			t.Errorf("%s: %d bytes, %q; PostgreSQL writes %s, %d bytes", text, length, problem, written, len(written))
		}
	}
	if length, _ := jsonb.Check([]byte("[1e308,-1e308]")); length != 309+310+4 {
		t.Errorf("%d bytes", length)
	}
}

// Each planned event is checked, so a usual payload is checked on the stack.
func TestCheckOfAUsualPayloadAllocatesNothing(t *testing.T) {
	text := []byte(`{"message": "Hey, Ada Lovelace it's your birthday"}`)
	if n := testing.AllocsPerRun(100, func() { jsonb.Check(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
