package jsonb_test

import (
	"testing"

	"github.com/almanac-go/almanac/internal/jsonb"
)

func TestEqual(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		a, b string
		want bool
	}{
		"the same":                       {`{"a": [1, "x", null, true]}`, `{"a": [1, "x", null, true]}`, true},
		"other blanks and order":         {`{"a":1,"b":2}`, "{ \"b\" : 2,\n\"a\":1}", true},
		"other escapes":                  {`{"é":"/"}`, `{"\u00e9":"\/"}`, true},
		"numbers written in two ways":    {`[100, 1.0, -0, 25e-2]`, `[1e2, 1, 0, 0.25]`, true},
		"numbers that are near":          {`1.00000000000000000001`, `1`, false},
		"a great number":                 {`1e308`, `1e307`, false},
		"a text like a number":           {`"1"`, `1`, false},
		"another order of a list":        {`[1, 2]`, `[2, 1]`, false},
		"another text of a member":       {`{"a": 1, "b": "x"}`, `{"a":1,"b":"xy"}`, false},
		"texts in another order":         {`{"a":"x","b":"y"}`, `{"b":"y","a":"x"}`, true},
		"a text and its escape":          {`{"a":"xé"}`, `{"a":"x\u00e9"}`, true},
		"an escape of a plain character": {`{"a":"xz"}`, `{"a":"x\u007a"}`, true},
		"texts after an escape":          {`{"\u0061":"x"}`, `{"\u0061":"y"}`, false},
		"two invalid characters":         {"{\"a\":\"\xfe\"}", "{\"a\":\"\xff\"}", false},
		"a member less":                  {`{"a": null}`, `{}`, false},
		"a member of another name":       {`{"a": 1}`, `{"A": 1}`, false},
		"nothing":                        {``, ``, false},
		"values that jsonb cannot store": {`{"a": 1, "a": 1}`, `{"a": 1}`, false},
	}
	for name, tt := range tests {
		for _, order := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			if got := jsonb.Equal([]byte(order[0]), []byte(order[1])); got != tt.want {
				t.Errorf("%s: Equal(%s, %s) = %v", name, order[0], order[1], got)
			}
		}
	}
}

func TestCanonicalIsTheSameForEqualDocuments(t *testing.T) {
	t.Parallel()
	texts := []string{
		`{"a": [1, "x", null, true]}`, "{\"a\":[1.0,\"x\",null,true]}", `{"a":1,"b":2}`, "{ \"b\" : 2e0,\n\"a\":10e-1}", `{"é":"/"}`, `{"\u00e9":"\/"}`,
		`[100, -0]`, `[1e2, 0]`, `1`, `"1"`, `[["\u0001","1"]]`, `[["","1"]]`, `1e308`, `{}`, ` { } `, `[]`, `{"a":{}}`,
	}
	for _, a := range texts {
		for _, b := range texts {
			if got, want := string(jsonb.Canonical([]byte(a))) == string(jsonb.Canonical([]byte(b))), jsonb.Equal([]byte(a), []byte(b)); got != want {
				t.Errorf("Canonical(%s) and Canonical(%s): the same is %v, want %v", a, b, got, want)
			}
		}
	}
	if got := jsonb.Canonical([]byte(`{"a":1,"a":1}`)); got != nil {
		t.Errorf("Canonical of what cannot be kept: %s", got)
	}
}

func TestRespelled(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		compact, stored string
		want            bool
	}{
		"as PostgreSQL writes it":         {`{"a":[1,"x, y: z",null],"b\\":"\",:"}`, `{"a": [1, "x, y: z", null], "b\\": "\",:"}`, true},
		"a scalar":                        {`12`, `12`, true},
		"a space within a number":         {`1 2`, `12`, false},
		"a space that is missing":         {`{"a":1}`, `{"a":1}`, false},
		"two spaces":                      {`{"a":1}`, `{"a":  1}`, false},
		"a space within a text":           {`{"a":"x,y"}`, `{"a": "x, y"}`, false},
		"another value":                   {`{"a":1}`, `{"a": 2}`, false},
		"a text that goes on":             {`{"a":1}`, `{"a": 1} `, false},
		"a text that ends":                {`{"a":1}`, `{"a": 1`, false},
		"an escape at the end":            {`"\`, `"\`, false},
		"a comma at the end of the other": {`[1,`, `[1,`, false},
		"no stored text":                  {`{}`, ``, false},
	}
	for name, tt := range tests {
		if got := jsonb.Respelled([]byte(tt.compact), []byte(tt.stored)); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
