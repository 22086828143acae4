package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// progress shows how far an import, a backfill or a move is: by a line that is written over on a terminal,
// and elsewhere by a line every ten seconds.
type progress struct {
	out      io.Writer
	terminal bool
	in       *input
	things   string // that are counted

	mu           sync.Mutex
	begun, shown time.Time
	drawn        bool // a line stands that is to be written over
}

func newProgress(out io.Writer, in *input) *progress {
	now := time.Now()
	return &progress{out: out, terminal: terminalOf(out).width > 0 && !dumb(), in: in, things: "rows", begun: now, shown: now}
}

// clearLine has a terminal forget the line that it is in.
const clearLine = "\r\x1b[K"

// update shows how many rows are done, unless that was shown a moment ago. It is safe for concurrent use.
func (p *progress) update(t tally) {
	p.draw(func(elapsed time.Duration) string { return p.text(t, elapsed) })
}

// draw shows a text, unless one was shown a moment ago.
func (p *progress) draw(text func(elapsed time.Duration) string) {
	every := 10 * time.Second
	if p.terminal {
		every = 100 * time.Millisecond
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	line := text(now.Sub(p.begun))
	if p.terminal {
		fmt.Fprint(p.out, clearLine+line)
		p.drawn = true
		return
	}
	fmt.Fprintln(p.out, line)
}

// say writes a line that stays.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(p.out, line)
}

// restart begins to count other things.
func (p *progress) restart(things string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.things, p.begun = things, time.Now()
}

// end takes the line away that is to be written over.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, clearLine)
		p.drawn = false
	}
}

func (p *progress) text(t tally, elapsed time.Duration) string {
	var parts []string
	if share := p.share(); share > 0 {
		const width = 20
		full := int(share * width)
		left := time.Duration(float64(elapsed) * (1 - share) / share).Round(time.Second)
		parts = append(parts, fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", full), strings.Repeat(".", width-full), share*100), fmt.Sprintf("%v left", left))
	}
	parts = append(parts, grouped(t.rows())+" "+p.things, grouped(perSecond(t.rows(), elapsed))+"/s")
	if t.Refused > 0 {
		parts = append(parts, grouped(t.Refused)+" refused")
	}
	return strings.Join(parts, "  ")
}

// share is how much of the file was read, 0 where its size is not known.
func (p *progress) share() float64 {
	if p.in.size == 0 {
		return 0
	}
	return min(1, float64(p.in.read.Load())/float64(p.in.size))
}

func perSecond(n int, elapsed time.Duration) int {
	if elapsed <= 0 {
		return 0
	}
	return int(float64(n) / elapsed.Seconds())
}

// grouped writes a number with commas: "12,345".
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
