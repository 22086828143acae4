package browsertest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/dashboard"
)

// letIn lets every request in as grace.
func letIn() dashboard.Option {
	return dashboard.WithAuthentication(func(*http.Request) (string, bool) { return "grace", true })
}

// event returns an event as it is stored now.
func (h *host) event(t *testing.T, id uuid.UUID) almanac.Event {
	t.Helper()
	stored, err := h.store.Event(t.Context(), id)
	require.NoError(t, err)
	return stored
}

// linkTo is the name of the links to an event or a user.
func linkTo(id uuid.UUID) string { return "…" + id.String()[24:] }

func TestAnEventIsCancelled(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		by.press(b, "Events")
		by.press(b, "Next")
		by.press(b, linkTo(h.pending.ID))
		by.press(b, "Cancel …")
		require.Equal(t, almanac.Pending, h.event(t, h.pending.ID).Status, "a question changes nothing")
		by.fill(b, "Reason, stored with the event", "asked to")
		by.press(b, "Cancel this event")
		require.Equal(t, almanac.Cancelled, h.event(t, h.pending.ID).Status)
		require.Equal(t, "asked to", h.event(t, h.pending.ID).FailureReason)
		require.Contains(t, b.text("main"), "This event is cancelled.")
		require.Contains(t, b.text("main"), "grace", "the trail says who did it")
	})
}

func TestAnEventRunsNow(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		by.press(b, "Users")
		by.fill(b, "Name begins with", "ada")
		by.press(b, "Find")
		by.press(b, linkTo(h.ada.ID))
		by.press(b, linkTo(h.pending.ID))
		by.press(b, "Run now …")
		by.tick(b, "Also in quiet hours")
		by.press(b, "Run this event now")
		require.True(t, h.event(t, h.pending.ID).Due.Before(h.pending.Due))
		require.Contains(t, b.text("main"), "This event was made due now.")
	})
}

func TestAFailedEventIsRequeued(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		by.press(b, "Failures")
		by.press(b, "receiver answered 404")
		by.press(b, linkTo(h.failed.ID))
		by.press(b, "Requeue …")
		by.press(b, "Requeue this event")
		require.Contains(t, b.text("main"), "This event repeats the one that was requeued.")
		var again uuid.UUID
		require.NoError(t, again.UnmarshalText([]byte(eval[string](b, `location.pathname.split("/").pop()`))))
		require.Equal(t, h.failed.ID, h.event(t, again).Origin.From)
		by.press(b, linkTo(h.failed.ID)) // its origin
		require.Contains(t, b.text("main"), "FAILED")
	})
}

func TestManyEventsAreCancelled(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		by.press(b, "Operations")
		by.choose(b, "Operation", "Cancel")
		by.fill(b, "Type", almanac.TypeBirthday)
		by.fill(b, "Zone", "Asia/Tokyo")
		by.fill(b, reasonOfMany, "asked to")
		by.press(b, "Show what matches")
		b.reloadUntil("Cancel: 1 event") // a busy server is still looking
		e := h.birthday
		require.Contains(t, b.text("main"), "Cancel 1 event?")
		require.Equal(t, almanac.Pending, h.event(t, e.ID).Status, "a question changes nothing")
		by.press(b, "Cancel: 1 event")
		require.Contains(t, b.text("main"), "1 event is cancelled")
		require.Equal(t, "asked to", h.event(t, e.ID).FailureReason)
		require.Equal(t, almanac.Pending, h.event(t, h.pending.ID).Status, "another zone")
	})
}

// reasonOfMany is the name of a field.
const reasonOfMany = "Reason (cancel), stored with the events"

func TestFailedEventsAreRequeued(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		by.press(b, "Operations")
		by.choose(b, "Operation", "Requeue")
		by.press(b, "Show what matches")
		require.Contains(t, b.text("[role=alert]"), "filter", "at least one is asked for")
		by.fill(b, "Failure begins with (requeue)", "receiver answered")
		by.press(b, "Show what matches")
		b.reloadUntil("Change nothing")
		by.press(b, "Change nothing")
		by.choose(b, "Operation", "Requeue")
		by.fill(b, "User's id", h.ada.ID.String())
		by.tick(b, "By force: in quiet hours too (run now), or although the user has opted out (requeue)")
		by.press(b, "Show what matches")
		b.reloadUntil("Requeue: 1 event")
		require.Contains(t, b.text("main"), "also for users who have opted out")
		by.press(b, "Requeue: 1 event")
		require.Contains(t, b.text("main"), "1 event is requeued")
	})
}

func TestATypeIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		by.press(b, "Pauses")
		by.press(b, "Pause BIRTHDAY …")
		by.press(b, "Pause")
		require.Contains(t, b.text("main"), "Events of BIRTHDAY are paused. Due events wait.")
		paused, err := h.scheduler.Paused(t.Context())
		require.NoError(t, err)
		require.Len(t, paused, 2)
		by.press(b, "Resume BIRTHDAY …")
		by.press(b, "Resume")
		require.Contains(t, b.text("main"), "Events of BIRTHDAY are delivered again, oldest first.")
		by.fill(b, "Type or lane", "BIRTHDAY")
		by.press(b, "Pause …")
		by.press(b, "Back, change nothing")
		paused, err = h.scheduler.Paused(t.Context())
		require.NoError(t, err)
		require.Len(t, paused, 1)
	})
}

func TestAUserOptsOutAndInAgain(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		refused := func() []almanac.OptOut {
			u, err := h.store.User(t.Context(), h.hanako.User.ID)
			require.NoError(t, err)
			return u.OptOuts
		}
		b.open(h.root + "users/" + h.hanako.User.ID.String())
		by.press(b, "Opt out …")
		require.Contains(t, b.text("main"), "Choose a type, or all types.")
		by.choose(b, "Refused type", almanac.TypeBirthday)
		until := time.Now().AddDate(0, 3, 0).Format(time.DateOnly)
		by.fill(b, "Until the day", until)
		by.press(b, "Opt out …")
		require.Contains(t, b.text("main"), "The user refuses BIRTHDAY by all channels until "+until)
		require.Empty(t, refused(), "a question changes nothing")
		by.fill(b, "Reason, stored with the opt-out", "on leave")
		by.press(b, "Opt out")
		require.Len(t, refused(), 1)
		for _, text := range []string{"The opt-out is stored.", until, "grace", "on leave"} {
			require.Contains(t, b.text("main"), text)
		}
		by.press(b, "Opt in to BIRTHDAY by all channels …")
		by.press(b, "Opt in")
		require.Empty(t, refused())
		require.Contains(t, b.text("main"), "The user has opted out of nothing.")

		by.tick(b, "Of all types")
		by.press(b, "Opt out …")
		by.press(b, "Opt out")
		require.Equal(t, "", refused()[0].Type)
		require.Contains(t, b.text("main"), "The user has opted out of all types.")
	})
}

func TestZonesAreReconciled(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		e := h.birthday
		right := e.Due
		e.Due, e.AvailableAt, e.Version = e.Due.Add(time.Hour), e.AvailableAt.Add(time.Hour), e.Version+1
		_, err := h.store.MoveEvents(t.Context(), []almanac.Event{e})
		require.NoError(t, err)
		require.NoError(t, h.store.EditZoneRules(t.Context(), func(book almanac.ZoneBook) (edited almanac.ZoneBook, err error) {
			for _, r := range book.Rules {
				r.Recheck = time.Now().UTC().Add(-time.Minute)
				edited.Rules = append(edited.Rules, r)
			}
			return edited, nil
		}))
		by.press(b, "Zones")
		by.press(b, "Show what reconciling would move")
		require.Contains(t, b.text("main"), "1 event would move. Nothing has changed yet.")
		require.NotEqual(t, right, h.event(t, e.ID).Due)
		by.press(b, "Move 1 event and store the rules and calendars")
		require.Contains(t, b.text("main"), "1 event moved.")
		require.Equal(t, right, h.event(t, e.ID).Due)
	})
}

func TestAMoveOfAUserIsPreviewed(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		by.press(b, "Users")
		by.fill(b, "External id", "crm-1")
		by.press(b, "Find")
		by.press(b, linkTo(h.ada.ID))
		by.fill(b, "What if the zone were …", "Mars")
		by.fill(b, "… or the date of birth", "1990-02-29")
		by.press(b, "Preview")
		require.Contains(t, b.text("[role=alert]"), "zone")
		require.Contains(t, b.text("[role=alert]"), "date of birth")
		by.fill(b, "What if the zone were …", "America/New_York")
		by.fill(b, "… or the date of birth", "1990-12-11")
		by.choose(b, "… or the gap policy", "reject")
		by.press(b, "Preview")
		require.Contains(t, b.text("main"), "would move or be left out. This is a preview: nothing is stored.")
		stored, err := h.store.User(t.Context(), h.ada.ID)
		require.NoError(t, err)
		require.Equal(t, "Europe/London", stored.Timezone.String())
	})
}

func TestAWallTimeIsLookedUp(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, _ *host, b *tab, by hands) {
		by.press(b, "When")
		by.fill(b, "Zone", "Europe/Berlin")
		by.fill(b, "At (HH:MM, or YYYY-MM-DDTHH:MM)", "2026-10-25T02:30")
		by.press(b, "Show")
		require.Contains(t, b.text("main"), "2026-10-25 00:30:00 UTC", "the first of two")
		require.Contains(t, b.text("main"), "2026-10-25 01:30:00 UTC", "the second")
	})
}

func TestADayLeadsToItsEvents(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		e := h.anniversary // on the first day of a month, to which the name of the month leads
		day := e.Due.In(tokyo)
		by.press(b, "Calendar")
		by.fill(b, "Zone", "asia/tokyo")
		by.fill(b, "Year", day.Format("2006"))
		by.press(b, "Show")
		if by == (mouse{}) {
			by.press(b, day.Format("Mon 2006-01-02")+"…")
		} else {
			by.press(b, day.Format("Jan"))
		}
		event := "09:00:00 ANNIVERSARY " + linkTo(e.ID)
		b.reloadUntil(event) // a busy server does not list the events in time
		by.press(b, event)
		require.Contains(t, b.text("main"), e.OccurrenceKey)
	})
}

var tokyo = time.FixedZone("JST", 9*60*60)

func TestTheMapLooksAhead(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, _ *host, b *tab, by hands) {
		by.press(b, "Map")
		by.fill(b, "Mark where clocks show", "12:00")
		if b.script { // the form is sent when a field loses the focus
			b.leave(func() { eval[bool](b, "document.activeElement.blur() ?? true") })
		} else {
			by.press(b, "Show")
		}
		require.Contains(t, b.text("main"), "chosen hour")
		by.fill(b, "Mark where clocks show", "99")
		if b.script {
			b.leave(func() { eval[bool](b, "document.activeElement.blur() ?? true") })
		} else {
			by.press(b, "Show")
		}
		require.Equal(t, "99", eval[string](b, `document.querySelector("[name=hour]").value`), "what was sent stays")
	})
}

func TestAListIsFilteredAndExported(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		dir := t.TempDir()
		b.do(call(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
			Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID,
		}))
		by.press(b, "Events")
		by.choose(b, "Status", "FAILED")
		by.fill(b, "User", h.ada.ID.String())
		by.press(b, "Show")
		require.Contains(t, b.text("main"), linkTo(h.failed.ID))
		require.NotContains(t, b.text("main"), linkTo(h.completed.ID))
		by.touch(b, "Export as CSV") // a download is no other page
		var text []byte
		require.Eventually(t, func() bool {
			files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
			require.NoError(t, err)
			if len(files) == 1 {
				text, err = os.ReadFile(files[0])
				require.NoError(t, err)
			}
			return len(text) > 0
		}, patience, 20*time.Millisecond)
		require.Contains(t, string(text), h.failed.ID.String())
		require.Equal(t, 2, strings.Count(string(text), "\n"), "a heading and a row: %s", text)
	})
}

func TestAViewerLogsInAndOut(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	h := newHost(t, atRoot, dashboard.WithTokenLogin(token))
	browser := newBrowser(t)
	for _, by := range []hands{mouse{}, keyboard{}} {
		b := newTab(t, browser, desk)
		b.expect("status of 401")
		b.open(h.root + "events")
		require.Contains(t, eval[string](b, "location.href"), "/login")
		by.fill(b, "Token", "a wrong one")
		by.press(b, "Log in")
		require.Contains(t, b.text("[role=alert]"), "This token is wrong.")
		by.fill(b, "Token", token)
		by.press(b, "Log in")
		require.Equal(t, h.root, eval[string](b, "location.href"))
		require.Empty(t, eval[string](b, "document.cookie"), "scripts cannot read the session")
		by.press(b, "Events")
		require.Contains(t, b.text("main"), linkTo(h.pending.ID))
		by.press(b, "Log out")
		b.open(h.root + "events")
		require.Contains(t, eval[string](b, "location.href"), "/login")
		b.requireSound(h.server.URL)
	}
}

func TestALivePageIsPaused(t *testing.T) {
	t.Parallel()
	h := newHost(t, atRoot, letIn())
	h.waitForNumbers(t)
	browser := newBrowser(t)
	for _, by := range []hands{mouse{}, keyboard{}} {
		b := newTab(t, browser, desk)
		b.open(h.root + "pauses")
		b.until(`document.querySelector("[data-state]").textContent === "Live"`)
		by.touch(b, "Freeze")
		b.until(`document.querySelector("[data-state]").textContent === "Not updated"`)
		by.touch(b, "Go on")
		b.until(`document.querySelector("[data-state]").textContent === "Live"`)
		b.requireSound(h.server.URL)
	}
}

func TestABroadcastIsStoppedAndResumed(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, h *host, b *tab, by hands) {
		by.press(b, "Broadcasts")
		by.press(b, "sale")
		require.Contains(t, b.text("main"), "Pacific/Apia")
		by.press(b, "Stop sale …")
		by.press(b, "Stop")
		require.Equal(t, broadcast.Stopped, h.broadcast(t, "sale").State)
		require.Equal(t, "grace", h.broadcast(t, "sale").Steps[1].By)
		by.press(b, "Resume sale …")
		by.press(b, "Resume")
		require.Equal(t, broadcast.Storing, h.broadcast(t, "sale").State)
	})
}

// broadcast returns a broadcast as it is stored now.
func (h *host) broadcast(t *testing.T, name string) broadcast.Status {
	t.Helper()
	is, err := h.store.Broadcast(t.Context(), name)
	require.NoError(t, err)
	return is
}

func TestARuleIsRolledOut(t *testing.T) {
	t.Parallel()
	byAllHands(t, func(t *testing.T, _ *host, b *tab, by hands) {
		by.press(b, "Roll-out")
		by.fill(b, "Type", "BIRTHDAY")
		by.press(b, "Show what would change")
		require.Contains(t, b.text("main"), "Nothing has changed yet.")
	})
}

func TestDryRunsAreAccessible(t *testing.T) {
	t.Parallel()
	h := newHost(t, atRoot, dashboard.AllowAll())
	b, by := newTab(t, newBrowser(t), look{320, 700, false, true, nil}), mouse{}
	b.open(h.root + "roll-out?type=BIRTHDAY")
	by.press(b, "Show what would change")
	require.Contains(t, b.text("main"), "Nothing has changed yet.")
	b.requireAccessible()
	b.open(h.root + "broadcasts")
	by.fill(b, "Name", "another")
	by.fill(b, "Type", "BIRTHDAY")
	by.fill(b, "Local time", "2999-01-02T10:00")
	by.press(b, "Show what would be sent")
	require.Contains(t, b.text("main"), "Nothing has changed yet.")
	b.requireAccessible()
}
