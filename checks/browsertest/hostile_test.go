package browsertest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// hostile are texts that would do harm in a page that does not escape them, or that would turn
// the words around them.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'"--><svg onload=alert(1)>`, `javascript:alert(1)`,
	"\u202Etxet\u2066 derorrim", `{{.}}`, `</title></script><script>alert(1)</script>`, "=cmd|' /C calc'!A0",
}

func TestHostileTextsAreHarmless(t *testing.T) {
	t.Parallel()
	h := newHost(t, atRoot, letIn())
	now := time.Now()
	var paths []string
	for _, text := range hostile {
		// As long as they may be: attributes have at most 64 kB.
		attributes, err := json.Marshal(map[string]string{"note": text, "long": strings.Repeat(text, 20_000/len(text))})
		require.NoError(t, err)
		payload, err := json.Marshal(map[string]string{"note": text, "long": strings.Repeat(text, 100_000/len(text))})
		require.NoError(t, err)
		// Names have no control characters, but letters that run from right to left.
		name := strings.Map(func(c rune) rune {
			if !unicode.IsPrint(c) {
				return 'ש'
			}
			return c
		}, text)
		u := almanactest.User(almanactest.Named(name, name), almanactest.WithExternalID(name), almanactest.WithAttributes(string(attributes)))
		e := almanactest.Event(now, almanactest.For(u), almanactest.OfType(name[:min(len(name), 30)]), almanactest.OfSeries(name, name),
			almanactest.Tried(2), almanactest.FailedBecause(strings.Repeat(text, 1000/len(text))))
		e.Payload = payload
		almanactest.Store(t, h.store, u, e)
		paths = append(paths, "users/"+u.ID.String(), "events/"+e.ID.String())
	}
	h.waitForNumbers(t)
	b := newTab(t, newBrowser(t), desk)
	for _, path := range append(paths, "", "map", "events", "events?status=FAILED", "users", "users?name=%3C", "failures", "leases", "lanes", "pauses", "operations") {
		require.EqualValues(t, 200, b.open(h.root+path))
		require.Zero(t, eval[int](b, `document.querySelectorAll("main script, main img, main svg[onload], main iframe").length`), path)
		// What turns the text may not reach beyond the element that shows it.
		require.Equal(t, "ltr", eval[string](b, `getComputedStyle(document.querySelector("main")).direction`))
		require.Empty(t, eval[[]string](b, `(() => { const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
			for (let n; n = walk.nextNode();) if (/[\u202A-\u202E\u2066-\u2069]/.test(n.data) && !n.parentElement.closest("bdi, option, title, h1"))
				found.push(n.parentElement.outerHTML.slice(0, 200)); return found; })()`), path)
	}
	// In addresses.
	b.expect("status of 40")
	for _, text := range hostile {
		for _, path := range []string{
			"events?type=", "events?user=", "events?zone=", "events?reason=", "events?from=", "events?order=", "users?name=", "users?email=",
			"users?external=", "users?id=", "zones?q=", "zones/", "when?zone=", "when?at=", "when?rule=", "calendar?zone=", "calendar/", "map?hour=",
			"pauses?pause=", "pauses?done=paused&type=", "operations?operation=cancel&type=", "operations?operation=", "login?token=", "",
		} {
			if b.open(h.root+path+escaped(text)) >= 500 {
				require.Fail(t, "a page fails", "%s%s", path, text)
			}
		}
	}
	b.requireSound(h.server.URL)
}

func escaped(text string) string {
	const hex = "0123456789ABCDEF"
	var all strings.Builder
	for _, c := range []byte(text) {
		all.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
	}
	return all.String()
}

// A NUL cannot be stored in PostgreSQL, so it is refused before it gets there.
func TestANulIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t, atRoot, letIn())
	b := newTab(t, newBrowser(t), desk)
	b.expect("status of 40")
	for _, path := range []string{"events?type=a%00b", "events?reason=a%00b", "users?name=a%00b", "users?external=a%00b", "operations?operation=cancel&type=a%00b",
		"pauses?pause=a%00b", "zones?q=a%00b", "calendar?zone=a%00b", "when?zone=a%00b"} {
		require.Less(t, b.open(h.root+path), int64(500), path)
	}
	_, err := h.scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "a\x00b", LastName: "c", DateOfBirth: "1990-01-01", Timezone: "UTC"})
	require.ErrorAs(t, err, new(*almanac.ValidationError))
	b.requireSound(h.server.URL)
}
