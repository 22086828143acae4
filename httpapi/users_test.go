package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/httpapi"
)

func TestCreateReturnsTheUserAndTheirBirthday(t *testing.T) {
	t.Parallel()
	s := open(t)

	a := s.send("POST", "/user", grace, "Content-Type: application/json; charset=utf-8")

	require.Equal(t, http.StatusCreated, a.status, a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	answer := s.object(a)
	user := answer["user"].(map[string]any)
	require.Equal(t, "/user/"+user["id"].(string), a.header.Get("Location"))
	event := answer["nextBirthdayEvent"].(map[string]any)
	require.Equal(t, map[string]any{
		"id": user["id"], "firstName": "Grace", "lastName": "Hopper", "dateOfBirth": "1906-12-09",
		"timezone": "America/New_York", "zoneSource": "declared", "version": 1.0,
		"createdAt": "2026-03-01T12:00:00.000Z", "updatedAt": "2026-03-01T12:00:00.000Z",
	}, user)
	require.Equal(t, map[string]any{
		"id": event["id"], "userId": user["id"], "eventType": "BIRTHDAY", "occurrenceKey": "2026", "status": "PENDING",
		"targetTimestampUTC": "2026-12-09T14:00:00.000Z", "targetTimestampLocal": "2026-12-09T09:00:00",
		"targetTimezone": "America/New_York", "executedAt": nil, "failureReason": nil, "retryCount": 0.0, "version": 1.0,
		"idempotencyKey":  event["idempotencyKey"],
		"deliveryPayload": map[string]any{"message": "Hey, Grace Hopper it's your birthday"},
		"createdAt":       "2026-03-01T12:00:00.000Z", "updatedAt": "2026-03-01T12:00:00.000Z",
	}, event)
	require.Regexp(t, `^event-[0-9a-f]{16}$`, event["idempotencyKey"])
}

// The host may mount the API below any path; net/http keeps the path that the client sent.
func TestLocationHasThePrefixThatTheHostStripped(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/staff/almanac/user":                      "/staff/almanac/user/",
		"/staff%20only/almanac/user":               "/staff%20only/almanac/user/",
		"http://localhost:8080/staff/almanac/user": "/staff/almanac/user/",
		"/staff/almanac/user?":                     "/staff/almanac/user/",
		"http://localhost:8080/user":               "/user/",
		"/user/staff/user":                         "/user/staff/user/",
	} {
		s := open(t)
		r := httptest.NewRequestWithContext(t.Context(), "POST", target, strings.NewReader(grace))
		r.Host = "localhost:8080"
		prefix := strings.TrimSuffix(r.URL.EscapedPath(), "/user")
		s.handler = http.StripPrefix(r.URL.Path[:len(r.URL.Path)-len("/user")], s.handler)

		a := s.do(r)

		require.Equal(t, http.StatusCreated, a.status, a.body)
		path, id := path.Split(a.header.Get("Location"))
		require.Equal(t, want, path, target)
		require.Equal(t, http.StatusOK, s.send("GET", prefix+"/user/"+id, "").status)
	}
	s := open(t)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/user", strings.NewReader(grace))
	r.RequestURI = "/rewritten" // by a host that changed the path in another way
	require.Regexp(t, "^/user/", s.do(r).header.Get("Location"))
}

func TestAttributesAreStoredAndReturned(t *testing.T) {
	t.Parallel()
	s := open(t)

	user, _ := s.create(`{"firstName":"A","lastName":"B","dateOfBirth":"1990-01-01","timezone":"UTC","attributes":{"hired":"2020-01-01"}}`)

	require.Equal(t, map[string]any{"hired": "2020-01-01"}, user["attributes"])
}

// Names and dates of birth are absent from answers where a user has none.
func TestUsersWithoutNamesOrDateOfBirth(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithOptionalProfile())
	personal := func(user any) map[string]any {
		found := make(map[string]any)
		for _, name := range []string{"firstName", "lastName", "dateOfBirth"} {
			if value, ok := user.(map[string]any)[name]; ok {
				found[name] = value
			}
		}
		return found
	}
	for body, want := range map[string]map[string]any{
		`{"timezone":"UTC"}`: {},
		`{"timezone":"UTC","firstName":null,"lastName":"","dateOfBirth":null}`: {},
		`{"timezone":"UTC","lastName":"Teller","dateOfBirth":"--0229"}`:        {"lastName": "Teller", "dateOfBirth": "--02-29"},
	} {
		a := s.send("POST", "/user", body)
		require.Equal(t, http.StatusCreated, a.status, a.body)
		answer := s.object(a)
		require.Equal(t, want, personal(answer["user"]))
		require.Equal(t, want["dateOfBirth"] != nil, answer["nextBirthdayEvent"] != nil)
		require.Equal(t, want, personal(s.object(s.send("GET", a.header.Get("Location"), ""))["user"]))
	}

	path := "/user/" + s.object(s.send("POST", "/user", grace))["user"].(map[string]any)["id"].(string)
	changed := s.object(s.patch(path, `{"firstName":null,"dateOfBirth":"--12-09"}`))
	require.Equal(t, map[string]any{"lastName": "Hopper", "dateOfBirth": "--12-09"}, personal(changed["user"]))
	changed = s.object(s.send("PUT", path, `{"lastName":"","dateOfBirth":""}`))
	require.Empty(t, personal(changed["user"]))
	require.Equal(t, map[string]string{"timezone": "is required", "dateOfBirth": "is not a day of the year in the form --MM-DD", "age": "is not a known field"},
		s.complaints(s.send("POST", "/user", `{"dateOfBirth":"--02-30","age":1}`)))
}

// The answer says where the zone comes from.
func TestUsersWithoutAZone(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithOptionalTimezone())
	body := `{"firstName":"A","lastName":"B","dateOfBirth":"1990-01-01"`
	zone := func(a answer) string {
		u := s.object(a)["user"].(map[string]any)
		return u["timezone"].(string) + " " + u["zoneSource"].(string)
	}
	for more, want := range map[string]string{
		``:                                   "Etc/UTC default",
		`,"timezone":null`:                   "Etc/UTC default",
		`,"timezone":"","locale":"de-AT"`:    "Europe/Vienna guessed",
		`,"timezone":"asia/tokyo"`:           "Asia/Tokyo declared",
		`,"timezone":"UTC","locale":"de-AT"`: "UTC declared",
	} {
		a := s.send("POST", "/user", body+more+"}")
		require.Equal(t, http.StatusCreated, a.status, a.body)
		require.Equal(t, want, zone(a), more)
		path := a.header.Get("Location")
		require.Equal(t, "Europe/Paris declared", zone(s.send("PUT", path, `{"timezone":"Europe/Paris"}`)))
		require.Equal(t, "Europe/Vienna guessed", zone(s.patch(path, `{"timezone":null,"locale":"de-AT"}`)))
		require.Equal(t, "Etc/UTC default", zone(s.send("PUT", path, `{"timezone":"","locale":null}`)))
	}
	require.Equal(t, map[string]string{"dateOfBirth": "is required", "timezone": "is not a known time zone"},
		s.complaints(s.send("POST", "/user", `{"firstName":"A","lastName":"B","timezone":"UTC+5"}`)))
}

// A client can store back the zone that it has read, and it stays a guess.
func TestAGuessThatIsGivenBackIsNotDeclared(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithOptionalTimezone())
	zone := func(a answer) string {
		require.Equal(t, http.StatusOK, a.status, a.body)
		u := s.object(a)["user"].(map[string]any)
		return u["timezone"].(string) + " " + u["zoneSource"].(string)
	}
	for locale, is := range map[string]string{"": "Etc/UTC default", "de-AT": "Europe/Vienna guessed"} {
		a := s.send("POST", "/user", `{"firstName":"A","lastName":"B","dateOfBirth":"1990-01-01","locale":"`+locale+`"}`)
		require.Equal(t, http.StatusCreated, a.status, a.body)
		path := a.header.Get("Location")
		name, source, _ := strings.Cut(is, " ")
		same := `{"timezone":"` + name + `","zoneSource":"` + source + `"}`
		require.Equal(t, is, zone(s.send("PUT", path, same)))
		require.Equal(t, is, zone(s.patch(path, same)))
		require.Equal(t, is, zone(s.send("PUT", path, strings.Replace(same, "{", `{"firstName":"Augusta",`, 1))))
		require.Equal(t, "Europe/Paris declared", zone(s.send("PUT", path, `{"timezone":"Europe/Paris","zoneSource":"`+source+`"}`)), "another zone")
		require.Equal(t, "Europe/Paris declared", zone(s.send("PUT", path, `{"timezone":"Europe/Paris","zoneSource":"`+source+`"}`)), "another source")
		require.Equal(t, is, zone(s.send("PUT", path, `{"timezone":null}`)))
		require.Equal(t, name+" declared", zone(s.send("PUT", path, `{"timezone":"`+name+`","zoneSource":"declared"}`)))
		for body, want := range map[string]map[string]string{
			`{"zoneSource":"guessed"}`:                    {"zoneSource": "needs the timezone"},
			`{"timezone":"UTC","zoneSource":"known"}`:     {"zoneSource": "is not one of declared, guessed, default"},
			`{"timezone":"UTC+5","zoneSource":"default"}`: {"timezone": "is not a known time zone"},
			`{"timezone":"UTC","zoneSource":null}`:        {"zoneSource": "must be a string"},
		} {
			require.Equal(t, want, s.complaints(s.send("PUT", path, body)), body)
		}
	}
	require.Equal(t, map[string]string{"zoneSource": "is not a known field"},
		s.complaints(s.send("POST", "/user", `{"firstName":"A","lastName":"B","dateOfBirth":"1990-01-01","timezone":"UTC","zoneSource":"guessed"}`)))
	require.Equal(t, http.StatusNotFound, s.send("PUT", "/user/018f6a2b-7c1d-7e3f-8a4b-5c6d7e8f9a0b", `{"timezone":"UTC","zoneSource":"guessed"}`).status)
}

// Without the option the API refuses what the scheduler would accept.
func TestTheAPIRequiresNamesAndADateOfBirthByDefault(t *testing.T) {
	t.Parallel()
	s := open(t)
	user, _ := s.create(grace)
	path := "/user/" + user["id"].(string)
	for field, want := range map[string]map[string]string{
		`"firstName":""`:          {"firstName": "is empty"},
		`"lastName":""`:           {"lastName": "is empty"},
		`"dateOfBirth":""`:        {"dateOfBirth": "is empty"},
		`"dateOfBirth":"--03-15"`: {"dateOfBirth": "has no year"},
		`"firstName":null`:        {"firstName": "must be a string"},
		`"timezone":""`:           {"timezone": "is empty"},
		`"timezone":null`:         {"timezone": "must be a string"},
	} {
		require.Equal(t, want, s.complaints(s.send("POST", "/user", with(field))), field)
		require.Equal(t, want, s.complaints(s.send("PUT", path, "{"+field+"}")), field)
		require.Equal(t, want, s.complaints(s.patch(path, "{"+field+"}")), field)
	}
	require.Equal(t, user, s.object(s.send("GET", path, ""))["user"], "nothing was changed")
}

func TestOptionalFieldsAreStoredChangedAndRemoved(t *testing.T) {
	t.Parallel()
	s := open(t)
	optional := func(user any) map[string]any {
		found := make(map[string]any)
		for _, name := range []string{"locale", "email", "externalId"} {
			if value, ok := user.(map[string]any)[name]; ok {
				found[name] = value
			}
		}
		return found
	}
	given := map[string]any{"locale": "pt-BR", "email": "Grace@example.com", "externalId": "42"}

	user, _ := s.create(with(`"locale":"PT_br","email":"Grace@example.com","externalId":"42"`))

	require.Equal(t, given, optional(user))
	path := "/user/" + user["id"].(string)
	for _, tt := range []struct {
		method, change string
		want           map[string]any
	}{
		{"PUT", `{"firstName":"A"}`, given},
		{"PUT", `{"locale":"","externalId":null}`, map[string]any{"email": "Grace@example.com"}},
		{"PATCH", `{"locale":"de","email":null,"externalId":"43"}`, map[string]any{"locale": "de", "externalId": "43"}},
		{"PATCH", `{"locale":null,"externalId":""}`, map[string]any{}},
		{"PUT", `{"locale":"pt-BR","email":"Grace@example.com","externalId":"42"}`, given},
	} {
		a := s.send(tt.method, path, tt.change, "Content-Type: application/merge-patch+json")
		require.Equal(t, http.StatusOK, a.status, a.body)
		require.Equal(t, tt.want, optional(s.object(a)["user"]), tt.change)
		require.Equal(t, tt.want, optional(s.object(s.send("GET", path, ""))["user"]), tt.change)
	}
}

func TestAnExternalIDOfAnotherUserIsAConflict(t *testing.T) {
	t.Parallel()
	s := open(t)
	first, _ := s.create(with(`"externalId":"42"`))
	second, _ := s.create(grace)
	for _, a := range []answer{
		s.send("POST", "/user", with(`"externalId":"42"`)),
		s.send("POST", "/user", with(`"externalId":"42"`), key),
		s.send("PUT", "/user/"+second["id"].(string), `{"firstName":"Other","externalId":"42"}`),
	} {
		p := s.problem(a, http.StatusConflict)
		require.Equal(t, []any{map[string]any{"field": "externalId", "detail": "belongs to another user"}}, p["errors"])
		require.Equal(t, "about:blank", p["type"])
		require.NotContains(t, a.body, first["id"], "whose it is")
	}
	require.Equal(t, 2, s.userCount())
	require.Equal(t, second, s.object(s.send("GET", "/user/"+second["id"].(string), ""))["user"])
	s.send("PUT", "/user/"+first["id"].(string), `{"externalId":""}`)
	created := s.send("POST", "/user", with(`"externalId":"42"`), key)
	require.Equal(t, http.StatusCreated, created.status, "a refused request has not used up the key")
}

func TestUserIsFoundById(t *testing.T) {
	t.Parallel()
	s := open(t)
	user, _ := s.create(grace)

	a := s.send("GET", "/user/"+user["id"].(string), "")

	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, map[string]any{"user": user}, s.object(a))
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change      string
		rescheduled float64
		changed     map[string]any // of the user
		due         string
		version     float64 // of the event
	}{
		"nothing changes nothing": {`{}`, 0, map[string]any{"version": 1.0}, "2026-12-09T14:00:00.000Z", 1},
		"a name changes the words but not the time": {`{"firstName":"Amazing"}`, 0,
			map[string]any{"firstName": "Amazing", "lastName": "Hopper", "version": 2.0}, "2026-12-09T14:00:00.000Z", 2},
		"a zone moves the instant": {`{"timezone":"asia/tokyo"}`, 1,
			map[string]any{"timezone": "Asia/Tokyo", "version": 2.0}, "2026-12-09T00:00:00.000Z", 2},
		"a birthday moves the day": {`{"dateOfBirth":"1906-12-10"}`, 1,
			map[string]any{"dateOfBirth": "1906-12-10", "version": 2.0}, "2026-12-10T14:00:00.000Z", 2},
		"all at once": {`{"firstName":"A","lastName":"B","dateOfBirth":"1906-07-01","timezone":"UTC"}`, 1,
			map[string]any{"firstName": "A", "lastName": "B", "dateOfBirth": "1906-07-01", "timezone": "UTC"}, "2026-07-01T09:00:00.000Z", 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			user, event := s.create(grace)

			a := s.send("PUT", "/user/"+user["id"].(string), tt.change)

			require.Equal(t, http.StatusOK, a.status, a.body)
			answer := s.object(a)
			require.Subset(t, answer["user"], tt.changed)
			require.Equal(t, map[string]any{
				"rescheduled": tt.rescheduled, "added": 0.0, "removed": 0.0, "cancelled": 0.0, "skipped": 0.0, "skippedEventIds": []any{}, "leftOut": []any{},
			}, answer["reschedule"])
			stored := s.object(s.send("GET", "/events/"+event["id"].(string), ""))["event"].(map[string]any)
			require.Equal(t, tt.due, stored["targetTimestampUTC"])
			require.Equal(t, tt.version, stored["version"])
		})
	}
}

func TestDataThatAHandlerRefusesIsInvalidInput(t *testing.T) {
	t.Parallel()
	repository := newRepository()
	registry, err := almanac.NewRegistry(almanac.Recurring{Type: "RENEWAL", Rule: func(almanac.User) (calendar.Recurrence, error) {
		return nil, &almanac.ValidationError{Fields: []almanac.FieldError{{Field: "attributes.renews", Problem: "is not a date"}}}
	}})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(repository, registry)
	require.NoError(t, err)
	s := openWith(t, scheduler, repository, httpapi.NoAuthentication{})

	require.Equal(t, map[string]string{"attributes.renews": "is not a date"}, s.complaints(s.send("POST", "/user", grace)))
}

func TestUpdateNamesTheEventsInFlight(t *testing.T) {
	t.Parallel()
	s := open(t)
	user, _ := s.create(`{"firstName":"A","lastName":"B","dateOfBirth":"1990-03-02","timezone":"Asia/Tokyo"}`)
	id := uuid.MustParse(user["id"].(string))
	_, err := s.scheduler.UpdateUser(t.Context(), id, almanac.ProfileChange{})
	require.NoError(t, err)
	found, err := s.repository.Find(t.Context(), almanac.ForUser(id), almanac.Page{})
	require.NoError(t, err)
	claimed, err := found.Items[0].Claim(uuid.New())
	require.NoError(t, err)
	_, err = s.repository.Update(t.Context(), claimed, found.Items[0].Version)
	require.NoError(t, err)

	a := s.send("PUT", "/user/"+id.String(), `{"timezone":"Europe/Paris"}`)

	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, map[string]any{
		"rescheduled": 0.0, "added": 0.0, "removed": 0.0, "cancelled": 0.0, "skipped": 1.0, "skippedEventIds": []any{claimed.ID.String()}, "leftOut": []any{},
	}, s.object(a)["reschedule"])
}

func TestDeleteErasesTheUserAndTheirEvents(t *testing.T) {
	t.Parallel()
	s := open(t)
	user, event := s.create(grace)
	path := "/user/" + user["id"].(string)

	a := s.send("DELETE", path, "")

	require.Equal(t, http.StatusNoContent, a.status)
	require.Empty(t, a.body)
	s.problem(s.send("GET", path, ""), http.StatusNotFound)
	s.problem(s.send("DELETE", path, ""), http.StatusNotFound)
	s.problem(s.send("GET", "/events/"+event["id"].(string), ""), http.StatusNotFound)
	s.nothing()
}

// While events are in flight, a deleted user is hidden. An erased user is gone, together
// with their events.
func TestDeleteErasesNowOrWhenTheLastDeliveryHasEnded(t *testing.T) {
	t.Parallel()
	for query, tt := range map[string]struct{ left, again int }{
		"":           {1, http.StatusNoContent},
		"?erase=now": {0, http.StatusNotFound},
	} {
		s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.RequireIfMatch())
		user, event := s.create(grace)
		stored, err := s.repository.Event(t.Context(), uuid.MustParse(event["id"].(string)))
		require.NoError(t, err)
		claimed, err := stored.Claim(uuid.New())
		require.NoError(t, err)
		_, err = s.repository.Update(t.Context(), claimed, stored.Version)
		require.NoError(t, err)
		path := "/user/" + user["id"].(string)

		for _, wrong := range []string{"?erase=later", "?erase=", "?erase=now&erase=now", "?Erase=now"} {
			s.problem(s.send("DELETE", path+wrong, "", "If-Match: *"), http.StatusBadRequest)
		}
		require.Equal(t, http.StatusOK, s.send("GET", path, "").status, "nothing was done")
		require.Equal(t, http.StatusNoContent, s.send("DELETE", path+query, "", `If-Match: "1"`).status)
		s.problem(s.send("GET", path, ""), http.StatusNotFound)
		n, err := s.repository.Count(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, tt.left, n, query)
		require.Equal(t, http.StatusPreconditionRequired, s.send("DELETE", path+"?erase=now", "").status, query)
		require.Equal(t, tt.again, s.send("DELETE", path+"?erase=now", "", "If-Match: *").status, query)
	}
}

func TestABirthDateOfTodayIsJudgedInTheUsersZone(t *testing.T) {
	t.Parallel()
	s := open(t)
	born := dateIn(t, "Pacific/Auckland", today)

	s.create(`{"firstName":"A","lastName":"B","dateOfBirth":"` + born + `","timezone":"Pacific/Auckland"}`)
	a := s.send("POST", "/user", `{"firstName":"A","lastName":"B","dateOfBirth":"`+born+`","timezone":"America/New_York"}`)

	require.Equal(t, map[string]string{"dateOfBirth": "is in the future"}, s.complaints(a))
}

// dateIn returns the date in the zone.
func dateIn(t *testing.T, zone string, at time.Time) string {
	t.Helper()
	z, err := calendar.LoadTimezone(zone)
	require.NoError(t, err)
	return z.WallTime(at).Date.String()
}
