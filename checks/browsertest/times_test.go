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
