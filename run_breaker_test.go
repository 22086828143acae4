package almanac_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// outage is a receiver that fails until a time, and notes each attempt.
type outage struct {
	until    time.Time
	err      error
	mu       sync.Mutex
	attempts []almanac.Delivery
	flying   int
	accepted int
	flood    bool // whether more were in flight than had been accepted before
}

func (o *outage) execute(_ context.Context, d almanac.Delivery) error {
	o.mu.Lock()
	o.attempts = append(o.attempts, d)
	o.flying++
	o.flood = o.flood || !time.Now().Before(o.until) && o.flying > o.accepted+1
	o.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flying--
	if time.Now().Before(o.until) {
		return o.err
	}
	o.accepted++
	return nil
}

// A receiver is down for a while. Its events wait, use up no attempt, and do not come all at once after.
func TestAnOutageOfAReceiverUsesUpNoAttempts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lane string
		err  error
		most int // attempts during the outage
	}{
		"a type that fails":           {"", errBusy, 60 + 10},
		"a lane that fails":           {"crm/tenant-7", errBusy, 60 + 10},
		"one that asks for a rest":    {"", almanac.Busy(3*time.Minute, errBusy), 60 + 4},
		"one that asks for much more": {"", almanac.Busy(24*time.Hour, errBusy), 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := &outage{until: time.Now().Add(10 * time.Minute), err: tt.err}
				h := laned{series{
					Execution: almanac.Execution{Breaker: true, RetryPolicy: almanac.RetryPolicy{Attempts: 2}},
					eventType: "SLOW", seconds: ago(time.Minute), execute: o.execute,
				}, tt.lane}
				w := openOn(almanactest.NewRepository(nil))
				for range 100 {
					storeEvent(t, w.store, h)
				}
				for range 2 {
					w.run(t, h, almanac.WithWorkers(30))
				}
				time.Sleep(10 * time.Minute)
				o.mu.Lock()
				require.LessOrEqual(t, len(o.attempts), tt.most)
				before := len(o.attempts)
				o.mu.Unlock()
				time.Sleep(2 * time.Hour)
				require.NoError(t, w.stop())
				require.Equal(t, before+100, len(o.attempts))
				completed, err := w.store.Count(t.Context(), almanac.InStatus(almanac.Completed))
				require.NoError(t, err)
				require.Equal(t, 100, completed)
				require.False(t, o.flood)
			})
		})
	}
}

// One event is never accepted. It uses up its attempts, and the breaker closes.
func TestAPoisonousEventDoesNotKeepABreakerOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		down, poisonous := time.Now().Add(time.Minute), uuid.Nil
		h := series{Execution: almanac.Execution{Breaker: true}, eventType: "SLOW", seconds: ago(time.Minute)}
		poisonous = storeEvent(t, w.store, h).ID
		for range 300 {
			storeEvent(t, w.store, h)
		}
		h.execute = func(_ context.Context, d almanac.Delivery) error {
			if time.Now().Before(down) || d.Event.ID == poisonous {
				return errBusy
			}
			return nil
		}
		w.run(t, h)
		time.Sleep(2 * time.Hour)
		require.NoError(t, w.stop())
		is, err := w.store.Event(t.Context(), poisonous)
		require.NoError(t, err)
		require.Equal(t, almanac.Failed, is.Status)
		completed, err := w.store.Count(t.Context(), almanac.InStatus(almanac.Completed))
		require.NoError(t, err)
		require.Equal(t, 300, completed)
		loads, err := w.store.(*almanactest.Repository).LaneLoads(t.Context())
		require.NoError(t, err)
		require.Empty(t, loads)
	})
}

// failing returns the lane, the level and the text of each line of a log about receivers.
func (l *logbook) failing(t *testing.T) (lines []string) {
	t.Helper()
	for _, line := range l.all(t) {
		if lane, is := line["lane"].(string); is {
			lines = append(lines, lane+": "+line["level"].(string)+" "+line["msg"].(string))
		}
	}
	return lines
}

// A receiver is down for three hours and a half. Observers are notified at first, each hour, and at the end, and the log has a line.
func TestALongOutageIsReportedEachHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, book := &outage{until: time.Now().Add(210 * time.Minute), err: errBusy}, new(logbook)
		w := openOn(almanactest.NewRepository(nil))
		h := laned{series{Execution: almanac.Execution{Breaker: true}, eventType: "SLOW", seconds: ago(time.Minute), execute: o.execute}, "crm/tenant-7"}
		for range 10 {
			storeEvent(t, w.store, h)
		}
		w.run(t, h, almanac.WithLogger(book.logger()))
		time.Sleep(220 * time.Minute)
		for range 8 { // one success a minute closes a breaker
			storeEvent(t, w.store, h)
			time.Sleep(2 * time.Minute)
		}
		require.NoError(t, w.stop())
		require.Equal(t, []string{
			"crm: WARN a receiver fails: single events are tried",
			"crm: ERROR a receiver has failed for hours", "crm: ERROR a receiver has failed for hours", "crm: ERROR a receiver has failed for hours",
			"crm: INFO a receiver accepts events again",
		}, book.failing(t))
		require.Equal(t, []almanac.NoticeKind{
			almanac.LaneFailing, almanac.LaneFailing, almanac.LaneFailing, almanac.LaneFailing, almanac.LaneRecovered,
		}, kindsOf(w.noticesOf("crm")))
	})
}

// noticesOf takes the notices about a lane that a stopped world has.
func (w *world) noticesOf(lane string) (notices []almanac.Notice) {
	close(w.notices)
	for n := range w.notices {
		if n.Lane == lane {
			notices = append(notices, n)
		}
	}
	return notices
}

func kindsOf(notices []almanac.Notice) (kinds []almanac.NoticeKind) {
	for _, n := range notices {
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

// A receiver is down for longer than its handler allows. The lane is paused, nothing is tried, and the events are delivered
// once a user has resumed it.
func TestALongOutagePausesTheLane(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lane, paused string
		err          error
	}{
		"of a type":                   {"", "SLOW", errBusy},
		"of a lane":                   {"crm/tenant-7", "crm", errBusy},
		"that asks for a rest":        {"", "SLOW", almanac.Busy(3*time.Minute, errBusy)},
		"that asks for too long ones": {"", "SLOW", almanac.Busy(24*time.Hour, errBusy)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, book := &outage{until: time.Now().Add(150 * time.Minute), err: tt.err}, new(logbook)
				w := openOn(almanactest.NewRepository(nil))
				h := laned{series{
					Execution: almanac.Execution{Breaker: true, PauseAfter: 30 * time.Minute, RetryPolicy: almanac.RetryPolicy{Attempts: 2}},
					eventType: "SLOW", seconds: ago(time.Minute), execute: o.execute,
				}, tt.lane}
				for range 20 {
					storeEvent(t, w.store, h)
				}
				began := time.Now()
				s := w.run(t, h, almanac.WithLogger(book.logger()))
				time.Sleep(2 * time.Hour)
				paused, err := s.Paused(t.Context())
				require.NoError(t, err)
				require.Len(t, paused, 1)
				require.Equal(t, tt.paused, paused[0].Lane)
				require.Equal(t, "breaker", paused[0].Author)
				require.Contains(t, paused[0].Reason, "the breaker has been open since "+began.UTC().Format("2006-01-02T15:04:0"))
				require.GreaterOrEqual(t, paused[0].Since.Sub(began), 30*time.Minute)
				require.LessOrEqual(t, paused[0].Since.Sub(began), 61*time.Minute)
				require.Zero(t, paused[0].Until)
				tried := len(o.attempts)

				time.Sleep(time.Hour) // the receiver is back, and the pause holds
				require.Len(t, o.attempts, tried)
				require.NoError(t, s.Resume(t.Context(), tt.paused))
				time.Sleep(time.Minute)
				require.NoError(t, w.stop())
				completed, err := w.store.Count(t.Context(), almanac.InStatus(almanac.Completed))
				require.NoError(t, err)
				require.Equal(t, 20, completed)
				lines, notices := book.failing(t), w.noticesOf(tt.paused)
				require.Equal(t, tt.paused+": ERROR a receiver has failed for too long: its lane is paused", lines[len(lines)-1])
				last := notices[len(notices)-1]
				require.Equal(t, almanac.LaneFailing, last.Kind)
				require.Equal(t, paused[0].Reason, last.Breaker.Pause)
			})
		})
	}
}
