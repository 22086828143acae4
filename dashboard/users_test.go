package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var userLinks = regexp.MustCompile(`class="mono" href="\./users/([0-9a-f-]{36})"`)

func TestUsersAreFound(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	u := h.store(t, almanactest.User(almanactest.Named("Grace", "Hopper"), almanactest.WithEmail("grace@example.com"),
		almanactest.WithExternalID("7"), almanactest.LivingIn("Asia/Tokyo")))
	other := h.store(t, almanactest.User())
	for _, search := range []string{"name=hop", "name=Grace+H", "email=GRACE@example.com", "external=7", "name=grace&external=7"} {
		status, body := h.get(t, "/users?"+search)
		require.Equal(t, http.StatusOK, status, search)
		requireRelative(t, body)
		require.Contains(t, body, `href="./users/`+u.ID.String(), search)
		require.NotContains(t, body, other.ID.String(), search)
		require.Contains(t, body, "<bdi>Grace Hopper</bdi>")
		require.Contains(t, body, "Asia/Tokyo")
	}
	status, body := h.get(t, "/users")
	require.Equal(t, http.StatusOK, status)
	require.Len(t, userLinks.FindAllString(body, -1), 2)
	_, body = h.get(t, "/users?name=zuse")
	require.Contains(t, body, "No user matches.")
	require.Contains(t, body, `value="zuse"`)
}

func TestUsersAreFoundByTheSourceOfTheirZone(t *testing.T) {
	t.Parallel()
	h := newHost(t) // it says nothing about who they are
	guessed, declared := almanactest.User(almanactest.LivingIn("Asia/Tokyo")), almanactest.User()
	guessed.ZoneSource = almanac.ZoneGuessed
	h.store(t, guessed)
	h.store(t, declared)
	status, body := h.get(t, "/users?source=guessed")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, guessed.ID.String())
	require.Contains(t, body, "<td>Asia/Tokyo (guessed)</td>")
	require.NotContains(t, body, declared.ID.String())
	require.Contains(t, body, `<option value="guessed" selected>guessed</option>`)
	_, body = h.get(t, "/users?source=declared")
	require.Contains(t, body, "<td>America/New_York</td>")
	require.NotContains(t, body, guessed.ID.String())
	status, body = h.get(t, "/users?source=known")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "The zone source is not one of declared, guessed, default.")
	_, body = h.get(t, "/users/"+guessed.ID.String())
	require.Contains(t, body, "<dd>Asia/Tokyo (guessed)</dd>")
}

func TestAWholeIDGoesToThePageOfTheUser(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	id := uuid.NewString()
	for _, field := range []string{"id", "name", "external"} {
		status, body := h.get(t, "/users?"+field+"=+"+strings.ToUpper(id)+"+")
		require.Equal(t, http.StatusSeeOther, status, field)
		require.Empty(t, body)
	}
	status, body := h.get(t, "/users?id="+id[:20])
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "The id is not whole.")
	require.Contains(t, body, `name="id" value="`+id[:20]+`" aria-invalid="true"`)
}

func TestNamesOfUsersNeedAPermission(t *testing.T) {
	t.Parallel()
	u := almanactest.User(almanactest.Named("Grace", "Hopper"))
	h := newHost(t)
	h.store(t, u)
	_, body := h.get(t, "/users")
	require.Contains(t, body, u.ID.String())
	require.NotContains(t, body, "Grace")
	require.NotContains(t, body, `name="name"`)
	require.Contains(t, body, "You may not see names, so you can find users by their whole id only.")
	for _, search := range []string{"name=grace", "email=a@example.com", "external=7"} {
		status, body := h.get(t, "/users?"+search)
		require.Equal(t, http.StatusForbidden, status, search)
		require.Contains(t, body, "You may not search by name")
		require.NotContains(t, body, u.ID.String())
	}

	h = newHost(t, exceptFor(SeeNames, u.ID)) // the search would say how the name begins
	h.store(t, u)
	_, body = h.get(t, "/users?name=grace")
	require.NotContains(t, body, u.ID.String())
	_, body = h.get(t, "/users")
	require.Contains(t, body, u.ID.String())
	require.NotContains(t, body, "Grace")
}

func TestSearchesThatAreWrongSayWhy(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	for search, sentence := range map[string]string{
		"name=a%00b":         "The name is not text that can be stored.",
		"email=%FF":          "The e-mail address is not text that can be stored.",
		"external=a%00":      "The external id is not text that can be stored.",
		"after=x":            "The address of this page is not complete.",
		"name=a&after=a/%2F": "The address of this page is not complete.",
	} {
		status, body := h.get(t, "/users?"+search)
		require.Equal(t, http.StatusBadRequest, status, search)
		require.Contains(t, body, sentence, search)
	}
	status, body := h.get(t, "/users?name="+url.QueryEscape(hostile))
	require.Equal(t, http.StatusOK, status)
	requireHarmless(t, body)
}

func TestPagesOfUsersShowEachUserOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	for i := range 120 {
		h.store(t, almanactest.User(almanactest.Named("Ada", fmt.Sprintf("Name%d/%%", i%7))))
	}
	for _, start := range []string{"/users", "/users?name=ada"} {
		seen, pages := map[string]bool{}, 0
		for path := start; path != ""; pages++ {
			status, body := h.get(t, path)
			require.Equal(t, http.StatusOK, status)
			require.LessOrEqual(t, len(body), 60_000)
			for _, found := range userLinks.FindAllStringSubmatch(body, -1) {
				require.False(t, seen[found[1]])
				seen[found[1]] = true
			}
			path = next(body)
		}
		require.Len(t, seen, 120)
		require.Equal(t, 3, pages)
	}
}
