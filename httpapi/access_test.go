package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/httpapi"
)

// mayByHeader allows a request to access the users whose ids its X-May headers contain.
// "everybody" allows access to all users and to a new one.
func mayByHeader(r *http.Request, user uuid.UUID) (bool, error) {
	for _, id := range r.Header.Values("X-May") {
		if id == user.String() || id == "everybody" && user == uuid.Nil {
			return true, nil
		}
	}
	return false, nil
}

func TestRefusedUsersLookLikeMissingUsers(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithPrincipal(name), httpapi.WithAuthorization(mayByHeader))
	a := s.send("POST", "/user", grace, "X-May: everybody")
	require.Equal(t, http.StatusCreated, a.status, a.body)
	user, event := s.object(a)["user"].(map[string]any), s.object(a)["nextBirthdayEvent"].(map[string]any)
	id, eventID := user["id"].(string), event["id"].(string)
	requests := map[string]struct{ method, before, after, body, header string }{
		"reading":             {"GET", "/user/", "", "", ""},
		"changing":            {"PUT", "/user/", "", `{"firstName":"A"}`, ""},
		"changing nothing":    {"PUT", "/user/", "", `{}`, ""},
		"changing badly":      {"PUT", "/user/", "", `{`, ""},
		"changing a version":  {"PUT", "/user/", "", `{"firstName":"A"}`, `If-Match: "7"`},
		"asking for a change": {"GET", "/user/", "", "", `If-None-Match: "1"`},
		"patching":            {"PATCH", "/user/", "", `{"firstName":"A"}`, "Content-Type: application/merge-patch+json"},
		"patching wrongly":    {"PATCH", "/user/", "", `{"firstName":"A"}`, "Content-Type: text/plain"},
		"deleting":            {"DELETE", "/user/", "", "", ""},
		"listing":             {"GET", "/user/", "/events", "", ""},
		"an event":            {"GET", "/events/", "", "", ""},
	}
	for name, tt := range requests {
		known := id
		if tt.before == "/events/" {
			known = eventID
		}
		header := []string{"X-May: " + stranger, "X-May: everybody", "X-Request-Id: x"}
		if tt.header != "" {
			header = append(header, tt.header)
		}
		ask := func(id string) answer { return s.send(tt.method, tt.before+id+tt.after, tt.body, header...) }

		there, missing := ask(known), ask(uuid.Max.String())

		s.problem(there, http.StatusNotFound)
		require.Equal(t, there.header, missing.header, name)
		require.Equal(t, there.body, strings.ReplaceAll(missing.body, uuid.Max.String(), known), name)
	}
	require.Equal(t, map[string]any{"user": user}, s.object(s.send("GET", "/user/"+id, "", "X-May: "+id)), "nothing was changed")
	require.Equal(t, http.StatusOK, s.send("GET", "/events/"+eventID, "", "X-May: "+id).status)
	require.Equal(t, http.StatusOK, s.send("GET", "/user/"+id+"/events", "", "X-May: "+id).status)
}

func TestRequestsForAllUsersNeedAuthorization(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithPrincipal(name), httpapi.WithAuthorization(mayByHeader))

	s.problem(s.send("POST", "/user", grace, "X-May: "+stranger), http.StatusForbidden)
	s.problem(s.send("GET", "/events", "", "X-May: "+stranger), http.StatusForbidden)
	s.nothing()
	require.Equal(t, http.StatusOK, s.send("GET", "/events", "", "X-May: everybody").status)
	require.Equal(t, http.StatusOK, s.send("GET", "/readyz", "").status)
}

func TestOnlyAuthenticatedRequestsAreAuthorized(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.BearerToken("secret"), httpapi.WithPrincipal(name), httpapi.WithAuthorization(
		func(*http.Request, uuid.UUID) (bool, error) { panic("asked") }))

	s.problem(s.send("GET", "/user/"+stranger, ""), http.StatusUnauthorized)
	s.problem(s.send("POST", "/user", grace), http.StatusUnauthorized)
}

func TestAnAuthorizationErrorAllowsNothing(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithPrincipal(name), httpapi.WithAuthorization(
		func(*http.Request, uuid.UUID) (bool, error) { return true, errors.New("secret") }))
	for _, target := range []string{"/user/" + stranger, "/events"} {
		a := s.send("GET", target, "")

		s.problem(a, http.StatusInternalServerError)
		require.NotContains(t, a.body, "secret")
	}
}

// A key leads to a user's id, like a path. A caller that may not access the user gets none
// of their data, whatever the body contains.
func TestAKeyDoesNotRevealAnotherUser(t *testing.T) {
	t.Parallel()
	may := make(map[string]bool) // the allowed pairs "Name id"
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithPrincipal(name),
		httpapi.WithAuthorization(func(r *http.Request, user uuid.UUID) (bool, error) {
			return user == uuid.Nil || may[name(r)+" "+user.String()], nil
		}))
	first := s.send("POST", "/user", grace, key, "X-Name: tenant")
	require.Equal(t, http.StatusCreated, first.status, first.body)
	id := s.object(first)["user"].(map[string]any)["id"].(string)

	for _, body := range []string{grace, with(`"firstName":"Other"`)} {
		a := s.send("POST", "/user", body, key, "X-Name: tenant")
		require.NotContains(t, s.problem(a, http.StatusForbidden), "user")
		require.NotContains(t, a.body, "Hopper")
		require.NotContains(t, a.body, id)
	}
	require.NotEqual(t, first.header.Get("Location"), s.send("POST", "/user", grace, key, "X-Name: another").header.Get("Location"))
	may["tenant "+id] = true
	again := s.send("POST", "/user", grace, key, "X-Name: tenant")
	require.Equal(t, http.StatusCreated, again.status, again.body)
	require.Equal(t, first.body, again.body)
}

func TestUnderAuthorizationAKeyNeedsAPrincipal(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.NoAuthentication{}, httpapi.WithPrincipal(name), httpapi.WithAuthorization(mayByHeader))

	a := s.send("POST", "/user", grace, key, "X-May: everybody")

	require.Equal(t, map[string]string{"Idempotency-Key": "is for requests with a principal, and this one has none"}, s.complaints(a))
	s.nothing()
	require.Equal(t, http.StatusCreated, s.send("POST", "/user", grace, "X-May: everybody").status)
	require.Equal(t, http.StatusCreated, s.send("POST", "/user", grace, key, "X-May: everybody", "X-Name: a").status)
}

func TestAuthorizationNeedsAPrincipal(t *testing.T) {
	t.Parallel()

	_, err := httpapi.New(nil, newRepository(), httpapi.NoAuthentication{}, httpapi.WithAuthorization(mayByHeader))

	require.ErrorContains(t, err, "planner is nil")
	require.ErrorContains(t, err, "WithAuthorization needs WithPrincipal")
}

// attributed is a repository that notes whose changes it stores.
type attributed struct {
	almanac.Repository
	asked *[]string
}

func (r attributed) note(ctx context.Context) { *r.asked = append(*r.asked, almanac.Principal(ctx)) }

func (r attributed) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	r.note(ctx)
	return r.Repository.CreateUsers(ctx, users)
}

func (r attributed) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	r.note(ctx)
	return r.Repository.EditUser(ctx, id, edit)
}

func (r attributed) DeleteUser(ctx context.Context, id uuid.UUID, o almanac.DeleteOptions) (almanac.DeleteResult, error) {
	r.note(ctx)
	return r.Repository.DeleteUser(ctx, id, o)
}

func (r attributed) Pause(ctx context.Context, p almanac.Pause) error {
	r.note(ctx)
	return r.Repository.Pause(ctx, p)
}

func (r attributed) Resume(ctx context.Context, eventType string) error {
	r.note(ctx)
	return r.Repository.Resume(ctx, eventType)
}

func TestEveryChangeHasThePrincipalOfItsRequest(t *testing.T) {
	t.Parallel()
	var asked []string
	o := openOffice(t, attributed{newRepository(), &asked}, httpapi.WithPrincipal(name))
	u, e := o.hire("ada")
	failed := o.failed("bob", "HTTP 410")
	api := &site{t: t, handler: o.present}
	user, event := "/"+u.ID.String(), "/events/"+e.ID.String()
	for _, tt := range []struct {
		site                 *site
		method, target, body string
	}{
		{api, "POST", "/user", grace},
		{api, "PUT", "/user" + user, `{"firstName":"Augusta"}`},
		{api, "PATCH", "/user" + user, `{"firstName":"Ada"}`},
		{api, "POST", "/user" + user + "/opt-out", `{"type":"OTHER"}`},
		{api, "POST", "/user" + user + "/opt-in", `{"type":"OTHER"}`},
		{o.site, "POST", "/users" + user + "/opt-out", `{"type":"OTHER"}`},
		{o.site, "POST", "/users" + user + "/opt-in", `{"type":"OTHER"}`},
		{o.site, "POST", event + "/run-now", ""},
		{o.site, "POST", event + "/cancel", ""},
		{o.site, "POST", event + "/requeue", ""},
		{o.site, "POST", "/operations", `{"operation":"requeue","filter":{"user":"` + failed.UserID.String() + `"},"dryRun":false}`},
		{o.site, "PUT", "/lanes/BIRTHDAY/pause", ""},
		{o.site, "DELETE", "/lanes/BIRTHDAY/pause", ""},
		{api, "DELETE", "/user" + user, ""},
	} {
		asked = nil
		a := tt.site.send(tt.method, tt.target, tt.body, "X-Name: Grace", "Content-Type: application/merge-patch+json")
		require.Less(t, a.status, 300, "%s %s: %s", tt.method, tt.target, a.body)
		require.NotEmpty(t, asked, "%s %s changes nothing", tt.method, tt.target)
		tt.site.send(tt.method, tt.target, tt.body, "Content-Type: application/merge-patch+json")
		for i, principal := range asked {
			require.Contains(t, []string{"Grace", ""}, principal, "%s %s", tt.method, tt.target)
			require.Equal(t, i == 0, principal == "Grace", "%s %s by %q", tt.method, tt.target, asked)
		}
	}
}

// A program that authenticates in front of the API can name the principal in the context.
func TestThePrincipalOfTheContextStays(t *testing.T) {
	t.Parallel()
	var asked []string
	o := openOffice(t, attributed{newRepository(), &asked})
	r, err := http.NewRequestWithContext(almanac.WithPrincipal(t.Context(), "proxy"), http.MethodPut, "http://localhost/lanes/BIRTHDAY/pause", http.NoBody)
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, o.do(r).status)
	require.Equal(t, []string{"proxy"}, asked)
}
