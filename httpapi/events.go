package httpapi

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

func (a *api) events(r *http.Request) (reply, error) {
	var bad complaints
	s := searchOf(r, &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	return a.list(r, s)
}

func (a *api) userEvents(r *http.Request) (reply, error) {
	var bad complaints
	id := idOf(r, &bad)
	return a.listOfUser(r, id, searchOf(r, &bad), &bad)
}

// listOfUser looks the user up first, because an unknown user gets 404 and a user without
// events an empty list.
func (a *api) listOfUser(r *http.Request, id uuid.UUID, s search, bad *complaints) (reply, error) {
	if bad.any() {
		return reply{}, bad.problem()
	}
	if _, err := a.reader.User(r.Context(), id); err != nil {
		return reply{}, err
	}
	s.spec = append(s.spec, almanac.ForUser(id))
	return a.list(r, s)
}

func (a *api) list(r *http.Request, s search) (reply, error) {
	found, err := a.reader.Find(r.Context(), s.spec, s.page)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: listOf(found)}, nil
}

func (a *api) event(r *http.Request) (reply, error) {
	e, err := a.eventOf(r)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: eventAnswer{eventOf(e)}}, nil
}

// eventOf returns the event in the request's path, if the request may access its user.
func (a *api) eventOf(r *http.Request) (almanac.Event, error) {
	id, err := pathAlone(r)
	if err != nil {
		return almanac.Event{}, err
	}
	e, err := a.reader.Event(r.Context(), id)
	if err != nil {
		return almanac.Event{}, err
	}
	return e, a.authorize(r, e.UserID, &almanac.NotFoundError{Kind: "event", ID: id})
}
