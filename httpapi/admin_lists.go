package httpapi

import (
	"errors"
	"net/http"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

type usersAnswer struct {
	Users      []user          `json:"users"`
	NextCursor *almanac.Cursor `json:"nextCursor"`
}

func (a *admin) findUsers(r *http.Request) (reply, error) {
	var bad complaints
	query := queryOf(r, &bad, "name", "email", "externalId", "zoneSource", "limit", "cursor")
	filter := almanac.UserFilter{
		Name: query["name"], Email: query["email"], ExternalID: query["externalId"], ZoneSource: almanac.ZoneSource(query["zoneSource"]),
	}
	page := pageOf(query, &bad)
	_, _, err := filter.Bounds(page)
	bad.addAll(err)
	if bad.any() {
		return reply{}, bad.problem()
	}
	found, err := a.users.FindUsers(r.Context(), filter, page)
	if err != nil {
		return reply{}, err
	}
	answer := usersAnswer{Users: make([]user, 0, len(found.Items))}
	for _, u := range found.Items {
		answer.Users = append(answer.Users, userOf(u))
	}
	if found.Next != "" {
		answer.NextCursor = &found.Next
	}
	return reply{status: http.StatusOK, body: answer}, nil
}

func (a *admin) allEvents(r *http.Request) (reply, error) {
	var bad complaints
	s := orderedSearchOf(r, &bad, "user")
	if bad.any() {
		return reply{}, bad.problem()
	}
	return a.list(r, s)
}

func (a *admin) eventsOfUser(r *http.Request) (reply, error) {
	var bad complaints
	id := idOf(r, &bad)
	return a.listOfUser(r, id, orderedSearchOf(r, &bad), &bad)
}

// orderedSearchOf is searchOf with an order, and with more filters.
func orderedSearchOf(r *http.Request, bad *complaints, further ...string) search {
	query := queryOf(r, bad, append(further, "status", "type", "zone", "from", "until", "reason", "order", "limit", "cursor")...)
	s := search{filterOf(query, "", bad), pageOf(query, bad)}
	switch order := query["order"]; order {
	case "", "oldest":
	case "newest":
		s.page.Order = almanac.NewestFirst
	case "next":
		s.page.Order = almanac.NextFirst
	default:
		bad.add("order", "is not one of oldest, newest, next")
	}
	_, _, _, err := s.page.EventBounds()
	bad.addAll(err)
	return s
}

type previewAnswer struct {
	Occurrences []previewed `json:"occurrences"`
	LeftOut     []previewed `json:"leftOut"` // are not delivered, because they count as used
	// Incomplete says why the list ends early, if it does.
	Incomplete *string `json:"incomplete"`
}

// previewed is an occurrence that may become an event.
type previewed struct {
	Series        string `json:"series,omitempty"`
	OccurrenceKey string `json:"occurrenceKey"`
	target
	Available instant `json:"available"` // when the event can first be claimed
	Reason    string  `json:"reason"`    // how the instant was found
}

// previewDefault is how many occurrences are previewed if the request does not say.
const previewDefault = 10

func (a *admin) preview(r *http.Request) (reply, error) {
	var bad complaints
	id := idOf(r, &bad)
	query := queryOf(r, &bad, "type", "n")
	n := previewDefault
	if _, ok := query["n"]; ok {
		n = numberOf(query, "n", &bad)
	}
	if eventType, ok := query["type"]; ok {
		checkType(eventType, "type", &bad)
	} else {
		bad.add("type", "is required")
	}
	if bad.any() {
		return reply{}, bad.problem()
	}
	ahead, err := a.scheduler.Preview(r.Context(), id, query["type"], n)
	if errors.Is(err, almanac.ErrUnsupportedEventType) {
		bad.add("type", "has no handler in this program")
		return reply{}, bad.problem()
	}
	answer := previewAnswer{Occurrences: previewedOf(ahead.Ahead), LeftOut: previewedOf(ahead.LeftOut)}
	if wall, ok := errors.AsType[*calendar.WallTimeError](err); ok {
		why := refusedReading(wall)
		answer.Incomplete, err = &why, nil
	}
	if errors.Is(err, calendar.ErrUnknownSystem) {
		why := unknownCalendar
		answer.Incomplete, err = &why, nil
	}
	return reply{status: http.StatusOK, body: answer}, err
}

func previewedOf(list []almanac.Occurrence) []previewed {
	all := make([]previewed, len(list)) // [] rather than null
	for i, o := range list {
		all[i] = previewed{o.Series, o.Key, targetOf(o.Occurrence, o.Resolution.Instant, o.Zone.String()), instant(o.Available), o.Reason()}
	}
	return all
}

type pausesAnswer struct {
	Pauses []pause `json:"pauses"`
}

type pause struct {
	Lane   string   `json:"lane"`
	Since  instant  `json:"since"`
	Until  *instant `json:"until,omitempty"` // missing if the pause lasts until the type is resumed
	Author string   `json:"author,omitempty"`
	Reason string   `json:"reason,omitempty"`
}

func (a *admin) pauses(r *http.Request) (reply, error) {
	var bad complaints
	if queryOf(r, &bad); bad.any() {
		return reply{}, bad.problem()
	}
	paused, err := a.scheduler.Paused(r.Context())
	answer := pausesAnswer{Pauses: make([]pause, 0, len(paused))}
	for _, p := range paused {
		one := pause{Lane: p.Lane, Since: instant(p.Since), Author: p.Author, Reason: p.Reason}
		if until := instant(p.Until); !p.Until.IsZero() {
			one.Until = &until
		}
		answer.Pauses = append(answer.Pauses, one)
	}
	return reply{status: http.StatusOK, body: answer}, err
}

func (a *admin) pause(r *http.Request) (reply, error) {
	var bad complaints
	p := almanac.Pause{Lane: laneIn(r, &bad)}
	takers{"reason": takeText(&p.Reason), "until": takeInstant(&p.Until)}.body(r, &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	return reply{status: http.StatusNoContent}, a.scheduler.Pause(r.Context(), p)
}

func (a *admin) resume(r *http.Request) (reply, error) {
	var bad complaints
	name := laneIn(r, &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	return reply{status: http.StatusNoContent}, a.scheduler.Resume(r.Context(), name)
}

// laneIn returns the name of the lane in the request's path, for a request without parameters.
func laneIn(r *http.Request, bad *complaints) string {
	name := r.PathValue("lane")
	if problem := ops.LaneProblem(name); problem != "" {
		bad.add("lane", "%s", problem)
	}
	queryOf(r, bad)
	return name
}
