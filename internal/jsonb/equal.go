package jsonb

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
)

// Equal reports whether two texts are equal as jsonb: blanks, the order of members,
// escapes and the way a number is written make no difference. A text of which
// [Problem] complains is equal to none.
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

// number is a number as all its texts agree on it, such as "100" of 1e2.
type number string

// plain replaces the numbers within a value.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String()) // of a length that Problem bounds
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
