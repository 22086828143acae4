package httpapi

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/almanac-go/almanac"
)

// WithAttribute sets a rule for an attribute. The function problem is called with the JSON
// value whenever a request sets the attribute. It returns a clause that says what is wrong,
// such as "is not a time of day", or "" when the value is valid. With a clause the answer
// is 400 and names the field "attributes." and the name.
//
// A null, with which a merge patch removes an attribute, is not checked. The function must
// be safe for concurrent use. By default any value is valid.
func WithAttribute(name string, problem func(value json.RawMessage) string) Option {
	return func(a *api) {
		if a.attributes == nil {
			a.attributes = make(map[string]func(json.RawMessage) string)
		}
		a.attributes[name] = problem
	}
}

// judgeAttributes adds a complaint for each invalid attribute that a request sets.
func (a *api) judgeAttributes(c almanac.ProfileChange, bad *complaints) {
	for _, object := range []json.RawMessage{c.Attributes, c.Merge} {
		var given map[string]json.RawMessage
		if json.Unmarshal(object, &given) != nil {
			continue // no attributes, or not an object, which is reported elsewhere
		}
		for _, name := range slices.Sorted(maps.Keys(a.attributes)) {
			value, ok := given[name]
			if !ok || string(value) == "null" {
				continue
			}
			if problem := a.attributes[name](value); problem != "" {
				bad.add("attributes."+name, "%s", problem)
			}
		}
	}
}
