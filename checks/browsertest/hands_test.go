package browsertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// hands use a page as people do: by mouse or by keyboard. Controls are found by their names, as
// a screen reader says them.
type hands interface {
	// touch presses a button or follows a link.
	touch(b *tab, name string)
	// press does the same, and waits for the page that it leads to.
	press(b *tab, name string)
	// fill replaces the text of a field.
	fill(b *tab, name, text string)
	// choose chooses an option of a list.
	choose(b *tab, name, option string)
	// tick ticks a box.
	tick(b *tab, name string)
}

// find is a function of the page. It returns the control with a name, or null. A name is the
// text of the control's label, its aria-label, or its own text. A name that ends in "…" is the
// beginning of one.
const find = `((name) => {
	const trim = (s) => (s || "").replace(/\s+/g, " ").trim();
	const nameOf = (e) => {
		if (e.getAttribute("aria-label")) return trim(e.getAttribute("aria-label"));
		if (e.labels && e.labels.length) {
			const copy = e.labels[0].cloneNode(true);
			copy.querySelectorAll("select,input").forEach((inner) => inner.remove());
			return trim(copy.textContent);
		}
		return trim(e.textContent);
	};
	const shown = (e) => e.checkVisibility() && !e.disabled;
	return [...document.querySelectorAll("a[href],button,summary,input:not([type=hidden]),select,textarea")].filter(shown)
		.find((e) => name.endsWith("…") ? nameOf(e).startsWith(name.slice(0, -1)) : nameOf(e) === name) ?? null;
})(%s)`

func control(name string) string { return fmt.Sprintf(find, quote(name)) }

// require waits until there is a control.
func (b *tab) require(name string) {
	b.t.Helper()
	b.until(control(name) + " !== null")
}

// reloadUntil loads the page again until there is a control on it.
func (b *tab) reloadUntil(name string) {
	b.t.Helper()
	for began := time.Now(); !eval[bool](b, control(name)+" !== null"); {
		require.Less(b.t, time.Since(began), patience, "%s is not on the page:\n%s", name, b.text("main"))
		b.open(eval[string](b, "location.href"))
	}
}

// leave does something that leads to another page, and waits until that is complete.
func (b *tab) leave(do func()) {
	b.t.Helper()
	before := eval[float64](b, "performance.timeOrigin")
	do()
	require.Eventually(b.t, func() bool {
		// The page may be gone at any moment, so an error is no answer.
		origin, err := try[float64](b, `document.readyState === "complete" ? performance.timeOrigin : 0`)
		return err == nil && origin != 0 && origin != before
	}, patience, 10*time.Millisecond, "no other page appears")
}

// mouse clicks in the middle of what is on the screen.
type mouse struct{}

func (mouse) String() string { return "mouse" }

func (mouse) touch(b *tab, name string) {
	b.t.Helper()
	b.require(name)
	at := eval[[]float64](b, `(() => { const e = `+control(name)+`; e.scrollIntoView({block: "center", behavior: "instant"});
		const r = e.getBoundingClientRect(); const x = r.x + Math.min(r.width / 2, 20), y = r.y + r.height / 2;
		const hit = document.elementFromPoint(x, y);
		return e === hit || e.contains(hit) ? [x, y] : []; })()`)
	require.Len(b.t, at, 2, "%s is covered by something else", name)
	b.do(chromedp.MouseClickXY(at[0], at[1]))
}

func (m mouse) press(b *tab, name string) {
	b.t.Helper()
	b.leave(func() { m.touch(b, name) })
}

func (m mouse) fill(b *tab, name, text string) {
	b.t.Helper()
	m.touch(b, name)
	b.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(kb.Delete), chromedp.KeyEvent(text))
}

// choose does not touch: the list of options is a window of the system, which has no elements.
func (mouse) choose(b *tab, name, option string) {
	b.t.Helper()
	b.require(name)
	eval[bool](b, control(name)+".focus() ?? true")
	b.do(chromedp.KeyEvent(option))
	b.requireChosen(name, option)
}

func (m mouse) tick(b *tab, name string) {
	b.t.Helper()
	m.touch(b, name)
	require.True(b.t, eval[bool](b, control(name)+".checked"))
}

func (b *tab) requireChosen(name, option string) {
	b.t.Helper()
	require.Equal(b.t, option, eval[string](b, control(name)+".selectedOptions[0].textContent"))
}

// keyboard moves by the tab key alone, from where the focus is.
type keyboard struct{}

func (keyboard) String() string { return "keyboard" }

// reach moves the focus to a control, and requires that the viewer can see where the focus is at
// each stop.
func (keyboard) reach(b *tab, name string) {
	b.t.Helper()
	b.require(name)
	for range 500 {
		if eval[bool](b, control(name)+" === document.activeElement") {
			return
		}
		b.do(chromedp.KeyEvent(kb.Tab))
		require.Empty(b.t, eval[string](b, `(() => { const e = document.activeElement, s = getComputedStyle(e);
			if (e === document.body) return "";
			const r = e.getBoundingClientRect();
			if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2) return "no outline: " + e.outerHTML.slice(0, 120);
			if (r.bottom < 0 || r.top > innerHeight || r.right < 0 || r.left > innerWidth) return "outside of the window: " + e.outerHTML.slice(0, 120);
			return ""; })()`))
	}
	require.Fail(b.t, "the focus does not reach "+name)
}

func (k keyboard) touch(b *tab, name string) {
	b.t.Helper()
	k.reach(b, name)
	b.do(chromedp.KeyEvent(kb.Enter))
}

func (k keyboard) press(b *tab, name string) {
	b.t.Helper()
	b.leave(func() { k.touch(b, name) })
}

func (k keyboard) fill(b *tab, name, text string) {
	b.t.Helper()
	k.reach(b, name)
	b.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(kb.Delete), chromedp.KeyEvent(text))
}

func (k keyboard) choose(b *tab, name, option string) {
	b.t.Helper()
	k.reach(b, name)
	b.do(chromedp.KeyEvent(option))
	b.requireChosen(name, option)
}

func (k keyboard) tick(b *tab, name string) {
	b.t.Helper()
	k.reach(b, name)
	b.do(chromedp.KeyEvent(" "))
	require.True(b.t, eval[bool](b, control(name)+".checked"))
}

// byAllHands runs a flow by mouse and by keyboard, with and without scripts, each before a
// dashboard of its own.
func byAllHands(t *testing.T, flow func(t *testing.T, h *host, b *tab, by hands)) {
	t.Helper()
	browser := newBrowser(t)
	for _, by := range []hands{mouse{}, keyboard{}} {
		for _, script := range []bool{true, false} {
			name := fmt.Sprintf("by %s, with scripts", by)
			if !script {
				name = fmt.Sprintf("by %s, without scripts", by)
			}
			t.Run(name, func(t *testing.T) {
				h := newHost(t, atRoot, letIn())
				h.waitForNumbers(t)
				l := desk
				l.script = script
				b := newTab(t, browser, l)
				b.expect("the server responded with a status of 400") // to forms with wrong fields
				b.open(h.root)
				flow(t, h, b, by)
				b.requireSound(h.server.URL)
			})
		}
	}
}
