package almanac_test

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
)

// crashing says whether leases run out.
type crashing int

const (
	none crashing = iota
	some
	perhaps // as it happens: who is first, the sweep or a renewal, or what a process has in its hands
)

// Each fault by itself, in a course in which it cannot but meet a call.
func TestAFaultLosesNothing(t *testing.T) {
	t.Parallel()
	at, second := 2*time.Second, time.Second
	tests := map[string]struct {
		faults   []fault
		jump     time.Duration
		receiver delivering
		crashes  crashing
	}{
		"no fault":      {},
		"a claim fails": {faults: []fault{{"claim", fails, at, 0}}},
		"a claim commits, and its answer is lost":       {faults: []fault{{"claim", loses, at, 0}}},
		"all claims commit, and their answers are lost": {faults: []fault{{"claim", loses, at, 10 * second}}},
		"nobody can give back what a lost claim took":   {faults: []fault{{"claim", loses, at, 0}, {"release", fails, at, 0}}, crashes: some},
		"a settlement commits, and its answer is lost":  {faults: []fault{{"settle", loses, at, 0}}},
		"settling fails again and again":                {faults: []fault{{"settle", fails, at, 10 * second}}},
		"settling hangs again and again":                {faults: []fault{{"settle", hangs, at, 10 * second}}},
		"nothing can be looked up":                      {faults: []fault{{"until", fails, at, 10 * second}}},
		"a renewal commits, and its answer is lost":     {faults: []fault{{"renew", loses, at, 0}}, receiver: lingers},
		"renewal fails for less than a lease":           {faults: []fault{{"renew", fails, at, 1500 * time.Millisecond}}, receiver: lingers},
		"nothing can be stored for longer than a lease": {faults: []fault{{"renew", fails, at, 10 * second}, {"settle", fails, at, 10 * second}}, receiver: lingers, crashes: some},
		"a process dies before it claims":               {faults: []fault{{"claim", dies, at, 0}}},
		"a process dies when it has claimed":            {faults: []fault{{"claim", diesAfter, at, 0}}, crashes: some},
		"a process dies with its hands full":            {faults: []fault{{"renew", dies, at, 0}}, receiver: lingers, crashes: some},
		"a process dies before it settles":              {faults: []fault{{"settle", dies, at, 0}}, crashes: some},
		"a process dies when it has settled":            {faults: []fault{{"settle", diesAfter, at, 0}}},
		"a process dies when it has swept":              {faults: []fault{{"sweep", diesAfter, at, 0}}, crashes: perhaps},
		"a delivery ignores that its time is over":      {receiver: ignores, crashes: some},
		"the clock leaps ahead":                         {jump: time.Hour, receiver: lingers, crashes: perhaps},
		"the clock is put back":                         {jump: -time.Minute, receiver: lingers},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := course{Slots: 3, People: 2, Count: 4, Interval: second, Processes: [][]fault{tt.faults, tt.faults}}
				c.Receiver = []delivering{accepts, accepts, accepts, accepts}
				if tt.receiver != "" {
					c.Receiver[0] = tt.receiver
				}
				if tt.jump != 0 {
					c.Jumps = []jump{{3 * second, tt.jump}}
				}
				s := c.live(t)
				for _, complaint := range s.complaints {
					t.Error(complaint)
				}
				for _, f := range tt.faults {
					if s.bit[f] == 0 {
						t.Errorf("vacuous: %q has met no call", f)
					}
				}
				crashes := 0
				for _, e := range s.events(t) {
					crashes += e.CrashCount
				}
				if tt.crashes == none && crashes > 0 || tt.crashes == some && crashes == 0 {
					t.Errorf("leases of %d events ran out", crashes)
				}
				if tt.crashes == none && len(s.ledger) != c.People*c.Count {
					t.Errorf("%d deliveries of %d", len(s.ledger), c.People*c.Count)
				}
			})
		})
	}
}

// What ignores that it has to stop, whoever delivers it, is taken for what kills them.
func TestADeliveryThatNeverReturnsIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := course{Slots: 6, People: 1, Count: 1, Receiver: []delivering{ignores}}.live(t)
		for _, complaint := range s.complaints {
			t.Error(complaint)
		}
		if e := s.events(t)[0]; e.Status != almanac.Failed || e.FailureReason != "worker died 5 times" {
			t.Errorf("it ended as %s: %q", e.Status, e.FailureReason)
		}
	})
}

func drawCourse(t *rapid.T) course {
	span := func(most time.Duration) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(0, 20), func(n int) time.Duration { return most * time.Duration(n) / 20 })
	}
	faults := rapid.Custom(func(t *rapid.T) fault {
		return fault{
			Call:   rapid.SampledFrom([]string{"claim", "claim", "settle", "settle", "renew", "until", "release", "sweep"}).Draw(t, "call"),
			Answer: rapid.SampledFrom([]answer{fails, loses, hangs, dies, diesAfter}).Draw(t, "answer"),
			From:   span(12*time.Second).Draw(t, "from"),
			For:    rapid.OneOf(rapid.Just(time.Duration(0)), span(10*time.Second)).Draw(t, "for"),
		}
	})
	jumps := rapid.Custom(func(t *rapid.T) jump {
		return jump{span(12*time.Second).Draw(t, "at"), span(10*time.Minute).Draw(t, "by") - 5*time.Minute}
	})
	return course{
		Slots:     rapid.IntRange(1, 5).Draw(t, "slots"),
		People:    rapid.IntRange(1, 4).Draw(t, "people"),
		Count:     rapid.IntRange(2, 6).Draw(t, "occurrences"),
		Interval:  rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(t, "interval"),
		Receiver:  rapid.SliceOfN(rapid.SampledFrom([]delivering{accepts, accepts, accepts, accepts, busy, lingers, refuses, ignores, panicked}), 1, 10).Draw(t, "receiver"),
		Processes: rapid.SliceOfN(rapid.SliceOfN(faults, 0, 3), 0, 4).Draw(t, "processes"),
		Jumps:     rapid.SliceOfN(jumps, 0, 2).Draw(t, "jumps"),
	}
}

// Whatever happens, and in whatever order.
func TestFaultsLoseNothingAndRepeatOnlyWhatTheyInterrupt(t *testing.T) {
	t.Parallel()
	met := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCourse(rt)
		var s *stage
		synctest.Test(t, func(t *testing.T) { s = c.live(t) })
		for _, complaint := range s.complaints {
			rt.Error(complaint)
		}
		for f, times := range s.bit {
			met[f.Call+" "+string(f.Answer)] += times
		}
	})
	t.Log(met)
}
