package dashboard

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// missing are pages that others link to and that do not exist yet. A link to any other page
// that does not exist fails.
func (h host) missing() func(path string) bool {
	there := map[string]bool{"": true, "assets": true, "live": true, "login": true, "logout": true}
	events := false
	for _, one := range h.Handler.(*dashboard).routes() {
		first, _, _ := strings.Cut(strings.TrimPrefix(one.path, "/"), "/")
		there[first] = there[first] || first != "events"
		events = events || one.path == "/events/{id}"
	}
	there["events"] = events
	return func(path string) bool {
		first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		return !there[first] && (first != "events" || !strings.Contains(rest, "/"))
	}
}

// links are what a page refers to.
var links = regexp.MustCompile(`<(a|link|script|img|form|use|image)\b([^>]*?)\s(href|src|action)="([^"]*)"`)

// crawling says which pages may be missing, and what requests carry.
type crawling struct {
	missing func(string) bool
	headers http.Header
}

// crawl follows every link of every page that it finds, from the first pages on. It fails if
// a link is not relative, leaves the prefix, reaches nothing, or says something that its page ignores.
func crawl(t *testing.T, handler http.Handler, prefix string, way crawling, first ...string) map[string]bool {
	t.Helper()
	const most = 500 // pages, and more kinds of them are not found by then
	seen := map[string]bool{}
	for queue := first; len(queue) > 0 && len(seen) < most; queue = queue[1:] {
		at, err := url.Parse("http://localhost" + prefix + queue[0])
		require.NoError(t, err)
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at.String(), nil)
		r.Header = way.headers.Clone()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); to != "" {
			queue = append(queue, follow(t, at, to, prefix))
			continue
		}
		path, _, _ := strings.Cut(queue[0], "?")
		require.True(t, w.Code < 400 || w.Code == http.StatusNotFound && (way.missing(path) || strings.HasPrefix(path, "/nothing")), "%d for %s", w.Code, queue[0])
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			continue
		}
		if w.Code == http.StatusOK && !at.Query().Has("done") {
			requireFields(t, at, w.Body.String())
		}
		for _, link := range links.FindAllStringSubmatch(w.Body.String(), -1) {
			to := follow(t, at, html.UnescapeString(link[4]), prefix)
			if link[1] == "form" && strings.Contains(link[2], `method="post"`) {
				requireRoute(t, handler, prefix, to)
				continue
			}
			queue = append(queue, to)
		}
	}
	return seen
}

// follow returns where a link of a page leads, below the prefix.
func follow(t *testing.T, at *url.URL, link, prefix string) string {
	t.Helper()
	to, err := url.Parse(link)
	require.NoError(t, err)
	require.False(t, to.IsAbs() || to.Host != "" || strings.HasPrefix(to.Path, "/"), "%s of %s is not relative", link, at)
	to = at.ResolveReference(to)
	rest, ok := strings.CutPrefix(to.EscapedPath(), prefix)
	require.True(t, ok && strings.HasPrefix(rest, "/"), "%s of %s leaves the dashboard", link, at)
	if to.RawQuery != "" {
		rest += "?" + to.RawQuery
	}
	return rest
}

// requireFields fails if a page does not use a part of its query: it has neither a field of that name
// nor a field with that value.
func requireFields(t *testing.T, at *url.URL, body string) {
	t.Helper()
	for name, values := range at.Query() {
		known := strings.Contains(body, ` name="`+name+`"`) || strings.Contains(body, ` value="`+html.EscapeString(values[0])+`"`)
		require.True(t, known, "%s ignores %s", at, name)
	}
}

// requireRoute fails if there is no form at an address. A form without fields is refused, or
// does nothing.
func requireRoute(t *testing.T, handler http.Handler, prefix, to string) {
	t.Helper()
	if to == "/logout" {
		return // it would end the session of the crawler
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+prefix+to, nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site") // so nothing is changed
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	require.Contains(t, []int{http.StatusForbidden, http.StatusUnauthorized}, w.Code, "no form at %s", to)
}

func TestEveryLinkIsRelativeAndReachesAPage(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/ops/almanac", "/a%20b:c"} {
		t.Run("at "+prefix, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			u := h.createUser(t, ada())
			h.failEvent(t, h.createUser(t, ada()).Events[0], "gone")
			require.NoError(t, h.scheduler.Pause(t.Context(), almanac.Pause{Lane: "BIRTHDAY"}))
			event := "/events/" + u.Events[0].ID.String()
			h.get(t, "/") // so that there are numbers
			decoded, err := url.PathUnescape(prefix)
			require.NoError(t, err)
			seen := crawl(t, http.StripPrefix(decoded, h.Handler), prefix, crawling{missing: h.missing()},
				"/", event+"/cancel", event+"/run-now", event+"/requeue", "/pauses?pause=BIRTHDAY", "/pauses?done=paused&type=BIRTHDAY",
				"/operations?operation=cancel&type=BIRTHDAY", "/operations?operation=requeue&type=BIRTHDAY", "/nothing", "/nothing/at/all?x=1", "/nothing/Europe%2FParis/x")
			require.True(t, seen["/"+assetPath("dashboard.css")])
			require.True(t, seen["/operations"])
		})
	}
}

func TestLinksOfALoginAreRelative(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/ops/almanac"} {
		h := newHostFor(t, WithTokenLogin(secret))
		handler := http.StripPrefix(prefix, h.Handler)
		seen := crawl(t, handler, prefix, crawling{missing: h.missing()}, "/events/"+uuid.NewString()+"/cancel", "/pauses")
		require.True(t, seen["/login"])
		c := sessionCookieOf(t, h.logIn(t, secret, address))
		seen = crawl(t, handler, prefix, crawling{h.missing(), http.Header{"Cookie": {c.String()}}}, "/login")
		require.True(t, seen["/operations"])
	}
}

func TestAMountWithoutASlashIsRedirected(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for mount, location := range map[string]string{
		"/ops/almanac": "./almanac/", "/a:b": "./a:b/", "/ops/al%20manac": "./al%20manac/", `/ops/%5C%5Cevil.example`: "./%5C%5Cevil.example/",
	} {
		decoded, err := url.PathUnescape(mount)
		require.NoError(t, err)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+mount+"?x=1", nil)
		r.RequestURI = mount + "?x=1"
		w := httptest.NewRecorder()
		http.StripPrefix(decoded, h.Handler).ServeHTTP(w, r)
		require.Equal(t, http.StatusSeeOther, w.Code)
		require.Equal(t, location, w.Header().Get("Location"))
		to, err := r.URL.Parse(location)
		require.NoError(t, err)
		require.Equal(t, mount+"/", to.EscapedPath())
	}
}

func TestRedirectsAfterChangesAreRelative(t *testing.T) {
	t.Parallel()
	for name, c := range changes {
		h := newHost(t)
		path, form := c.target(t, h)
		w := h.send(t, http.MethodPost, path, form)
		if w.Code != http.StatusSeeOther {
			require.Equal(t, http.StatusOK, w.Code, name)
			continue
		}
		at, err := url.Parse("http://localhost/ops" + path)
		require.NoError(t, err)
		to := follow(t, at, w.Header().Get("Location"), "/ops")
		require.True(t, strings.HasPrefix(to, "/pauses?") || strings.HasPrefix(to, "/lanes?") || strings.HasPrefix(to, "/broadcasts?") || strings.HasPrefix(to, "/events/") || strings.HasPrefix(to, "/users/"), to)
	}
}

func TestAnEscapedSlashIsNoSlash(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	_, body := h.get(t, "/nothing/Europe%2FParis")
	require.Contains(t, body, `<a class="brand" href="../">`)
	_, body = h.get(t, "/nothing/Europe/Paris")
	require.Contains(t, body, `<a class="brand" href="../../">`)
}
