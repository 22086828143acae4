package icalendar

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// write returns a calendar with the events.
func (f *Feed) write(u almanac.User, events []almanac.Event) []byte {
	var b bytes.Buffer
	refresh := fmt.Sprintf("PT%dM", int(f.settings.Refresh.Minutes()))
	line(&b, "BEGIN:VCALENDAR")
	line(&b, "VERSION:2.0")
	line(&b, "PRODID:-//Almanac//Calendar feed//EN")
	line(&b, "CALSCALE:GREGORIAN")
	line(&b, "NAME:"+escape(f.settings.Name))
	line(&b, "X-WR-CALNAME:"+escape(f.settings.Name)) // for programs older than RFC 7986
	line(&b, "REFRESH-INTERVAL;VALUE=DURATION:"+refresh)
	line(&b, "X-PUBLISHED-TTL:"+refresh)
	for _, e := range events {
		status := "CONFIRMED"
		if e.Status == almanac.Cancelled {
			status = "CANCELLED"
		}
		line(&b, "BEGIN:VEVENT")
		line(&b, "UID:"+uid(e))
		line(&b, fmt.Sprintf("SEQUENCE:%d", sequence(e)))
		line(&b, "DTSTAMP:"+instant(e.UpdatedAt))
		line(&b, "LAST-MODIFIED:"+instant(e.UpdatedAt))
		line(&b, "DTSTART:"+instant(e.Due))
		line(&b, "SUMMARY:"+escape(f.settings.Summary(u, e)))
		if day := e.Occurrence().SystemDayText(); day != "" {
			line(&b, "DESCRIPTION:"+escape(e.Wall.Date.String()+", "+day))
		}
		line(&b, "STATUS:"+status)
		line(&b, "TRANSP:TRANSPARENT")
		line(&b, "END:VEVENT")
	}
	if len(events) == 0 {
		for _, text := range noEvents {
			line(&b, text)
		}
	}
	line(&b, "END:VCALENDAR")
	return b.Bytes()
}

// noEvents is the definition of UTC, the component of a calendar without events: a calendar
// has at least one component (RFC 5545, section 3.6). Programs show nothing for it.
var noEvents = []string{
	"BEGIN:VTIMEZONE", "TZID:Etc/UTC", "BEGIN:STANDARD", "DTSTART:19700101T000000",
	"TZOFFSETFROM:+0000", "TZOFFSETTO:+0000", "TZNAME:UTC", "END:STANDARD", "END:VTIMEZONE",
}

// uid returns the UID of an occurrence, which depends on its nominal identity only. No part
// contains a zero byte, so the parts cannot be confused. Keys of two calendars can be the same text, so the
// name of a calendar is a part, unless it is the Gregorian one.
func uid(e almanac.Event) string {
	one := almanac.SeriesOf(e)
	parts := []string{one.Type, one.Name, one.Detached, e.OccurrenceKey}
	if by := e.KeyUnit.System(); by != "" {
		parts = append(parts, by)
	}
	return uuid.NewSHA1(e.UserID, []byte(strings.Join(parts, "\x00"))).String()
}

const (
	// versions is how many versions of an event are counted for one version of its user.
	versions = 1000
	// maxSequence is the greatest INTEGER of RFC 5545, section 3.3.8.
	maxSequence = 1<<31 - 1
)

// sequence returns the SEQUENCE of an occurrence. An edit of the user can replace the event of
// an occurrence by a preview, which has a lower version. So the version of the user comes first.
func sequence(e almanac.Event) int {
	return min(versions*e.UserVersion+min(e.Version, versions-1), maxSequence)
}

func instant(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

// breaks are the characters and pairs that programs take for the end of a line.
var breaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// escape returns a value of type TEXT (RFC 5545, section 3.3.11). Control characters other
// than tabs and line breaks cannot be in a calendar, so they are dropped.
func escape(text string) string {
	var b strings.Builder
	for _, r := range breaks.Replace(strings.ToValidUTF8(text, "\ufffd")) {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\\' || r == ';' || r == ',':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\t' || !unicode.IsControl(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

const maxOctets = 75 // of a line, without its end

// line writes a content line, and folds it between characters if it is long (RFC 5545, section 3.1).
func line(b *bytes.Buffer, text string) {
	for room := maxOctets; len(text) > room; room = maxOctets - len(" ") {
		cut := room
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		b.WriteString(text[:cut] + "\r\n ")
		text = text[cut:]
	}
	b.WriteString(text + "\r\n")
}
