package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must happen. It is long, since other tests run at
// the same time.
const patience = time.Minute

// rules leads all names that the tests use to this machine, and no other name anywhere.
const rules = "MAP *.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"

// shared is the Chromium of all tests that run at the same time. Each tab has cookies of its own.
var shared struct {
	mu    sync.Mutex
	users int // tests that use it
	ctx   context.Context
	stop  func() error
}

// newBrowser returns a Chromium, which ends with the last test that uses it.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users == 0 {
		var err error
		shared.ctx, shared.stop, err = startBrowser()
		require.NoError(t, err)
	}
	shared.users++
	t.Cleanup(func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		if shared.users--; shared.users == 0 {
			require.NoError(t, shared.stop())
		}
	})
	return shared.ctx
}

// startBrowser starts a Chromium with a directory of its own.
func startBrowser() (_ context.Context, stop func() error, err error) {
	path := os.Getenv("ALMANAC_TEST_CHROMIUM")
	if path == "" {
		if path, err = exec.LookPath("chromium"); err != nil {
			return nil, nil, fmt.Errorf("install Chromium, or set ALMANAC_TEST_CHROMIUM to its path: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", "almanac-chromium-")
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(dir),
		chromedp.Flag("host-resolver-rules", rules), chromedp.Flag("disable-quic", true),
		chromedp.Env("HOME="+dir), chromedp.WSURLReadTimeout(patience))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	stop = func() error {
		err := chromedp.Cancel(ctx)
		cancel()
		end()
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := chromedp.Do(ctx); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return ctx, stop, nil
}

// look is how a tab shows pages.
type look struct {
	width, height int64
	dark          bool
	script        bool // whether pages may run scripts
	features      []*emulation.MediaFeature
}

// desk is a common screen.
var desk = look{width: 1280, height: 900, script: true}

func (l look) String() string {
	theme := "light"
	if l.dark {
		theme = "dark"
	}
	return fmt.Sprintf("%s %d", theme, l.width)
}

// tab is a tab of a browser with cookies of its own. It writes down everything that a page
// should not do.
type tab struct {
	t      *testing.T
	ctx    context.Context
	script bool

	mu       sync.Mutex
	problems []string
	requests []string        // the addresses of all requests
	dialogs  int             // how many alerts and prompts were opened
	expected map[string]bool // texts that problems may contain
}

// watch runs before the scripts of each page. It records shifts of the layout that no input
// has caused, and violations of the policy of the page.
const watch = `
window.shifts = []; window.violations = [];
new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput)
	window.shifts.push(e.value.toFixed(4) + " " + e.sources.map((s) => s.node ? (s.node.outerHTML || s.node.textContent).slice(0, 80) : "?").join("; ")); })
	.observe({ type: "layout-shift", buffered: true });
document.addEventListener("securitypolicyviolation", (e) => window.violations.push(e.violatedDirective + " " + e.blockedURI));`

// newTab opens a tab.
func newTab(t *testing.T, browser context.Context, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, script: l.script, expected: map[string]bool{}}
	require.NoError(t, chromedp.Do(ctx)) // binds the tab to a context without a limit
	require.NoError(t, chromedp.Listen(ctx, b.record))
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	features := append([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}, l.features...)
	b.do(chromedp.EmulateViewport(l.width, l.height),
		call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}),
		call(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "America/New_York"}),
		call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !l.script}),
		call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}))
	return b
}

// call is a command of the DevTools protocol.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// record records an event of the browser.
func (b *tab) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		var words []string
		for _, a := range e.Args {
			words = append(words, string(a.Value)+a.Description)
		}
		b.problem("console %s: %s", e.Type, strings.Join(words, " "))
	case *runtime.EventExceptionThrown:
		b.problem("exception: %s", e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.problem("log %s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *page.EventJavascriptDialogOpening:
		b.dialogs++
		go func() { // not here, where a command would wait for itself
			_ = chromedp.Do(b.ctx, call(page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}))
		}()
	}
}

// problem writes a problem down, unless it is expected.
func (b *tab) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for one := range b.expected {
		if strings.Contains(text, one) {
			return
		}
	}
	b.problems = append(b.problems, text)
}

// expect lets a test cause messages of the browser that contain a text.
func (b *tab) expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected[text] = true
}

// do does something within the patience of a test.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// open loads a page, and returns its status.
func (b *tab) open(address string) int64 {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	answer, err := chromedp.RunResponse(ctx, chromedp.Navigate(address))
	require.NoError(b.t, err, address)
	return answer.Status
}

// eval returns the value of an expression in the page of a tab, and awaits it. It works in pages
// that may not run scripts too.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, "%.200s", expression)
	return value
}

// try returns the value of an expression, or an error while there is no page.
func try[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// text returns the text of what a selector finds first, or "".
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`document.querySelector(%s)?.innerText ?? ""`, quote(selector)))
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	require.EventuallyWithT(b.t, func(c *assert.CollectT) {
		page, err := try[string](b, "("+expression+") ? '' : location.href + '\\n' + document.body.innerText")
		require.NoError(c, err)
		require.Empty(c, page)
	}, patience, 20*time.Millisecond, expression)
}

// requireSound requires that nothing bad has happened since the tab was opened: no message in
// the console, no violation of the policy, no dialog, and no request to another host.
func (b *tab) requireSound(origin string) {
	b.t.Helper()
	var violations, shifts []string
	if b.script {
		violations = eval[[]string](b, "window.violations")
		shifts = eval[[]string](b, "window.shifts")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.problems)
	require.Empty(b.t, violations)
	require.Empty(b.t, shifts, "the layout shifts")
	require.Zero(b.t, b.dialogs)
	for _, address := range b.requests {
		require.True(b.t, strings.HasPrefix(address, origin) || address == "about:blank", "%s is not of %s", address, origin)
	}
}

// quote returns a text as a literal of JavaScript.
func quote(text string) string {
	literal, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text has no such error
	}
	return string(literal)
}
