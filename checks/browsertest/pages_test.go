package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/dashboard"
)

// statusOf is the status of a page in pages.
func statusOf(path string) []int64 {
	if path == "nothing" {
		return []int64{404}
	}
	return []int64{200, 400}
}

func TestEveryPageIsAccessible(t *testing.T) {
	t.Parallel()
	h := newHost(t, atRoot, dashboard.AllowAll())
	stalled := "users/" + h.failing(t).ID.String()
	h.waitForNumbers(t)
	browser := newBrowser(t)
	for _, l := range []look{
		{1280, 900, false, true, nil}, {1280, 900, true, true, nil}, {320, 700, false, true, nil}, {320, 700, true, true, nil},
	} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			b := newTab(t, browser, l)
			b.expect("Failed to load resource: the server responded with a status of 40") // of the page itself
			for _, path := range append(h.pages(), stalled) {
				t.Run(path, func(t *testing.T) {
					b.t = t
					require.Contains(t, statusOf(path), b.open(h.root+path))
					if l.dark { // the same page in other colours
						require.Empty(t, strings.Join(b.violations(colours), "\n"))
					} else {
						b.requireAccessible()
					}
					b.requireSound(h.server.URL)
				})
			}
		})
	}
}

func TestPagesFitEveryWidth(t *testing.T) {
	t.Parallel()
	h := newHost(t, atRoot, dashboard.AllowAll())
	stalled := "users/" + h.failing(t).ID.String()
	h.waitForNumbers(t)
	b := newTab(t, newBrowser(t), desk)
	b.expect("Failed to load resource")
	for _, path := range append(h.pages(), stalled) {
		b.open(h.root + path)
		for _, width := range []int64{360, 600, 800, 1024, 1920, 2560} {
			b.do(chromedp.EmulateViewport(width, 900))
			require.LessOrEqual(t, eval[int64](b, "document.documentElement.scrollWidth"), width, path)
		}
	}
}

// Colours that the viewer's system forces replace those of the pages. What they say must then be
// there in another way, and the focus must be seen.
func TestPagesWithForcedColours(t *testing.T) {
	t.Parallel()
	h := newHost(t, atRoot, dashboard.AllowAll())
	h.waitForNumbers(t)
	b := newTab(t, newBrowser(t), look{1280, 900, false, true, []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}})
	b.expect("Failed to load resource")
	for _, path := range h.pages() {
		b.open(h.root + path)
		require.True(t, eval[bool](b, `matchMedia("(forced-colors: active)").matches`))
		require.Empty(t, eval[[]string](b, `[...document.querySelectorAll("svg:not([aria-hidden]) :is(rect,circle,path,line)")].filter((e) => {
			const s = getComputedStyle(e); return s.fill === "none" && s.stroke === "none"; }).map((e) => e.outerHTML.slice(0, 100))`),
			"%s: shapes that are not drawn", path)
	}
}

func TestNothingMovesForViewersWhoDoNotWantIt(t *testing.T) {
	t.Parallel()
	h := newHost(t, atRoot, dashboard.AllowAll())
	b := newTab(t, newBrowser(t), look{1280, 900, false, true, []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}})
	for _, path := range []string{"", "map", "leases", "lanes", "pauses"} {
		b.open(h.root + path)
		b.until(`document.querySelector("[data-state]").textContent === "Live"`)
		require.Empty(t, eval[[]string](b, `document.getAnimations().filter((a) => a.playState === "running" &&
			a.effect.getComputedTiming().duration > 1).map((a) => a.effect.target.outerHTML.slice(0, 100))`), path)
	}
}
