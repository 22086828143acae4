package jsonb_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/almanac-go/almanac/internal/jsonb"
)

func TestMergeFollowsRFC7396(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ target, patch, want string }{
		// The cases of appendix A of the RFC, in its order.
		"a member is replaced":                             {`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		"a member is added":                                {`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		"null removes the only member":                     {`{"a":"b"}`, `{"a":null}`, `{}`},
		"null removes one of two":                          {`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		"a text replaces a list":                           {`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		"a list replaces a text":                           {`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		"objects are merged into objects":                  {`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		"lists are never merged":                           {`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		"a list for a list":                                {`["a","b"]`, `["c","d"]`, `["c","d"]`},
		"a list for an object":                             {`{"a":"b"}`, `["c"]`, `["c"]`},
		"null for an object":                               {`{"a":"foo"}`, `null`, `null`},
		"a text for an object":                             {`{"a":"foo"}`, `"bar"`, `"bar"`},
		"a null that was there stays":                      {`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		"anything but an object counts as an empty object": {`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		"nested nulls go with nothing to go from":          {`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		"an empty patch changes nothing":                   {`{"a":"b"}`, `{}`, `{"a":"b"}`},
		"an empty object replaces no object":               {`{"a":{"b":"c"}}`, `{"a":{}}`, `{"a":{"b":"c"}}`},
		"an object replaces a text":                        {`{"a":"b"}`, `{"a":{"c":null,"d":1}}`, `{"a":{"d":1}}`},
		"an object replaces a null":                        {`{"a":null}`, `{"a":{"c":null}}`, `{"a":{}}`},
		"nulls in a list are values":                       {`{}`, `{"a":[null,{"b":null}]}`, `{"a":[null,{"b":null}]}`},
		"the text null is no null":                         {`{"a":1}`, `{"a":"null"}`, `{"a":"null"}`},
		"no target counts for an empty object":             {``, `{"a":1}`, `{"a":1}`},
		"blanks around a null do not protect it":           {`{"a":1}`, "{\"a\" :\n\tnull }", `{}`},
		"names are case-sensitive":                         {`{"a":1}`, `{"A":2}`, `{"a":1,"A":2}`},
		"a name that needs an escape is one name":          {`{"é\n":1,"b":2}`, `{"\u00e9\u000a":null}`, `{"b":2}`},
		"a removal deep inside leaves its brother":         {`{"a":{"b":{"c":1,"d":2}}}`, `{"a":{"b":{"c":null}}}`, `{"a":{"b":{"d":2}}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := jsonb.Merge(json.RawMessage(tt.target), json.RawMessage(tt.patch))

			if !sameValue(t, string(got), tt.want) {
				t.Errorf("Merge(%s, %s) = %s, want %s", tt.target, tt.patch, got, tt.want)
			}
		})
	}
}

// sameValue compares JSON values, with numbers as they are written.
func sameValue(t *testing.T, one, other string) bool {
	t.Helper()
	var values [2]any
	for i, text := range []string{one, other} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&values[i]); err != nil {
			t.Errorf("%s is no JSON: %v", text, err)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// A float64 would round some of these numbers and rewrite the others.
func TestMergeKeepsTheTextOfNumbers(t *testing.T) {
	t.Parallel()

	for _, number := range []string{"1.0", "12345678901234567890", "0.10", "1e2", "-0", "3.141592653589793238462643383279"} {
		target, patch := `{"kept":`+number+`,"deep":{"kept":`+number+`}}`, `{"new":`+number+`,"deep":{"new":[`+number+`]}}`

		got := string(jsonb.Merge(json.RawMessage(target), json.RawMessage(patch)))

		want := `{"kept":` + number + `,"new":` + number + `,"deep":{"kept":` + number + `,"new":[` + number + `]}}`
		if !sameValue(t, got, want) {
			t.Errorf("Merge(%s, %s) = %s, want %s", target, patch, got, want)
		}
	}
}

// The caller can then report what is wrong with it.
func TestMergeReturnsAnInvalidPatchUnchanged(t *testing.T) {
	t.Parallel()

	for _, patch := range []string{``, ` `, `{`, `{"a":1`, `{"a":1} x`, `{'a':1}`, `{"a":nul}`, `[`, `[1, 2]`, `"text"`, ` null `, `7.0`, `true`} {
		if got := jsonb.Merge(json.RawMessage(`{"a":"b"}`), json.RawMessage(patch)); string(got) != patch {
			t.Errorf("Merge of %q = %q, want it as it is", patch, got)
		}
	}
}

func TestMergeLeavesItsArgumentsAlone(t *testing.T) {
	t.Parallel()

	target, patch := json.RawMessage(`{"a": {"b": 1}, "c": 2}`), json.RawMessage(`{"a": {"b": null}, "d": [3]}`)
	was := [2]string{string(target), string(patch)}

	merged := jsonb.Merge(target, patch)
	for i := range merged {
		merged[i] = 'x'
	}

	if is := [2]string{string(target), string(patch)}; is != was {
		t.Errorf("after Merge its arguments are %s, were %s", is, was)
	}
}
