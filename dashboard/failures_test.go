package dashboard

import (
	"context"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestFailuresAreGroupedByReason(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	u := almanactest.User()
	var events []almanac.Event
	for _, reason := range []string{
		"receiver answered 404", "receiver answered 404", "receiver answered 503",
		"request " + uuid.NewString() + " refused at 10:11:12.5", "request " + uuid.NewString() + " refused at 10:11:13\nand more",
	} {
		events = append(events, almanactest.Event(time.Now(), almanactest.For(u), almanactest.FailedBecause(reason)))
	}
	events[0].Type = "BILL"
	h.store(t, u, events...)
	status, body := h.get(t, "/failures")
	require.Equal(t, http.StatusOK, status)
	requireRelative(t, body)
	require.Contains(t, body, "These are all 5 failed events.")
	require.Regexp(t, `(?s)receiver answered 404</bdi></a></th><td class="num">2</td><td>BIRTHDAY, BILL|receiver answered 404</bdi></a></th><td class="num">2</td><td>BILL, BIRTHDAY`, body)
	require.Contains(t, body, `<bdi>request # refused at #</bdi></a></th><td class="num">2`)
	require.Equal(t, 3, strings.Count(body, "<bdi>"))

	for text, count := range map[string]int{"receiver answered 404": 2, "receiver answered 503": 1, "request # refused": 2} {
		found := regexp.MustCompile(`href="\./(events\?[^"]*)"><bdi>` + regexp.QuoteMeta(text)).FindStringSubmatch(body)
		require.NotNil(t, found, text)
		status, list := h.get(t, "/"+html.UnescapeString(found[1]))
		require.Equal(t, http.StatusOK, status)
		require.Len(t, idsOf(list), count, text)
	}
}

func TestFailuresAreGroupedByTypeWithoutAPermission(t *testing.T) {
	t.Parallel()
	u := almanactest.User()
	failed := almanactest.Event(time.Now(), almanactest.For(u), almanactest.FailedBecause("no mailbox of Ada"))
	for _, option := range []Option{allowing(Look), exceptFor(SeePayloads, u.ID), exceptFor(SeePayloads, uuid.Nil)} {
		h := newHost(t, option)
		h.store(t, u, failed)
		_, body := h.get(t, "/failures")
		require.NotContains(t, body, "mailbox")
		require.Contains(t, body, "reason not shown to you")
		require.Contains(t, body, "type=BIRTHDAY")
	}
}

func TestFailuresSayHowFarWasLooked(t *testing.T) {
	t.Parallel()
	repository, calls := almanactest.NewRepository(time.Now), 0
	h := newHostOf(t, repository, different{endless{repository, &calls}}, everything())
	_, body := h.get(t, "/failures")
	require.Equal(t, 1, calls)
	require.Contains(t, body, "The newest 1,000 failed events were looked at, as far as those created 2001-09-09 01:46:40 UTC.")
	require.Contains(t, body, "950 smaller groups are not shown.")
	require.LessOrEqual(t, len(body), 60_000)

	empty := newHost(t)
	_, body = empty.get(t, "/failures")
	require.Contains(t, body, "No event has failed.")
}

// different has events that all failed for another reason.
type different struct{ endless }

func (d different) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	found, err := d.endless.Find(ctx, spec, page)
	for i := range found.Items {
		found.Items[i].FailureReason = string([]rune{'g' + rune(i%10), 'g' + rune(i/10%10), 'g' + rune(i/100)}) + strings.Repeat("<", 600)
	}
	return found, err
}

func TestAReasonIsFolded(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"receiver answered 503":                      "receiver answered 503",
		"order 48151623 of deadbeef01 at 2027-03-15": "order # of # at #",
		"dial 10.0.0.7:49152: refused":               "dial 10.0.0.7:#: refused",
		"first\r\nsecond":                            "first",
		"":                                           "no text",
		strings.Repeat("é", 100):                     strings.Repeat("é", 40) + "…",
	} {
		require.Equal(t, want, foldReason(reason))
	}
	require.Equal(t, "é", sharedPrefix("éa", "éb"))
	require.Equal(t, "", sharedPrefix("é", "è")) // they share a byte
	require.Equal(t, "a", beginning("a\tb"))
}
