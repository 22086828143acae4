package httpapi

import (
	"net/http"

	"github.com/almanac-go/almanac"
)

func (a *api) optOut(r *http.Request) (reply, error) {
	return a.changeOptOuts(r, func(c *almanac.ProfileChange, what almanac.OptOut) { c.OptOut = []almanac.OptOut{what} })
}

func (a *api) optIn(r *http.Request) (reply, error) {
	return a.changeOptOuts(r, func(c *almanac.ProfileChange, what almanac.OptOut) { c.OptIn = []almanac.OptOut{what} })
}

// changeOptOuts changes one opt-out of a user.
func (a *api) changeOptOuts(r *http.Request, set func(*almanac.ProfileChange, almanac.OptOut)) (reply, error) {
	var bad complaints
	id, conditions := idOf(r, &bad), conditionsOf(r, &bad)
	queryOf(r, &bad)
	what, ok := decodeOptOut(r, &bad)
	if !ok || bad.of["id"] {
		return reply{}, bad.problem()
	}
	var change almanac.ProfileChange
	set(&change, what)
	if bad.any() {
		return reply{}, a.complainOfChange(r, id, change, &bad)
	}
	var err error
	if change.Version, err = a.expected(r, id, conditions); err != nil {
		return reply{}, err
	}
	result, err := a.apply(r.Context(), id, change)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, etag: etagOf(result.User), body: updatedOf(result)}, nil
}

// decodeOptOut reads an opt-out. It reports false if the body cannot be read at all. An
// empty text is refused: a client that lost the type must not opt its user out of
// everything.
func decodeOptOut(r *http.Request, bad *complaints) (o almanac.OptOut, ok bool) {
	body, complaint := readBody(r)
	if complaint != "" {
		bad.add("body", "%s", complaint)
		return o, false
	}
	seen := make(map[string]bool)
	for _, m := range membersOf(body) {
		var text *string
		switch {
		case seen[m.name]:
			bad.add(clip(m.name), "is given more than once")
		case m.name == "type":
			if text = textOf(m, bad); text != nil {
				o.Type = *text
			}
		case m.name == "channel":
			if text = textOf(m, bad); text != nil {
				o.Channel = almanac.Channel(*text)
			}
		default:
			bad.add(clip(m.name), "is not a known field")
		}
		if text != nil && *text == "" {
			bad.add(m.name, "is empty; leave it out to mean all")
		}
		seen[m.name] = true
	}
	return o, true
}
