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
	const empty = "is empty; leave it out to mean all"
	body, complaint := readBody(r)
	if complaint != "" {
		bad.add("body", "%s", complaint)
		return o, false
	}
	takers{
		"type":    takeNonEmpty(empty, func(text string) { o.Type = text }),
		"channel": takeNonEmpty(empty, func(text string) { o.Channel = almanac.Channel(text) }),
	}.object(body, "", bad)
	return o, true
}
