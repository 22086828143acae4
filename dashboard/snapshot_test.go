package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// counted is a reader that counts, and may fail or be slow.
type counted struct {
	Reader
	stats   atomic.Int32
	running atomic.Int32
	most    atomic.Int32
	takes   time.Duration
	fails   atomic.Bool
	with    error // the failure; nil means that the connection is refused
	panics  bool
	clocked bool // whether Now answers at once
}

func (c *counted) Stats(ctx context.Context) (ops.Stats, error) {
	c.stats.Add(1)
	c.wait(ctx)
	if c.panics {
		panic("ada@example.com")
	}
	if c.fails.Load() {
		return ops.Stats{}, cmp.Or(c.with, errors.New("connection refused"))
	}
	return c.Reader.Stats(ctx)
}

func (c *counted) Now(ctx context.Context) (time.Time, error) {
	if !c.clocked {
		c.wait(ctx)
	}
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	return c.Reader.Now(ctx)
}

func (c *counted) wait(ctx context.Context) {
	running := c.running.Add(1)
	defer c.running.Add(-1)
	for most := c.most.Load(); running > most && !c.most.CompareAndSwap(most, running); most = c.most.Load() {
	}
	if c.takes > 0 {
		select {
		case <-time.After(c.takes):
		case <-ctx.Done():
		}
	}
}

// newCounted returns a dashboard before a counted reader.
func newCounted(t *testing.T, c *counted) host {
	t.Helper()
	h := newHost(t)
	c.Reader = h.repository
	made, err := New(h.scheduler, c, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	h.Handler = made
	return h
}

// view has many viewers look at the first page at once.
func (h host) view(t *testing.T, viewers int) {
	t.Helper()
	var all sync.WaitGroup
	for range viewers {
		all.Go(func() {
			w := h.send(t, http.MethodGet, "/", nil)
			if w.Code != http.StatusOK {
				t.Errorf("status %d", w.Code)
			}
		})
	}
	all.Wait()
	synctest.Wait()
}

func TestAllViewersShareTheNumbers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{takes: 30 * time.Millisecond}
		h := newCounted(t, c)
		h.view(t, 200)
		require.EqualValues(t, 1, c.stats.Load())
		time.Sleep(freshFor - time.Millisecond)
		h.view(t, 200)
		require.EqualValues(t, 1, c.stats.Load())
		time.Sleep(time.Millisecond)
		h.view(t, 200)
		require.EqualValues(t, 2, c.stats.Load())
		time.Sleep(time.Hour)
		require.EqualValues(t, 2, c.stats.Load(), "without viewers nothing is read")
	})
}

func TestASlowReadDoesNotHoldThePage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{takes: readLimit - time.Second/2}
		h := newCounted(t, c)
		begin := time.Now()
		_, body := h.get(t, "/")
		require.Equal(t, patience, time.Since(begin))
		require.Contains(t, body, "Being read for the first time.")
		time.Sleep(2 * readAgain)
		h.get(t, "/")
		require.EqualValues(t, 1, c.stats.Load(), "one read at a time")
		time.Sleep(time.Second)
		_, body = h.get(t, "/")
		require.Contains(t, body, "The next 48 hours")
	})
}

// An operator opens the first page in the morning, while 400 events wait. What was counted in the evening is
// no answer, unless it says beside each number that it is old.
func TestNumbersAfterAnIdleTimeAreFreshOrSayHowOldTheyAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{clocked: true}
		h := newCounted(t, c)
		h.createUser(t, ada())
		old := map[string]string{}
		for _, path := range []string{"/", "/map", "/zones", "/zones/Europe/London", "/leases"} {
			_, old[path] = h.get(t, path)
			require.Contains(t, old[path], "Counted at ", path)
		}
		time.Sleep(6 * time.Minute)
		c.takes = patience - time.Millisecond
		for path := range old {
			_, body := h.get(t, path)
			require.Contains(t, body, "Counted at ", path)
			require.NotContains(t, body, " old, counted at ", path)
		}
		time.Sleep(6 * time.Minute)
		c.takes = 2 * time.Second
		for path, shown := range map[string]int{"/": 5, "/map": 1, "/zones": 1, "/zones/Europe/London": 1, "/leases": 1} {
			begin := time.Now()
			_, body := h.get(t, path)
			require.LessOrEqual(t, time.Since(begin), patience, path)
			require.Equal(t, shown, len(regexp.MustCompile(`6 min( \d+ s)? old, counted at `).FindAllString(body, -1)), path)
			require.NotContains(t, body, "Counted at ", "%s: a number without its age", path)
		}
		time.Sleep(c.takes)
		_, body := h.get(t, "/")
		require.NotContains(t, body, " old, counted at ")
	})
}

// No number is not zero.
func TestPagesWithoutNumbersDoNotSayZero(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{takes: 2 * time.Second, clocked: true}
		h := newCounted(t, c)
		look := func(says string) {
			for _, path := range []string{"/", "/map", "/zones", "/leases", "/zones/Europe/London"} {
				_, body := h.get(t, path)
				for _, wrong := range []string{"There are no users", "No process holds", "There are no events", "No event is due", "Counted at", `<p class="big">0<`, "No zone is in doubt"} {
					require.NotContains(t, body, wrong, path)
				}
				require.Contains(t, body, says, path)
			}
		}
		look("Being read for the first time")
		c.fails.Store(true)
		time.Sleep(2 * time.Second)
		look("There are no numbers.")
		time.Sleep(2 * time.Second)
	})
}

func TestFailedReadsAreNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{}
		c.fails.Store(true)
		h := newCounted(t, c)
		for range 10 {
			h.view(t, 50)
			time.Sleep(100 * time.Millisecond)
		}
		require.EqualValues(t, 1, c.stats.Load())
		_, body := h.get(t, "/")
		require.Contains(t, body, "The database does not answer.")
		require.NotContains(t, body, "No event is due and waits", "zero is no number of events")
		require.EqualValues(t, 2, c.stats.Load())
		c.fails.Store(false)
		time.Sleep(readAgain)
		_, body = h.get(t, "/")
		require.Contains(t, body, "No event is due and waits")
		c.fails.Store(true)
		time.Sleep(freshFor)
		_, body = h.get(t, "/")
		require.Contains(t, body, "The database does not answer. These numbers are from")
		require.Contains(t, body, "No event is due and waits")
	})
}

func TestNumbersThatCannotBeReadAreLoggedOnce(t *testing.T) {
	t.Parallel()
	for says, c := range map[string]*counted{
		"The database does not answer. These numbers":                               {},
		"The database refuses this. The log of the program says why. These numbers": {with: sqlError("42501")},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newCounted(t, c)
			var log bytes.Buffer
			h.Handler.(*dashboard).numbers.log = slog.New(slog.NewTextHandler(&log, nil))
			h.view(t, 1)
			for range 2 {
				log.Reset()
				c.fails.Store(true)
				for range 3 {
					time.Sleep(freshFor)
					h.view(t, 1)
				}
				_, body := h.get(t, "/")
				require.Contains(t, body, says)
				require.Equal(t, 1, strings.Count(log.String(), `level=ERROR msg="Dashboard numbers cannot be read" error="`+cmp.Or(c.with, errors.New("connection refused")).Error()), log.String())
				c.fails.Store(false)
				for range 3 {
					time.Sleep(freshFor)
					h.view(t, 1)
				}
				require.Equal(t, 1, strings.Count(log.String(), `level=INFO msg="Dashboard numbers are read again"`))
				require.Equal(t, 2, strings.Count(log.String(), "\n"))
			}
		})
	}
}

func TestAPanicOfAReadDoesNotEndTheProgram(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newCounted(t, &counted{panics: true})
		var log bytes.Buffer
		h.Handler.(*dashboard).numbers.log = slog.New(slog.NewTextHandler(&log, nil))
		_, body := h.get(t, "/")
		require.Contains(t, body, "The program has failed. Its log says where. There are no numbers.")
		require.Contains(t, log.String(), "snapshot_test.go", "the line says where")
		require.NotContains(t, log.String(), "ada@")
		require.NotContains(t, body, "ada@")
	})
}

func TestTheReaderIsCalledTwiceAtATimeAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{takes: time.Second}
		h := newCounted(t, c)
		d := h.Handler.(*dashboard)
		var all sync.WaitGroup
		var late atomic.Int32
		for range 10 {
			all.Go(func() {
				if _, err := d.reader.Now(t.Context()); errors.Is(err, context.DeadlineExceeded) {
					late.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, readers, c.most.Load())
		require.Positive(t, late.Load(), "a call that waits for longer than readLimit fails")
		c.takes = time.Hour
		begin := time.Now()
		_, err := d.reader.Now(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, readLimit, time.Since(begin))
	})
}

func TestTheClocksAreCompared(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := snapshot{Asked: at.Add(4 * time.Second), Answered: at.Add(6 * time.Second), Book: almanac.ZoneBook{Now: at}}
	ahead, within := s.Skew()
	require.Equal(t, 5*time.Second, ahead)
	require.Equal(t, time.Second, within)
}

// ticker is a reader that counts how often its time is read.
type ticker struct {
	Reader
	asked atomic.Int32
	err   error
}

func (k *ticker) Now(context.Context) (time.Time, error) {
	k.asked.Add(1)
	return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), k.err
}

func TestViewersShareTheReadersClock(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	k := &ticker{Reader: h.repository}
	made, err := New(h.scheduler, k, AllowAll(), WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	d := made.(*dashboard)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	d.now = func() time.Time { return now }
	clock := func() (time.Time, error) {
		return d.requestOf(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/map", nil), "").clock()
	}
	first, err := clock()
	require.NoError(t, err)
	now = now.Add(4 * time.Second)
	later, err := clock()
	require.NoError(t, err)
	require.Equal(t, 4*time.Second, later.Sub(first), "the clock goes on")
	require.EqualValues(t, 1, k.asked.Load())

	k.err = errors.New("gone")
	now = now.Add(time.Second)
	_, err = clock()
	require.Error(t, err)
	k.err = nil
	now = now.Add(streamPace)
	_, err = clock()
	require.NoError(t, err, "an error is not shared for as long as an answer")
	require.EqualValues(t, 3, k.asked.Load())
}
