package almanac

import (
	"sync"
	"time"
)

// mark is the available time at which the claims of a process start to search. Index
// entries of claimed events before it stay while an old transaction may read them, and
// the mark avoids scanning them again.
//
// An event before the mark may still be claimable. It was skipped because it was locked,
// its transaction committed late, it was released, or the clock was set back. If this
// process stored the event, the mark moves back to it. Events of other processes are
// found by searches from the beginning, every few seconds (see [WithSweep]).
//
// The zero mark is the beginning. Only one goroutine calls look and advance. Any
// goroutine may call note and reset.
type mark struct {
	mu    sync.Mutex
	at    time.Time // where searches begin; zero is the beginning
	whole bool      // whether the next search begins at the beginning, regardless of at
	noted time.Time // the earliest available time that was noted since the last search began; zero if none was
}

// look begins a search, and returns where it begins. Zero is the beginning.
func (m *mark) look() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noted = time.Time{}
	if m.whole {
		m.whole = false
		return time.Time{}
	}
	return m.at
}

// advance moves the mark after a claim, which was the last search. The mark never passes
// the last claimed event, because a locked event may come right after it.
func (m *mark) advance(r ClaimRequest, c ClaimResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c.Events) == 0 {
		return
	}
	fromBeginning := r.Mark.IsZero() || c.Reached.Before(r.Mark) // the mark was later than the repository's clock
	if fromBeginning && len(c.Events) >= r.Limit || c.Reached.After(m.at) {
		m.at = c.Reached // this may move the mark back, because more events may follow from there
	}
	if m.at.After(c.At) {
		m.at = c.At
	}
	if !m.noted.IsZero() && m.noted.Before(m.at) {
		m.at = m.noted // the claim may have begun before the event was stored
	}
}

// note moves the mark back to the events that this process has made available.
func (m *mark) note(events ...Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		t := e.AvailableAt
		if t.IsZero() {
			continue // not PENDING
		}
		if t.Before(m.at) {
			m.at = t
		}
		if m.noted.IsZero() || t.Before(m.noted) {
			m.noted = t
		}
	}
}

// reset makes the next search begin at the beginning. If that search finds no event, the
// mark stays where it was.
func (m *mark) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.whole = true
}
