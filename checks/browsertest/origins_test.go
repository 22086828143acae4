package browsertest

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/dashboard"
)

// formCase is a form of the dashboard that changes something.
type formCase struct {
	needs  dashboard.Action
	path   func(h *host) string
	fields func(h *host) url.Values
}

func onEvent(operation string, of func(h *host) almanac.Event, fields url.Values) (func(*host) string, func(*host) url.Values) {
	return func(h *host) string { return "events/" + of(h).ID.String() + "/" + operation }, func(*host) url.Values { return fields }
}

// forms has a form for each thing that can be changed.
func forms() map[string]formCase {
	pending := func(h *host) almanac.Event { return h.pending }
	failed := func(h *host) almanac.Event { return h.failed }
	form := func(needs dashboard.Action, path func(*host) string, fields func(*host) url.Values) formCase {
		return formCase{needs, path, fields}
	}
	cancel, cancelFields := onEvent("cancel", pending, url.Values{"reason": {"asked to"}})
	run, runFields := onEvent("run-now", pending, url.Values{"force": {"true"}})
	requeue, requeueFields := onEvent("requeue", failed, url.Values{})
	at := func(path string) func(*host) string { return func(*host) string { return path } }
	many := func(operation string, of func(*host) almanac.Event) func(*host) url.Values {
		return func(h *host) url.Values {
			return url.Values{"operation": {operation}, "user": {h.ada.ID.String()}, "seen": {"1"}, "last": {of(h).ID.String()}}
		}
	}
	return map[string]formCase{
		"cancel":       form(dashboard.Cancel, cancel, cancelFields),
		"run now":      form(dashboard.RunNow, run, runFields),
		"requeue":      form(dashboard.Requeue, requeue, requeueFields),
		"cancel many":  form(dashboard.Cancel, at("operations"), many("cancel", pending)),
		"run many":     form(dashboard.RunNow, at("operations"), many("run-now", pending)),
		"requeue many": form(dashboard.Requeue, at("operations"), many("requeue", failed)),
		"pause": form(dashboard.PauseTypes, at("pauses"), func(*host) url.Values {
			return url.Values{"type": {almanac.TypeBirthday}, "do": {"pause"}}
		}),
		"opt out": form(dashboard.EditOptOuts, func(h *host) string { return "users/" + h.hanako.User.ID.String() + "/opt-outs" }, func(*host) url.Values {
			return url.Values{"do": {"out"}, "all": {"true"}}
		}),
		"limit": form(dashboard.PauseTypes, at("lanes"), func(*host) url.Values {
			return url.Values{"lane": {almanac.TypeBirthday}, "do": {"set"}, "rate": {"50"}}
		}),
		"resume": form(dashboard.PauseTypes, at("pauses"), func(*host) url.Values {
			return url.Values{"type": {almanac.TypeAnniversary}, "do": {"resume"}}
		}),
	}
}

// state is all that the forms change.
func (h *host) state(t *testing.T) any {
	t.Helper()
	found, err := h.store.Find(t.Context(), nil, almanac.Page{Limit: 1000})
	require.NoError(t, err)
	paused, err := h.store.Paused(t.Context())
	require.NoError(t, err)
	lanes, err := h.store.Lanes(t.Context())
	require.NoError(t, err)
	return []any{found.Items, paused, lanes}
}

// sender serves a page with a form, as a page of another origin would, and returns its address
// without a host.
func sender(t *testing.T, target string, fields url.Values) (port, path string) {
	t.Helper()
	var inputs strings.Builder
	for name, values := range fields {
		fmt.Fprintf(&inputs, `<input type="hidden" name="%s" value="%s">`, name, html.EscapeString(values[0]))
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<title>x</title><form method="post" action="%s">%s<button>Send</button></form>`, html.EscapeString(target), &inputs)
	}))
	t.Cleanup(s.Close)
	_, port, _ = strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	return port, "/"
}

// Each form × who sends it × what the viewer may do. A browser says by Sec-Fetch-Site who sends
// a form, but only to hosts that it trusts: this machine, or by HTTPS. To others, as in a local
// network, it sends Origin alone.
func TestFormsOfOtherOriginsAndWithoutPermissionChangeNothing(t *testing.T) {
	t.Parallel()
	browser := newBrowser(t)
	for name, c := range forms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, host := range []string{"127.0.0.1", "almanac.example"} {
				for _, may := range []bool{true, false} {
					h := newHost(t, atRoot, letIn(), dashboard.WithPermissions(func(_ *http.Request, a dashboard.Action, _ uuid.UUID) (bool, error) {
						return may || a != c.needs, nil
					}))
					root := strings.Replace(h.root, "127.0.0.1", host, 1)
					before := h.state(t)
					// From elsewhere.
					for _, from := range []string{"evil.example", "127.0.0.1"} {
						b := newTab(t, browser, desk)
						b.expect("status of 403")
						port, path := sender(t, root+c.path(h), c.fields(h))
						b.open("http://" + from + ":" + port + path)
						mouse{}.press(b, "Send")
						require.Contains(t, b.text("main"), "A page of another origin cannot change anything here.")
						require.Equal(t, before, h.state(t), "from %s to %s", from, host)
					}
					// From the dashboard itself.
					b := newTab(t, browser, desk)
					b.expect("status of 40")
					b.open(root + "when")
					eval[bool](b, `(() => { const f = document.createElement("form"); f.method = "post"; f.action = `+quote("./"+c.path(h))+`;
						for (const [name, value] of Object.entries(`+object(c.fields(h))+`)) {
							const i = document.createElement("input"); i.type = "hidden"; i.name = name; i.value = value; f.append(i); }
						const send = document.createElement("button"); send.textContent = "Send"; f.append(send);
						document.querySelector("main").prepend(f); return true; })()`)
					mouse{}.press(b, "Send")
					if may {
						require.NotEqual(t, before, h.state(t), "%s: %s", host, b.text("main"))
					} else {
						require.Contains(t, b.text("main"), "You may not do this: "+string(c.needs)+".")
						require.Equal(t, before, h.state(t))
					}
				}
			}
		})
	}
}

// object returns the fields as an object of JavaScript.
func object(fields url.Values) string {
	var all []string
	for name, values := range fields {
		all = append(all, quote(name)+": "+quote(values[0]))
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ", ") + "}"
}
