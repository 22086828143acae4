package jsonb

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
)

// Equal reports whether two texts are equal as jsonb. It ignores white space, the order of
// members, escapes and the notation of numbers. A text with a [Problem] is equal to no
// text.
func Equal(a, b []byte) bool {
	x, ok := valueOf(a)
	if !ok {
		return false
	}
	y, ok := valueOf(b)
	return ok && reflect.DeepEqual(x, y)
}

func valueOf(text []byte) (value any, ok bool) {
	if !json.Valid(text) || Problem(text) != "" {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err := d.Decode(&value)
	return plain(value), err == nil
}

// number is a number in one notation for all its texts, such as "100" for 1e2.
type number string

// plain replaces the numbers within a value.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String()) // Problem bounds the length
		if !ok {
			return v
		}
		return number(r.String())
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	}
	return value
}
