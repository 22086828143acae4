package httpapi

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

func (a *api) createUser(r *http.Request) (reply, error) {
	var bad complaints
	queryOf(r, &bad)
	key := keyOf(r, &bad)
	change, ok := a.decodeProfile(r, &bad, replaceAttributes, nil)
	if !ok {
		return reply{}, bad.problem()
	}
	a.validateAttributes(change, &bad)
	profile := a.profileOf(change, &bad)
	if bad.any() || a.leavesOut(change) {
		return reply{}, a.complainOfProfile(r, profile, &bad)
	}
	if key != "" {
		var err error
		if profile, err = a.withKey(r, key, profile); err != nil {
			return reply{}, err
		}
	}
	created, err := a.planner.CreateUser(r.Context(), profile)
	if key != "" && (errors.Is(err, almanac.ErrExists) || errors.Is(err, almanac.ErrLocked)) {
		created, err = a.createdBefore(r, profile)
	}
	if err != nil {
		return reply{}, err
	}
	return reply{
		status:   http.StatusCreated,
		location: mountedAt(r) + "/user/" + created.User.ID.String(),
		etag:     etagOf(created.User),
		body:     createdOf(created),
	}, nil
}

// mountedAt returns the prefix that the host stripped from the path of the request, as
// http.StripPrefix does, or "".
func mountedAt(r *http.Request) string {
	sent, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	prefix, ok := strings.CutSuffix(sent.EscapedPath(), r.URL.EscapedPath())
	if !ok {
		return ""
	}
	return prefix
}

// profileOf returns a profile with the given fields, and complains about missing ones.
func (a *api) profileOf(c almanac.ProfileChange, bad *complaints) almanac.Profile {
	optional := func(_ string, text *string) string {
		if text == nil {
			return ""
		}
		return *text
	}
	required := func(field string, text *string) string {
		if text == nil {
			bad.add(field, "is required")
		}
		return optional(field, text)
	}
	personal, zone := required, required
	if a.optional {
		personal = optional
	}
	if a.zoneless {
		zone = optional
	}
	return almanac.Profile{
		FirstName:   personal("firstName", c.FirstName),
		LastName:    personal("lastName", c.LastName),
		DateOfBirth: personal("dateOfBirth", c.DateOfBirth),
		Calendar:    optional("calendar", c.Calendar),
		Timezone:    zone("timezone", c.Timezone),
		Attributes:  c.Attributes,
		Locale:      optional("locale", c.Locale),
		Email:       optional("email", c.Email),
		ExternalID:  optional("externalId", c.ExternalID),
	}
}

// leavesOut reports whether a change has an empty field that this API requires, or a date
// without a year. The planner may accept it, because other programs create users too.
func (a *api) leavesOut(c almanac.ProfileChange) bool {
	empty := func(text *string) bool { return text != nil && *text == "" }
	return !a.zoneless && empty(c.Timezone) || !a.optional && (empty(c.FirstName) || empty(c.LastName) || empty(c.DateOfBirth) ||
		c.DateOfBirth != nil && strings.HasPrefix(*c.DateOfBirth, "--"))
}

// complainOfProfile adds the domain's complaints about the fields that could be read, so
// that the answer names every wrong field.
func (a *api) complainOfProfile(r *http.Request, p almanac.Profile, bad *complaints) error {
	now, err := a.reader.Now(r.Context())
	if err != nil {
		return err
	}
	_, err = almanac.NewUser(p, now, a.rules()...)
	bad.addAll(err)
	return bad.problem()
}

func (a *api) user(r *http.Request) (reply, error) {
	var bad complaints
	id, conditions := idOf(r, &bad), conditionsOf(r, &bad)
	queryOf(r, &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	u, err := a.reader.User(r.Context(), id)
	switch {
	case err != nil:
		return reply{}, err
	case !conditions.matches(u):
		return reply{}, preconditionFailed()
	case conditions.excludes(u):
		return reply{status: http.StatusNotModified, etag: etagOf(u)}, nil
	}
	return reply{status: http.StatusOK, etag: etagOf(u), body: userAnswer{userOf(u)}}, nil
}

// pathAlone returns the id of a request that takes no query parameters.
func pathAlone(r *http.Request) (uuid.UUID, error) {
	var bad complaints
	id := idOf(r, &bad)
	queryOf(r, &bad)
	if bad.any() {
		return id, bad.problem()
	}
	return id, nil
}

func (a *api) updateUser(r *http.Request) (reply, error) { return a.change(r, replaceAttributes) }

const mergePatch = "application/merge-patch+json"

// patchUser requires a Content-Type, because the same body means something else in another patch format.
func (a *api) patchUser(r *http.Request) (reply, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != mergePatch {
		p := newProblem(http.StatusUnsupportedMediaType, "a patch must be "+mergePatch)
		p.header = http.Header{"Accept-Patch": {mergePatch}}
		return reply{}, p
	}
	return a.change(r, mergeAttributes)
}

func (a *api) change(r *http.Request, take takeAttributes) (reply, error) {
	var bad complaints
	id, conditions := idOf(r, &bad), conditionsOf(r, &bad)
	queryOf(r, &bad)
	var source almanac.ZoneSource
	change, ok := a.decodeProfile(r, &bad, take, takers{"zoneSource": takeZoneSource(&source)})
	if !ok || bad.of["id"] {
		return reply{}, bad.problem()
	}
	a.validateAttributes(change, &bad)
	if bad.any() || a.leavesOut(change) {
		return reply{}, a.complainOfChange(r, id, change, &bad)
	}
	if err := a.keepGuess(r.Context(), id, source, &change); err != nil {
		return reply{}, err
	}
	return a.changed(r, id, conditions, change)
}

// keepGuess removes the zone from a change if the zone and its source are those of the user and the zone was not
// declared. Otherwise a client that sends back what it has read would declare a guess.
func (a *api) keepGuess(ctx context.Context, id uuid.UUID, source almanac.ZoneSource, c *almanac.ProfileChange) error {
	if source != almanac.ZoneGuessed && source != almanac.ZoneDefault {
		return nil
	}
	u, err := a.reader.User(ctx, id)
	if err == nil && u.ZoneSource == source && u.Timezone.String() == *c.Timezone {
		c.Timezone = nil
	}
	return err
}

// changed stores a change without faults, if its conditions hold, and returns the answer.
func (a *api) changed(r *http.Request, id uuid.UUID, c conditions, change almanac.ProfileChange) (reply, error) {
	var err error
	if change.Version, err = a.expected(r, id, c); err != nil {
		return reply{}, err
	}
	result, err := a.apply(r.Context(), id, change)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, etag: etagOf(result.User), body: updatedOf(result)}, nil
}

// apply stores a change. It does not pass on an empty change, because replanning would
// raise the versions of the user's events.
func (a *api) apply(ctx context.Context, id uuid.UUID, c almanac.ProfileChange) (almanac.UpdateUserResult, error) {
	if isEmpty(c) {
		u, err := a.reader.User(ctx, id)
		return almanac.UpdateUserResult{User: u}, err
	}
	if err := a.enter(ctx, id); err != nil {
		return almanac.UpdateUserResult{}, err
	}
	defer a.leave(id)
	return a.planner.UpdateUser(ctx, id, c)
}

func isEmpty(c almanac.ProfileChange) bool {
	texts := []*string{c.FirstName, c.LastName, c.DateOfBirth, c.Calendar, c.Timezone, c.Locale, c.Email, c.ExternalID}
	return c.Attributes == nil && c.Merge == nil && len(c.OptIn)+len(c.OptOut) == 0 && !slices.ContainsFunc(texts, func(text *string) bool { return text != nil })
}

// complainOfChange is like complainOfProfile, for a change of the given user.
func (a *api) complainOfChange(r *http.Request, id uuid.UUID, c almanac.ProfileChange, bad *complaints) error {
	u, err := a.reader.User(r.Context(), id)
	if err != nil {
		return err
	}
	now, err := a.reader.Now(r.Context())
	if err != nil {
		return err
	}
	_, err = u.Edit(c, now, a.rules()...)
	bad.addAll(err)
	return bad.problem()
}

func (a *api) deleteUser(r *http.Request) (reply, error) {
	var bad complaints
	id, conditions := idOf(r, &bad), conditionsOf(r, &bad)
	var options almanac.DeleteOptions
	if erase, ok := queryOf(r, &bad, "erase")["erase"]; ok {
		if erase != "now" {
			bad.add("erase", "is not now")
		}
		options.AtOnce = true
	}
	if bad.any() {
		return reply{}, bad.problem()
	}
	var err error
	if options.Version, err = a.expected(r, id, conditions); err != nil {
		return reply{}, err
	}
	if err := a.enter(r.Context(), id); err != nil {
		return reply{}, err
	}
	defer a.leave(id)
	if _, err := a.planner.DeleteUser(r.Context(), id, options); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}

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
	return a.changed(r, id, conditions, change)
}

// decodeOptOut reads an opt-out. It reports false if the body cannot be read at all. An empty
// text is refused: a client that lost the type must not opt its user out of everything.
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
		"reason":  takeNonEmpty("is empty; leave it out to give none", func(text string) { o.Reason = text }),
		"until": takeNonEmpty("is empty; leave it out to opt out for ever", func(text string) {
			var err error
			if o.Until, err = calendar.ParseDate(text); err != nil {
				bad.add("until", "is not a date of the form 2027-03-01")
			}
		}),
	}.object(body, "", bad)
	return o, true
}
