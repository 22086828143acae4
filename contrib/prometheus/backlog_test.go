package almanacprom_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
	"github.com/almanac-go/almanac/ops"
)

// store is a database with given results, which counts its calls.
type store struct {
	mu     sync.Mutex
	asked  int
	atOnce int
	most   int
	takes  time.Duration // of each call
	ahead  time.Duration // of its clock
	wait   time.Duration
	known  bool
	count  int
	tries  ops.Retries
	err    error // of all calls
	loads  []ops.LaneLoad
	book   almanac.ZoneBook
}

// answer waits for the duration of a call, or until ctx is done.
func (s *store) answer(ctx context.Context) error {
	s.mu.Lock()
	s.asked++
	s.atOnce++
	s.most = max(s.most, s.atOnce)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.atOnce--
		s.mu.Unlock()
	}()
	select {
	case <-time.After(s.takes):
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *store) Now(ctx context.Context) (time.Time, error) {
	halfway := time.Now().Add(s.takes / 2)
	return halfway.Add(s.ahead), s.answer(ctx)
}

func (s *store) Until(ctx context.Context, types []string, _ time.Time) (time.Duration, bool, error) {
	return s.wait, s.known && len(types) == 1, s.answer(ctx)
}

func (s *store) Missed(ctx context.Context, types []string, grace time.Duration) (almanac.Missed, error) {
	return almanac.Missed{Count: s.count * len(types)}, errors.Join(s.answer(ctx), graceless(grace))
}

func (s *store) Retries(ctx context.Context) (ops.Retries, error) { return s.tries, s.answer(ctx) }

func (s *store) LaneLoads(ctx context.Context) ([]ops.LaneLoad, error) { return s.loads, s.answer(ctx) }

func (s *store) ZoneRules(ctx context.Context) (almanac.ZoneBook, error) {
	return s.book, s.answer(ctx)
}

func graceless(d time.Duration) error {
	if d != 0 {
		return errors.New("some that wait are not counted")
	}
	return nil
}

func backlogOf(t *testing.T, s almanacprom.Store, options ...almanacprom.BacklogOption) *almanacprom.Backlog {
	t.Helper()
	b, err := almanacprom.NewBacklog(s, registryOf(t, almanac.Birthday{}), options...)
	require.NoError(t, err)
	return b
}

func TestBacklogIsReadFromTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: 100 * time.Millisecond, ahead: -3 * time.Second, wait: -90 * time.Second, known: true, count: 12}
		shows(t, backlogOf(t, s), `
			almanac_backlog_events 12
			almanac_backlog_oldest_age_seconds 90
			almanac_database_clock_offset_seconds -3
			almanac_reading_errors_total{reading="backlog"} 0
		`)
		for name, s := range map[string]*store{"none pending": {}, "none due": {wait: time.Hour, known: true}} {
			t.Log(name)
			shows(t, backlogOf(t, s), `
				almanac_backlog_events 0
				almanac_backlog_oldest_age_seconds 0
			`)
		}
	})
}

func TestBacklogOfARepository(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := almanactest.NewRepository(nil)
		for _, ready := range []time.Duration{time.Hour, 2 * time.Second, -time.Minute} {
			u := almanactest.User()
			_, _, err := almanactest.CreateUser(t.Context(), r, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.ReadyFor(ready)))
			require.NoError(t, err)
		}
		shows(t, backlogOf(t, r), `
			almanac_backlog_events 2
			almanac_backlog_oldest_age_seconds 3600
			almanac_database_clock_offset_seconds 0
		`)
	})
}

// Of types that no program here has registered there may be any number.
func TestRetriesAreCountedByType(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := func(eventType, problem string, n int64) ops.RetryGroup {
			return ops.RetryGroup{Type: eventType, Error: problem, Count: ops.Count{N: n}}
		}
		s := new(store)
		b := backlogOf(t, s, almanacprom.WithAge(0))
		shows(t, b, `
			almanac_events_retrying{type="BIRTHDAY"} 0
			almanac_series_stalled{type="BIRTHDAY"} 0
		`)
		require.Equal(t, 2, testutil.CollectAndCount(b, "almanac_events_retrying", "almanac_series_stalled"))
		s.tries = ops.Retries{
			Events: []ops.RetryGroup{of("BIRTHDAY", "HTTP 502", 300), of("BIRTHDAY", "HTTP 503", 100), of("CARD", "", 1), of("LETTER", "", 2)},
			Series: []ops.RetryGroup{of("BIRTHDAY", "no plan", 7)},
		}
		shows(t, b, `
			almanac_events_retrying{type="BIRTHDAY"} 400
			almanac_events_retrying{type="unregistered"} 3
			almanac_series_stalled{type="BIRTHDAY"} 7
		`)
	})
}

func TestLanesShowWhatWaitsAndUntilWhen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		crm := ops.LaneLoad{Lane: almanac.Lane{Name: "crm", Rate: 50, Burst: 10}, Waiting: ops.Count{N: 101}, Weights: 2, Oldest: now.Add(-time.Minute)}
		s := &store{loads: []ops.LaneLoad{
			crm,
			{Lane: almanac.Lane{Name: "crm/a", Weight: 1}, Waiting: ops.Count{N: 26}, Oldest: now.Add(-time.Second)},
			{Lane: almanac.Lane{Name: "crm/b", Weight: 1}},
			{Lane: almanac.Lane{Name: "mail"}, Waiting: ops.Count{N: 1}, Pause: almanac.Pause{Lane: "mail", Since: now.Add(-time.Hour)}},
			{Lane: almanac.Lane{Name: "post"}, Breaker: almanac.Breaker{Allowed: 1, OpenedAt: now.Add(-time.Minute), RetryAt: now.Add(time.Minute)}},
		}}
		b := backlogOf(t, s)
		shows(t, b, `
			almanac_lane_waiting_events{lane="crm"} 101
			almanac_lane_oldest_age_seconds{lane="crm"} 60
			almanac_lane_backlog_seconds{lane="crm"} 2
			almanac_lane_backlog_seconds{lane="crm/a"} 1.02
			almanac_lane_backlog_seconds{lane="crm/b"} 0
			almanac_lane_paused_seconds{lane="crm"} 0
			almanac_lane_paused_seconds{lane="mail"} 3600
			almanac_lane_failing_seconds{lane="post"} 60
		`)
		require.Equal(t, 4, testutil.CollectAndCount(b, "almanac_lane_backlog_seconds"), "none of the paused lane")

		s.loads = nil
		for i := range 3000 {
			s.loads = append(s.loads, ops.LaneLoad{Lane: almanac.Lane{Name: fmt.Sprintf("crm/%04d", i)}, Waiting: ops.Count{N: int64(i)}})
		}
		s.loads = append([]ops.LaneLoad{crm}, s.loads...)
		b = backlogOf(t, s)
		require.Equal(t, 1000, testutil.CollectAndCount(b, "almanac_lane_waiting_events"))
		shows(t, b, `
			almanac_lane_waiting_events{lane="crm"} 101
			almanac_lane_waiting_events{lane="crm/2999"} 2999
		`)
	})
}

func TestScrapesDoNotOverloadTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: 80 * time.Millisecond, count: 1}
		b := backlogOf(t, s)
		var scrapes sync.WaitGroup
		for range 50 {
			scrapes.Go(func() { testutil.CollectAndCount(b) })
		}
		scrapes.Wait()
		require.Equal(t, 6, s.asked, "each question once")
		require.Equal(t, 1, s.most, "one after the other")

		time.Sleep(10*time.Second - time.Millisecond)
		s.count = 2
		shows(t, b, "almanac_backlog_events 1")
		time.Sleep(time.Millisecond)
		shows(t, b, "almanac_backlog_events 2")
		require.Equal(t, 12, s.asked)

		s.takes = 300 * time.Millisecond // together 1.8 s, and twenty times that is 36 s
		time.Sleep(10 * time.Second)
		shows(t, b, "almanac_backlog_events 2")
		time.Sleep(36*time.Second - time.Millisecond)
		shows(t, b, "almanac_backlog_events 2")
		require.Equal(t, 18, s.asked)
		time.Sleep(time.Millisecond)
		shows(t, b, "almanac_backlog_events 2")
		require.Equal(t, 24, s.asked)
	})
}

func TestFailedReadingsAreAbsentAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gauges := []string{"almanac_backlog_events", "almanac_backlog_oldest_age_seconds", "almanac_database_clock_offset_seconds"}
		s := &store{err: errors.New("away")}
		b := backlogOf(t, s, almanacprom.WithAge(0))
		require.Zero(t, testutil.CollectAndCount(b, gauges...))
		shows(t, b, `
			almanac_reading_errors_total{reading="clock"} 2
			almanac_reading_errors_total{reading="oldest"} 2
			almanac_reading_errors_total{reading="backlog"} 2
		`)

		s.err = nil
		require.Equal(t, 3, testutil.CollectAndCount(b, gauges...))

		s.takes = 800 * time.Millisecond // two calls fit into the deadline
		began := time.Now()
		require.Equal(t, 2, testutil.CollectAndCount(b, gauges...))
		require.Equal(t, 2*time.Second, time.Since(began))
		shows(t, b, `
			almanac_reading_errors_total{reading="clock"} 2
			almanac_reading_errors_total{reading="oldest"} 2
			almanac_reading_errors_total{reading="retries"} 3
			almanac_reading_errors_total{reading="backlog"} 3
		`)
	})
}

func TestErrorsAreReusedLikeResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{err: errors.New("away")}
		b := backlogOf(t, s, almanacprom.WithAge(time.Minute), almanacprom.WithDeadline(time.Second))
		for range 60 {
			testutil.CollectAndCount(b)
			time.Sleep(time.Second)
		}
		require.Equal(t, 6, s.asked)
	})
}

func TestBadSettingsOfABacklogAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := almanacprom.NewBacklog(new(store), registryOf(t, almanac.Birthday{}), almanacprom.WithAge(-1), almanacprom.WithDeadline(0))
	require.ErrorContains(t, err, "age of -1ns is negative")
	require.ErrorContains(t, err, "deadline of 0s is not positive")
}

func TestReleasesThatWaitAreShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := time.Unix(1_800_000_000, 0)
		s := &store{book: almanac.ZoneBook{Quarantines: []almanac.Quarantine{
			{Name: "Africa/Cairo", Release: "2026c", Events: 7, FirstAt: at, Since: at}, {Name: "Asia/Beirut", Release: "2026c", Events: 9, Since: at, AnsweredAt: at},
			{Name: "DE-BY", Calendar: true, Release: "2026-11-02", Events: 1000, FirstAt: at.Add(time.Hour), Since: at},
		}}}
		b := backlogOf(t, s)
		shows(t, b, `
			almanac_quarantine_events{kind="zone",name="Africa/Cairo",release="2026c"} 7
			almanac_quarantine_events{kind="calendar",name="DE-BY",release="2026-11-02"} 1000
			almanac_quarantine_first_timestamp_seconds{kind="zone",name="Africa/Cairo",release="2026c"} 1.8e+09
			almanac_quarantine_first_timestamp_seconds{kind="calendar",name="DE-BY",release="2026-11-02"} 1.8000036e+09
		`)
		require.Equal(t, 2, testutil.CollectAndCount(b, "almanac_quarantine_events"))
	})
}
