package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/stretchr/testify/require"
)

// Each time names its clock. A viewer whose own clocks show the time of UTC or of the user's zone sees it once.
func TestAViewerSeesEachTimeOnce(t *testing.T) {
	t.Parallel()
	browser := newBrowser(t)
	h := newHost(t, atRoot, letIn())
	for _, c := range []struct {
		viewer string
		own    bool // whether times of Asia/Tokyo have the viewer's own time beside them
	}{{"America/New_York", true}, {"UTC", false}, {"Asia/Tokyo", false}, {"Asia/Seoul", false}} {
		t.Run(c.viewer, func(t *testing.T) {
			t.Parallel()
			b := newTab(t, browser, desk)
			b.do(call(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: c.viewer}))
			b.open(h.root + "users/" + h.hanako.User.ID.String())
			times := eval[[]string](b, `[...document.querySelectorAll("time.instant")].filter((t) => t.querySelector(".zone")).map((t) => t.innerText)`)
			require.NotEmpty(t, times)
			for _, text := range times {
				require.Contains(t, text, "Asia/Tokyo")
				require.Contains(t, text, "UTC")
				require.Equal(t, c.own, strings.Contains(text, "yours"), text)
			}
			require.Contains(t, b.text("footer"), "yours ("+c.viewer+") if it shows another time")
			b.requireSound(h.server.URL)
		})
	}
}

// The drawings of the first page stand beside each other on a screen, and below each other on a telephone.
func TestTheFirstPageShowsTheNextDaysBesideTheLastHours(t *testing.T) {
	t.Parallel()
	browser := newBrowser(t)
	h := newHost(t, atRoot, letIn())
	h.waitForNumbers(t)
	for width, beside := range map[int64]bool{1280: true, 390: false} {
		b := newTab(t, browser, look{width: width, height: 900, script: true})
		b.open(h.root)
		require.Contains(t, b.text("main"), "1 event completed, and 1 failed attempt, by five minutes")
		tops := eval[[]float64](b, `["p-wave", "p-rate"].map((id) => document.getElementById(id).getBoundingClientRect().top)`)
		require.Equal(t, beside, tops[0] == tops[1], "%d", width)
		require.GreaterOrEqual(t, eval[float64](b, `document.querySelector(".wave text").getBoundingClientRect().height`), 7.0, "%d", width)
		b.requireSound(h.server.URL)
	}
}
