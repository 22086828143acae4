package almanac_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// nowhere is a repository that must not be called.
type nowhere struct{ almanac.Repository }

// optionCase is a setting that is good and one that is not.
type optionCase struct {
	good, bad almanac.Option // nil where there is none
	complaint string
}

func optionCases() map[string]optionCase {
	pass := func(almanac.Event, time.Time) error { return nil }
	return map[string]optionCase{
		"WithWorkers":     {almanac.WithWorkers(1), almanac.WithWorkers(0), "0 workers, not 1 or more"},
		"WithLease":       {almanac.WithLease(3 * time.Second), almanac.WithLease(3*time.Second - 1), "lease of 2.999999999s is under three seconds"},
		"WithDrain":       {almanac.WithDrain(0), almanac.WithDrain(-1), "drain of -1ns is negative"},
		"WithPoll":        {almanac.WithPoll(1), almanac.WithPoll(0), "poll of 0s is not positive"},
		"WithLookAhead":   {almanac.WithLookAhead(20 * time.Second), almanac.WithLookAhead(-1), "look-ahead of -1ns is not between 0 and a third of the lease"},
		"WithSweep":       {almanac.WithSweep(1), almanac.WithSweep(0), "sweep of 0s is not positive"},
		"WithMissedGrace": {almanac.WithMissedGrace(0), almanac.WithMissedGrace(-1), "missed grace of -1ns is negative"},
		"WithCrashLimit":  {almanac.WithCrashLimit(1), almanac.WithCrashLimit(0), "crash limit of 0, not 1 or more"},
		"WithZoneCheck":   {almanac.WithZoneCheck(1), almanac.WithZoneCheck(0), "zone check of 0s is not positive"},
		"WithRetention":   {almanac.WithRetention(0), almanac.WithRetention(30), "retention of 30ns is under a microsecond"},
		"WithChecks":      {almanac.WithChecks(pass), almanac.WithChecks(pass, nil), "check 1 is nil"},
		"WithMiddleware":  {almanac.WithMiddleware(), almanac.WithMiddleware(nil), "middleware 0 is nil"},
		"WithDeliverer":   {almanac.WithDeliverer("sms", almanac.DelivererFunc(nil)), almanac.WithDeliverer("sms", nil), `deliverer of channel "sms" is nil`},
		"WithObserver":    {almanac.WithObserver(almanac.Hooks{}), almanac.WithObserver(nil), "observer 0 is nil"},
		"WithLogger":      {nil, almanac.WithLogger(nil), "logger is nil"},

		"WithWindow":          {almanac.WithWindow(nil), almanac.WithWindow(func(almanac.User) calendar.Window { panic("no window") }), "window of the zero user: almanac: choosing a window panicked: no window"},
		"WithQuarantine":      {almanac.WithQuarantine(0, 0), almanac.WithQuarantine(-1, 0), "a limit of the quarantine is negative"},
		"WithOptionalProfile": {good: almanac.WithOptionalProfile()},
		"WithZoneGuess":       {almanac.WithZoneGuess("UTC", nil), almanac.WithZoneGuess("PST", nil), `default zone: calendar: "PST" is not a known time zone; did you mean "America/Los_Angeles"?`},
	}
}

func TestNewSchedulerChecksEachOption(t *testing.T) {
	t.Parallel()

	registry, err := almanac.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range optionCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if tt.good != nil {
				if s, err := almanac.NewScheduler(nowhere{}, registry, tt.good); err != nil || s == nil {
					t.Errorf("the good setting: %v, %v", s, err)
				}
			}
			if tt.bad == nil {
				return
			}
			if s, err := almanac.NewScheduler(nowhere{}, registry, tt.bad); err == nil || s != nil || err.Error() != "almanac: "+tt.complaint {
				t.Errorf("the bad setting: %v, %v; want %q", s, err, tt.complaint)
			}
		})
	}
}

func TestAZoneGuessNeedsAGuessOrADefault(t *testing.T) {
	t.Parallel()

	registry, err := almanac.NewRegistry()
	require.NoError(t, err)
	_, err = almanac.NewScheduler(nowhere{}, registry, almanac.WithZoneGuess("", nil))
	require.EqualError(t, err, "almanac: neither a default zone nor a guess")
	_, err = almanac.NewScheduler(nowhere{}, registry, almanac.WithZoneGuess("", byCountry))
	require.NoError(t, err)
}

func TestAnEarlierZoneGuessStaysUnlessItIsReplaced(t *testing.T) {
	t.Parallel()

	guess := func(zone string) func(almanac.User) string { return func(almanac.User) string { return zone } }
	for name, tt := range map[string]struct {
		options []almanac.Option
		want    string
	}{
		"the guess":                  {[]almanac.Option{almanac.WithZoneGuess("", guess("Asia/Tokyo")), almanac.WithZoneGuess("Etc/UTC", nil)}, "Asia/Tokyo guessed"},
		"the default":                {[]almanac.Option{almanac.WithZoneGuess("Etc/UTC", nil), almanac.WithZoneGuess("", guess(""))}, "Etc/UTC default"},
		"both are replaced":          {[]almanac.Option{almanac.WithZoneGuess("Asia/Tokyo", guess("Asia/Tokyo")), almanac.WithZoneGuess("Etc/UTC", guess(""))}, "Etc/UTC default"},
		"a guess that knows no zone": {[]almanac.Option{almanac.WithZoneGuess("Asia/Tokyo", guess("")), almanac.WithZoneGuess("Etc/UTC", nil)}, "Etc/UTC default"},
	} {
		p := adasProfile()
		p.Timezone = ""
		u, err := almanac.NewUser(p, instant(t, "2026-01-01T00:00:00Z"), tt.options...)
		require.NoError(t, err, name)
		require.Equal(t, tt.want, u.Timezone.String()+" "+string(u.ZoneSource), name)
	}
}

func TestNewSchedulerReportsAllProblems(t *testing.T) {
	t.Parallel()

	want := []string{"repository is nil", "registry is nil", "option 0 is nil"}
	options := []almanac.Option{nil}
	for _, tt := range optionCases() {
		if tt.bad != nil {
			want, options = append(want, tt.complaint), append(options, tt.bad)
		}
	}

	s, err := almanac.NewScheduler(nil, nil, options...)

	if err == nil || s != nil {
		t.Fatalf("NewScheduler = %v, %v; want it refused", s, err)
	}
	said := strings.Split(err.Error(), "\n")
	for i := range said {
		said[i] = strings.TrimPrefix(said[i], "almanac: ")
	}
	slices.Sort(said)
	slices.Sort(want)
	if !slices.Equal(said, want) {
		t.Errorf("complaints %q\nwant %q", said, want)
	}
}

// A new option cannot be forgotten here: the file that declares them is read.
func TestEveryOptionHasACase(t *testing.T) {
	t.Parallel()

	file, err := parser.ParseFile(token.NewFileSet(), "scheduler_options.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "With") {
			declared = append(declared, f.Name.Name)
		}
	}
	slices.Sort(declared)
	if tested := slices.Sorted(maps.Keys(optionCases())); !slices.Equal(tested, declared) {
		t.Errorf("cases for %q, but the options are %q", tested, declared)
	}
}

// logbook is a handler's output as its lines.
type logbook struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// logger returns a logger into l.
func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// lines returns what was written at Warn or above, without the time.
func (l *logbook) lines(t *testing.T) []map[string]any {
	t.Helper()
	return slices.DeleteFunc(l.all(t), func(line map[string]any) bool {
		delete(line, "time")
		return line["level"] == "INFO"
	})
}

// all returns everything that was written.
func (l *logbook) all(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []map[string]any
	for text := range strings.Lines(l.out.String()) {
		line := make(map[string]any)
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		lines = append(lines, line)
	}
	return lines
}

// choosing is a handler whose channel is the test's.
type choosing struct {
	series
	channel func(almanac.Event) almanac.Channel
}

func (c choosing) Channel(e almanac.Event) almanac.Channel { return c.channel(e) }

// The embedded series is an Executor; choosing leaves delivery to its channel.
type byChannel struct{ almanac.EventHandler }

func choice(eventType string, channel func(almanac.Event) almanac.Channel) almanac.EventHandler {
	return byChannel{choosing{series{eventType: eventType}, channel}}
}

func TestNewSchedulerRefusesAHandlerWithoutADeliverer(t *testing.T) {
	t.Parallel()
	registry, err := almanac.NewRegistry(
		almanac.Birthday{},
		choice("LETTER", func(almanac.Event) almanac.Channel { return "letter" }),
		choice("SMS", func(almanac.Event) almanac.Channel { return "sms" }),
		choice("BY PAYLOAD", func(e almanac.Event) almanac.Channel { return almanac.Channel(e.Payload) }),
		choice("BY TRUST", func(e almanac.Event) almanac.Channel { return almanac.Channel(e.Payload[:1]) }),
		series{eventType: "ITSELF"},
	)
	require.NoError(t, err)
	sms := almanac.WithDeliverer("sms", new(almanactest.Recorder))

	s, err := almanac.NewScheduler(nowhere{}, registry, sms)

	require.Nil(t, s)
	require.ErrorIs(t, err, almanac.ErrNoDeliverer)
	require.EqualError(t, err, `almanac: no deliverer for channel "webhook", which the handler of "BIRTHDAY" chooses: see WithDeliverer`+"\n"+
		`almanac: no deliverer for channel "letter", which the handler of "LETTER" chooses: see WithDeliverer`)
	_, err = almanac.NewScheduler(nowhere{}, registry)
	require.NoError(t, err, "a program that only plans")
	_, err = almanac.NewScheduler(nowhere{}, registry, sms, almanac.WithDeliverer("letter", new(almanactest.Recorder)), almanac.WithDeliverer(almanac.ChannelWebhook, new(almanactest.Recorder)))
	require.NoError(t, err)
}

// What NewScheduler cannot know is in the log at once, however many events there are.
func TestAChannelWithoutADelivererIsLoggedOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options []almanac.Option
		channel func(almanac.Event) almanac.Channel
		lines   int // about deliveries
	}{
		"no deliverer at all":          {nil, func(almanac.Event) almanac.Channel { return "letter" }, 0},
		"a channel that depends on it": {[]almanac.Option{almanac.WithDeliverer("sms", new(almanactest.Recorder))}, func(e almanac.Event) almanac.Channel { return almanac.Channel(e.Zone) }, 6},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				book := new(logbook)
				handler := choice("LETTER", tt.channel)
				registry, err := almanac.NewRegistry(handler)
				require.NoError(t, err)
				rehearsal := almanactest.Rehearse(t, registry, append(tt.options, almanac.WithLogger(book.logger()))...)
				if tt.lines > 0 {
					for range 2 {
						storeEvent(t, rehearsal.Repository, series{eventType: "LETTER", seconds: ago(time.Minute)})
					}
				}
				rehearsal.For(time.Hour)
				rehearsal.For(time.Hour)

				about := make(map[string]int)
				for _, line := range book.lines(t) {
					about[line["msg"].(string)]++
				}
				want := map[string]int{"events cannot be delivered: their channel has no deliverer": 1}
				if tt.lines > 0 {
					want["delivery failed"] = tt.lines
				}
				require.Equal(t, want, about)
			})
		})
	}
}

// toEach is a handler of one-off events that reads its channel from the payload.
type toEach struct{ almanac.OneOff }

func (toEach) Channel(e almanac.Event) almanac.Channel { return almanac.Channel(e.Payload) }

// Channels without a deliverer that come from payloads fill neither the memory nor the log.
func TestMissingDeliverersAreLoggedWithinBounds(t *testing.T) {
	t.Parallel()
	book := new(logbook)
	registry, err := almanac.NewRegistry(toEach{})
	require.NoError(t, err)
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	s, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry, almanac.WithDeliverer("mail", deliver), almanac.WithLogger(book.logger()))
	require.NoError(t, err)
	u, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "X", DateOfBirth: "1990-01-02", Timezone: "UTC"})
	require.NoError(t, err)
	for i := range 150 {
		_, err := s.ScheduleAt(t.Context(), u.User.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{
			Key: fmt.Sprint(i), At: calendar.WallTimeOf(time.Now().UTC()), Payload: fmt.Appendf(nil, "\"%d%s\"", i, strings.Repeat("x", 1000)),
		})
		require.NoError(t, err)
	}

	_, err = s.RunOnce(t.Context(), almanac.RunOnceOptions{})

	require.NoError(t, err)
	logged := 0
	for _, line := range book.lines(t) {
		if line["msg"] == "events cannot be delivered: their channel has no deliverer" {
			require.Less(t, len(line["channel"].(string)), 60)
			logged++
		}
	}
	require.Equal(t, 100, logged)
}

func TestAFailedDeliveryIsOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := new(logbook)
		handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(_ context.Context, d almanac.Delivery) error {
			if d.Attempt == 1 {
				return errBusy
			}
			return almanac.Permanent(errors.New("HTTP 410"))
		}}
		registry, err := almanac.NewRegistry(handler)
		require.NoError(t, err)
		rehearsal := almanactest.Rehearse(t, registry, almanac.WithLogger(book.logger()))
		stored := storeEvent(t, rehearsal.Repository, handler)

		rehearsal.For(time.Second)

		released, err := rehearsal.Repository.Event(t.Context(), stored.ID)
		require.NoError(t, err)
		rehearsal.For(time.Hour)
		line := func(level string, attempt int, cause string) map[string]any {
			return map[string]any{
				"level": level, "msg": "delivery failed", "event_id": stored.ID.String(), "event_type": "DIGEST", "user_id": stored.UserID.String(),
				"idempotency_key": stored.IdempotencyKey.String(), "attempt": float64(attempt), "error": cause,
			}
		}
		first, last := line("WARN", 1, errBusy.Error()), line("ERROR", 2, "HTTP 410")
		first["next_attempt"] = released.AvailableAt.Format(time.RFC3339Nano)
		require.Equal(t, []map[string]any{first, last}, book.lines(t))
		require.NotContains(t, book.out.String(), grace.LastName)
	})
}

func TestALogObserverWritesFailuresInsteadOfTheScheduler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := new(logbook)
		handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error { return almanac.Permanent(errBusy) }}
		registry, err := almanac.NewRegistry(handler)
		require.NoError(t, err)
		rehearsal := almanactest.Rehearse(t, registry, almanac.WithLogger(book.logger()), almanac.WithObserver(almanac.LogObserver(book.logger())))
		storeEvent(t, rehearsal.Repository, handler)

		rehearsal.For(time.Second)

		lines := book.lines(t)
		require.Len(t, lines, 1)
		require.Equal(t, "event.failed", lines[0]["msg"])
	})
}

// It is not parallel, since it replaces the logger of the process.
func TestTheDefaultLoggerIsThatOfTheProcess(t *testing.T) {
	book, before := new(logbook), slog.Default()
	slog.SetDefault(book.logger())
	t.Cleanup(func() { slog.SetDefault(before) })
	w := openOn(almanactest.NewRepository(nil))
	handler := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error { return almanac.Permanent(errBusy) }}
	stored := storeEvent(t, w.store, handler)

	w.run(t, handler)

	w.await(t, almanac.EventFailed)
	require.NoError(t, w.stop())
	lines := book.lines(t)
	require.Len(t, lines, 1)
	require.Equal(t, stored.ID.String(), lines[0]["event_id"])
}

// An error says what is wrong: a text of the right form is not reported as one of another form.
func TestErrorsSayWhatIsWrongWithADateOrATime(t *testing.T) {
	t.Parallel()
	const noClock = "is not a time of day: hours are 00 to 23, minutes and seconds 00 to 59"
	date := func(s string) error { _, err := calendar.ParseDate(s); return err }
	clock := func(s string) error { _, err := calendar.ParseClock(s); return err }
	wall := func(s string) error { _, err := calendar.ParseWallTime(s); return err }
	for _, tt := range []struct {
		parse       func(string) error
		text, wrong string
	}{
		{date, "1990-02-30", "is not a day of the calendar: February 1990 has 28 days"},
		{date, "2024-02-30", "is not a day of the calendar: February 2024 has 29 days"},
		{date, "1990-04-00", "is not a day of the calendar: April 1990 has 30 days"},
		{date, "1990-13-01", "is not a day of the calendar: months are 01 to 12"},
		{date, "0000-01-01", "is not a day of the calendar: years are 0001 to 9999"},
		{date, "1990-2-30", "is not a date of the form YYYY-MM-DD"},
		{clock, "25:99", noClock},
		{clock, "24:00:00", noClock},
		{clock, "9am", "is not a time of day of the form HH:MM or HH:MM:SS"},
		{wall, "2026-02-29T09:00:00", "is not a day of the calendar: February 2026 has 28 days"},
		{wall, "2026-02-28T24:00:00", noClock},
		{wall, "2026-02-28 09:00:00", "is not a wall time of the form YYYY-MM-DDTHH:MM or YYYY-MM-DDTHH:MM:SS"},
	} {
		require.EqualError(t, tt.parse(tt.text), `calendar: "`+tt.text+`" `+tt.wrong)
	}
	_, err := almanac.ParseDateOfBirth("1990-02-30", "")
	require.ErrorContains(t, err, "is not a day of the calendar")
}

func TestARefusedTransitionSaysWhy(t *testing.T) {
	t.Parallel()
	id := must(uuid.NewV7())
	for want, refused := range map[string]almanac.InvalidStateTransitionError{
		"it cannot be requeued, and keeps its instant if it was ever claimed": {From: almanac.Pending, To: almanac.Pending},
		"is FAILED already": {From: almanac.Failed, To: almanac.Failed},
		": invalid state transition from COMPLETED to PROCESSING": {From: almanac.Completed, To: almanac.Processing},
	} {
		refused.EventID = id
		require.ErrorContains(t, &refused, want)
	}
}

func TestARetryPolicyNamesEverySettingOutOfRange(t *testing.T) {
	t.Parallel()
	bad := almanac.RetryPolicy{Attempts: -1, First: -1, Factor: 0.5, Max: -1, Jitter: 2}
	_, err := almanac.NewRegistry(almanac.Birthday{Execution: almanac.Execution{RetryPolicy: bad}})
	for _, want := range []string{"-1 attempts", "first wait of -1ns", "factor of 0.5", "longest wait of -1ns", "jitter of 2 is not between 0 and 1"} {
		require.ErrorContains(t, err, want)
	}
}
