package almanac

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// dueAt makes events that became available at seconds of a morning.
func dueAt(seconds ...int) []Event {
	events := make([]Event, len(seconds))
	for i, s := range seconds {
		events[i].AvailableAt = at(s)
	}
	return events
}

func at(second int) time.Time {
	return time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC).Add(time.Duration(second) * time.Second)
}

// took is the answer to a claim at noon that took so many events, the last of them
// at a second of the morning.
func took(n, second int) ClaimResult {
	return ClaimResult{Events: make([]Event, n), At: at(3 * 3600), Reached: at(second)}
}

func TestMark(t *testing.T) {
	t.Parallel()
	const limit = 2
	claim := func(m *mark, c ClaimResult) { m.advance(ClaimRequest{Limit: limit, Mark: m.look()}, c) }
	for name, tt := range map[string]struct {
		happens func(m *mark)
		want    time.Time // where the next look begins
	}{
		"nothing has happened":                    {func(*mark) {}, time.Time{}},
		"some were claimed":                       {func(m *mark) { claim(m, took(1, 10)) }, at(10)},
		"nothing was claimed":                     {func(m *mark) { claim(m, took(1, 10)); claim(m, ClaimResult{At: at(60)}) }, at(10)},
		"nothing was claimed, at an unknown time": {func(m *mark) { claim(m, took(1, 10)); claim(m, ClaimResult{}) }, at(10)},
		"more were claimed":                       {func(m *mark) { claim(m, took(2, 10)); claim(m, took(2, 20)) }, at(20)},
		"the clock is behind the claimed events":  {func(m *mark) { claim(m, ClaimResult{Events: make([]Event, 1), At: at(5), Reached: at(10)}) }, at(5)},
		"an earlier event was announced":          {func(m *mark) { claim(m, took(1, 10)); m.note(dueAt(30, 5, 20)...) }, at(5)},
		"a later event was announced":             {func(m *mark) { claim(m, took(1, 10)); m.note(dueAt(30)...) }, at(10)},
		"an ended event was announced":            {func(m *mark) { claim(m, took(1, 10)); m.note(Event{}) }, at(10)},
		"the mark was reset":                      {func(m *mark) { claim(m, took(1, 10)); m.reset() }, time.Time{}},
		"a look everywhere found nothing":         {func(m *mark) { claim(m, took(1, 10)); m.reset(); claim(m, ClaimResult{At: at(60)}) }, at(10)},
		"a look everywhere was not made":          {func(m *mark) { claim(m, took(1, 10)); m.reset(); claim(m, ClaimResult{}) }, time.Time{}},
		"a look everywhere may have left events":  {func(m *mark) { claim(m, took(1, 10)); m.reset(); claim(m, took(1, 5)) }, at(5)},
		"a claim after a reset left events":       {func(m *mark) { claim(m, took(1, 10)); m.reset(); claim(m, took(2, 5)) }, at(5)},
		"the mark lay in the future, one claimed": {func(m *mark) {
			claim(m, took(1, 10))
			claim(m, ClaimResult{Events: make([]Event, 1), At: at(7), Reached: at(5)})
		}, at(5)},
		"the mark lay in the future, some claimed": {func(m *mark) {
			claim(m, took(1, 10))
			claim(m, ClaimResult{Events: make([]Event, 2), At: at(7), Reached: at(5)})
		}, at(5)},
		"an event was announced during a claim": {func(m *mark) {
			r := ClaimRequest{Limit: limit, Mark: m.look()}
			m.note(dueAt(5, 7)...)
			m.advance(r, took(2, 10))
		}, at(5)},
		"an event was announced before a claim": {func(m *mark) { claim(m, took(1, 10)); m.note(dueAt(5)...); claim(m, took(2, 20)) }, at(20)},
		"the mark was reset during a claim": {func(m *mark) {
			r := ClaimRequest{Limit: limit, Mark: m.look()}
			m.reset()
			m.advance(r, took(2, 10))
		}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m mark
			tt.happens(&m)

			if got := m.look(); !got.Equal(tt.want) {
				t.Errorf("the next look begins at %v, want %v", got, tt.want)
			}
		})
	}
}

// entry is an event as a repository has it that is shared with others.
type entry struct {
	available time.Time
	hidden    bool // in a transaction that is not committed
	locked    bool // by another transaction
	taken     bool
	known     bool // to this process, as one that can be claimed
}

// shop is a repository, its clock, and a process that claims from it.
type shop struct {
	now     time.Time
	entries []*entry
	mark    mark
	request *ClaimRequest // the claim on its way
	answer  ClaimResult
}

// Whatever others do, and whenever: the mark never passes what the process knows
// to be there, and one look everywhere and those that follow it take all there is.
func TestMarkLosesNoEvent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &shop{now: at(0)}
		for range 10 {
			s.store(t, false)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":                                      s.check,
			"time passes":                           func(t *rapid.T) { s.now = s.now.Add(rapid.Custom(span).Draw(t, "by")) },
			"the clock is set back":                 func(t *rapid.T) { s.now = s.now.Add(-rapid.Custom(span).Draw(t, "by")) },
			"another stores":                        func(t *rapid.T) { s.store(t, false) },
			"another begins to store":               func(t *rapid.T) { s.store(t, false).hidden = true },
			"another commits":                       func(t *rapid.T) { s.pick(t, func(e *entry) bool { return e.hidden }).hidden = false },
			"another locks":                         func(t *rapid.T) { s.pick(t, (*entry).free).locked = true },
			"another transaction unlocks the event": func(t *rapid.T) { s.pick(t, held).locked = false },
			"another takes":                         func(t *rapid.T) { s.pick(t, held).taken = true },
			"the process stores":                    func(t *rapid.T) { s.mark.note(Event{AvailableAt: s.store(t, true).available}) },
			"the process claims":                    s.claim,
			"the process claims, and stores meanwhile": func(t *rapid.T) {
				s.receive(t)
				s.claim(t)
				s.mark.note(Event{AvailableAt: s.store(t, true).available})
				s.receive(t)
			},
			"the answer arrives":       s.receive,
			"the process claims twice": func(t *rapid.T) { s.receive(t); s.claim(t); s.receive(t); s.claim(t); s.receive(t) },
			"the answer does not come": func(*rapid.T) { s.request = nil; s.mark.reset() },
			"a sweep":                  s.sweep,
		})
	})
}

func span(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(0, 10).Draw(t, "seconds")) * time.Second
}

func held(e *entry) bool { return e.locked && !e.taken }

// free says whether a claim would take it, were it due.
func (e *entry) free() bool { return !e.hidden && !e.locked && !e.taken }

func (s *shop) store(t *rapid.T, known bool) *entry {
	e := &entry{available: s.now.Add(rapid.Custom(span).Draw(t, "ahead") - rapid.Custom(span).Draw(t, "late")), known: known}
	s.entries = append(s.entries, e)
	return e
}

// pick returns one of the entries that match, or an unknown entry.
func (s *shop) pick(t *rapid.T, matches func(*entry) bool) *entry {
	found := slices.DeleteFunc(slices.Clone(s.entries), func(e *entry) bool { return !matches(e) })
	if len(found) == 0 {
		return new(entry)
	}
	return rapid.SampledFrom(found).Draw(t, "entry")
}

// claim has the repository take what a claim asks for. The answer is on its way.
func (s *shop) claim(t *rapid.T) {
	if s.request != nil {
		return
	}
	s.request = &ClaimRequest{Limit: rapid.IntRange(1, 3).Draw(t, "limit"), Mark: s.mark.look()}
	s.answer = s.take(t, *s.request)
}

// take takes at most the limit, which the repository may lower, even to zero: then it does not search.
func (s *shop) take(t *rapid.T, r ClaimRequest) ClaimResult {
	r.Limit = rapid.IntRange(0, r.Limit).Draw(t, "lowered limit")
	if r.Limit == 0 {
		return ClaimResult{}
	}
	c := ClaimResult{At: s.now}
	slices.SortStableFunc(s.entries, func(a, b *entry) int { return a.available.Compare(b.available) })
	for _, e := range s.entries {
		if e.available.After(s.now) || e.available.Before(r.Mark) && !r.Mark.After(s.now) {
			continue
		}
		e.known = e.free() // and will not be for long, if there is room
		if e.known && len(c.Events) < r.Limit {
			e.taken = true
			c.Events, c.Reached = append(c.Events, Event{}), e.available
		}
	}
	return c
}

func (s *shop) receive(*rapid.T) {
	if s.request == nil {
		return
	}
	s.mark.advance(*s.request, s.answer)
	s.request = nil
}

// sweep is a look everywhere, and those that follow it while there may be more.
func (s *shop) sweep(t *rapid.T) {
	s.receive(t)
	s.mark.reset()
	for more := true; more; {
		r := ClaimRequest{Limit: rapid.IntRange(1, 3).Draw(t, "limit"), Mark: s.mark.look()}
		c := s.take(t, r)
		s.mark.advance(r, c)
		more = len(c.Events) > 0 || c.At.IsZero()
	}
	for _, e := range s.entries {
		if e.free() && !e.available.After(s.now) {
			t.Fatalf("available at %v, and not claimed by a sweep at %v; the mark is at %v", e.available, s.now, s.mark.at)
		}
	}
}

// check looks whether anything that the process knows of lies left of the mark.
func (s *shop) check(t *rapid.T) {
	if s.request != nil || s.mark.whole || s.mark.at.After(s.now) {
		return // the mark is not settled, or does not count
	}
	for _, e := range s.entries {
		if e.known && e.free() && e.available.Before(s.mark.at) {
			t.Fatalf("available at %v, and the mark is at %v", e.available, s.mark.at)
		}
	}
}

// answered returns the breaker after answers to other events each, claimed now, one report each: true is a success.
func (b Breaker) answered(now time.Time, answers ...bool) Breaker {
	for _, ok := range answers {
		b = b.after([]Answer{{EventID: uuid.New(), ClaimedAt: now, Failed: !ok}}, now, 0)
	}
	return b
}

func TestABreakerOpensAfterFailures(t *testing.T) {
	t.Parallel()
	same := uuid.New()
	alternating := make([]bool, leastAnswers) // begins with a failure
	for i := range alternating {
		alternating[i] = i%2 > 0
	}
	for name, tt := range map[string]struct {
		is   Breaker
		open bool
	}{
		"four in a row":           {Breaker{}.answered(at(0), false, false, false, false), false},
		"five in a row":           {Breaker{}.answered(at(0), false, false, false, false, false), true},
		"five, with a success":    {Breaker{}.answered(at(0), false, false, true, false, false, false), false},
		"half of twenty":          {Breaker{}.answered(at(0), append(alternating, false)...), true},
		"half of nineteen":        {Breaker{}.answered(at(0), alternating[1:19]...), false},
		"half of twenty too long": {Breaker{}.answered(at(0), alternating[1:]...).answered(at(61), false), false},
		"one event five times": {func() (b Breaker) {
			for range failuresInRow {
				b = b.after([]Answer{{EventID: same, ClaimedAt: at(0), Failed: true}}, at(0), 0)
			}
			return b
		}(), false},
		"a receiver that asks for a rest": {Breaker{}.after([]Answer{{EventID: same, ClaimedAt: at(0), Failed: true, Busy: time.Minute}}, at(0), 0), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.open, tt.is.Allowed == 1, "%+v", tt.is)
			require.Equal(t, tt.open, tt.is.RetryAt.After(at(0)))
		})
	}
}

func TestABreakerIsForgottenAfterSuccesses(t *testing.T) {
	t.Parallel()
	b := Breaker{}.answered(at(0), false)
	require.Len(t, b.Answers, 1)
	b = b.answered(at(1), true, true, true, true)
	require.Len(t, b.Answers, 5)
	require.Zero(t, b.answered(at(61), true))
	require.Len(t, Breaker{}.answered(at(0), make([]bool, 4)...).answered(at(0), slices.Repeat([]bool{true}, 200)...).Answers, 0)
}

func TestAnOpenBreakerWaitsTwiceAsLongEachTime(t *testing.T) {
	t.Parallel()
	b := Breaker{}.answered(at(0), false, false, false, false, false)
	now := at(0)
	for _, wait := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		require.Equal(t, now.Add(wait*time.Second), b.RetryAt)
		require.Equal(t, b, b.answered(b.RetryAt.Add(-time.Second), true, false), "what was in flight before says nothing")
		now = b.RetryAt
		b = b.answered(now, false)
	}
	require.Equal(t, at(0), b.OpenedAt)
	require.Equal(t, 8, b.Failures)
	busy := func(d time.Duration) Breaker {
		return b.after([]Answer{{EventID: uuid.New(), ClaimedAt: b.RetryAt, Failed: true, Busy: d}}, b.RetryAt, 0)
	}
	require.Equal(t, b.RetryAt.Add(time.Minute), busy(time.Minute).RetryAt)
	require.Equal(t, b.RetryAt.Add(time.Hour), busy(24*time.Hour).RetryAt)
	require.Equal(t, 8, busy(time.Minute).Failures)
}

func TestABreakerClosesInSteps(t *testing.T) {
	t.Parallel()
	open := Breaker{}.answered(at(0), false, false, false, false, false)
	b := open.answered(at(5), true)
	for allowed := 2; allowed <= mostAllowed; allowed *= 2 {
		require.Equal(t, allowed, b.Allowed)
		require.Equal(t, b.Allowed, b.answered(at(5), slices.Repeat([]bool{true}, allowed-1)...).Allowed, "too few")
		require.Equal(t, 1, b.answered(at(5), make([]bool, min((allowed+2)/3, failuresInRow))...).Allowed, "a third has failed, or five in a row")
		next := b.answered(at(65), true)
		require.True(t, next.Allowed == 2*allowed || next.Allowed == 0, "a minute later")
		b = b.answered(at(5), slices.Repeat([]bool{true}, allowed)...)
	}
	require.Zero(t, b)
}

// An event that its receiver never accepts uses up its attempts, so it cannot keep a breaker open.
func TestAFailureThatReopensABreakerResetsItsWait(t *testing.T) {
	t.Parallel()
	b := Breaker{}.answered(at(0), false, false, false, false, false)
	for range 5 {
		b = b.answered(b.RetryAt, false)
	}
	require.Equal(t, 5, b.Failures)
	now := b.RetryAt
	b = b.answered(now, true)
	require.Equal(t, 2, b.Allowed)
	b = b.answered(now, false)
	require.Equal(t, 1, b.Allowed)
	require.Equal(t, now.Add(10*time.Second), b.RetryAt)
}

func TestABreakerSurvivesAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	b := Breaker{}.answered(at(24*3600), false, false, false, false, false)
	require.Equal(t, 2, b.answered(at(0), true).Allowed)
}
