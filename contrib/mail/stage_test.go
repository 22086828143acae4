package almanacmail_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacmail "github.com/almanac-go/almanac/contrib/mail"
)

// templates are small templates in English.
func templates(t testing.TB) *almanacmail.Templates {
	t.Helper()
	parsed, err := almanacmail.ParseTemplates(fstest.MapFS{
		"en/BIRTHDAY.txt":  {Data: []byte("Subject: Happy birthday, {{.User.FirstName}}!\n\n{{.Payload.message}}\n")},
		"en/BIRTHDAY.html": {Data: []byte("<p>{{.Payload.message}}</p>\n<a href=\"{{.Unsubscribe}}\">No more</a>\n")},
	}, "en")
	require.NoError(t, err)
	return parsed
}

// ada has an address, unless the options change it.
func ada(options ...almanactest.UserOption) almanac.User {
	return almanactest.User(append([]almanactest.UserOption{almanactest.WithEmail("ada@example.org")}, options...)...)
}

// greeting is the first attempt at a birthday that is due now.
func greeting(u almanac.User) almanac.Delivery {
	now := time.Now().UTC()
	event := almanactest.Event(now, almanactest.For(u))
	event.Payload = []byte(`{"message": "Hey, Ada & co"}`)
	return almanac.Delivery{Event: event, User: u, Attempt: 1, At: now}
}

// deliverer returns a deliverer, and what it observes.
func deliverer(t testing.TB, s almanacmail.Settings) (*almanacmail.Deliverer, *reports) {
	t.Helper()
	seen := new(reports)
	s.Observe = seen.add
	if s.Log == nil {
		s.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	d, err := almanacmail.New(s)
	require.NoError(t, err)
	t.Cleanup(d.CloseIdleConnections)
	return d, seen
}

// reports are what a deliverer reported.
type reports struct {
	mu  sync.Mutex
	all []almanacmail.Report
}

func (r *reports) add(_ context.Context, one almanacmail.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
}

// verdicts returns the verdicts so far.
func (r *reports) verdicts() []almanacmail.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []almanacmail.Verdict
	for _, one := range r.all {
		all = append(all, one.Verdict)
	}
	return all
}

// stage is a scheduler in memory with one birthday, whose clock is moved by hand.
type stage struct {
	*testing.T
	store     *almanactest.Repository
	scheduler almanac.Scheduler
	event     almanac.Event
	now       time.Time
}

// newStage returns a stage whose birthday is due, with a handler that delivers by d.
func newStage(t *testing.T, d almanac.Deliverer, options ...almanactest.UserOption) *stage {
	t.Helper()
	s := &stage{T: t, now: time.Date(2027, time.March, 1, 12, 0, 0, 0, time.UTC)}
	s.store = almanactest.NewRepository(func() time.Time { return s.now })
	registry, err := almanac.NewRegistry(almanac.Birthday{Via: almanacmail.Channel})
	require.NoError(t, err)
	s.scheduler, err = almanac.NewScheduler(s.store, registry, almanac.WithDeliverer(almanacmail.Channel, d),
		almanac.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	require.NoError(t, err)
	u := ada(options...)
	s.event = almanactest.Store(t, s.store, u, almanactest.Event(s.now, almanactest.For(u)))[0]
	return s
}

// attempt lets the scheduler make one attempt, at once or when the event is available, and
// returns the event afterwards.
func (s *stage) attempt() almanac.Event {
	s.Helper()
	before, err := s.store.Event(s.Context(), s.event.ID)
	require.NoError(s, err)
	if before.AvailableAt.After(s.now) {
		s.now = before.AvailableAt
	}
	pass, err := s.scheduler.RunOnce(s.Context(), almanac.RunOnceOptions{Limit: 1})
	require.NoError(s, err)
	require.Equal(s, 1, pass.Claimed)
	after, err := s.store.Event(s.Context(), s.event.ID)
	require.NoError(s, err)
	return after
}

// wait returns how long an event waits for another attempt.
func (s *stage) wait(e almanac.Event) time.Duration {
	s.Helper()
	require.Equal(s, almanac.Pending, e.Status, e.FailureReason)
	return e.AvailableAt.Sub(s.now)
}
