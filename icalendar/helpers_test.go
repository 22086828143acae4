package icalendar_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/icalendar"
)

// stage is a scheduler with a repository in memory, whose clock the test sets.
type stage struct {
	almanac.Scheduler
	store    *almanactest.Repository
	registry almanac.Registry
	mu       sync.Mutex
	now      time.Time
	fails    bool // deliveries are refused for good
}

func newStage(t require.TestingT, handlers ...almanac.EventHandler) *stage {
	s := &stage{now: time.Date(2027, time.January, 10, 0, 0, 0, 0, time.UTC)}
	s.store = almanactest.NewRepository(s.clock)
	var err error
	s.registry, err = almanac.NewRegistry(handlers...)
	require.NoError(t, err)
	deliverer := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
		if s.fails {
			return almanac.Permanent(errors.New("refused"))
		}
		return nil
	})
	s.Scheduler, err = almanac.NewScheduler(s.store, s.registry, almanac.WithDeliverer(almanac.ChannelWebhook, deliverer),
		almanac.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	return s
}

func (s *stage) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// pass sets the clock forward and delivers what is due.
func (s *stage) pass(t require.TestingT, d time.Duration) {
	s.mu.Lock()
	s.now = s.now.Add(d)
	s.mu.Unlock()
	_, err := s.RunOnce(context.Background(), almanac.RunOnceOptions{})
	require.NoError(t, err)
}

// ada creates a user who was born on 15 March and lives in New York.
func (s *stage) ada(t require.TestingT) uuid.UUID {
	created, err := s.CreateUser(context.Background(), almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-03-15", Timezone: "America/New_York"})
	require.NoError(t, err)
	return created.User.ID
}

func (s *stage) feed(t require.TestingT, settings icalendar.Settings) *icalendar.Feed {
	f, err := icalendar.New(s, s.store, s.registry, settings)
	require.NoError(t, err)
	return f
}

// entry is what a test reads of a VEVENT.
type entry map[string]string

func (e entry) sequence(t require.TestingT) int {
	n, err := strconv.Atoi(e["SEQUENCE"])
	require.NoError(t, err)
	return n
}

// entries returns the VEVENTs of a user's calendar, after checking its form.
func entries(t require.TestingT, f *icalendar.Feed, id uuid.UUID) []entry {
	text, err := f.Calendar(context.Background(), id)
	require.NoError(t, err)
	_, all := parse(t, string(text))
	return all
}

// parse reads a calendar strictly by RFC 5545, sections 3.1 and 3.6: every line ends with
// CRLF and has at most 75 octets of whole characters, and no property is unknown or twice.
func parse(t require.TestingT, text string) (head entry, all []entry) {
	require.True(t, strings.HasSuffix(text, "\r\n"))
	require.NotContains(t, strings.ReplaceAll(text, "\r\n", ""), "\r")
	require.NotContains(t, strings.ReplaceAll(text, "\r\n", ""), "\n")
	for _, line := range strings.Split(text, "\r\n") {
		require.LessOrEqual(t, len(line), 75)
		require.True(t, utf8.ValidString(line), "%q", line)
	}
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, "\r\n ", ""), "\r\n"), "\r\n")
	require.Equal(t, "BEGIN:VCALENDAR", lines[0])
	require.Equal(t, "END:VCALENDAR", lines[len(lines)-1])
	head = entry{}
	within := head
	for _, line := range lines[1 : len(lines)-1] {
		name, value, found := strings.Cut(line, ":")
		require.True(t, found, "%q", line)
		switch line {
		case "BEGIN:VEVENT":
			within = entry{}
			all = append(all, within)
			continue
		case "END:VEVENT":
			want := 8
			if within["DESCRIPTION"] != "" {
				want++
			}
			require.Len(t, within, want)
			within = nil
			continue
		}
		require.NotNil(t, within, "%q is after an event", line)
		require.NotContains(t, within, name)
		within[name] = value
	}
	require.Len(t, head, 7)
	return head, all
}

// column returns one property of each entry.
func column(all []entry, name string) []string {
	var values []string
	for _, e := range all {
		values = append(values, e[name])
	}
	return values
}

// daily is a handler of a type with an event every day at nine.
func daily(eventType string, x almanac.Execution) almanac.EventHandler {
	return almanac.Recurring{Type: eventType, Execution: x, Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Daily{At: calendar.Clock{Hour: 9}}, nil
	}}
}
