package httpapi

import (
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

func (a *api) createUser(r *http.Request) (reply, error) {
	var bad complaints
	queryOf(r, &bad)
	change, ok := decodeProfile(r, &bad)
	if !ok {
		return reply{}, bad.problem()
	}
	profile := profileOf(change, &bad)
	if bad.any() {
		return reply{}, a.complainOfProfile(r, profile, &bad)
	}
	enrolment, err := a.planner.CreateUser(r.Context(), profile)
	if err != nil {
		return reply{}, err
	}
	return reply{
		status:   http.StatusCreated,
		location: "/user/" + enrolment.User.ID.String(),
		body:     createdOf(enrolment),
	}, nil
}

// profileOf makes a profile of the fields given, and complains of those missing.
func profileOf(c almanac.ProfileChange, bad *complaints) almanac.Profile {
	required := func(field string, text *string) string {
		if text == nil {
			bad.add(field, "is required")
			return ""
		}
		return *text
	}
	return almanac.Profile{
		FirstName:   required("firstName", c.FirstName),
		LastName:    required("lastName", c.LastName),
		DateOfBirth: required("dateOfBirth", c.DateOfBirth),
		Timezone:    required("timezone", c.Timezone),
		Attributes:  c.Attributes,
	}
}

// complainOfProfile adds what the domain has to say about the fields that could
// be read, so that the client hears everything at once.
func (a *api) complainOfProfile(r *http.Request, p almanac.Profile, bad *complaints) error {
	now, err := a.reader.Now(r.Context())
	if err != nil {
		return err
	}
	_, err = almanac.NewUser(p, now)
	bad.addAll(err)
	return bad.problem()
}

func (a *api) user(r *http.Request) (reply, error) {
	u, err := a.find(r)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: userAnswer{userOf(u)}}, nil
}

// find returns the user of the request's path.
func (a *api) find(r *http.Request) (almanac.User, error) {
	id, err := pathAlone(r)
	if err != nil {
		return almanac.User{}, err
	}
	return a.reader.User(r.Context(), id)
}

// pathAlone returns the id of a request that has nothing more to say.
func pathAlone(r *http.Request) (uuid.UUID, error) {
	var bad complaints
	id := idOf(r, &bad)
	queryOf(r, &bad)
	if bad.any() {
		return id, bad.problem()
	}
	return id, nil
}

func (a *api) updateUser(r *http.Request) (reply, error) {
	var bad complaints
	id := idOf(r, &bad)
	queryOf(r, &bad)
	change, ok := decodeProfile(r, &bad)
	if !ok || bad.of["id"] {
		return reply{}, bad.problem()
	}
	if bad.any() {
		return reply{}, a.complainOfChange(r, id, change, &bad)
	}
	if isEmpty(change) { // replanning would raise versions, and nothing was asked for
		u, err := a.reader.User(r.Context(), id)
		return reply{status: http.StatusOK, body: updatedOf(almanac.Rescheduled{User: u})}, err
	}
	result, err := a.planner.UpdateUser(r.Context(), id, change)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: updatedOf(result)}, nil
}

func isEmpty(c almanac.ProfileChange) bool {
	texts := []*string{c.FirstName, c.LastName, c.DateOfBirth, c.Timezone}
	return c.Attributes == nil && !slices.ContainsFunc(texts, func(text *string) bool { return text != nil })
}

// complainOfChange is complainOfProfile for a change of the given user.
func (a *api) complainOfChange(r *http.Request, id uuid.UUID, c almanac.ProfileChange, bad *complaints) error {
	u, err := a.reader.User(r.Context(), id)
	if err != nil {
		return err
	}
	now, err := a.reader.Now(r.Context())
	if err != nil {
		return err
	}
	_, err = u.Edit(c, now)
	bad.addAll(err)
	return bad.problem()
}

func (a *api) deleteUser(r *http.Request) (reply, error) {
	id, err := pathAlone(r)
	if err != nil {
		return reply{}, err
	}
	if _, err := a.planner.DeleteUser(r.Context(), id); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}
