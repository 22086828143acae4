package browsertest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// below mounts the dashboard below a path.
func below(pages http.Handler) (http.Handler, string) {
	mux := http.NewServeMux()
	mux.Handle("/ops/almanac/", http.StripPrefix("/ops/almanac", pages))
	return mux, "/ops/almanac/"
}

// proxied mounts the dashboard at the root of a server that is reached through a proxy, which
// removes a path and keeps the Host header.
func proxied(pages http.Handler) (http.Handler, string) {
	inner := httptest.NewServer(pages)
	target, err := url.Parse(inner.URL)
	if err != nil {
		panic(err) // a server of our own
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	mux := http.NewServeMux()
	mux.Handle("/tools/", http.StripPrefix("/tools", proxy))
	return closer{mux, inner}, "/tools/"
}

// closer is a handler that needs a server.
type closer struct {
	http.Handler
	inner *httptest.Server
}

// Every link that a viewer can follow leads to a page, wherever the dashboard is mounted, with
// and without scripts. Forms are sent by the tests of flows.
func TestEveryLinkLeadsToAPage(t *testing.T) {
	t.Parallel()
	browser := newBrowser(t)
	for name, c := range map[string]struct {
		at     mount
		script bool
	}{
		"at the root": {atRoot, true}, "below a path": {below, true}, "behind a proxy": {proxied, true},
		"at the root without scripts": {atRoot, false}, "below a path without scripts": {below, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, c.at, letIn())
			if server, ok := h.server.Config.Handler.(closer); ok {
				t.Cleanup(server.inner.Close)
			}
			h.waitForNumbers(t)
			l := desk
			l.script = c.script
			b := newTab(t, browser, l)
			seen, kinds := map[string]bool{}, map[string]int{}
			for queue := []string{h.root}; len(queue) > 0; queue = queue[1:] {
				require.EqualValues(t, 200, b.open(queue[0]), queue[0])
				for _, link := range eval[[]string](b, `[...document.querySelectorAll("a[href]")].map((a) => a.href.baseVal ? new URL(a.href.baseVal, document.baseURI).href : a.href)`) {
					link, _, _ = strings.Cut(link, "#")
					if link == "" || seen[link] || strings.Contains(link, ".csv") {
						continue
					}
					require.True(t, strings.HasPrefix(link, h.root), "%s leads to %s, out of %s", queue[0], link, h.root)
					seen[link] = true
					// Of pages that differ only in what they are about, a few are enough.
					if kind := kindOf(strings.TrimPrefix(link, h.root)); kinds[kind] < 2 {
						kinds[kind]++
						queue = append(queue, link)
					}
				}
			}
			require.Greater(t, len(kinds), 15, kinds)
			b.requireSound(h.server.URL)
		})
	}
}

// kindOf returns the kind of page that a path leads to: its first two parts, without ids, dates
// and the values of its query.
func kindOf(path string) string {
	path, query, _ := strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	if len(parts) > 1 {
		parts = []string{parts[0], "one"}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return path
	}
	kind := strings.Join(parts, "/") + "?"
	for _, name := range []string{"order", "status", "name", "rule", "at", "pause", "doubt", "year"} {
		if values.Has(name) {
			kind += name
		}
	}
	return kind
}
