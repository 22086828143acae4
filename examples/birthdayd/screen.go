package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"
)

// screen is the output of the demo. It uses colours only on terminals, and not when
// NO_COLOR is set (no-color.org). On terminals its rows fit the width.
type screen struct {
	out     io.Writer
	colours bool
	width   int // in columns; 0 means that the output does not go to a terminal
}

// presetWidth is for terminals that do not know their size.
const presetWidth = 80

// newScreen returns a screen that writes to out. The variable COLUMNS overrides the width of a terminal.
func newScreen(out io.Writer) screen {
	s := screen{out: out}
	file, ok := out.(*os.File)
	if !ok {
		return s
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return s
	}
	s.colours = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	s.width = cmp.Or(widthOf(file), presetWidth)
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		s.width = width
	}
	return s
}

// The widths of the columns where there is room, and the least ones.
const (
	timeWidth     = 19
	lateWidth     = 9
	zoneWidth     = 30
	messageWidth  = 48
	rowWidth      = 2 + timeWidth + 2 + zoneWidth + 2 + messageWidth + 2 + lateWidth
	leastZone     = 14
	leastMessage  = 10
	againNote     = "  again"
	missingLetter = "…"
)

// room returns the widths of the zone and of the message in a row that has a note. The zone
// is shortened first.
func (s screen) room(note string) (zone, message int) {
	zone, message = zoneWidth, messageWidth
	excess := rowWidth + len(note) - s.width
	if s.width == 0 || excess <= 0 {
		return zone, message
	}
	zone = max(zoneWidth-excess, leastZone)
	return zone, max(messageWidth-excess+zoneWidth-zone, leastMessage)
}

// head returns the beginning of a text that is longer than n letters.
func head(text string, n int) string {
	if letters := []rune(text); len(letters) > n {
		return string(letters[:n-1]) + missingLetter
	}
	return text
}

// tail returns the end of a text that is longer than n letters. The end of a zone's name says the most.
func tail(text string, n int) string {
	if letters := []rune(text); len(letters) > n {
		return missingLetter + string(letters[len(letters)-n+1:])
	}
	return text
}

const (
	bold   = "1"
	faint  = "2"
	green  = "32"
	yellow = "33"
)

func (s screen) paint(colour, text string) string {
	if !s.colours {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (s screen) title(on stage) {
	s.line("")
	s.line("%s", s.paint(bold, "birthdayd: a birthday greeting for each user at a local time of day"))
	s.line("")
	s.line("  database  %s", on.database)
	s.line("  API       %s", on.url)
	s.line("  dashboard %s%s", on.url, dashboardPath)
	s.line("  users     %d all over the world, whose birthday is due within seconds", demoUsers)
	s.earlier(on.left)
	s.line("")
	zone, message := s.room("")
	s.line("%s", s.paint(faint, fmt.Sprintf("  %-*s  %-*s  %-*s  %*s", timeWidth, "local time", zone, "zone", message, "message", lateWidth, "late by")))
}

// earlier says which further greetings arrive: those of a run that was interrupted.
func (s screen) earlier(left owed) {
	if left.waiting > 0 {
		s.line("  %s", counted(left.waiting, "1 greeting of an earlier run is delivered first.", "%d greetings of an earlier run are delivered first."))
	}
	if left.inFlight > 0 {
		s.line("  %s", counted(left.inFlight, "1 greeting of an earlier run follows when its lease has run out.",
			"%d greetings of an earlier run follow when their lease has run out."))
	}
}

// farewell says what a run leaves to the next one. The terminal may have shown ^C before.
func (s screen) farewell(left owed) {
	s.line("")
	if left == (owed{}) {
		s.line("stopping: no greetings are left")
		return
	}
	s.line("stopping: %s", counted(left.waiting+left.inFlight, "1 greeting is left; the next run delivers it",
		"%d greetings are left; the next run delivers them"))
}

// counted returns a text with a number, or the text for 1.
func counted(n int, one, others string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(others, n)
}

// late is the lateness from which a greeting is marked.
const late = 50 * time.Millisecond

func (s screen) greeting(g greeting) {
	colour := green
	if g.late < 0 || g.late > late {
		colour = yellow
	}
	note := ""
	if g.repeat {
		note = againNote
	}
	local := g.event.Wall.Date.String() + " " + g.event.Wall.Clock.String()
	zone, message := s.room(note)
	s.line("  %-*s  %s  %-*s  %s%s", timeWidth, local, s.paint(faint, fmt.Sprintf("%-*s", zone, tail(g.event.Zone, zone))),
		message, head(g.message, message), s.paint(colour, fmt.Sprintf("%*s", lateWidth, millis(g.late))), note)
}

// millis returns a duration that is at most as wide as its column. That of a greeting of an
// earlier run can be long.
func millis(d time.Duration) string {
	if d >= 10*time.Second {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func (s screen) summary(t tally) {
	s.line("")
	s.line("%s", s.paint(bold, fmt.Sprintf("  %d of %d users greeted, in %d zones", len(t.late), t.users, len(t.zones))))
	s.line("  late by       %s in the middle, %s at the 99th percentile, %s at most; %d early",
		millis(t.quantile(0.5)), millis(t.quantile(0.99)), millis(t.quantile(1)), t.early)
	s.line("  greeted twice %d; signatures refused %d", t.repeats, t.refused)
	s.line("  next year     %d events stored", t.next)
}

// hints prints commands to try. The first creates a user who is greeted five seconds later.
func (s screen) hints(on stage) {
	soon := "date -d '+5 seconds'"
	if runtime.GOOS == "darwin" {
		soon = "date -v+5S"
	}
	curl := "curl -s"
	if on.locked {
		curl += ` -H "Authorization: Bearer $BIRTHDAYD_API_TOKEN"`
	}
	s.line("")
	s.line("%s", s.paint(bold, "  It goes on serving. In another terminal, try:"))
	s.line("")
	s.line(`  %s %s/user -H 'Content-Type: application/json' -d '{`, curl, on.url)
	s.line(`    "firstName": "Ada", "lastName": "Lovelace", "timezone": "Asia/Tokyo",`)
	s.line(`    "dateOfBirth": "'$(TZ=Asia/Tokyo %s +1992-%%m-%%d)'",`, soon)
	s.line(`    "attributes": {"deliverAt": "'$(TZ=Asia/Tokyo %s +%%T)'"}}'`, soon)
	s.line("  %s '%s/events?status=COMPLETED&limit=2'", curl, on.url)
	s.line("  %s %s/readyz", curl, on.url)
	s.line("")
	s.line("%s", s.paint(faint, "  Ctrl-C stops it; the data stays for the next run."))
	s.line("")
}

// line prints one line. A closed terminal does not stop the server.
func (s screen) line(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }
