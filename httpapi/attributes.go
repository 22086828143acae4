package httpapi

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/almanac-go/almanac"
)

// WithAttribute sets what an attribute must look like. The function problem is called
// with the JSON value whenever a request sets the attribute. It returns a clause that says
// what is wrong, such as "is not a time of day", or "" for nothing. With a clause the
// answer is 400 and names the field "attributes." and the name. A null, by which a merge patch removes an
// attribute, is not judged. The function must be safe for concurrent use. By default
// any value will do.
func WithAttribute(name string, problem func(value json.RawMessage) string) Option {
	return func(a *api) {
		if a.attributes == nil {
			a.attributes = make(map[string]func(json.RawMessage) string)
		}
		a.attributes[name] = problem
	}
}

// judgeAttributes adds what is wrong with the attributes that a request sets.
func (a *api) judgeAttributes(c almanac.ProfileChange, bad *complaints) {
	for _, object := range []json.RawMessage{c.Attributes, c.Merge} {
		var given map[string]json.RawMessage
		if json.Unmarshal(object, &given) != nil {
			continue // none are given, or they are no object, of which others complain
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
