package icalendar_test

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/icalendar"
)

// unescape reads a TEXT (RFC 5545, section 3.3.11).
func unescape(t *testing.T, value string) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if strings.ContainsRune(";,", rune(value[i])) {
			t.Fatalf("%q has a separator", value)
		}
		if value[i] != '\\' {
			b.WriteByte(value[i])
			continue
		}
		i++
		require.Less(t, i, len(value), "%q ends with a backslash", value)
		switch value[i] {
		case 'n':
			b.WriteByte('\n')
		case '\\', ';', ',':
			b.WriteByte(value[i])
		default:
			t.Fatalf("%q has an unknown escape", value)
		}
	}
	return b.String()
}

// shown returns a text as a calendar shows it.
func shown(text string) string {
	var b strings.Builder
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n")
	for _, r := range text {
		switch {
		case strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r):
			b.WriteByte('\n')
		case r == '\t' || !unicode.IsControl(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// FuzzHostileTexts puts arbitrary bytes into the name, a title and an event type. The
// calendar keeps its form, and its texts are what they were.
func FuzzHostileTexts(f *testing.F) {
	injected := "x\r\nEND:VEVENT\r\nEND:VCALENDAR\r\nBEGIN:VCALENDAR"
	for _, text := range []string{
		"", "Ada's birthday", injected, `\n\N\;\,\\`, "a;b,c\\", strings.Repeat("é", 100), strings.Repeat("x", 66) + "日本語" + strings.Repeat("👩‍🚀", 40),
		"\u2028BEGIN:VALARM\u2029", "a\xffb\x00c\x7f", "tab\there", "\v\f\u0085", "an old\rbreak", " leading", strings.Repeat("\\", 75), "X:Y;Z=\"q\"",
	} {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, name, title, eventType string) {
		if !utf8.ValidString(eventType) || strings.ContainsRune(eventType, 0) || len(eventType) < 1 || len(eventType) > 50 {
			eventType = "BIRTHDAY" // others are refused by NewRegistry
		}
		s := newStage(t, daily(eventType, almanac.Execution{}))
		ada := s.ada(t)
		for _, want := range []string{title, eventType} {
			settings := icalendar.Settings{Name: name, Ahead: 2}
			if want == title {
				settings.Summary = func(almanac.User, almanac.Event) string { return title }
			}
			text, err := s.feed(t, settings).Calendar(t.Context(), ada)
			require.NoError(t, err)
			head, all := parse(t, string(text))
			require.Len(t, all, 2)
			if name != "" {
				require.Equal(t, shown(name), unescape(t, head["NAME"]))
			}
			require.Equal(t, shown(want), unescape(t, all[0]["SUMMARY"]))
			require.NoError(t, uuid.Validate(all[0]["UID"]))
		}
	})
}

// fixed is a store of one user with some events.
type fixed struct {
	user   almanac.User
	events []almanac.Event
}

func (r fixed) User(context.Context, uuid.UUID) (almanac.User, error) { return r.user, nil }

func (r fixed) Now(context.Context) (time.Time, error) { return time.Unix(1800000000, 0), nil }

func (r fixed) Find(context.Context, almanac.Spec, almanac.Page) (almanac.List[almanac.Event], error) {
	return almanac.List[almanac.Event]{Items: r.events}, nil
}

func (fixed) Preview(context.Context, uuid.UUID, string, int) (almanac.PreviewResult, error) {
	return almanac.PreviewResult{}, nil
}

// Parts of an identity that are joined differently are different identities, and versions
// stay within the INTEGER of RFC 5545.
func TestIdentitiesAreUnambiguousAndSequencesBounded(t *testing.T) {
	t.Parallel()
	registry, err := almanac.NewRegistry(daily("A", almanac.Execution{}), daily("AB", almanac.Execution{}))
	require.NoError(t, err)
	u, now := almanactest.User(), time.Unix(1800000000, 0)
	event := func(eventType, series, key string, options ...almanactest.EventOption) almanac.Event {
		options = append([]almanactest.EventOption{almanactest.For(u), almanactest.OfType(eventType), almanactest.OfSeries(series, key)}, options...)
		return almanactest.Event(now, options...)
	}
	versions := func(user, event int) almanactest.EventOption {
		return func(e *almanac.Event, _ time.Time) { e.UserVersion, e.Version = user, event }
	}
	store := fixed{u, []almanac.Event{
		event("A", "B", "C", versions(1, 998)), event("AB", "", "C", versions(1, 1<<40)), event("A", "", "BC", versions(2, 0)), event("A", "BC", "D", versions(1<<40, 1)),
		event("A", "", "BC", almanactest.WithOrigin(almanac.Origin{Kind: almanac.OriginScheduled})),
	}}
	f, err := icalendar.New(store, store, registry, icalendar.Settings{})
	require.NoError(t, err)
	uids, sequences := map[string]bool{}, map[int]bool{}
	for _, e := range entries(t, f, u.ID) {
		uids[e["UID"]], sequences[e.sequence(t)] = true, true
	}
	require.Len(t, uids, 5)
	require.Equal(t, map[int]bool{1001: true, 1998: true, 1999: true, 2000: true, 1<<31 - 1: true}, sequences)
}
