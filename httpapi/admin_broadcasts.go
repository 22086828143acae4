package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
)

// WithBroadcasts serves the broadcasts of a sender in the admin API. It has no effect in the API of [New].
// By default the routes of broadcasts are answered 404.
func WithBroadcasts(sender *broadcast.Sender) Option {
	return func(a *api) { a.sender = sender }
}

// broadcasting is protected for endpoints of broadcasts, which concern all users.
func (a *admin) broadcasting(do endpoint) endpoint {
	return a.ofAllUsers(func(r *http.Request) (reply, error) {
		if a.sender == nil {
			return reply{}, newProblem(http.StatusNotFound, "this program has no broadcasts")
		}
		re, err := do(r)
		return re, notBroadcast(err)
	})
}

// notBroadcast returns the problem for an error of a sender, and other errors unchanged.
func notBroadcast(err error) error {
	conflict, missing := (*broadcast.ConflictError)(nil), (*almanac.NotFoundError)(nil)
	invalid := (*almanac.ValidationError)(nil)
	switch {
	case errors.As(err, &conflict):
		p := newProblem(http.StatusConflict, "a broadcast of this name exists with another content")
		for _, field := range conflict.Fields {
			p.Errors = append(p.Errors, fieldProblem{broadcastField(field), "differs from that of the broadcast"})
		}
		return p
	case errors.As(err, &invalid):
		var bad complaints
		for _, f := range invalid.Fields {
			bad.add(broadcastField(fieldOf(f)), "%s", complaintOf(f))
		}
		return bad.problem()
	case errors.Is(err, almanac.ErrNotFound) && !errors.As(err, &missing):
		return newProblem(http.StatusNotFound, "there is no broadcast of this name")
	case errors.Is(err, almanac.ErrInvalidStateTransition):
		return newProblem(http.StatusConflict, "the state of the broadcast does not allow this")
	case errors.Is(err, almanac.ErrLocked):
		detail := "another transaction holds the broadcast; nothing has changed"
		if errors.Is(err, broadcast.ErrStillClaimed) {
			detail = "the broadcast is stopped, but claims of its events did not end within seconds; stop it again to be sure"
		}
		p := newProblem(http.StatusConflict, detail)
		p.Type, p.Title, p.header = lockedUser, "Locked", http.Header{"Retry-After": {"1"}}
		return p
	}
	return err
}

// broadcastField returns the name of a field of a broadcast in the API.
func broadcastField(name string) string {
	switch name {
	case "attributes", "locale", "zones", "listed":
		return "audience." + name
	}
	return name
}

// startBroadcast stores a broadcast, or says in a dry run whom it would reach and when.
func (a *admin) startBroadcast(r *http.Request) (reply, error) {
	var bad complaints
	queryOf(r, &bad)
	b, dryRun := newBroadcastOf(r, &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	if dryRun {
		p, err := a.sender.Preview(r.Context(), b)
		if err != nil {
			return reply{}, unknownType(err)
		}
		return reply{status: http.StatusOK, body: startAnswer{DryRun: true, Preview: previewOf(p)}}, nil
	}
	done, err := a.sender.Start(r.Context(), b)
	if err != nil {
		return reply{}, unknownType(err)
	}
	is := broadcastOf(done.Status)
	re := reply{status: http.StatusCreated, location: "broadcasts/" + url.PathEscape(b.Name), body: startAnswer{Broadcast: &is, Existed: done.Existed}}
	if done.Existed {
		re.status, re.location = http.StatusOK, ""
	}
	return re, nil
}

// unknownType returns the problem for a type that this program cannot plan.
func unknownType(err error) error {
	if !errors.Is(err, almanac.ErrUnsupportedEventType) {
		return err
	}
	var bad complaints
	bad.add("type", "has no handler in this program")
	return bad.problem()
}

// newBroadcastOf reads a broadcast. A request must say whether it is a dry run: an empty body must not send anything.
func newBroadcastOf(r *http.Request, bad *complaints) (b broadcast.Broadcast, dryRun bool) {
	var passed string
	given := takers{
		"name":      takeText(&b.Name),
		"type":      takeText(&b.Type),
		"at":        takeWallTime(&b.At),
		"instant":   takeInstant(&b.Instant),
		"passed":    takeText(&passed),
		"payload":   func(m member, _ *complaints) { b.Payload = m.value },
		"newcomers": takeBool(&b.Newcomers),
		"dryRun":    takeBool(&dryRun),
		"audience": func(m member, bad *complaints) {
			if !isObject(m.value) {
				bad.add(m.name, "must be an object")
				return
			}
			takers{
				"attributes": func(m member, _ *complaints) { b.Audience.Attributes = m.value },
				"locale":     takeNonEmpty("is empty; leave it out to mean all", func(text string) { b.Audience.Locale = text }),
				"zones":      takeTexts(&b.Audience.Zones),
				"listed":     takeBool(&b.Audience.Listed),
			}.object(m.value, "audience.", bad)
		},
	}.body(r, bad)
	if bad.of["body"] {
		return b, false
	}
	for _, required := range []string{"name", "type", "passed", "dryRun"} {
		if !given[required] {
			bad.add(required, "is required")
		}
	}
	b.Passed = broadcast.Passed(passed)
	if !bad.of["at"] && !bad.of["instant"] { // otherwise the check would miss it
		if p, ok := errors.AsType[*problem](notBroadcast(b.Check())); ok {
			for _, f := range p.Errors {
				bad.add(f.Field, "%s", f.Detail)
			}
		}
	}
	return b, dryRun
}

// takeTexts takes a list of texts.
func takeTexts(into *[]string) taker {
	return func(m member, bad *complaints) {
		if json.Unmarshal(m.value, into) != nil || *into == nil {
			bad.add(m.name, "must be a list of strings")
		}
	}
}

type broadcastList struct {
	Broadcasts []broadcastStatus `json:"broadcasts"`
	NextCursor *string           `json:"nextCursor"`
}

// broadcasts lists the broadcasts, newest first.
func (a *admin) broadcasts(r *http.Request) (reply, error) {
	var bad complaints
	query := queryOf(r, &bad, "limit", "cursor")
	limit := numberOf(query, "limit", &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	if limit == 0 {
		limit = 100
	}
	found, err := a.sender.List(r.Context(), query["cursor"], limit)
	if err != nil {
		return reply{}, err
	}
	answer := broadcastList{Broadcasts: make([]broadcastStatus, 0, len(found))}
	for _, one := range found {
		answer.Broadcasts = append(answer.Broadcasts, broadcastOf(one))
	}
	if len(found) == limit {
		answer.NextCursor = &found[limit-1].Name
	}
	return reply{status: http.StatusOK, body: answer}, nil
}

// broadcast returns one broadcast, and how far it is.
func (a *admin) broadcast(r *http.Request) (reply, error) {
	name, err := broadcastName(r)
	if err != nil {
		return reply{}, err
	}
	p, err := a.sender.Progress(r.Context(), name)
	if err != nil {
		return reply{}, err
	}
	answer := broadcastDetail{broadcastOf(p.Status), broadcastProgress{At: instant(p.At), Due: p.Due(), Withdrawn: p.Withdrawn(), Total: progressCountsOf(p.Total()), Zones: []progressZone{}}}
	for _, z := range p.Zones {
		answer.Progress.Zones = append(answer.Progress.Zones, progressZone{dueZoneOf(z.Zone), progressCountsOf(z)})
	}
	return reply{status: http.StatusOK, body: answer}, nil
}

// broadcastName returns the name in the path of a request that takes no query.
func broadcastName(r *http.Request) (string, error) {
	var bad complaints
	if queryOf(r, &bad); bad.any() {
		return "", bad.problem()
	}
	return r.PathValue("name"), nil
}

// stepBroadcast returns an endpoint that does an action.
func (a *admin) stepBroadcast(do broadcast.Action) endpoint {
	return a.broadcasting(func(r *http.Request) (reply, error) {
		var bad complaints
		queryOf(r, &bad)
		var reason string
		known := takers{}
		if do == broadcast.Stop {
			known["reason"] = takeText(&reason)
		}
		known.body(r, &bad)
		if bad.any() {
			return reply{}, bad.problem()
		}
		var is broadcast.Status
		var err error
		switch name := r.PathValue("name"); do {
		case broadcast.Stop:
			is, err = a.sender.Stop(r.Context(), name, reason)
		case broadcast.Resume:
			is, err = a.sender.Resume(r.Context(), name)
		default:
			is, err = a.sender.Complete(r.Context(), name)
		}
		if err != nil {
			return reply{}, err
		}
		return reply{status: http.StatusOK, body: broadcastAnswer{broadcastOf(is)}}, nil
	})
}

type addedUsers struct {
	Added              int         `json:"added"`
	Unknown            []uuid.UUID `json:"unknown"`
	UnknownExternalIDs []string    `json:"unknownExternalIds"`
}

// addBroadcastUsers adds users to the list of a broadcast.
func (a *admin) addBroadcastUsers(r *http.Request) (reply, error) {
	var bad complaints
	queryOf(r, &bad)
	var texts, externalIDs []string
	takers{"ids": takeTexts(&texts), "externalIds": takeTexts(&externalIDs)}.body(r, &bad)
	ids := make([]uuid.UUID, 0, len(texts))
	for i, text := range texts {
		id, ok := parseID(text)
		if !ok {
			bad.add(fmt.Sprintf("ids[%d]", i), "is not a UUID")
		}
		ids = append(ids, id)
	}
	if bad.any() {
		return reply{}, bad.problem()
	}
	done, err := a.sender.AddUsers(r.Context(), r.PathValue("name"), ids, externalIDs)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: addedUsers{done.Added, append([]uuid.UUID{}, done.Unknown...), append([]string{}, done.UnknownExternalIDs...)}}, nil
}

// deleteBroadcast deletes a broadcast that has ended.
func (a *admin) deleteBroadcast(r *http.Request) (reply, error) {
	name, err := broadcastName(r)
	if err == nil {
		err = a.sender.Delete(r.Context(), name)
	}
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}
