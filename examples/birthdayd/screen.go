package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// screen is the output of the demo. It uses colours only on terminals, and not when
// NO_COLOR is set (no-color.org).
type screen struct {
	out     io.Writer
	colours bool
}

func newScreen(out io.Writer) screen {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return screen{out: out}
	}
	info, err := file.Stat()
	return screen{out: out, colours: err == nil && info.Mode()&os.ModeCharDevice != 0}
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
	s.line("  users     %d all over the world, whose birthday is due within seconds", demoUsers)
	s.line("")
	s.line("%s", s.paint(faint, fmt.Sprintf("  %-19s  %-30s  %-48s  %9s", "local time", "zone", "message", "late by")))
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
		note = "  again"
	}
	local := g.event.Wall.Date.String() + " " + g.event.Wall.Clock.String()
	s.line("  %-19s  %s  %-48s  %s%s", local, s.paint(faint, fmt.Sprintf("%-30s", g.event.Zone)), g.message,
		s.paint(colour, fmt.Sprintf("%9s", millis(g.late))), note)
}

func millis(d time.Duration) string {
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
